"""SceneJudge: answers the questions of all metric systems about SceneEdit images, by topic and slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ....reward import Expert
from ....reward.queries import Abstention, Judge, Reply
from ....reward.queries.kinds import Outcome
from .edit_comparison import EditComparisonCache
from .instruction_parser import UnanswerableError
from .judge_any_edit import AnyEditJudge
from .judge_audit import AuditJudge, PairwiseSceneJudge
from .judge_baselines import BaselineJudge
from .judge_complexedit import ComplexEditJudge
from .judge_dlebench import DLEBenchJudge
from .judge_edival import EdiValJudge
from .judge_i2ibench import I2IBenchJudge
from .judge_imgedit import ImgEditJudge
from .judge_viescore import VieScoreJudge
from .perception import PerceptionCache


class TopicJudge(Protocol):
    """Answers the topics of one metric system."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Its topics, without the name of the system."""

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""


class SceneJudge(Expert):
    """Answers on the topics of EdiVal, Complex-Edit, DLEBench, I2I-Bench, ImgEdit-Bench, the baselines and `any-edit`.

    Of audits of judges it answers their questions, and of two edits it says which is better.

    It uses the images in their order and reads the slots, not the message: instructions in the nine forms of EdiVal,
    several of them in one sentence, and `Put … of the second picture into the first one, …`; of `any-edit`, everyday
    words for changes of the whole picture too. Each image and pair is
    analysed once. Sampled answers depend on the query and its draw alone. Abstains on other topics, on unknown words,
    and on other images than the topic has.
    """

    kinds = (Judge,)
    id = "scene-judge@3"

    def __init__(self) -> None:
        perception = PerceptionCache.shared()
        comparisons = EditComparisonCache(perception)
        self._systems: Mapping[str, TopicJudge] = {
            "edival": EdiValJudge(perception),
            "complexedit": ComplexEditJudge(perception, comparisons),
            "dlebench": DLEBenchJudge(perception, comparisons),
            "i2i": I2IBenchJudge(perception, comparisons),
            "imgedit": ImgEditJudge(perception, comparisons),
            "viescore": VieScoreJudge(perception, comparisons),
            "baselines": BaselineJudge(perception, comparisons),
            "any-edit": AnyEditJudge(perception, comparisons),
            "audit": AuditJudge(comparisons),
            "pairwise": PairwiseSceneJudge(comparisons),
        }

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Judge) -> Reply | Abstention:
        name, _, topic = query.topic.partition("/")
        system = self._systems.get(name)
        try:
            if system is None or topic not in system.topics:
                raise UnanswerableError(f"{query.topic or 'a question without a topic'}: it knows {self._known(name)}")
            return system.answer(topic, query, dict(query.slots))
        except UnanswerableError as reason:
            return Abstention(f"a scene judge cannot tell {reason}")

    def _known(self, name: str) -> str:
        if name in self._systems:
            return ", ".join(f"{name}/{topic}" for topic in self._systems[name].topics)
        return ", ".join(f"{system}/…" for system in self._systems)
