"""Preservation: how much of what should stay has stayed, from a `ChangeMap`.

A value near 1 means that nothing changed beyond what is harmless. From there it falls with the damage, without a step:
with how much is damaged and how visibly, where a shadow counts less than an object. What changes everywhere by the same
amount is drift and is charged by itself. All functions are plain arithmetic; `MapChanges` provides the map.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from ...boxes import Box
from ...queries.change_map import ChangeMap

Plane = NDArray[np.float32]
Mask = NDArray[np.bool_]

# The constants below were chosen on the development photographs of `python -m studies.preservation`.

COLOUR_FLOOR = 1.0
"""Lab units, added to the envelope of colour."""

WORST_SHARE = 0.005
"""Share of the patches over which the largest excess is averaged."""

MIN_WORST = 3
"""Patches over which it is averaged at least, of small regions."""

HARMLESS_EXCESS = 1.7
"""Mean excess of the worst patches up to which an edit is harmless."""

HARMLESS_COST, WORST_COST = 0.03, 0.15
"""What the worst patches cost at the limit of what is harmless, and at most; between and below by the square of their
excess: of two good edits the closer one is better, and drift that adds up over several edits is charged from the first.
"""

DRIFT_COST = 0.01
"""What harmless drift costs at its limit."""

ALIGNMENT_COST = 0.03
"""What zoom and shift cost at the limit of what is harmless, in proportion below it."""

DAMAGE_EXCESS = (2.3, 12.0)
"""Excess of a patch at which its damage begins, and at which it cannot be more visible."""

RELIT = 0.35
"""What a change counts in a patch that shows the same in another light, relative to one that shows something else."""

HALF_DAMAGE, DAMAGE_POWER = 0.015, 0.7
"""Mean damage of the compared patches that leaves half, and the power by which it counts: the first patches matter
most. An object of 1 % of the picture that is plainly lost leaves about half, one of 10 % a fifth."""

LOST_EXCESS = (1.7, 6.0)
"""Excess of a patch at which it begins to count as lost in what is reported, and at which it is lost entirely."""

MAX_EXEMPT_SHARE = 0.9
"""Share of the image that boxes can exempt; larger ones are shrunk to it. Boxes are of the source, or bounded by it:
an editor cannot enlarge them."""

EXEMPT_MARGIN = 1
"""In patches: what is exempt is enlarged by it, since features of a patch reach into its neighbours."""

DRIFT_PATCHES = 64
"""Patches compared from which on drift is charged in full: fewer are edges of objects, lit by what is around them."""

DRIFT_LIMITS: Mapping[str, tuple[float, float]] = {
    "cast": (2.0, 15.0),
    "exposure": (0.05, 0.40),
    "contrast": (0.12, 0.60),
    "sharpness": (0.35, 1.60),
    "noise": (0.50, 2.50),
    "detail": (1.2, 4.5),
    "grid": (1.0, 8.0),
    "geometry": (0.035, 0.07),
}
"""Component -> value up to which it is harmless, and at which next to nothing is preserved (`drift_share`).

cast: median change of a* and b*, in Lab units. exposure, contrast, sharpness, noise: absolute logarithm of the ratio of
brightness, coarse gradients, fine gradients where there is texture, and fine gradients where there is least. grid:
amplitude of periodic artefacts, in grey levels. detail: see `ChangeMap.detail_loss`; half the sides cost 0.7 to 1.
geometry: change of scale plus shift, in shares of the longer side.
"""


@dataclass(frozen=True, eq=False)
class Preservation:
    """How much of the compared patches has stayed, computed when asked for. Masks: rows x columns."""

    changes: ChangeMap
    exempted: Mask = field(repr=False)
    is_compared: Mask = field(repr=False)

    @cached_property
    def value(self) -> float:
        """In [0, 1], the product of `local` and `drift`; 1 where nothing is compared."""
        return self.local * self.drift

    @cached_property
    def local(self) -> float:
        """In [0, 1]: what damage in places leaves."""
        worst = min(WORST_COST, HARMLESS_COST * (self.excess / HARMLESS_EXCESS) ** 2)
        return float((1 - worst) / (1 + (self.damage / HALF_DAMAGE) ** DAMAGE_POWER))

    @cached_property
    def damage(self) -> float:
        """Mean damage of the compared patches, in [0, 1], less where it is another light (`RELIT`)."""
        if not self.compared:
            return 0.0
        low, high = DAMAGE_EXCESS
        light = np.where(relit_patches(self.changes), RELIT, 1.0)
        visible = np.clip((light * self._excess - low) / (high - low), 0, 1)
        return float(visible[self.is_compared].mean())

    @cached_property
    def drift(self) -> float:
        """In [0, 1]: what change of everything leaves."""
        left = math.prod(drift_share(name, value) for name, value in self.drift_values.items())
        return 1 - min(1.0, self.compared / DRIFT_PATCHES) * (1 - left)

    @cached_property
    def excess(self) -> float:
        """Mean excess of the worst patches, in units of the envelope; below `HARMLESS_EXCESS` for harmless edits."""
        if not self.compared:
            return 0.0
        compared = self._excess[self.is_compared]
        count = min(compared.size, max(MIN_WORST, round(WORST_SHARE * compared.size)))
        return float(np.partition(compared, -count)[-count:].mean())

    @cached_property
    def lost(self) -> float:
        """Share of the compared patches that is lost."""
        low, high = LOST_EXCESS
        compared = self._excess[self.is_compared]
        return float(np.clip((compared - low) / (high - low), 0, 1).mean()) if compared.size else 0.0

    @cached_property
    def drift_values(self) -> Mapping[str, float]:
        """By component, see `DRIFT_LIMITS`."""
        changes, compared = self.changes, self.is_compared
        zoom = abs(np.log(changes.scale)) + max(map(abs, changes.shift))
        values = dict.fromkeys(DRIFT_LIMITS, 0.0)
        values |= {"grid": changes.periodicity, "geometry": float(zoom), "detail": changes.detail_loss}
        if not self.compared:
            return values
        lightness, a, b = self._median_colour.tolist()
        fine_before, coarse_before, fine_after, coarse_after = (
            amplitude[:, :, band][compared]
            for amplitude in (changes.amplitude_before, changes.amplitude_after)
            for band in (0, -1)
        )
        values["cast"] = float(np.hypot(a, b))
        # The gain is that of the whole image, exempt parts included: what it divided out wrongly is in the colours.
        values["exposure"] = abs(float(np.log(changes.gain)) + lightness / 50)
        values["contrast"] = _texture_drift(coarse_before, coarse_after)
        values["sharpness"] = _texture_drift(fine_before, fine_after)
        quiet = [_lower_quartile(fine) for fine in (fine_before, fine_after)]
        values["noise"] = abs(float(np.log((quiet[1] + _VISIBLE) / (quiet[0] + _VISIBLE))))
        return values

    @cached_property
    def exempt_share(self) -> float:
        """Share of the image that is exempt."""
        return np.count_nonzero(self.exempted) / self.exempted.size

    @cached_property
    def compared(self) -> int:
        """Number of patches compared."""
        return int(np.count_nonzero(self.is_compared))

    @cached_property
    def worst(self) -> Box | None:
        """The patch with the largest excess, scaled to a score in [0, 1]; None where none exceeds the harmless."""
        low, high = LOST_EXCESS
        ranked = np.where(self.is_compared, self._excess, -np.inf)
        row, column = (int(number) for number in np.unravel_index(int(ranked.argmax()), ranked.shape))
        if ranked[row, column] <= low:
            return None
        rows, columns = ranked.shape
        score = min(1.0, (float(self._excess[row, column]) - low) / (high - low))
        return Box((column + 0.5) / columns, (row + 0.5) / rows, 1 / columns, 1 / rows, score)

    @cached_property
    def heat(self) -> Plane:
        """rows x columns, excess of each patch, NaN where it was not compared."""
        return np.where(self.is_compared, self._excess, np.float32(np.nan))

    @cached_property
    def _median_colour(self) -> Plane:
        if not self.compared:
            return np.zeros(3, np.float32)
        colour = self.changes.colour
        return np.array([_median(colour[:, :, channel][self.is_compared]) for channel in range(3)], np.float32)

    @cached_property
    def _excess(self) -> Plane:
        """rows x columns: features, plus colour beyond its median over the compared patches."""
        distance = norm_of_colour(self.changes.colour - self._median_colour)
        if self.compared:
            distance = np.maximum(0, distance - _median(distance[self.is_compared]))
        return self.changes.features + distance / (self.changes.colour_envelope + COLOUR_FLOOR)


def preservation(
    changes: ChangeMap,
    exempt: Sequence[Box] = (),
    *,
    within: Sequence[Box] | None = None,
    attached: Mask | None = None,
    max_exempt_share: float = MAX_EXEMPT_SHARE,
) -> Preservation:
    """How much has stayed outside of `exempt` boxes of the source, enlarged by `EXEMPT_MARGIN` and shrunk to
    `max_exempt_share` of the image. within: compare (and measure drift) inside these only. attached: rows x columns,
    further exempt patches, such as a shadow."""
    exempted = exempt_patches(exempt, changes.shape, max_exempt_share)
    if attached is not None:
        exempted |= attached
    compared = ~exempted
    if within is not None:
        compared &= covered_patches(within, changes.shape)
    return Preservation(changes, exempted, compared)


_LAYOUT = ((0.1, 0.2, 0.4, 0.8), (0.0, 0.25, 0.8, 1.0))
"""Agreement of layouts (`ChangeMap.structure`), and how much of the layout is left. Between two photographs it is 0.08
(median; 0.21 at most of 56 pairs), where half of one is replaced 0.28; sketches and cartoons of a photograph have 0.39
or more. Rain and pixel art of small drawn pictures cover textures, so that some have 0.2."""


_INVISIBLE = 0.3
"""L* per pixel of gradients that are no structure."""


def detail_left(changes: ChangeMap) -> float:
    """How much of the coarse structure a change of tone leaves, in [0, 1]: black and burnt out areas have lost it."""
    before, after = changes.amplitude_before[:, :, -1], changes.amplitude_after[:, :, -1]
    weight = np.maximum(before - _INVISIBLE, 0)
    if not weight.any():
        return 1.0
    share = np.interp(after / np.maximum(before, _INVISIBLE), (0.1, 0.35), (0.0, 1.0))
    return float((share * weight).sum() / weight.sum())


def layout_left(agreement: float) -> float:
    """How much of a layout is left where it agrees so much; see `_LAYOUT`."""
    return float(np.interp(agreement, *_LAYOUT))


def norm_of_colour(colour: Plane) -> Plane:
    """rows x columns: the norm of each patch's colour in CIE L*a*b*. `np.linalg.norm` takes four times as long."""
    squares = colour * colour
    return np.asarray(np.sqrt(squares[:, :, 0] + squares[:, :, 1] + squares[:, :, 2]))


_KEPT_DETAIL = 0.5
"""Share of the detail of a patch that another light leaves, at least; and what it adds, likewise."""
_CAST_COLOUR = (4.0, 0.5)
"""Change of a* and b* that goes with another light: in Lab units, and relative to that of L*."""
_FAINT = 0.5
"""Gradient of L* per pixel that is added before detail is compared: weaker ones cannot be seen."""
_AROUND, _ONE_WAY = 5, 0.85
"""Patches a side of what is around a patch; share of the change of lightness there that goes one way in another light.
"""


def relit_patches(changes: ChangeMap) -> Mask:
    """rows x columns: patches that show the same in another light. A smear or another object has other detail or
    another colour; another face is lighter here and darker there."""
    before, after = changes.amplitude_before[:, :, 0] + _FAINT, changes.amplitude_after[:, :, 0] + _FAINT
    light, chroma = changes.colour[:, :, 0], np.linalg.norm(changes.colour[:, :, 1:], axis=2)
    has_detail = (after > _KEPT_DETAIL * before) & (before > _KEPT_DETAIL * after)
    around, amount = (
        cv2.blur(plane, (_AROUND, _AROUND), borderType=cv2.BORDER_REFLECT) for plane in (light, abs(light))
    )
    is_smooth = abs(around) >= _ONE_WAY * amount
    return np.asarray(has_detail & is_smooth & (chroma <= _CAST_COLOUR[0] + _CAST_COLOUR[1] * abs(light)))


def exempt_patches(boxes: Sequence[Box], shape: tuple[int, int], max_share: float = MAX_EXEMPT_SHARE) -> Mask:
    """rows x columns bool: patches that boxes exempt, at most about `max_share` of them."""
    across, down = 2 * EXEMPT_MARGIN / shape[1], 2 * EXEMPT_MARGIN / shape[0]
    scale = 1.0
    while True:
        shrunk = [
            Box(box.cx, box.cy, scale * (box.w + across), scale * (box.h + down)) for box in boxes if box.area > 0
        ]
        exempted = covered_patches(shrunk, shape)
        if np.count_nonzero(exempted) / exempted.size <= max_share or scale < 0.05:
            return exempted
        scale *= 0.98


def covered_patches(boxes: Sequence[Box], shape: tuple[int, int]) -> Mask:
    """rows x columns bool: patches whose centre lies in a box; of a box that has none, the patch at its centre."""
    rows, columns = shape
    y, x = _centres(rows), _centres(columns)
    covered = np.zeros(shape, np.bool_)
    for box in boxes:
        inside = ((y >= box.y0) & (y <= box.y1))[:, None] & ((x >= box.x0) & (x <= box.x1))[None]
        if not inside.any() and 0 <= box.cx <= 1 and 0 <= box.cy <= 1:
            inside[min(rows - 1, int(box.cy * rows)), min(columns - 1, int(box.cx * columns))] = True
        covered |= inside
    return covered


@lru_cache(maxsize=64)
def _centres(count: int) -> NDArray[np.float64]:
    return (np.arange(count) + 0.5) / count


def drift_share(name: str, value: float) -> float:
    """What a component of drift leaves, in (0, 1]: linear to `_DRIFTED`, then the inverse of the value, so that what
    drifted far still ranks above what drifted further."""
    harmless, worst = DRIFT_LIMITS[name]
    left = float(np.interp(value, (harmless / 2, harmless, worst), (1.0, 1 - DRIFT_COST, 0.0)))
    if name == "geometry":  # an alignment hides what it moves: it is never free
        left = min(left, 1 - ALIGNMENT_COST * value / harmless)
    if left >= _DRIFTED:
        return left
    return _DRIFTED * (1 - _DRIFTED) * (worst - harmless) / (value - harmless)


_DRIFTED = 0.1


_VISIBLE = 0.3
"""L* per pixel: added to amplitudes before they are compared, so that invisible texture does not count."""


def _texture_drift(before: Plane, after: Plane) -> float:
    """Typical change of texture; less where few patches have any: on a flat picture these are the changed ones."""
    amplitude = before + after
    textured = np.count_nonzero(amplitude > 2 * _VISIBLE)
    ratio = np.log((after + _VISIBLE) / (before + _VISIBLE))
    order = np.argsort(ratio)
    sums = np.cumsum(amplitude[order])
    median = float(ratio[order[np.searchsorted(sums, sums[-1] / 2)]]) if sums[-1] > 0 else 0.0
    return min(1.0, textured / DRIFT_PATCHES) * abs(median)


def _median(values: Plane) -> np.float32:
    """As `np.median` of a row of finite numbers, which takes six times as long for a few hundred."""
    ranked, middle = np.sort(values), values.size // 2
    return np.float32(ranked[middle] if values.size % 2 else (ranked[middle - 1] + ranked[middle]) / 2)


def _lower_quartile(values: Plane) -> float:
    """As `np.quantile(values, 0.25)` of a row of finite numbers."""
    ranked = np.sort(values)
    low, quarters = divmod(values.size - 1, 4)
    high = min(low + 1, values.size - 1)
    share, rise = np.float32(quarters / 4), ranked[high] - ranked[low]
    return float(ranked[low] + rise * share if share < 0.5 else ranked[high] - rise * (1 - share))
