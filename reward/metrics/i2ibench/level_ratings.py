"""One question to the judge: a level of five (equation 1), or yes or no (equation 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ..asking import Asks
from ..forms import YesNo
from ..sample import EditSample
from ..score import Score
from .dimension import LEVELS, DimensionMetric, graded, shown
from .table import Pipeline

Sees = Literal["both", "edited"]

_TOPICS = {"blending-naturalness": "blending", "editing-artifacts": "artifacts", "instruction-following": "following"}


@dataclass(frozen=True)
class FiveLevels(DimensionMetric):
    """The expectation of excellent 1, good 0.75, fair 0.5, poor 0.25, bad 0 over the judge's probabilities.

    Where a judge gives none, the weight of the word it says. sees: for blending only, whether the judge is shown
    sources and edited picture (appendix F) or the `edited` one alone (section 3.2.1).
    """

    sees: Sees = "both"

    pipeline: ClassVar[Pipeline] = "five levels"
    gaming: ClassVar[str] = (
        "One impression of one judge: words written into the picture may sway it, and an edit that changes next to "
        "nothing shows no seam and no flaw."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sees not in get_args(Sees):
            raise ValueError(f"sees is one of {', '.join(get_args(Sees))}, got {self.sees!r}")
        if self.sees != "both" and self._topic != "blending":
            raise ValueError(f"{self.dimension} is judged by both pictures: sees is for blending-naturalness")

    @property
    def _topic(self) -> str:
        return _TOPICS[self.dimension.removeprefix("multi-")]

    def score(self, sample: EditSample) -> Asks[Score]:
        if self.sees == "edited":
            seen = shown(edited=sample.edited)
            return graded(self.judge("blending", LEVELS, seen, prompt="blending_edited"))
        seen = shown(sample.sources, sample.edited)
        slots = {} if self._topic == "blending" else {"instruction": sample.instruction}
        return graded(self.judge(self._topic, LEVELS, seen, **slots))


@dataclass(frozen=True)
class TwoLevels(DimensionMetric):
    """The judge's probability of yes; without probabilities 1 for yes and 0 for no. From 0.5 it is a success (4.3).

    Object Manipulation, Local Attribute, Action/State Change and Spatial Accuracy ask one and the same question, which
    an engine asks once; World Knowledge asks by the sample's hint.
    """

    pipeline: ClassVar[Pipeline] = "two levels"
    gaming: ClassVar[str] = (
        "Looks at what was asked for and at nothing else, in one question: what else has changed costs nothing, and "
        "words written into the picture may sway the judge."
    )

    def score(self, sample: EditSample) -> Asks[Score]:
        seen = shown(sample.sources, sample.edited)
        if self.known.needs == "hint":
            return graded(self.judge("knowledge", YesNo(), seen, instruction=sample.instruction, hint=sample.hint))
        return graded(self.judge("success", YesNo(), seen, instruction=sample.instruction))
