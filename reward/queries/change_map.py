"""ChangeMap: where and how an edited image differs from its source, on a grid of patches."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]
_NUMBERS = 7  # gain, scale, shift, periodicity, structure, detail_loss
BANDS = 3
"""Bands of gradient amplitude, from fine to coarse, each an octave."""
GRIDS: dict[str, tuple[int, ...]] = {
    "features": (),
    "colour": (3,),
    "colour_envelope": (),
    "amplitude_before": (BANDS,),
    "amplitude_after": (BANDS,),
}
"""The arrays of a `ChangeMap`, and what follows rows and columns in their shape."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangeMap:
    """What differs between a source and an edited image that was aligned to it; equal when all values are.

    Arrays are float32, on a grid of rows x columns over the source.

    Args:
        features: Rows x columns, at least 0. Distance of patch features, in units of the largest distance that a
            harmless variant of the source (smoothed, compressed, resized, shifted, brightened) has at that place.
        colour: Rows x columns x 3. Mean CIE L*a*b* of the edited patch less that of the source.
        colour_envelope: Rows x columns, at least 0. The largest norm of `colour` over the harmless variants.
        amplitude_before: Rows x columns x `BANDS`, at least 0. Root mean square gradient of L* per pixel, fine to
            coarse; after: of the edited image before alignment smoothed it.
        amplitude_after: See `amplitude_before`.
        gain: Factor by which the edited image is brighter, at most 4 % from 1; it was divided out of features and
            colour.
        aligned: Whether an affine transform was found; 1 is identity otherwise.
        scale: How much larger the edited content appears, in the direction in which that is furthest from 1.
        shift: By how much it moved at the centre, right and down, in shares of the longer side.
        periodicity: Strength of periodic artefacts (grids, checkerboards) that the source lacks, in grey levels.
        structure: Agreement in [-1, 1] of the two layouts, whatever their colours and textures: about 1 for the same
            layout, near 0 for another picture.
        detail_loss: Logarithm of the ratio of fine structure before to after, at the source's own resolution up to 1024
            px; 0 where nothing is lost, and for sources of less than 640 px.
    """

    features: Plane
    colour: Plane
    colour_envelope: Plane
    amplitude_before: Plane
    amplitude_after: Plane
    gain: float = 1.0
    aligned: bool = False
    scale: float = 1.0
    shift: tuple[float, float] = (0.0, 0.0)
    periodicity: float = 0.0
    structure: float = 1.0
    detail_loss: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.features.shape
        return rows, columns

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return sum(int(getattr(self, name).nbytes) for name in GRIDS)

    @property
    def digest(self) -> str:
        """sha256 over all values, hex."""
        state = hashlib.sha256(repr((self.shape, self._scalars())).encode())
        for name in GRIDS:
            state.update(np.ascontiguousarray(getattr(self, name)).data)
        return state.hexdigest()

    def problem(self) -> str:
        """What makes it invalid (a shape, a type, a NaN, a negative distance); empty for a valid map."""
        shape = np.shape(self.features)
        if len(shape) != 2 or 0 in shape:
            return f"expects features of rows x columns, got {shape}"
        for name, rest in GRIDS.items():
            values = getattr(self, name)
            if not isinstance(values, np.ndarray) or values.dtype != np.float32 or values.shape != (*shape, *rest):
                got = f"{values.dtype} of {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
                return f"expects float32 of {(*shape, *rest)} as {name}, got {got}"
            if not np.isfinite(values).all():
                return f"got {name} with NaN or infinity"
            if name != "colour" and values.min() < 0:
                return f"got {name} below 0"
        numbers: tuple[Any, ...] = (
            self.gain,
            self.scale,
            *self.shift,
            self.periodicity,
            self.structure,
            self.detail_loss,
        )
        if len(numbers) != _NUMBERS or not all(isinstance(x, float | int) and math.isfinite(x) for x in numbers):
            return f"expects finite numbers, got {numbers!r}"
        if not isinstance(self.aligned, bool):
            return f"expects aligned as a bool, got {self.aligned!r}"
        return ""

    def _scalars(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in fields(self) if field.name not in GRIDS)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ChangeMap)
            and self._scalars() == other._scalars()
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in GRIDS)
        )

    def __hash__(self) -> int:
        return hash(self.digest)
