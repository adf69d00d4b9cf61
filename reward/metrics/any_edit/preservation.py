"""Preservation: how much of what should stay has stayed, from a `ChangeMap`.

A value of 1 means that nothing changed beyond what is harmless; visible damage costs a clear step, and below that the
value falls with the damaged share of the image. What changes everywhere by the same amount is drift and is charged by
itself. All functions are plain arithmetic; `MapChanges` provides the map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...boxes import Box
from ...queries.change_map import ChangeMap

Plane = NDArray[np.float32]
Mask = NDArray[np.bool_]

# The constants below were chosen on the development photographs of
# `python -m editcritic.benchmarks.studies.preservation`.

COLOUR_FLOOR = 1.0
"""Lab units, added to the envelope of colour."""

WORST_SHARE = 0.005
"""Share of the patches over which the largest excess is averaged."""

MIN_WORST = 3
"""Patches over which it is averaged at least, of small regions."""

HARMLESS_EXCESS, DAMAGE_EXCESS = 1.7, 2.3
"""Mean excess of the worst patches up to which nothing is lost, and from which on the whole step is."""

HARMLESS_COST = 0.01
"""What a harmless change costs at its limit: of two good edits the closer one is better, and drift that adds up over
several edits is charged from the first."""

ALIGNMENT_COST = 0.03
"""What zoom and shift cost at the limit of what is harmless, in proportion below it."""

STEP = 0.5
"""What any visible damage costs; the rest falls with the lost share."""

LOST_EXCESS = (1.7, 6.0)
"""Excess of a patch at which it begins to count as lost, and at which it is lost entirely."""

MAX_EXEMPT_SHARE = 0.6
"""Share of the image that boxes can exempt; larger ones are shrunk to it."""

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
    "grid": (1.0, 8.0),
    "geometry": (0.035, 0.07),
}
"""Component -> value up to which it is harmless, and at which next to nothing is preserved (`drift_share`).

cast: median change of a* and b*, in Lab units. exposure, contrast, sharpness, noise: absolute logarithm of the ratio of
brightness, coarse gradients, fine gradients where there is texture, and fine gradients where there is least. grid:
amplitude of periodic artefacts, in grey levels. geometry: change of scale plus shift, in shares of the longer side.
"""


@dataclass(frozen=True, slots=True)
class Preservation:
    """value: in [0, 1], the product of `local` and `drift`, each in [0, 1].

    excess: mean excess of the worst patches over the harmless, in units of the envelope (below `HARMLESS_EXCESS` for
    harmless edits).
    lost: share of the compared patches that is lost. drift_values: by component, see `DRIFT_LIMITS`. exempt_share: of
    the image. compared: number of patches compared; with 0 the value is 1. worst: the patch with the largest excess,
    which is its score, scaled to [0, 1] by `LOST_EXCESS`; None where none exceeds the harmless. structure: see
    `ChangeMap`. heat: rows x columns, excess of each patch, NaN where it was not compared.
    """

    value: float
    local: float
    drift: float
    excess: float
    lost: float
    drift_values: Mapping[str, float]
    exempt_share: float
    compared: int
    worst: Box | None
    structure: float
    heat: Plane = field(repr=False, compare=False)


def preservation(
    changes: ChangeMap,
    exempt: Sequence[Box] = (),
    *,
    within: Sequence[Box] | None = None,
    max_exempt_share: float = MAX_EXEMPT_SHARE,
) -> Preservation:
    """How much has stayed outside of the boxes in `exempt`.

    exempt: where the instruction changes the image, in the source's frame; enlarged by `EXEMPT_MARGIN`, and shrunk
    about their centres if they cover more than `max_exempt_share` of the image. within: compare only inside these boxes
    (objects that stay); drift is measured there too.
    """
    exempted = exempt_patches(exempt, changes.shape, max_exempt_share)
    compared = ~exempted
    if within is not None:
        compared &= covered_patches(within, changes.shape)
    excess = _excess(changes, compared)
    worst_mean, lost = _worst_mean(excess[compared]), _lost(excess[compared])
    step = _fall(worst_mean, HARMLESS_EXCESS, DAMAGE_EXCESS)
    local = STEP * step + (1 - STEP) * (1 - lost)
    drift_values = _drift(changes, compared)
    drift = float(np.prod([drift_share(name, value) for name, value in drift_values.items()]))
    drift = 1 - min(1.0, compared.sum() / DRIFT_PATCHES) * (1 - drift)
    heat = np.where(compared, excess, np.float32(np.nan)).astype(np.float32)
    return Preservation(
        local * drift,
        local,
        drift,
        worst_mean,
        lost,
        drift_values,
        float(exempted.mean()),
        int(compared.sum()),
        _worst_patch(excess, compared),
        changes.structure,
        heat,
    )


# -- where ------------------------------------------------------------------------------------------------------------


def exempt_patches(boxes: Sequence[Box], shape: tuple[int, int], max_share: float = MAX_EXEMPT_SHARE) -> Mask:
    """rows x columns bool: patches that boxes exempt, at most about `max_share` of them."""
    across, down = 2 * EXEMPT_MARGIN / shape[1], 2 * EXEMPT_MARGIN / shape[0]
    scale = 1.0
    while True:
        shrunk = [
            Box(box.cx, box.cy, scale * (box.w + across), scale * (box.h + down)) for box in boxes if box.area > 0
        ]
        exempted = covered_patches(shrunk, shape)
        if exempted.mean() <= max_share or scale < 0.05:
            return exempted
        scale *= 0.98


def covered_patches(boxes: Sequence[Box], shape: tuple[int, int]) -> Mask:
    """rows x columns bool: patches whose centre lies in a box; of a box that has none, the patch at its centre."""
    rows, columns = shape
    y, x = (np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns
    covered = np.zeros(shape, np.bool_)
    for box in boxes:
        inside = ((y >= box.y0) & (y <= box.y1))[:, None] & ((x >= box.x0) & (x <= box.x1))[None]
        if not inside.any() and 0 <= box.cx <= 1 and 0 <= box.cy <= 1:
            inside[min(rows - 1, int(box.cy * rows)), min(columns - 1, int(box.cx * columns))] = True
        covered |= inside
    return covered


# -- how much ---------------------------------------------------------------------------------------------------------


def _excess(changes: ChangeMap, compared: Mask) -> Plane:
    """rows x columns: features, plus colour beyond its median over the compared patches."""
    colour = changes.colour
    if compared.any():
        colour = colour - np.median(colour[compared], axis=0).astype(np.float32)
    distance = np.linalg.norm(colour, axis=2)
    if compared.any():
        distance = np.maximum(0, distance - np.median(distance[compared]))
    return np.asarray(changes.features + distance / (changes.colour_envelope + COLOUR_FLOOR), np.float32)


def _worst_mean(excess: Plane) -> float:
    if not excess.size:
        return 0.0
    count = min(excess.size, max(MIN_WORST, round(WORST_SHARE * excess.size)))
    return float(np.partition(excess, -count)[-count:].mean())


def _lost(excess: Plane) -> float:
    low, high = LOST_EXCESS
    return float(np.clip((excess - low) / (high - low), 0, 1).mean()) if excess.size else 0.0


def drift_share(name: str, value: float) -> float:
    """What a component of drift leaves, in (0, 1]; see `DRIFT_LIMITS`.

    It falls linearly to `_DRIFTED` and then with the inverse of the value: a picture that drifted far still ranks above
    one that drifted further, and above what a guard rejects.
    """
    harmless, worst = DRIFT_LIMITS[name]
    left = _fall(value, harmless, worst)
    if name == "geometry":  # an alignment hides what it moves: it is never free
        left = min(left, 1 - ALIGNMENT_COST * value / harmless)
    if left >= _DRIFTED:
        return left
    return _DRIFTED * (1 - _DRIFTED) * (worst - harmless) / (value - harmless)


_DRIFTED = 0.1


def _fall(value: float, harmless: float, worst: float) -> float:
    """1 up to half of `harmless`, 1 - `HARMLESS_COST` at `harmless`, and 0 at `worst`; linear in between."""
    return float(np.interp(value, (harmless / 2, harmless, worst), (1, 1 - HARMLESS_COST, 0)))


def _drift(changes: ChangeMap, compared: Mask) -> dict[str, float]:
    zoom = abs(np.log(changes.scale)) + max(map(abs, changes.shift))
    values = dict.fromkeys(DRIFT_LIMITS, 0.0) | {"grid": changes.periodicity, "geometry": float(zoom)}
    if not compared.any():
        return values
    lightness, a, b = (float(number) for number in np.median(changes.colour[compared], axis=0))
    before, after = changes.amplitude_before[compared], changes.amplitude_after[compared]
    ratio = np.log((after + _VISIBLE) / (before + _VISIBLE))
    values["cast"] = float(np.hypot(a, b))
    # The gain is that of the whole image, exempt parts included: what it divided out wrongly is in the colours.
    values["exposure"] = abs(float(np.log(changes.gain)) + lightness / 50)
    values["contrast"] = _texture_drift(ratio[:, -1], before[:, -1] + after[:, -1])
    values["sharpness"] = _texture_drift(ratio[:, 0], before[:, 0] + after[:, 0])
    quiet = [float(np.quantile(part[:, 0], 0.25)) for part in (before, after)]
    values["noise"] = abs(float(np.log((quiet[1] + _VISIBLE) / (quiet[0] + _VISIBLE))))
    return values


_VISIBLE = 0.3
"""L* per pixel: added to amplitudes before they are compared, so that invisible texture does not count."""


def _texture_drift(ratio: Plane, amplitude: Plane) -> float:
    """Typical change of texture; less where few patches have any: on a flat picture these are the changed ones."""
    textured = float((amplitude > 2 * _VISIBLE).sum())
    return min(1.0, textured / DRIFT_PATCHES) * abs(_weighted_median(ratio, amplitude))


def _weighted_median(values: Plane, weights: Plane) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, sums[-1] / 2)]) if sums[-1] > 0 else 0.0


def _worst_patch(excess: Plane, compared: Mask) -> Box | None:
    low, high = LOST_EXCESS
    ranked = np.where(compared, excess, -np.inf)
    row, column = (int(number) for number in np.unravel_index(int(ranked.argmax()), ranked.shape))
    if ranked[row, column] <= low:
        return None
    rows, columns = excess.shape
    score = min(1.0, (float(excess[row, column]) - low) / (high - low))
    return Box((column + 0.5) / columns, (row + 0.5) / rows, 1 / columns, 1 / rows, score)
