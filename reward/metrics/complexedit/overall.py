"""Complex-Edit's overall score: the mean of following, preservation and quality. Section 3.1.3."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program
from ...sample import EditSample
from ...score import Score
from ..compose import Metric, WeightedMean
from .alignment import AlignmentOptions, ComplexEditInstructionFollowing, IdentityPreservation
from .judge_sampling import MAX_GRADE
from .options import MODES, ComplexEditOptions
from .quality import PerceptualQuality

MeanType = Literal["arithmetic", "geometric"]


@dataclass(frozen=True)
class ComplexEditOverall(AlignmentOptions):
    """The mean of the three scores, from 0 to 10; `parts` has them: `following`, `preservation`, `quality`.

    mean: `arithmetic` (the paper's), or `geometric`, which is low if one part is. If a part has no value, neither has
    the whole, unless another one is 0 in the geometric mean. The options apply to all parts; the first two share their
    queries in mode `numeric`. The other modes take three queries per sample.
    """

    mean: MeanType = "arithmetic"
    card: ClassVar[Card] = Card(
        name="complex-edit-o",
        version=3,
        summary="the instruction was followed, all else is as it was, and the edited image looks natural",
        range=(0.0, float(MAX_GRADE)),
        unit="grade 0-10",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.3 and 4.1.5. Correlation with people's preference: 0.386 as "
            "the arithmetic mean, 0.334 as the geometric one. What the modes cost each part, its card says; modes "
            "other than numeric use no reasoning: 0.446 instead of 0.468 for following, 0.451 instead of 0.530 for "
            "preservation (table 2); by token probability 0.411, 0.366 and, for quality, 0.136 instead of 0.234."
        ),
        failure_modes=(
            "In the arithmetic mean parts pay for each other: an unchanged copy of a good image has two thirds of "
            "the highest value. The geometric mean gives it nothing."
        ),
        aspect="overall",
        parts=("following", "preservation", "quality"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean not in get_args(MeanType):
            raise ValueError(f"unknown mean {self.mean!r}: {self.card.name} has {', '.join(get_args(MeanType))}")
        _ = self.parts  # their prompts are read now

    @cached_property
    def parts(self) -> Mapping[str, Metric]:
        """The three metrics."""
        shared = {option.name: getattr(self, option.name) for option in fields(ComplexEditOptions)}
        return {
            "following": ComplexEditInstructionFollowing(**shared, operations=self.operations),
            "preservation": IdentityPreservation(**shared, operations=self.operations),
            "quality": PerceptualQuality(**shared),
        }

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"parts": self.parts, "mean": self.mean}

    @cached_property
    def _arithmetic_mean(self) -> WeightedMean:
        return WeightedMean(self.parts, on_not_applicable="whole", name=self.card.name)

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from self._arithmetic_mean(sample)
        if self.mean == "geometric" and score.status != "not_applicable":
            # `GeometricMean` takes values in 0..1 only; for three grades on one scale the formula is the same.
            values = [part.value for part in score.parts.values() if part.value is not None]
            if score.value is not None or 0.0 in values:
                value = math.prod(values) ** (1 / len(values))
                score = Score.of(value, score.reason if score.value is not None else "a part is 0", parts=score.parts)
        return score.with_signature(self.signature)
