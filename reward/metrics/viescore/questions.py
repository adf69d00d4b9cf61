"""The two questions of VIEScore about an edit: semantic consistency (SC) and perceptual quality (PQ)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ...card import Card
from ...engine.program import Program, ask
from ...image import Image
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...sample import EditSample
from ...score import Evidence, Score
from .grades import MAX_GRADE, PROTOCOLS, VieScoreProtocol, read_grades, response_format

_SOURCE = (
    "VIEScore (arXiv 2312.14867), as GEdit-Bench uses it: Step1X-Edit (arXiv 2504.17761), section 4.2.1, and its "
    "released code (stepfun-ai/Step1X-Edit, GEdit-Bench)"
)


@dataclass(frozen=True)
class VieScoreOptions(ABC):
    """The options of all metrics of VIEScore.

    protocol: how a reply is read: `fixed`, or `official` as in the released code (see `grades`). prompts: a folder
    whose `semantic_consistency.txt` and `perceptual_quality.txt` replace ours; the slot of the first is
    `{instruction}`.

    Raises ValueError for an unknown protocol, and for a pack that is not a folder.
    """

    protocol: VieScoreProtocol = "fixed"
    prompts: str | None = None
    card: ClassVar[Card]

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"{self.card.name} has no protocol {self.protocol!r}: there are {', '.join(PROTOCOLS)}")
        _ = self.prompt_pack  # read now

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(__package__, self.prompts)

    @cached_property
    def signature(self) -> str:
        """As in `viescore-sc@1/fixed`, with a prompt pack's digest."""
        return self.card.signature_with(self.protocol, self.prompt_pack.options)

    def __call__(self, sample: EditSample) -> Program[Score]:
        if len(sample.sources) > 1:
            reason = f"VIEScore judges the edit of one picture, and this sample has {len(sample.sources)} sources"
            return Score.not_applicable(f"{reason}: use a metric for several").with_signature(self.signature)
        score = yield from self._score(sample)
        return score.with_signature(self.signature)

    @abstractmethod
    def _score(self, sample: EditSample) -> Program[Score]: ...


@dataclass(frozen=True)
class _TwoGrades(VieScoreOptions):
    """The lower of two grades that a judge gives in one reply; `parts` has both."""

    topic: ClassVar[str]
    grade_names: ClassVar[tuple[str, str]]

    def _score(self, sample: EditSample) -> Program[Score]:
        edited = sample.edited.resized(*sample.source.size, "bicubic")
        pictures, slots = self._inputs(sample.source, edited, sample.instruction)
        messages = self.prompt_pack.messages(self.topic, pictures, slots)
        form = response_format(self.protocol)
        question = Judge(messages, form, f"viescore/{self.topic}", tuple(slots.items()))
        reply = yield from ask(question)
        grades, reasoning = read_grades(question, reply)
        named = dict(zip(self.grade_names, grades * 2 if len(grades) == 1 else grades, strict=False))
        numbers = {str(place): grade for place, grade in enumerate(grades, start=1)}
        evidence = [Evidence(f"judge {question.topic}", edited.digest, text=reasoning, numbers=numbers)]
        reason = f"the lower of {grades[0]:g} and {grades[1]:g}" if len(grades) == 2 else _unusual(grades)
        if max(grades) > MAX_GRADE:
            reason += f"; the scale ends at {MAX_GRADE}"
        parts = {name: Score.of(grade) for name, grade in named.items()}
        return Score.of(min(grades), reason, evidence=evidence, parts=parts)

    @abstractmethod
    def _inputs(self, source: Image, edited: Image, instruction: str) -> tuple[tuple[Image, ...], dict[str, str]]:
        """The pictures that the judge sees, in order, and the slots of the prompt. edited: at the source's size."""


def _unusual(grades: list[float]) -> str:
    """The reason of a value from one grade, or from more than two: protocol `official`."""
    if len(grades) == 1:
        return f"one grade, {grades[0]:g}, counts for both"
    return f"the lowest of {len(grades)} grades, where two were asked for"


@dataclass(frozen=True)
class SemanticConsistency(_TwoGrades):
    """SC: whether the instruction was carried out, and no more than that, from 0 to 10.

    The judge sees the source, the edited image at the source's size, and the instruction. It grades the success of the
    edit and the degree of over-editing (10: none); the lower grade counts. `parts` has both: `success`,
    `no_overediting`. In protocol `official` a value may exceed 10, if the judge says so.

    Not applicable to edits of several images.
    """

    card: ClassVar[Card] = Card(
        name="viescore-sc",
        version=1,
        summary="the instruction was carried out, and nothing else was changed",
        range=(0.0, float(MAX_GRADE)),
        unit="grade 0-10",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        protocols=PROTOCOLS,
        source=f"{_SOURCE}: the lower of two grades. The question is ours.",
        failure_modes=(
            "One impression of one judge: it misses small changes, and words written into the image may sway it. "
            "Eleven grades are coarse: many edits tie. An image at another size or aspect ratio is stretched to the "
            "source's first, so that wrong proportions cost little. Artifacts cost nothing here: reward it "
            "together with viescore-pq."
        ),
        aspect="following",
    )
    topic: ClassVar[str] = "semantic_consistency"
    grade_names: ClassVar[tuple[str, str]] = ("success", "no_overediting")

    def _inputs(self, source: Image, edited: Image, instruction: str) -> tuple[tuple[Image, ...], dict[str, str]]:
        return (source, edited), {"instruction": instruction}


@dataclass(frozen=True)
class PerceptualQuality(_TwoGrades):
    """PQ: whether the edited image is natural and free of artifacts, from 0 to 10.

    The judge sees the edited image alone, at the source's size, and no instruction. It grades naturalness and freedom
    from artifacts; the lower grade counts. `parts` has both: `naturalness`, `no_artifacts`. In protocol `official` a
    value may exceed 10, if the judge says so.

    Not applicable to edits of several images.
    """

    card: ClassVar[Card] = Card(
        name="viescore-pq",
        version=1,
        summary="the edited image looks natural and has no artifacts",
        range=(0.0, float(MAX_GRADE)),
        unit="grade 0-10",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited"),
        protocols=PROTOCOLS,
        source=f"{_SOURCE}: the lower of two grades. The question is ours.",
        failure_modes=(
            "Neither source nor instruction is looked at: a good image wins, were it an unchanged copy or another "
            "image, and what was asked to look odd costs. Reward it together with viescore-sc."
        ),
        aspect="quality",
    )
    topic: ClassVar[str] = "perceptual_quality"
    grade_names: ClassVar[tuple[str, str]] = ("naturalness", "no_artifacts")

    def _inputs(self, source: Image, edited: Image, instruction: str) -> tuple[tuple[Image, ...], dict[str, str]]:
        return (edited,), {}
