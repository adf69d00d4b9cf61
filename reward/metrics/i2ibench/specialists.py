"""Image quality and aesthetics: what specialists for them say of the edited picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from ..asking import Asks, ask
from ..query import Rate
from ..sample import EditSample
from ..score import Evidence, Score
from .dimension import DimensionMetric
from .table import Pipeline

# Role, what is rated, and the range that the paper's model publishes: Q-Insight and ArtiMuse.
_ASKED: Mapping[str, tuple[str, str, tuple[float, float]]] = MappingProxyType(
    {
        "image-quality": ("quality", "image quality", (1.0, 5.0)),
        "aesthetic-quality": ("aesthetics", "aesthetics", (0.0, 100.0)),
    }
)


@dataclass(frozen=True)
class Specialist(DimensionMetric):
    """The rating of a specialist model, brought from its scale to 0..1.

    scale: its lowest and highest rating. None: that of the model the paper takes, Q-Insight with 1 to 5 for image
    quality and ArtiMuse with 0 to 100 for aesthetics. The paper prints normalised values and does not say by which
    range. Fails where a rating lies outside of the scale.
    """

    scale: tuple[float, float] | None = None

    pipeline: ClassVar[Pipeline] = "specialist"
    gaming: ClassVar[str] = "Beautifying and sharpening pay, whether they were asked for or not, and so does no edit."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale is None:
            return
        scale: tuple[float, ...] = tuple(self.scale)  # a spec may have a list
        if len(scale) != 2 or not all(map(math.isfinite, scale)) or scale[0] >= scale[1]:
            raise ValueError(f"scale is the lowest and the highest rating, got {scale}")
        object.__setattr__(self, "scale", scale)

    @property
    def roles(self) -> tuple[str, ...]:
        return (self._asked[0],)

    @property
    def _asked(self) -> tuple[str, str, tuple[float, float]]:
        return _ASKED[self.dimension.removeprefix("multi-")]

    def score(self, sample: EditSample) -> Asks[Score]:
        role, quality, published = self._asked
        low, high = self.scale or published
        rating = yield from ask(Rate(sample.edited, quality=quality), role=role)
        assert rating.value is not None  # `Rate.check` lets no other answer through
        evidence = [Evidence(f"rate {quality}", sample.edited.digest, numbers={"rating": rating.value})]
        if not low <= rating.value <= high:
            why = f"the {role} expert rates from {low:g} to {high:g}, got {rating.value:g}: give its scale=(low, high)"
            return Score.failed(why, evidence=evidence)
        return Score.of(
            (rating.value - low) / (high - low), f"{rating.value:g} of {low:g} to {high:g}", evidence=evidence
        )
