"""VIEScore's overall score: the root of the product of semantic consistency and perceptual quality."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

from ...card import Card
from ...engine.program import Program
from ...sample import EditSample
from ...score import Score
from ..compose import Metric, WeightedMean
from .grades import MAX_GRADE, PROTOCOLS
from .questions import PerceptualQuality, SemanticConsistency, VieScoreOptions


def overall(semantic_consistency: float, perceptual_quality: float) -> float:
    """O of one edit: sqrt(SC x PQ), on the scale of both."""
    return math.sqrt(semantic_consistency * perceptual_quality)


@dataclass(frozen=True)
class VieScoreOverall(VieScoreOptions):
    """O = sqrt(SC x PQ), from 0 to 10; `parts` has both: `semantic_consistency`, `perceptual_quality`.

    Without a value of either, there is none of O, as in the released code.
    """

    card: ClassVar[Card] = Card(
        name="viescore-o",
        version=1,
        summary="the instruction was carried out, nothing else was changed, and the edited image looks natural",
        range=(0.0, float(MAX_GRADE)),
        unit="grade 0-10",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        protocols=PROTOCOLS,
        source=(
            "VIEScore (arXiv 2312.14867), as GEdit-Bench uses it: Step1X-Edit (arXiv 2504.17761), section 4.2.1, and "
            "its released code: the root of the product of two minima, for each edit. The questions are ours."
        ),
        failure_modes=(
            "Two impressions of one judge: it misses small changes, and words written into the image may sway it. Few "
            "values are possible: many edits tie."
        ),
        aspect="overall",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.parts  # their prompts are read now

    @cached_property
    def parts(self) -> Mapping[str, Metric]:
        """The two metrics."""
        options = {option.name: getattr(self, option.name) for option in fields(VieScoreOptions)}
        return {
            "semantic_consistency": SemanticConsistency(**options),
            "perceptual_quality": PerceptualQuality(**options),
        }

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"parts": self.parts}

    @cached_property
    def _mean(self) -> WeightedMean:
        # `GeometricMean` takes values in 0..1 only; the mean of both settles what happens where one has no value.
        return WeightedMean(self.parts, on_not_applicable="whole", name=self.card.name)

    def _score(self, sample: EditSample) -> Program[Score]:
        score = yield from self._mean(sample)
        if score.value is None:
            return score
        values = [part.value for part in score.parts.values() if part.value is not None]
        reason = "root of the product of SC and PQ"
        if max(values) > MAX_GRADE:  # both grades of one were, so that its reason says so, too
            reason += f", of which one is above {MAX_GRADE}, where the scale ends: as released, it counts"
        return Score.of(overall(*values), reason, parts=score.parts)
