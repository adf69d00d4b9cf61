"""The mean over all dimensions of I2I-Bench that apply to a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from ...card import Card
from ...engine.program import Program
from ...queries.prompts import Prompts
from ...sample import EditSample
from ...score import Score
from ..compose import Metric, WeightedMean
from .dimensions import DIMENSIONS, PACKAGE, DimensionMetric, FiveLevelRating, Pipeline, QuestionSet, YesNoRating
from .specialists import OutsideSimilarity, RegionSimilarity, SpecialistRating, SubjectExtraction, TextContentStyle

_KINDS: tuple[type[DimensionMetric], ...] = (
    *(FiveLevelRating, YesNoRating, QuestionSet, OutsideSimilarity, RegionSimilarity, TextContentStyle),
    *(SubjectExtraction, SpecialistRating),
)
PIPELINES: Mapping[Pipeline, type[DimensionMetric]] = MappingProxyType({kind.pipeline: kind for kind in _KINDS})
"""The metric of each pipeline."""

SYSTEM_PROMPTS: Mapping[str, bool] = MappingProxyType(
    {name: PIPELINES[dimension.pipeline].has_system_prompt for name, dimension in DIMENSIONS.items()}
)
"""Dimension -> whether the paper marks a part of its prompt as a system prompt; in the order of `DIMENSIONS`."""
_NAME = "i2i-overall"


@dataclass(frozen=True)
class I2IBenchOverall:
    """The mean over the dimensions that apply to a sample, which its inputs decide; `parts` has them. If one fails or
    abstains, so does the whole. The paper's Overall is the mean over all values of all prompts (appendix D), not of
    these means.

    Args:
        excluded_dimensions: Dimensions to leave out for all samples, such as those without an expert.
        judge_only: See `DimensionMetric`.
        prompts: See `DimensionMetric`.
        paper: See `DimensionMetric`.
    """

    excluded_dimensions: tuple[str, ...] = ()
    judge_only: bool = False
    prompts: str | None = None
    paper: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "excluded_dimensions", tuple(self.excluded_dimensions))  # a spec may have a list
        for name in self.excluded_dimensions:
            if not any(dimension.is_called(name) for dimension in DIMENSIONS.values()):
                raise ValueError(f"no dimension of I2I-Bench is called {name!r}: they are {', '.join(DIMENSIONS)}")
        if len(self._means) < 2:
            raise ValueError("excluded_dimensions leaves out every dimension: leave one in")

    @cached_property
    def card(self) -> Card:
        both = WeightedMean(self.parts, name=_NAME).card
        return replace(
            both,
            version=3,
            summary="good in every dimension of I2I-Bench that applies",
            source="I2I-Bench, sections 3.2 and 4.1, appendix D",
            failure_modes=(
                "Half of the dimensions are high where next to nothing was edited, and a mean makes up for that."
            ),
            aspect="overall",
        )

    @cached_property
    def signature(self) -> str:
        options = [
            *(["judge_only"] if self.judge_only else []),
            *(["paper=True"] if self.paper else []),
            *(f"excluded_dimensions={name}" for name in self.excluded_dimensions),
        ]
        return self.card.signature_with(options=[*options, *self.prompt_pack.options])

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from self._means[len(sample.sources) > 1](sample)
        return score.with_signature(self.signature)

    @cached_property
    def parts(self) -> Mapping[str, Metric]:
        """The metrics of all dimensions, of one source and of several."""
        return {
            name: PIPELINES[dimension.pipeline](
                name, judge_only=self.judge_only, prompts=self.prompts, paper=self.paper and SYSTEM_PROMPTS[name]
            )
            for name, dimension in DIMENSIONS.items()
            if dimension.in_overall and not any(map(dimension.is_called, self.excluded_dimensions))
        }

    @cached_property
    def prompt_pack(self) -> Prompts:
        """The prompts of its parts."""
        return Prompts(PACKAGE, self.prompts)

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"parts": self.parts}

    @cached_property
    def _means(self) -> Mapping[bool, WeightedMean]:
        """By whether there are several sources: the mean over their dimensions, if any is left."""
        parts: dict[bool, dict[str, Metric]] = {}
        for name, metric in self.parts.items():
            parts.setdefault(DIMENSIONS[name].multi, {})[name] = metric
        return {multi: WeightedMean(of_kind, name=_NAME) for multi, of_kind in parts.items()}


_METRICS = {
    name.replace("-", "_"): partial(PIPELINES[dimension.pipeline], name) for name, dimension in DIMENSIONS.items()
}


def __getattr__(name: str) -> partial[DimensionMetric]:
    """The metric of a dimension, as its entry point names it: `multi_world_knowledge`."""
    try:
        return _METRICS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
