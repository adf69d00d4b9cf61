"""The mean over all dimensions of I2I-Bench that apply to a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..asking import Asks
from ..card import Card
from ..compose import Metric, WeightedMean
from ..prompts import Prompts
from ..sample import EditSample
from ..score import Score
from .dimension import PACKAGE, DimensionMetric
from .extraction import SubjectExtraction
from .levels import FiveLevels, TwoLevels
from .questions import QuestionSet
from .similarity import OutsideSimilarity, RegionSimilarity
from .specialists import Specialist
from .table import TABLE, Pipeline
from .text import TextContentStyle

PIPELINES: Mapping[Pipeline, type[DimensionMetric]] = MappingProxyType(
    {
        kind.pipeline: kind
        for kind in (
            FiveLevels,
            TwoLevels,
            QuestionSet,
            OutsideSimilarity,
            RegionSimilarity,
            TextContentStyle,
            SubjectExtraction,
            Specialist,
        )
    }
)
"""The metric of each pipeline."""


@dataclass(frozen=True)
class I2IBench:
    """The mean over the dimensions that apply to a sample, those of one source or those of several; `parts` has them.

    Which apply, source and instruction decide; they alone are left out. Where one fails or abstains, so does the whole.
    The paper's Overall is the mean over all values of all prompts (appendix D), not the mean of these means.

    without: dimensions to leave out for all samples, such as those that nobody is there to judge. judge_only, prompts:
    see `DimensionMetric`.
    """

    without: tuple[str, ...] = ()
    judge_only: bool = False
    prompts: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "without", tuple(self.without))  # a spec may have a list
        for name in self.without:
            if not any(known.is_called(name) for known in TABLE.values()):
                raise ValueError(f"no dimension of I2I-Bench is called {name!r}: they are {', '.join(TABLE)}")
        for multi in (False, True):
            if not self._parts(multi=multi):
                raise ValueError("without leaves out every dimension: leave one in")

    @property
    def card(self) -> Card:
        both = WeightedMean({**self._parts(multi=False), **self._parts(multi=True)}, name="i2i-overall").card
        return replace(
            both,
            summary="good in every dimension of I2I-Bench that applies",
            source="I2I-Bench, sections 3.2 and 4.1, appendix D",
            gaming="Half of the dimensions are high where next to nothing was edited, and a mean makes up for that.",
            about="overall",
        )

    @property
    def signature(self) -> str:
        options = [*(["judge_only"] if self.judge_only else []), *(f"without={name}" for name in self.without)]
        return self.card.signed(options=[*options, *Prompts(PACKAGE, self.prompts).options])

    def __call__(self, sample: EditSample) -> Asks[Score]:
        mean = WeightedMean(self._parts(multi=len(sample.sources) > 1), name=self.card.name)
        score = yield from mean(sample)
        return score.by(self.signature)

    def _parts(self, *, multi: bool) -> dict[str, Metric]:
        return {
            name: PIPELINES[known.pipeline](name, judge_only=self.judge_only, prompts=self.prompts)
            for name, known in TABLE.items()
            if known.multi == multi and known.in_overall and not any(map(known.is_called, self.without))
        }
