"""SceneJudge: answers the questions of every system of metrics about SceneEdit pictures, by topic and slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ....reward import Abstention, Expert, Judge, Reply
from ....reward.query import Outcome
from .judge_baselines import BaselineJudge
from .judge_complexedit import ComplexEditJudge
from .judge_dlebench import SmallObjectJudge
from .judge_edival import EdiValJudge
from .judge_i2ibench import DimensionJudge
from .pairs import Pairs
from .sights import Looker
from .wishes import Unknown


class Judging(Protocol):
    """Somebody who knows the topics of one system."""

    @property
    def topics(self) -> tuple[str, ...]:
        """What it can be asked, without the name of the system."""

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `Unknown`."""


class SceneJudge(Expert):
    """Answers on the topics of EdiVal, Complex-Edit, DLEBench, I2I-Bench and the baselines.

    It looks at the pictures in the order in which they are shown, and reads the slots, not the message: instructions in
    the nine forms of EdiVal, several of them in one sentence, and `Put … of the second picture into the first one, …`.
    What it sees of a picture or a pair it finds out once, whatever is asked about it. Answers that are drawn depend on
    the question and its draw alone. Abstains on other topics, on words it does not know, and on other pictures than the
    topic shows.

    looker, pairs: to share what is seen with other experts.
    """

    kinds = (Judge,)
    id = "scene-judge@2"

    def __init__(self, looker: Looker | None = None) -> None:
        looker = looker or Looker()
        pairs = Pairs(looker)
        self._systems: Mapping[str, Judging] = {
            "edival": EdiValJudge(looker),
            "complexedit": ComplexEditJudge(looker, pairs),
            "dlebench": SmallObjectJudge(looker, pairs),
            "i2i": DimensionJudge(looker, pairs),
            "baselines": BaselineJudge(looker, pairs),
        }

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Judge) -> Reply | Abstention:
        name, _, topic = query.topic.partition("/")
        system = self._systems.get(name)
        try:
            if system is None or topic not in system.topics:
                raise Unknown(f"{query.topic or 'a question without a topic'}: it knows {self._known(name)}")
            return system.answer(topic, query, dict(query.slots))
        except Unknown as reason:
            return Abstention(f"a scene judge cannot tell {reason}")

    def _known(self, name: str) -> str:
        if name in self._systems:
            return ", ".join(f"{name}/{topic}" for topic in self._systems[name].topics)
        return ", ".join(f"{system}/…" for system in self._systems)
