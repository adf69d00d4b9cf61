"""Image quality and aesthetics: ratings of the edited image by specialist models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from ...engine.program import Program, ask
from ...queries.kinds import Rate
from ...sample import EditSample
from ...score import Evidence, Score
from .dimension import DimensionMetric
from .dimensions import Pipeline

# Role, rated quality, and the published range of the paper's model: Q-Insight and ArtiMuse.
_SPECIALISTS: Mapping[str, tuple[str, str, tuple[float, float]]] = MappingProxyType(
    {
        "image-quality": ("quality", "image quality", (1.0, 5.0)),
        "aesthetic-quality": ("aesthetics", "aesthetics", (0.0, 100.0)),
    }
)


@dataclass(frozen=True)
class SpecialistRating(DimensionMetric):
    """The rating of a specialist model, normalised from its scale to 0..1.

    scale: lowest and highest rating. None: that of the paper's model, Q-Insight with 1 to 5 for image quality and
    ArtiMuse with 0 to 100 for aesthetics. The paper prints normalised values and does not state the range. Fails if a
    rating lies outside the scale.
    """

    scale: tuple[float, float] | None = None

    pipeline: ClassVar[Pipeline] = "specialist"
    failure_modes: ClassVar[str] = (
        "Beautifying and sharpening pay, whether they were asked for or not, and so does no edit."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale is None:
            return
        scale: tuple[float, ...] = tuple(self.scale)  # a spec may have a list
        if len(scale) != 2 or not all(map(math.isfinite, scale)) or scale[0] >= scale[1]:
            raise ValueError(f"scale must be the lowest and the highest rating, got {scale}")
        object.__setattr__(self, "scale", scale)

    @property
    def kinds(self) -> Mapping[str, tuple[str, ...]]:
        return {self._specialist[0]: ("rate",)}

    @property
    def _specialist(self) -> tuple[str, str, tuple[float, float]]:
        return _SPECIALISTS[self.dimension.removeprefix("multi-")]

    def score(self, sample: EditSample) -> Program[Score]:
        role, quality, default_scale = self._specialist
        low, high = self.scale or default_scale
        rating = yield from ask(Rate(sample.edited, quality=quality), role=role)
        assert rating.value is not None  # `Rate.check` lets no other answer through
        evidence = [Evidence(f"rate {quality}", sample.edited.digest, numbers={"rating": rating.value})]
        if not low <= rating.value <= high:
            reason = (
                f"the {role} expert rates from {low:g} to {high:g}, got {rating.value:g}: give its scale=(low, high)"
            )
            return Score.failed(reason, evidence=evidence)
        return Score.of(
            (rating.value - low) / (high - low), f"{rating.value:g} of {low:g} to {high:g}", evidence=evidence
        )
