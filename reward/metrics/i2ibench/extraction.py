"""Subject extraction and composition: number and identity of the subjects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from ...card import Card
from ...engine.program import Program
from ...queries.response_formats import YesNo
from ...sample import EditSample
from ...score import Score
from ..compose import Metric, Product
from .dimension import JUDGE_KINDS, DimensionMetric, judge_value, labelled_images
from .dimensions import Pipeline
from .similarity import REGION_KINDS, RegionSimilarity


@dataclass(frozen=True)
class SubjectExtraction(DimensionMetric):
    """The judge's probability that the number of subjects is correct, times subject consistency.

    No value if one of the two has none, unless the other is 0; `parts` has both.
    """

    pipeline: ClassVar[Pipeline] = "extraction"
    failure_modes: ClassVar[str] = RegionSimilarity.failure_modes

    @property
    def kinds(self) -> Mapping[str, tuple[str, ...]]:
        return REGION_KINDS

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.consistency  # its prompts are read now

    @cached_property
    def consistency(self) -> RegionSimilarity:
        """The metric of the subjects' identity."""
        return RegionSimilarity("multi-subject-consistency", prompts=self.prompts)

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"dimension": self.dimension, "judge_only": self.judge_only, "consistency": self.consistency}

    @cached_property
    def _product(self) -> Product:
        parts: dict[str, Metric] = {"count": _SubjectCount(self), "consistency": self.consistency}
        return Product(parts, on_not_applicable="whole")

    def score(self, sample: EditSample) -> Program[Score]:
        # Subject consistency is needed here even if it is not among the sample's dimensions.
        return self._product(replace(sample, dimensions=None))


@dataclass(frozen=True)
class _SubjectCount:
    """Whether all required subjects are present, in the correct number."""

    of: SubjectExtraction

    card: ClassVar[Card] = Card(
        "i2i-multi-count", 1, "all required subjects are there, in the right number", kinds=JUDGE_KINDS
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        images = labelled_images(sample.sources, sample.edited)
        return judge_value(self.of.judge_query("count", YesNo(), images, instruction=sample.instruction))
