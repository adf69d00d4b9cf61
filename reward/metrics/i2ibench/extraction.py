"""Subject extraction and composition: are all subjects there, and are they themselves?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..asking import Asks
from ..card import Card
from ..compose import Metric, Product
from ..forms import YesNo
from ..sample import EditSample
from ..score import Score
from .dimension import DimensionMetric, graded, shown
from .similarity import RegionSimilarity
from .table import Pipeline


@dataclass(frozen=True)
class SubjectExtraction(DimensionMetric):
    """The judge's probability that the number of subjects is right, times subject consistency.

    Has no value where one of the two has none; `parts` has both.
    """

    pipeline: ClassVar[Pipeline] = "extraction"
    gaming: ClassVar[str] = RegionSimilarity.gaming

    @property
    def roles(self) -> tuple[str, ...]:
        return ("judge", "segmenter", "features")

    def score(self, sample: EditSample) -> Asks[Score]:
        consistency = RegionSimilarity("multi-subject-consistency", prompts=self.prompts)
        parts: dict[str, Metric] = {"count": _Count(self), "consistency": consistency}
        # Subject consistency is wanted here even where it is none of the sample's own dimensions.
        return Product(parts, missing="whole")(replace(sample, dimensions=None))


@dataclass(frozen=True)
class _Count:
    """Whether all the subjects that the instruction requires are there, in the right number."""

    of: SubjectExtraction

    @property
    def card(self) -> Card:
        return Card("i2i-multi-count", 1, "all required subjects are there, in the right number", roles=("judge",))

    def __call__(self, sample: EditSample) -> Asks[Score]:
        seen = shown(sample.sources, sample.edited)
        return graded(self.of.judge("count", YesNo(), seen, instruction=sample.instruction))
