"""Complex-Edit's overall score: the mean of following, preservation and quality. Section 3.1.3."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal, get_args

from ..asking import Asks
from ..card import Card
from ..compose import Metric, WeightedMean
from ..sample import EditSample
from ..score import Score
from .alignment import IdentityPreservation, InstructionFollowing
from .measuring import HIGHEST
from .options import MODES, Options
from .quality import PerceptualQuality

Mean = Literal["arithmetic", "geometric"]


@dataclass(frozen=True)
class Overall(Options):
    """The mean of the three scores, from 0 to 10; `parts` has them: `following`, `preservation`, `quality`.

    mean: `arithmetic` (the paper's), or `geometric`, which is low where one part is. Where a part has no value the
    whole has none. The options go to all parts; the first two share their questions in mode `numeric`. In the other
    modes a sample takes three questions.
    """

    mean: Mean = "arithmetic"
    card: ClassVar[Card] = Card(
        name="complex-edit-o",
        version=1,
        summary="the instruction was followed, all else is as it was, and the edited image looks natural",
        range=(0.0, float(HIGHEST)),
        unit="grade 0-10",
        roles=("judge",),
        requires=("sources", "edited", "instruction"),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.3 and 4.1.5. Correlation with people's preference: 0.386 as "
            "the arithmetic mean, 0.334 as the geometric one. What the modes cost each part, its card says; modes "
            "other than numeric use no reasoning: 0.446 instead of 0.468 for following, 0.451 instead of 0.530 for "
            "preservation (table 2); by token probability 0.411, 0.366 and, for quality, 0.136 instead of 0.234."
        ),
        gaming=(
            "In the arithmetic mean parts pay for each other: an unchanged copy of a good picture has two thirds of "
            "the highest value. The geometric mean gives it nothing."
        ),
        about="overall",
    )

    def __post_init__(self) -> None:
        self.check()
        if self.mean not in get_args(Mean):
            raise ValueError(f"unknown mean {self.mean!r}: {self.card.name} has {', '.join(get_args(Mean))}")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        options = {option.name: getattr(self, option.name) for option in fields(Options)}
        parts: dict[str, Metric] = {
            "following": InstructionFollowing(**options),
            "preservation": IdentityPreservation(**options),
            "quality": PerceptualQuality(**options),
        }
        score = yield from WeightedMean(parts, missing="whole", name=self.card.name)(sample)
        if self.mean == "geometric" and score.value is not None:
            # `GeometricMean` takes shares only; of three grades with one scale it is the same, and a grade.
            values = [part.value for part in score.parts.values() if part.value is not None]
            score = replace(score, value=math.prod(values) ** (1 / len(values)))
        return score.by(self.signature)
