"""Fits one object to a part of an image: place, outline, colour, material and letters by analysis by synthesis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from .backdrop_fitting import BLURS, BackdropFit, blurred
from .render import INK_RGB, OBJECT_RGB, Plane, coverage, texture
from .scene_graph import SceneObject, text_extent
from .vocabulary import COLOURS, LETTER_HEIGHT, LETTER_WIDTH, LETTERS, SHAPES, SIGN, TEXT

_STEP = LETTER_WIDTH + 1
_ALPHABET = " " + "".join(LETTERS)
_BLURS = (0.0, 0.4, 0.7)  # sigma in grains
_OFFSETS = (-1.0, -0.5, 0.0, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class TextFit:
    """text, its centre in pixels, the ink, and a fit in [0, 1]."""

    text: str
    x: float
    y: float
    ink: str
    fit: float


def ink_share(pixels: Plane, paper: Plane, ink: str) -> Plane:
    """The share of ink in each pixel, between paper (0) and ink (1), clipped to [0, 1.1]."""
    way = np.asarray(INK_RGB[ink], np.float64) - paper
    share = ((pixels - paper) * way).sum(axis=-1) / np.maximum((way**2).sum(axis=-1), 1.0)
    return np.asarray(np.clip(share, 0.0, 1.1))


def fit_text(
    pixels: Plane, paper: Plane, veil: Plane, box: tuple[int, int, int, int], grain: int, guesses: Sequence[str]
) -> TextFit | None:
    """The text in a box x0, y0, x1, y1 (pixels, exclusive), in the ink that fits better; None if there is none.

    pixels, paper: size x size x 3, in grey levels. veil: size x size, 1 where nothing covers the letters. A guessed
    text wins where it fits about as well as the best one.
    """
    x0, y0, x1, y1 = box
    if x1 - x0 < LETTER_WIDTH * grain or y1 - y0 < LETTER_HEIGHT * grain:
        return None
    region = (slice(y0, y1), slice(x0, x1))
    distance = np.linalg.norm(pixels[region] - paper[region], axis=-1)
    best: TextFit | None = None
    for ink in INK_RGB:
        share = ink_share(pixels[region], paper[region], ink)
        contrast = np.linalg.norm(np.asarray(INK_RGB[ink], np.float64) - paper[region], axis=-1)
        legible = contrast.mean() > 60  # ink that is much like the paper cannot be read
        share = np.where((distance > 35) & (veil[region] > 0.5) & legible, share, 0.0)
        fit = _fit_in_ink(share, veil[region], grain, guesses)
        if fit is not None and (best is None or fit[3] > best.fit):
            best = TextFit(fit[0], x0 + fit[1], y0 + fit[2], ink, fit[3])
    return best


def _fit_in_ink(
    share: Plane, veil: Plane, grain: int, guesses: Sequence[str]
) -> tuple[str, float, float, float] | None:
    """Text, centre within `share`, fit."""
    dark = share > 0.3
    columns, rows = np.flatnonzero(dark.any(axis=0)), np.flatnonzero(dark.any(axis=1))
    if len(columns) == 0:
        return None
    width, height = columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1
    number = round((width / grain + 1) / _STEP)
    if number < 1 or height > (LETTER_HEIGHT + 3) * grain or height < (LETTER_HEIGHT - 2) * grain:
        return None
    middle = ((columns[0] + columns[-1]) / 2, (rows[0] + rows[-1]) / 2)
    ink_energy = float((share**2).sum())
    tries = {number, *(len(guess) for guess in guesses if abs(len(guess) - number) <= 1)}
    results = [
        _fit_at_offset(share, veil, middle, n, dx, dy, grain, guesses)
        for n in tries
        for dx in _OFFSETS
        for dy in _OFFSETS
    ]
    cost, text, x, y = min(results, key=lambda one: one[0])
    return text, x, y, float(np.clip(1 - cost / max(ink_energy, 1e-9), 0, 1))


def _fit_at_offset(
    share: Plane, veil: Plane, middle: tuple[float, float], number: int, dx: float, dy: float, grain: int,
    guesses: Sequence[str],
) -> tuple[float, str, float, float]:  # fmt: skip
    """Squared error over all of `share`, the text, and its centre, for a number of letters at an offset in grains."""
    x = middle[0] + dx * grain - (number * _STEP - 2) * grain / 2
    y = middle[1] + dy * grain - (LETTER_HEIGHT - 1) * grain / 2
    across = np.float32(x) + np.arange(number * _STEP, dtype=np.float32) * grain
    down = np.float32(y) + np.arange(LETTER_HEIGHT, dtype=np.float32) * grain
    grid = np.meshgrid(across, down)

    def cut(plane: Plane) -> Plane:
        samples = cv2.remap(plane.astype(np.float32), grid[0], grid[1], cv2.INTER_LINEAR, borderValue=0.0)
        return np.asarray(samples.reshape(LETTER_HEIGHT, number, _STEP).transpose(1, 0, 2).reshape(number, -1))

    cells, weight = cut(share), cut(veil)
    tries = []
    for blur in _BLURS:
        letters = _templates(blur)
        costs = ((cells[:, None] - letters[None]) ** 2 * weight[:, None]).sum(axis=2)
        ink = letters[costs.argmin(axis=1)]
        amount = float(np.clip((cells * ink).sum() / max(float((ink**2).sum()), 1e-9), 0.6, 1.2))
        tries.append(((cells[:, None] - amount * letters[None]) ** 2 * weight[:, None]).sum(axis=2))
    costs = min(tries, key=lambda one: float(one.min(axis=1).sum()))
    text, cost = "".join(_ALPHABET[i] for i in costs.argmin(axis=1)), float(costs.min(axis=1).sum())
    for guess in guesses:
        if len(guess) == number and guess != text:
            guess_cost = float(sum(costs[i, _ALPHABET.index(letter)] for i, letter in enumerate(guess)))
            if guess_cost <= 1.1 * cost + 0.2:
                text = guess
    outside = float((share**2).sum()) / grain**2 - float((cells**2).sum())
    centre = (float(x) + (number * _STEP - 2) * grain / 2 + 0.5, float(y) + (LETTER_HEIGHT - 1) * grain / 2 + 0.5)
    return (cost + max(outside, 0.0)) * grain**2, text, *centre


@lru_cache(maxsize=16)
def _templates(blur: float) -> Plane:
    """Letters (blank first) as they look on a grid of dots: number of letters x (5 x 4)."""
    dots = np.zeros((len(_ALPHABET), LETTER_HEIGHT, _STEP), np.float64)
    for place, letter in enumerate(_ALPHABET[1:], start=1):
        dots[place, :, :LETTER_WIDTH] = [[dot == "#" for dot in row] for row in LETTERS[letter]]
    if blur > 0.2:
        dots = np.stack([cv2.GaussianBlur(one, (0, 0), blur, borderType=cv2.BORDER_CONSTANT) for one in dots])
    return dots.reshape(len(_ALPHABET), -1)


_GREY = 128.0
_TEXTURED = 0.06  # of the brightness, standard deviation beyond noise; blurred wood still has 0.1
_EXACT = 0.96  # fit above which no other outline is tried
_MIN_IMPROVEMENT = 0.02  # by which another outline has to fit better than the guessed one
_MAX_SQUARED_ERROR = 120.0**2  # squared grey levels; errors of single pixels are clipped here
_CROSS = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
_COLOUR_RGB = np.asarray([OBJECT_RGB[colour] for colour in COLOURS], np.float64)


Window = tuple[slice, slice]


@dataclass(frozen=True, slots=True)
class ObjectHypothesis:
    """An object as the pixels show it. fit: in [0, 1]. alpha, colour_map: size x size (x 3), its layer."""

    object: SceneObject
    fit: float
    alpha: Plane
    colour_map: Plane


class ObjectFitter:
    """An image with its backdrop known.

    labels: size x size, the index in COLOURS of the pigment that explains a pixel better than the backdrop, else -1.
    """

    def __init__(self, pixels: Plane, backdrop_fit: BackdropFit, grain: int) -> None:
        self.pixels, self.backdrop_fit, self.grain, self.size = pixels, backdrop_fit, grain, pixels.shape[0]
        self.blur = backdrop_fit.blur_sigma
        self.labels = self._labels()
        planes = [(self.labels == colour).astype(np.uint8) for colour in range(len(COLOURS))]
        self.inner = [cv2.erode(plane, _CROSS) > 0 for plane in planes]  # no rim, which blur mixes with the backdrop

    def _labels(self) -> NDArray[np.int64]:
        """Pigments may be darker, brighter or greyer: each spans a plane with grey, in which its pixels lie."""
        relit = (self.pixels / self.backdrop_fit.light[..., None]).reshape(-1, 3)
        distances = np.empty((len(_COLOUR_RGB), len(relit)))
        for number, pigment in enumerate(_COLOUR_RGB):
            span = np.stack([pigment, np.full(3, _GREY)])
            weights = relit @ np.linalg.pinv(span)
            weights[:, 0] = np.clip(weights[:, 0], 0.45, 1.25)
            weights[:, 1] = np.clip(weights[:, 1], 0.0, 0.35)
            distances[number] = np.linalg.norm(relit - weights @ span, axis=1)
        backdrop_distance = np.linalg.norm(
            (self.pixels - self.backdrop_fit.pixels) / self.backdrop_fit.light[..., None], axis=2
        ).ravel()
        best = distances.min(axis=0)
        certain = (
            (best < 0.7 * backdrop_distance)
            & (best < 30.0 + 2.5 * self.backdrop_fit.noise_sigma)
            & (backdrop_distance > 25.0 + 2.0 * self.backdrop_fit.noise_sigma)
        )
        return np.where(certain, distances.argmin(axis=0), -1).reshape(self.size, self.size)

    # -- one hypothesis -----------------------------------------------------------------------------------------------

    def _window(self, obj: SceneObject) -> Window:
        x0, y0 = (math.floor((at - long / 2) * self.size) - 3 for at, long in ((obj.x, obj.w), (obj.y, obj.h)))
        x1, y1 = (math.ceil((at + long / 2) * self.size) + 3 for at, long in ((obj.x, obj.w), (obj.y, obj.h)))
        return slice(max(y0, 0), max(y1, 1)), slice(max(x0, 0), max(x1, 1))

    def alpha(self, obj: SceneObject) -> Plane:
        return blurred(coverage(obj, self.size, self.grain), self.blur)

    def dominant_colour(self, obj: SceneObject, veil: Plane, least: float = 0.4) -> tuple[int, Plane] | None:
        """The pigment of most of an object's inside, and its mean colour in this light; None without one."""
        alpha = coverage(obj, self.size, self.grain)
        solid = (alpha > 0.95) & (veil > 0.9)
        if solid.sum() < 4:
            solid = (alpha > 0.5) & (veil > 0.5)
        if not solid.any():
            return None
        votes = np.bincount(self.labels[solid] + 1, minlength=len(COLOURS) + 1)
        colour = int(votes[1:].argmax())
        if votes[colour + 1] < (0.25 if obj.shape == SIGN else least) * solid.sum():
            return None
        own_pixels = solid & (self.labels == colour)
        inner = own_pixels & self.inner[colour]
        mean = self.pixels[inner if inner.sum() >= 4 else own_pixels].mean(axis=0)
        return (colour, mean) if mean.any() else None  # black is no pigment

    def _paper(self, sign: SceneObject) -> Plane:
        return coverage(
            enlarged_by(sign, -min(2 * self.grain / self.size, sign.w / 2, sign.h / 2)), self.size, self.grain
        )

    def expected_pixels(self, window: Window, mean: Plane, colour: int, plate: Plane | None) -> Plane:
        """The pixels of a window as an object of this colour shows them, with any texture or letters.

        plate: of a sign, where in the window its letters may be.
        """
        pixels = self.pixels[window]
        if plate is not None:
            shares = [(ink_share(pixels, np.broadcast_to(mean, pixels.shape), ink), ink) for ink in INK_RGB]
            share, ink = max(shares, key=lambda one: float((plate * (one[0] > 0.4)).sum()))
            share = np.minimum(share, 1.0) * (plate > 0.5)  # a bright backdrop is no ink
            return np.asarray(mean + share[..., None] * (np.asarray(INK_RGB[ink], np.float64) - mean))
        bright = (pixels @ mean) / float(mean @ mean)
        own_pixels = self.labels[window] == colour
        inner = bright[self.inner[colour][window]]
        if len(inner) < 6:
            inner = bright[own_pixels]
        if len(inner) == 0 or inner.std() < _TEXTURED + self.backdrop_fit.noise_sigma / float(np.linalg.norm(mean)):
            return np.asarray(np.broadcast_to(mean, pixels.shape))
        return np.asarray(np.where(own_pixels, np.clip(bright, 0.5, 1.35), 1.0)[..., None] * mean)

    def outline_trial(
        self, start: SceneObject, pigment: tuple[int, Plane], under: Plane, veil: Plane, *others: SceneObject
    ) -> OutlineTrial:
        """Compares outlines around an object (and others) of this pigment."""
        windows = [self._window(obj) for obj in (start, *others)]
        y, x = ([each[axis] for each in windows] for axis in (0, 1))
        window = (
            slice(min(axis_slice.start for axis_slice in y), max(axis_slice.stop for axis_slice in y)),
            slice(min(axis_slice.start for axis_slice in x), max(axis_slice.stop for axis_slice in x)),
        )
        plate = self._paper(start)[window] if start.shape == SIGN else None
        return OutlineTrial(
            self, window, self.expected_pixels(window, pigment[1], pigment[0], plate), under[window], veil[window]
        )

    def estimate_blur(self, objects: Sequence[tuple[SceneObject, Plane, Plane]]) -> None:
        """Choose the blur under which objects (each with the layers under and on it) fit best. Smooth backdrops hide
        it.
        """
        fits = [
            (obj, pigment, under, veil) for obj, under, veil in objects if (pigment := self.dominant_colour(obj, veil))
        ]

        trials = [(obj, self.outline_trial(obj, pigment, under, veil)) for obj, pigment, under, veil in fits]

        def fit(blur: float) -> float:
            self.blur = blur
            return sum(trial.fit(obj) for obj, trial in trials)

        self.blur = max(BLURS, key=fit)

    # -- a search -----------------------------------------------------------------------------------------------------

    def refine(self, obj: SceneObject, trial: OutlineTrial, *, sizes: bool) -> tuple[SceneObject, float]:
        """The nearby place (and with `sizes` the size) that fits best, by steps of 2, 1 and half a pixel."""
        fit = trial.fit(obj)
        for step in (2.0, 1.0, 0.5) if fit < 0.85 else (1.0, 0.5):
            for _ in range(4):
                if fit > 0.98:
                    return obj, fit
                step_size = step / self.size
                candidates = [
                    obj.moved_to(obj.x + dx, obj.y + dy)
                    for dx, dy in ((step_size, 0), (-step_size, 0), (0, step_size), (0, -step_size))
                ]
                if sizes and step < 2:
                    candidates += [
                        enlarged_by(obj, step_size),
                        *([enlarged_by(obj, -step_size)] if min(obj.w, obj.h) > 2 * step_size else []),
                    ]
                fits = [trial.fit(candidate) for candidate in candidates]
                best = int(np.argmax(fits))
                if fits[best] <= fit + 1e-4:
                    break
                obj, fit = candidates[best], fits[best]
        return obj, fit

    def fit_object(
        self, start: SceneObject, under: Plane, veil: Plane, texts: Sequence[str], *, sizes: bool = False,
        shapes: Iterable[str] = SHAPES,
    ) -> ObjectHypothesis | None:  # fmt: skip
        """The object at the place of `start`; None without one. texts: likely texts of a sign."""
        if start.shape == TEXT:
            return self.fit_text(start, under, texts, len(start.text))
        pigment = self.dominant_colour(start, veil)
        if pigment is None:
            return None
        boxed = self._boxed(start, pigment[0])
        trial = self.outline_trial(start, pigment, under, veil, boxed)
        obj, fit = self.refine(start, trial, sizes=sizes)
        if fit < _EXACT:
            places = [
                start,
                obj,
                boxed,
                enlarged_by(boxed, 2.0 / self.size),
            ]  # tips are too thin to be seen in its colour
            # A plate without letters is a square: `_lettered` decides that.
            outlines = [shape for shape in shapes if start.shape != SIGN or shape != "square"]
            others = [replace(candidate, shape=shape, text="") for shape in outlines for candidate in places]
            others += [boxed] if start.shape != SIGN else []
            if start.shape == SIGN:  # only plates have letters
                trial = self.outline_trial(replace(start, shape="square", text=""), pigment, under, veil, boxed)
            tries = [(trial.fit(candidate), candidate) for candidate in dict.fromkeys(others) if candidate != obj]
            for first, candidate in sorted(tries, key=lambda pair: -pair[0])[:3]:
                if first < fit - 0.2:
                    continue
                refined, better = self.refine(candidate, trial, sizes=True)
                if better > fit + (_MIN_IMPROVEMENT if obj.shape == start.shape != refined.shape else 0.0):
                    obj, fit = refined, better
        pigment = colour, mean = self.dominant_colour(obj, veil) or pigment
        obj = self._lettered(replace(obj, colour=COLOURS[colour]), mean, veil, texts)
        fit = self.outline_trial(obj, pigment, under, veil).fit(obj)
        alpha = self.alpha(obj)
        paint = np.broadcast_to(mean, self.pixels.shape).copy()
        window = self._window(obj)
        paint[window] = self.expected_pixels(
            window, mean, colour, self._paper(obj)[window] if obj.shape == SIGN else None
        )
        if obj.shape != SIGN:
            obj = replace(obj, material=self._material(obj, mean, colour, veil))
        through, _ = self._through(mean, obj.colour, alpha, under)
        if through > 0.25 and start.colour != obj.colour:  # what shines through may pass for another pigment
            obj = min(
                (obj, replace(obj, colour=start.colour)),
                key=lambda candidate: self._through(mean, candidate.colour, alpha, under)[1],
            )
            through, _ = self._through(mean, obj.colour, alpha, under)
        if through > 0.25:
            obj = replace(obj, opacity=round(1.0 - min(through, 0.9), 2))
        return ObjectHypothesis(obj, fit, alpha, paint)

    def _boxed(self, obj: SceneObject, colour: int) -> SceneObject:
        mask = cv2.morphologyEx((self.labels == colour).astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
        _, parts, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        inside = parts[(coverage(obj, self.size, self.grain) > 0.5) & (parts > 0)]
        if not len(inside):
            return obj
        x, y, w, h = (float(value) / self.size for value in stats[np.bincount(inside).argmax()][:4])
        return replace(obj, x=x + w / 2, y=y + h / 2, w=w, h=h)

    def fit_text(
        self, start: SceneObject, under: Plane, texts: Sequence[str], least: int = 1
    ) -> ObjectHypothesis | None:
        """Text without a plate around `start`, of at least `least` letters; None if there is none."""
        y, x = self._window(start)
        box = (x.start, y.start, min(x.stop, self.size), min(y.stop, self.size))
        text_fit = fit_text(self.pixels, under, np.ones_like(self.backdrop_fit.light), box, self.grain, texts)
        if text_fit is None or text_fit.fit < 0.4:
            return None
        w, h = (long / self.size for long in text_extent(text_fit.text, self.grain))
        at = (text_fit.x / self.size, text_fit.y / self.size)
        if text_fit.text != text_fit.text.strip() or len(text_fit.text) < least:  # its end lies elsewhere
            return None
        obj = SceneObject(start.id, TEXT, start.colour, *at, w, h, text=text_fit.text, ink=text_fit.ink)
        paint = np.broadcast_to(np.asarray(INK_RGB[text_fit.ink], np.float64), self.pixels.shape)
        return ObjectHypothesis(obj, text_fit.fit, self.alpha(obj), paint)

    def _lettered(self, obj: SceneObject, mean: Plane, veil: Plane, texts: Sequence[str]) -> SceneObject:
        if obj.shape not in (SIGN, "square"):
            return replace(obj, text="")
        x0, x1 = (round((obj.x + side * obj.w / 2) * self.size) for side in (-1, 1))
        y0, y1 = (round((obj.y + side * obj.h / 2) * self.size) for side in (-1, 1))
        box = (max(x0 + 1, 0), max(y0 + 1, 0), min(x1 - 1, self.size), min(y1 - 1, self.size))
        region = self.pixels[box[1] : box[3], box[0] : box[2]].reshape(-1, 3)
        if len(region) == 0:
            return replace(obj, shape="square", text="")
        spread = region.max(axis=1) - region.min(axis=1)  # ink is grey, and greys what it is blurred into
        paper = np.median(region[spread >= np.quantile(spread, 0.6)], axis=0) if obj.shape == SIGN else mean
        text_fit = fit_text(self.pixels, np.broadcast_to(paper, self.pixels.shape), veil, box, self.grain, texts)
        certain = text_fit is not None and (
            text_fit.fit > 0.5 if obj.shape == SIGN else text_fit.fit > 0.75 and len(text_fit.text) > 1
        )
        if text_fit is None or not certain or not text_fit.text.strip():
            return replace(obj, shape="square", text="")
        return replace(obj, shape=SIGN, text=text_fit.text, ink=text_fit.ink)

    # -- its surface --------------------------------------------------------------------------------------------------

    def _material(self, obj: SceneObject, mean: Plane, colour: int, veil: Plane) -> str:
        """By the share of the brightness's variance that a period of four grains explains, at any phase."""
        alpha = coverage(obj, self.size, self.grain)
        inside = (cv2.GaussianBlur(alpha, (0, 0), 0.8) > 0.9) & (veil > 0.95)
        if inside.sum() < 10:
            inside = (alpha > 0.95) & (veil > 0.95)
        if inside.sum() < 6:
            return obj.material
        bright = (
            (self.pixels @ mean) / float(mean @ mean) / self.backdrop_fit.light * self.backdrop_fit.light[inside].mean()
        )
        values = bright[inside]
        values = values - values.mean()
        beyond = float(values.var()) - (self.backdrop_fit.noise_sigma**2) / float(mean @ mean)
        if beyond < _TEXTURED**2:
            return ""
        y, x = np.nonzero(inside)
        shares = {}
        for material, along in (("wood", y), ("metal", x), ("fabric", x + y)):
            phase = 2 * np.pi * (along // self.grain) / 4
            waves = np.stack([np.cos(phase), np.sin(phase), np.ones(len(phase))], axis=1)
            left = values - waves @ np.linalg.lstsq(waves, values, rcond=None)[0]
            shares[material] = 1 - float(left @ left) / float(values @ values)
        cells = texture("stone", obj.id, self.size, self.grain)[inside]
        shares["stone"] = max(0.0, float(np.corrcoef(cells, values)[0, 1])) ** 2
        best = max(shares, key=lambda material: shares[material])
        return best if shares[best] > (0.5 if len(values) > 30 else 0.6) else "stone"

    def _through(self, mean: Plane, colour: str, alpha: Plane, under: Plane) -> tuple[float, float]:
        """The share of the background that shines through a pigment, and the residual in grey levels."""
        solid = alpha > 0.9
        if not solid.any():
            return 0.0, 0.0
        pigment = np.asarray(OBJECT_RGB[colour], np.float64) * self.backdrop_fit.light[solid].mean()
        span = np.stack([pigment, under[solid].mean(axis=0)], axis=1)
        parts = np.linalg.lstsq(span, mean, rcond=None)[0]
        return float(parts[1]), float(np.linalg.norm(span @ parts - mean))


class OutlineTrial:
    """Compares outlines in one window of an image, between the layers under and on them."""

    def __init__(self, fitter: ObjectFitter, window: Window, colour_map: Plane, under: Plane, veil: Plane) -> None:
        self.fitter, self.window, self.veil = fitter, window, veil
        gap, change = fitter.pixels[window] - under, colour_map - under
        self.nothing, self.both, self.all = (gap**2).sum(axis=2), (gap * change).sum(axis=2), (change**2).sum(axis=2)
        self.noise = 3 * fitter.backdrop_fit.noise_sigma**2
        self.total = max(1.0, float((veil * np.clip(self.nothing - self.noise, 0, _MAX_SQUARED_ERROR)).sum()))

    def fit(self, obj: SceneObject) -> float:
        """1 minus the share of the window that the object leaves unexplained, in [0, 1]."""
        alpha = self.fitter.alpha(obj)[self.window]
        residual = np.clip(
            self.nothing - alpha * (2 * self.both - alpha * self.all) - self.noise, 0, _MAX_SQUARED_ERROR
        )
        return max(0.0, 1 - float((self.veil * residual).sum()) / self.total)


def enlarged_by(obj: SceneObject, by: float) -> SceneObject:
    """The object, wider and higher by this share of the side."""
    return replace(obj, w=obj.w + by, h=obj.h + by)
