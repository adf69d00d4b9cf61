"""Looks of whole pictures, recognised in pixels: night, sepia, blur, pixel art, rain, mirrored, cropped and others.

What an edit did to the whole picture is decided between hypotheses: each predicts the edited image from the source, and
the one that predicts it best explains the edit. The colours and strengths are this package's own estimates. A look has
to be in all quarters of the picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Box
from .object_segments import DetectedObject

Pixels = NDArray[np.uint8]
Plane = NDArray[np.float32]

_SIDE = 96  # pixels per side at which tones are compared
_SMOOTH = 2.0  # standard deviation, in those pixels, of the smoothing before it: streaks, blocks and noise average out
_QUARTERS = tuple(
    (slice(y, y + _SIDE // 2), slice(x, x + _SIDE // 2)) for y in (0, _SIDE // 2) for x in (0, _SIDE // 2)
)
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def sigmoid(value: float) -> float:
    """1 / (1 + exp(-value)), without overflow."""
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, value))))


def _fitted(pixels: Pixels, side: int = _SIDE) -> Plane:
    smaller = min(pixels.shape[:2]) >= side
    resized = cv2.resize(pixels, (side, side), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
    return np.asarray(resized, np.float32)


def _smoothed(plane: Plane, sigma: float = _SMOOTH) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma), np.float32)


# -- tones ------------------------------------------------------------------------------------------------------------


def _grey(plane: Plane) -> Plane:
    return np.asarray((plane @ _LUMA)[..., None].repeat(3, axis=2), np.float32)


_TONES: Mapping[str, Callable[[Plane], Plane]] = MappingProxyType(
    {
        "unchanged": lambda plane: plane,
        "night": lambda plane: plane * np.array([0.30, 0.35, 0.55], np.float32),
        "sepia": lambda plane: np.minimum(_grey(plane) * np.array([1.06, 0.85, 0.64], np.float32), 255),
        "black and white": _grey,
        "red light": lambda plane: plane * np.array([1.05, 0.35, 0.35], np.float32),
        "brighter": lambda plane: np.minimum(plane * 1.4, 255),
        "darker": lambda plane: plane * 0.6,
        "fog": lambda plane: 0.25 * plane + 0.75 * 205,
    }
)
"""Look -> what it makes of an image in full strength."""
_TONE_STEPS = np.linspace(0.0, 1.3, 14)
_VISIBLE = 0.5  # amount of a tone from which on it shows
_AS_GOOD, _SOFT = 1.2, 0.3
"""Grey levels of misfit by which one tone may explain a part worse than another one, and the width of the transition:
a grey wall is as it was in black and white."""
_DECISIVE = 3.0  # grey levels by which a tone must explain some part better than no change does
_PLAIN_TONES = ("unchanged", "brighter", "darker")


@dataclass(frozen=True)
class _ToneFits:
    """How well each tone explains a part of the picture. misfits: tone -> amount -> root mean square in grey levels."""

    misfits: Mapping[str, Mapping[float, float]]

    @staticmethod
    def of(source: Plane, edited: Plane) -> _ToneFits:
        """Differences above 60 grey levels count as 60: objects that came or went are outliers."""
        misfits: dict[str, dict[float, float]] = {}
        for name, tone in _TONES.items():
            full = tone(source)
            for amount in (0.0,) if name == "unchanged" else _TONE_STEPS[1:]:
                difference = np.abs(edited - (source + np.float32(amount) * (full - source)))
                misfit = float(np.sqrt(np.square(np.minimum(difference, 60)).mean()))
                misfits.setdefault(name, {})[float(amount)] = misfit
        return _ToneFits(misfits)

    @property
    def best(self) -> tuple[str, float]:
        """The tone and amount that explain it best."""
        pairs = [(name, amount) for name, by_amount in self.misfits.items() for amount in by_amount]
        return min(pairs, key=lambda pair: self.misfits[pair[0]][pair[1]])

    def excess(self, *names: str, least: float = 0.0) -> float:
        """How much worse than the best one these tones explain it, from an amount on."""
        name, amount = self.best
        own = [misfit for one in names for step, misfit in self.misfits[one].items() if step >= least]
        return min(own) - self.misfits[name][amount]

    def gain(self, name: str) -> float:
        """How much better than no change a tone explains it."""
        return self.misfits["unchanged"][0.0] - min(self.misfits[name].values())


# -- one picture ------------------------------------------------------------------------------------------------------


def is_night(pixels: Pixels) -> float:
    """The probability that a picture is dark and bluish all over."""
    plane = _smoothed(_fitted(pixels))
    levels = [float(np.median(plane[quarter] @ _LUMA)) for quarter in _QUARTERS]
    red, _, blue = (float(np.median(plane[..., channel])) for channel in range(3))
    return sigmoid((125 - max(levels)) / 6) * sigmoid((blue / max(red, 1.0) - 1.07) / 0.03)


def is_sepia(pixels: Pixels) -> float:
    """The probability that all colours of a picture are tones of brown."""
    typical, extreme = _distance_from_tone(pixels, np.array([1.07, 0.86, 0.63], np.float32))
    return sigmoid((0.28 - typical) / 0.02) * sigmoid((0.6 - extreme) / 0.05)


def is_grey(pixels: Pixels) -> float:
    """The probability that a picture has no colours."""
    typical, extreme = _distance_from_tone(pixels, np.ones(3, np.float32))
    return sigmoid((0.14 - typical) / 0.02) * sigmoid((0.5 - extreme) / 0.05)


def _distance_from_tone(pixels: Pixels, tone: Plane) -> tuple[float, float]:
    """Median and 95 % quantile of the distance of colours, as shares of their luminance, from a tone."""
    plane = _smoothed(_fitted(pixels))
    relative = plane / np.maximum((plane @ _LUMA)[..., None], 8.0)
    distance = np.linalg.norm(relative - tone / float(tone @ _LUMA), axis=2)
    return float(np.median(distance)), float(np.quantile(distance, 0.95))


def is_pixel_art(pixels: Pixels) -> float:
    """The probability that all of a picture consists of square blocks of one colour."""
    return max(min(_blockiness(part, block) for part in _quarters(pixels)) for block in range(2, 9))


def _quarters(pixels: Pixels) -> list[Pixels]:
    """Quarters that begin where blocks of up to 8 pixels may begin."""
    height, width = pixels.shape[:2]
    y, x = height // 48 * 24, width // 48 * 24
    y, x = y or height // 2, x or width // 2
    return [pixels[:y, :x], pixels[:y, x:], pixels[y:, :x], pixels[y:, x:]]


_FLAT = 0.6
"""Mean difference of neighbours, in grey levels, below which there is neither texture nor noise inside of blocks."""


def _blockiness(pixels: Pixels, block: int) -> float:
    plane = pixels.astype(np.float32)
    inside, between = [], []
    for axis in (0, 1):
        steps = np.abs(np.diff(plane, axis=axis)).mean(axis=(1 - axis, 2))
        at_border = np.arange(1, len(steps) + 1) % block == 0
        between.append(float(steps[at_border].mean()) if at_border.any() else 0.0)
        inside.append(float(steps[~at_border].mean()) if (~at_border).any() else math.inf)
    if max(inside) < _FLAT:
        return 0.9  # nothing speaks against blocks
    ratio = (sum(between) + 0.05) / (sum(inside) + 0.05)
    return sigmoid((math.log(ratio) - math.log(3.0)) / 0.2)


def is_rainy(pixels: Pixels) -> float:
    """The probability that thin, steep, bright streaks fall all over a picture."""
    return sigmoid((float(np.median(_streaks(pixels))) - _MIN_STREAKS) / 0.8)  # objects may hide those of a quarter


_MIN_STREAKS, _MIN_NEW_STREAKS = 11.5, 4.5
"""Streaks in a quarter of a picture from which on it rains; in every one, fewer new ones."""


def _streaks(pixels: Pixels, before: Pixels | None = None) -> list[int]:
    """Number of separate streaks in each quarter. before: what was there already counts for none."""
    luma = np.asarray(_fitted(pixels) @ _LUMA, np.float32)
    whiteness = np.asarray(_fitted(pixels).min(axis=2), np.float32)
    thin = np.minimum(luma, whiteness + 30) - cv2.medianBlur(luma, 5)
    if before is not None:
        old = np.asarray(_fitted(before) @ _LUMA, np.float32)
        thin = thin - np.maximum(old - cv2.medianBlur(old, 5), 0)
    threshold = max(16.0, 0.4 * float(np.quantile(thin, 0.995)))
    count, _, stats, centres = cv2.connectedComponentsWithStats((thin > threshold).astype(np.uint8), connectivity=8)
    found = [0, 0, 0, 0]
    for index in range(1, count):
        _, _, w, h, area = stats[index]
        if h >= 4 and h >= 1.3 * w and area <= 0.45 * w * h + 2 * h and h <= 0.3 * _SIDE:
            x, y = centres[index]
            found[2 * int(y >= _SIDE / 2) + int(x >= _SIDE / 2)] += 1
    return found


def is_blurred(pixels: Pixels, objects: list[DetectedObject]) -> float:
    """The probability that no object of a picture has a sharp outline. objects: of it; without any, 1/2."""
    steps, plane = _steps(pixels), _fitted(pixels)
    ratios = []
    for obj in objects:
        region = cv2.dilate(_at_side(obj).astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
        contrast = float((np.quantile(plane[region], 0.95, axis=0) - np.quantile(plane[region], 0.05, axis=0)).max())
        ratios.append(_steepest(steps, region) / max(contrast, 1.0))
    return sigmoid((_SHARP - max(ratios)) / 0.03) if ratios else 0.5


_SHARP = 0.36
"""Steepest step of an outline relative to its contrast, from which on it is sharp: about 0.2 in a blurred picture."""


def is_pencil_drawing(pixels: Pixels) -> float:
    """The probability that a picture is grey strokes on white paper."""
    plane = _smoothed(_fitted(pixels))
    paper = float((plane.min(axis=2) > 225).mean())
    dark = (_fitted(pixels).max(axis=2) < 190).astype(np.uint8)
    filled = float(cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((7, 7), np.uint8)).mean())
    return is_grey(pixels) * sigmoid((paper - 0.6) / 0.05) * sigmoid((0.02 - filled) / 0.004)


def is_foggy(pixels: Pixels) -> float:
    """The probability that a picture is pale and has hardly any contrast."""
    plane = _smoothed(_fitted(pixels))
    luma = plane @ _LUMA
    return sigmoid((12 - float(luma.std())) / 1.5) * sigmoid((float(luma.mean()) - 150) / 8) * is_grey(pixels)


def is_in_red_light(pixels: Pixels) -> float:
    """The probability that all colours of a picture are reds."""
    plane = _smoothed(_fitted(pixels))
    ratio = float(np.median(plane[..., 0] / np.maximum(plane[..., 1:].max(axis=2), 1.0)))
    return sigmoid((ratio - 1.8) / 0.1)


def is_snowy(pixels: Pixels) -> float:
    """The probability that white dots fall all over a picture: small, round and bright."""
    luma = np.asarray(_fitted(pixels) @ _LUMA, np.float32)
    dots = ((luma - cv2.medianBlur(luma, 5)) > 40).astype(np.uint8)
    count, _, stats, _ = cv2.connectedComponentsWithStats(dots, connectivity=8)
    round_ones = sum(0.6 <= stats[index][2] / stats[index][3] <= 1.6 for index in range(1, count))
    return sigmoid((round_ones - 60) / 5)


LOOKS: Mapping[str, Callable[[Pixels], float]] = MappingProxyType(
    {
        "night": is_night,
        "sepia": is_sepia,
        "black and white": is_grey,
        "pixel art": is_pixel_art,
        "rain": is_rainy,
        "pencil drawing": is_pencil_drawing,
        "fog": is_foggy,
        "red light": is_in_red_light,
        "snowfall": is_snowy,
    }
)
"""Looks that one picture shows by itself."""


# -- two pictures -----------------------------------------------------------------------------------------------------


class PictureChange:
    """What an edit did to the whole of a picture. source, edited: H x W x 3; of any sizes."""

    def __init__(self, source: Pixels, edited: Pixels, objects: list[DetectedObject]) -> None:
        self._source, self._edited = source, edited
        self._objects = objects

    def probability(self, change: str) -> float:
        """The probability that this change of the whole picture was made, one of `CHANGES`."""
        return CHANGES[change](self)

    # -- tone ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _tones(self) -> list[_ToneFits]:
        """Of each quarter."""
        source, edited = (_smoothed(_fitted(pixels)) for pixels in (self._source, self._edited))
        return [_ToneFits.of(source[quarter], edited[quarter]) for quarter in _QUARTERS]

    def _has_tone(self, name: str) -> float:
        everywhere = min(sigmoid((_AS_GOOD - fits.excess(name, least=_VISIBLE)) / _SOFT) for fits in self._tones)
        return everywhere * sigmoid((max(fits.gain(name) for fits in self._tones) - _DECISIVE) / 0.5)

    # -- sharpness ----------------------------------------------------------------------------------------------------

    @cached_property
    def _blurs(self) -> list[float]:
        """For each object, log2 of how much less steep its outline is: about 1.5 for a visible blur."""
        regions = [cv2.dilate(_at_side(obj).astype(np.uint8), np.ones((9, 9), np.uint8)) > 0 for obj in self._objects]
        if not regions:
            regions = [np.ones((_SIDE, _SIDE), np.bool_)]
        source, edited = (_steps(pixels) for pixels in (self._source, self._edited))
        return [math.log2(_steepest(source, region) / _steepest(edited, region)) for region in regions]

    @cached_property
    def _same_tone(self) -> float:
        """Whether the colours are as before."""
        return min(sigmoid((2 * _AS_GOOD - fits.excess(*_PLAIN_TONES)) / _SOFT) for fits in self._tones)

    @cached_property
    def _is_plain(self) -> float:
        """Whether it shows the same objects, in the same colours, without blocks and streaks."""
        plain = self._same_tone * (1 - is_pixel_art(self._edited)) * (1 - is_rainy(self._edited))
        return plain * self.same_content

    def _is_blurred(self) -> float:
        return self._is_plain * sigmoid((min(self._blurs) - _MIN_BLUR) / 0.1)

    def _is_sharpened(self) -> float:
        return self._is_plain * sigmoid((min(-blur for blur in self._blurs) - _MIN_BLUR) / 0.1)

    # -- blocks and streaks -------------------------------------------------------------------------------------------

    def _is_pixel_art(self) -> float:
        return is_pixel_art(self._edited) * (1 - is_pixel_art(self._source))

    def _is_rainy(self) -> float:
        streaks = _streaks(self._edited, self._source)
        everywhere = sigmoid((min(streaks) - _MIN_NEW_STREAKS) / 0.8)
        return everywhere * sigmoid((float(np.median(streaks)) - _MIN_STREAKS) / 0.8)

    # -- geometry -----------------------------------------------------------------------------------------------------

    def _is_mirrored(self) -> float:
        return self._is_flipped(np.ascontiguousarray(self._source[:, ::-1]), mirrored=True)

    def _is_upside_down(self) -> float:
        return self._is_flipped(np.ascontiguousarray(self._source[::-1]), mirrored=False)

    def _is_flipped(self, flipped: Pixels, *, mirrored: bool) -> float:
        """Whether the edit shows the flipped source with all its objects, rather than the source."""
        other = PictureChange(flipped, self._edited, [_mirrored(obj, across=mirrored) for obj in self._objects])
        misfits = [_misfit(pixels, self._edited) for pixels in (flipped, self._source)]
        return other.same_content * other._same_tone * sigmoid((misfits[1] - 1.3 * misfits[0]) / 0.5)

    @cached_property
    def window(self) -> Box | None:
        """The part of the source that the edit shows, enlarged; None where it shows none, or all."""
        return _find_window(self._source, self._edited)

    # -- content ------------------------------------------------------------------------------------------------------

    @cached_property
    def same_content(self) -> float:
        """The probability that the objects of the source are in the edited image at the same places, however it looks.

        Each object must stand out from what is around it as the new look of source predicts.
        """
        if np.array_equal(self._source, self._edited):
            return 1.0
        source, edited = (_smoothed(_fitted(pixels), 0.8) for pixels in (self._source, self._edited))
        masks = [_at_side(obj) for obj in self._objects]
        anything = np.logical_or.reduce(masks) if masks else np.zeros((_SIDE, _SIDE), np.bool_)
        predicted = _predicted(source, edited)
        shares = [_retained(mask, anything, predicted, edited) for mask in masks if mask.sum() >= _MIN_MASK]
        return min((sigmoid((share - 0.5) / 0.08) for share in shares), default=0.5)


_MIN_MASK = 20
_MIN_BLUR = 0.75  # log2 of the ratio of steepness from which on a picture is blurred


def _steps(pixels: Pixels) -> Plane:
    """The largest difference of each pixel to its neighbours, in grey levels."""
    plane = np.pad(_fitted(pixels), ((0, 1), (0, 1), (0, 0)), mode="edge")
    across, down = np.abs(plane[:-1, 1:] - plane[:-1, :-1]), np.abs(plane[1:, :-1] - plane[:-1, :-1])
    return np.asarray(np.maximum(across, down).max(axis=2), np.float32)


def _steepest(steps: Plane, region: NDArray[np.bool_]) -> float:
    return float(np.quantile(steps[region], 0.95)) + 1.0


def _misfit(one: Pixels, other: Pixels) -> float:
    a, b = (_smoothed(_fitted(pixels)) for pixels in (one, other))
    return float(np.abs(a - b).mean())


def _at_side(obj: DetectedObject) -> NDArray[np.bool_]:
    resized = cv2.resize(obj.mask.astype(np.uint8), (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST)
    return np.asarray(resized > 0)


def _mirrored(obj: DetectedObject, *, across: bool) -> DetectedObject:
    return replace(obj, mask=np.ascontiguousarray(obj.mask[:, ::-1] if across else obj.mask[::-1]))


def _predicted(source: Plane, edited: Plane) -> Plane:
    """The source in the edit's tone: a known one; or each channel as a straight line of itself or of luminance.

    Two numbers a channel: too few to explain the loss of an object.
    """
    luma = (source @ _LUMA)[..., None].repeat(3, axis=2)
    candidates = [
        np.stack([_line(basis[..., c], edited[..., c]) for c in range(3)], axis=2) for basis in (source, luma)
    ]
    name, amount = _ToneFits.of(source, edited).best
    candidates.append(source + np.float32(amount) * (_TONES[name](source) - source))
    return min(candidates, key=lambda plane: float(np.abs(plane - edited).mean()))


def _line(x: Plane, y: Plane) -> Plane:
    """The straight line of x that fits y best, robustly: twice, the second time without what fits worst."""
    keep = np.ones(x.shape, np.bool_)
    fitted = x
    for _ in range(3):
        slope, offset = np.polyfit(x[keep], y[keep], 1) if np.ptp(x[keep]) > 1 else (1.0, float((y - x)[keep].mean()))
        fitted = (slope * x + offset).astype(np.float32)
        distance = np.abs(fitted - y)
        keep = distance <= np.quantile(distance, 0.9)
    return fitted


def _retained(mask: NDArray[np.bool_], anything: NDArray[np.bool_], predicted: Plane, edited: Plane) -> float:
    """How much of an object's contrast to what is around it is left, as a share of what is predicted."""
    inner = cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    inner = inner if inner.sum() >= _MIN_MASK // 2 else mask
    around = (cv2.dilate(mask.astype(np.uint8), np.ones((15, 15), np.uint8)) > 0) & ~(
        cv2.dilate(anything.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    )
    if not around.any():
        return 1.0
    expected, seen = (plane[inner].mean(axis=0) - plane[around].mean(axis=0) for plane in (predicted, edited))
    strength = float(expected @ expected)
    if strength < _MIN_CONTRAST**2:
        return 1.0  # it cannot be told whether it is there
    return float(seen @ expected) / strength


_MIN_CONTRAST = 6.0  # distance of colours, in grey levels, below which an object does not stand out


# -- crops ------------------------------------------------------------------------------------------------------------

_MIN_CORRELATION = 0.75


def _find_window(source: Pixels, edited: Pixels) -> Box | None:
    """By template matching over sizes: of the edit's own shape, at its own size and enlarged."""
    field = _smoothed(_fitted(source), 1.0)
    ratio = (edited.shape[1] / source.shape[1]) / (edited.shape[0] / source.shape[0])
    best, found = _MIN_CORRELATION, None
    for side in np.linspace(0.18, 0.98, 41):
        w, h = (side, side / ratio) if ratio >= 1 else (side * ratio, side)
        w, h = (min(1.0, w), min(1.0, h)) if ratio != 1 else (side, side)
        width, height = round(w * _SIDE), round(h * _SIDE)
        if min(width, height) < 8:
            continue
        template = cv2.resize(edited, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32)
        matched = cv2.matchTemplate(field, _smoothed(template, 0.8), cv2.TM_CCOEFF_NORMED)
        _, score, _, (x, y) = cv2.minMaxLoc(matched)
        score -= 0.02 * (side > 0.9)
        if score > best:
            box = Box((x + width / 2) / _SIDE, (y + height / 2) / _SIDE, width / _SIDE, height / _SIDE, float(score))
            best, found = float(score), box
    return found


CHANGES: Mapping[str, Callable[[PictureChange], float]] = MappingProxyType(
    {
        "night": lambda change: change._has_tone("night"),
        "sepia": lambda change: change._has_tone("sepia"),
        "black and white": lambda change: change._has_tone("black and white"),
        "red light": lambda change: change._has_tone("red light"),
        "fog": lambda change: change._has_tone("fog"),
        "blur": lambda change: change._is_blurred(),
        "deblur": lambda change: change._is_sharpened(),
        "pixel art": lambda change: change._is_pixel_art(),
        "rain": lambda change: change._is_rainy(),
        "mirror": lambda change: change._is_mirrored(),
        "upside down": lambda change: change._is_upside_down(),
        "pencil drawing": lambda change: is_pencil_drawing(change._edited) * (1 - is_pencil_drawing(change._source)),
        "snowfall": lambda change: is_snowy(change._edited) * (1 - is_snowy(change._source)),
    }
)
"""Changes of a whole picture, by what the two pictures show."""
