"""How well one thing explains a part of a picture: its place, outline, colour and material by analysis by synthesis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from .reidentify_backdrop import BLURS, Behind, blurred
from .reidentify_letters import ink_share, read
from .render import INKS, PIGMENTS, Plane, coverage, texture
from .scene import Thing, written_size
from .words import COLOURS, SHAPES, SIGN, TEXT

_GREY = 128.0
_TEXTURED = 0.06  # of the brightness, standard deviation beyond noise; blurred wood still has 0.1
_EXACT = 0.96  # a fit above which no other outline is tried
_WORTH = 0.02  # by how much another outline has to fit better than the guessed one
_GROSS = 120.0**2  # squared grey levels; a pixel that is further off is just wrong
_CROSS = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
_PIGMENTS = np.asarray([PIGMENTS[colour] for colour in COLOURS], np.float64)


Window = tuple[slice, slice]


@dataclass(frozen=True, slots=True)
class Claim:
    """A thing as the pixels show it. fit: in [0, 1]. alpha, paint: size x size (x 3), what it puts over the picture."""

    thing: Thing
    fit: float
    alpha: Plane
    paint: Plane


class Sight:
    """A picture with its backdrop known.

    labels: size x size, the index in COLOURS of the pigment that explains a pixel better than the backdrop, else -1.
    """

    def __init__(self, pixels: Plane, behind: Behind, grain: int) -> None:
        self.pixels, self.behind, self.grain, self.size = pixels, behind, grain, pixels.shape[0]
        self.blur = behind.blur
        self.labels = self._labels()
        planes = [(self.labels == colour).astype(np.uint8) for colour in range(len(COLOURS))]
        self.inner = [cv2.erode(plane, _CROSS) > 0 for plane in planes]  # no rim, which blur mixes with the backdrop

    def _labels(self) -> NDArray[np.int64]:
        """Pigments may be darker, brighter or mixed with grey: each spans a plane with grey that pixels may lie in."""
        seen = (self.pixels / self.behind.light[..., None]).reshape(-1, 3)
        away = np.empty((len(_PIGMENTS), len(seen)))
        for number, pigment in enumerate(_PIGMENTS):
            span = np.stack([pigment, np.full(3, _GREY)])
            parts = seen @ np.linalg.pinv(span)
            parts[:, 0] = np.clip(parts[:, 0], 0.45, 1.25)
            parts[:, 1] = np.clip(parts[:, 1], 0.0, 0.35)
            away[number] = np.linalg.norm(seen - parts @ span, axis=1)
        blank = np.linalg.norm((self.pixels - self.behind.plane) / self.behind.light[..., None], axis=2).ravel()
        best = away.min(axis=0)
        sure = (best < 0.7 * blank) & (best < 30.0 + 2.5 * self.behind.sigma) & (blank > 25.0 + 2.0 * self.behind.sigma)
        return np.where(sure, away.argmin(axis=0), -1).reshape(self.size, self.size)

    # -- one hypothesis -----------------------------------------------------------------------------------------------

    def _window(self, thing: Thing) -> Window:
        x0, y0 = (math.floor((at - long / 2) * self.size) - 3 for at, long in ((thing.x, thing.w), (thing.y, thing.h)))
        x1, y1 = (math.ceil((at + long / 2) * self.size) + 3 for at, long in ((thing.x, thing.w), (thing.y, thing.h)))
        return slice(max(y0, 0), max(y1, 1)), slice(max(x0, 0), max(x1, 1))

    def alpha(self, thing: Thing) -> Plane:
        return blurred(coverage(thing, self.size, self.grain), self.blur)

    def pigment(self, thing: Thing, veil: Plane, least: float = 0.4) -> tuple[int, Plane] | None:
        """The pigment that most of a thing's inside shows, and its mean colour in this light; None if none does."""
        alpha = coverage(thing, self.size, self.grain)
        solid = (alpha > 0.95) & (veil > 0.9)
        if solid.sum() < 4:
            solid = (alpha > 0.5) & (veil > 0.5)
        if not solid.any():
            return None
        votes = np.bincount(self.labels[solid] + 1, minlength=len(COLOURS) + 1)
        colour = int(votes[1:].argmax())
        if votes[colour + 1] < (0.25 if thing.shape == SIGN else least) * solid.sum():
            return None
        own = solid & (self.labels == colour)
        inner = own & self.inner[colour]
        mean = self.pixels[inner if inner.sum() >= 4 else own].mean(axis=0)
        return (colour, mean) if mean.any() else None  # black is nobody's pigment

    def _paper(self, sign: Thing) -> Plane:
        """The inside of a plate, without a margin of one grain."""
        return coverage(grown(sign, -min(2 * self.grain / self.size, sign.w / 2, sign.h / 2)), self.size, self.grain)

    def painted(self, where: Window, mean: Plane, colour: int, plate: Plane | None) -> Plane:
        """What a thing of this colour shows at each pixel of a window, whatever its texture or letters are.

        plate: of a sign, where in the window its letters may be.
        """
        pixels = self.pixels[where]
        if plate is not None:
            shares = [(ink_share(pixels, np.broadcast_to(mean, pixels.shape), ink), ink) for ink in INKS]
            share, ink = max(shares, key=lambda one: float((plate * (one[0] > 0.4)).sum()))
            share = np.minimum(share, 1.0) * (plate > 0.5)  # a bright backdrop is no ink
            return np.asarray(mean + share[..., None] * (np.asarray(INKS[ink], np.float64) - mean))
        bright = (pixels @ mean) / float(mean @ mean)
        own = self.labels[where] == colour
        inner = bright[self.inner[colour][where]]
        if len(inner) < 6:
            inner = bright[own]
        if len(inner) == 0 or inner.std() < _TEXTURED + self.behind.sigma / float(np.linalg.norm(mean)):
            return np.asarray(np.broadcast_to(mean, pixels.shape))
        return np.asarray(np.where(own, np.clip(bright, 0.5, 1.35), 1.0)[..., None] * mean)

    def trial(self, start: Thing, what: tuple[int, Plane], under: Plane, veil: Plane, *others: Thing) -> Trial:
        """Of outlines around a thing (and others) that show this pigment."""
        windows = [self._window(thing) for thing in (start, *others)]
        y, x = ([window[axis] for window in windows] for axis in (0, 1))
        where = (
            slice(min(one.start for one in y), max(one.stop for one in y)),
            slice(min(one.start for one in x), max(one.stop for one in x)),
        )
        plate = self._paper(start)[where] if start.shape == SIGN else None
        return Trial(self, where, self.painted(where, what[1], what[0], plate), under[where], veil[where])

    def focus(self, things: Sequence[tuple[Thing, Plane, Plane]]) -> None:
        """Take the blur under which things (each with what lies under and on it) fit best: smooth backdrops hide it."""
        known = [(thing, what, under, veil) for thing, under, veil in things if (what := self.pigment(thing, veil))]

        trials = [(thing, self.trial(thing, what, under, veil)) for thing, what, under, veil in known]

        def fit(blur: float) -> float:
            self.blur = blur
            return sum(trial.fit(thing) for thing, trial in trials)

        self.blur = max(BLURS, key=fit)

    # -- a search -----------------------------------------------------------------------------------------------------

    def settle(self, thing: Thing, trial: Trial, *, sizes: bool) -> tuple[Thing, float]:
        """The place nearby (and the size, if asked) that fits best, by steps of 2, 1 and half a pixel."""
        fit = trial.fit(thing)
        for step in (2.0, 1.0, 0.5) if fit < 0.85 else (1.0, 0.5):
            for _ in range(4):
                if fit > 0.98:
                    return thing, fit
                by = step / self.size
                near = [thing.at(thing.x + dx, thing.y + dy) for dx, dy in ((by, 0), (-by, 0), (0, by), (0, -by))]
                if sizes and step < 2:
                    near += [grown(thing, by), *([grown(thing, -by)] if min(thing.w, thing.h) > 2 * by else [])]
                fits = [trial.fit(one) for one in near]
                best = int(np.argmax(fits))
                if fits[best] <= fit + 1e-4:
                    break
                thing, fit = near[best], fits[best]
        return thing, fit

    def claim(
        self, start: Thing, under: Plane, veil: Plane, texts: Sequence[str], *, sizes: bool = False,
        shapes: Iterable[str] = SHAPES,
    ) -> Claim | None:  # fmt: skip
        """What stands where `start` does; None if nothing does. texts: what a sign may well say."""
        if start.shape == TEXT:
            return self.claim_text(start, under, texts, len(start.text))
        what = self.pigment(start, veil)
        if what is None:
            return None
        boxed = self._boxed(start, what[0])
        trial = self.trial(start, what, under, veil, boxed)
        thing, fit = self.settle(start, trial, sizes=sizes)
        if fit < _EXACT:
            places = [start, thing, boxed, grown(boxed, 2.0 / self.size)]  # tips are too thin to be seen in its colour
            # A plate without letters is a square: that is left to whoever reads it.
            outlines = [shape for shape in shapes if start.shape != SIGN or shape != "square"]
            others = [replace(one, shape=shape, text="") for shape in outlines for one in places]
            others += [boxed] if start.shape != SIGN else []
            if start.shape == SIGN:  # what has another outline has no letters on it either
                trial = self.trial(replace(start, shape="square", text=""), what, under, veil, boxed)
            tries = [(trial.fit(one), one) for one in dict.fromkeys(others) if one != thing]
            for first, one in sorted(tries, key=lambda pair: -pair[0])[:3]:
                if first < fit - 0.2:
                    continue
                other, better = self.settle(one, trial, sizes=True)
                if better > fit + (_WORTH if thing.shape == start.shape != other.shape else 0.0):
                    thing, fit = other, better
        what = colour, mean = self.pigment(thing, veil) or what
        thing = self._lettered(replace(thing, colour=COLOURS[colour]), mean, veil, texts)
        fit = self.trial(thing, what, under, veil).fit(thing)
        alpha = self.alpha(thing)
        paint = np.broadcast_to(mean, self.pixels.shape).copy()
        where = self._window(thing)
        paint[where] = self.painted(where, mean, colour, self._paper(thing)[where] if thing.shape == SIGN else None)
        if thing.shape != SIGN:
            thing = replace(thing, material=self._material(thing, mean, colour, veil))
        through, _ = self._through(mean, thing.colour, alpha, under)
        if through > 0.25 and start.colour != thing.colour:  # what shines through may pass for another pigment
            thing = min(
                (thing, replace(thing, colour=start.colour)),
                key=lambda one: self._through(mean, one.colour, alpha, under)[1],
            )
            through, _ = self._through(mean, thing.colour, alpha, under)
        if through > 0.25:
            thing = replace(thing, opacity=round(1.0 - min(through, 0.9), 2))
        return Claim(thing, fit, alpha, paint)

    def _boxed(self, thing: Thing, colour: int) -> Thing:
        """The thing in the box of those pixels of its colour that hang together with it."""
        mask = cv2.morphologyEx((self.labels == colour).astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
        _, parts, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        inside = parts[(coverage(thing, self.size, self.grain) > 0.5) & (parts > 0)]
        if not len(inside):
            return thing
        x, y, w, h = (float(value) / self.size for value in stats[np.bincount(inside).argmax()][:4])
        return replace(thing, x=x + w / 2, y=y + h / 2, w=w, h=h)

    def claim_text(self, start: Thing, under: Plane, texts: Sequence[str], least: int = 1) -> Claim | None:
        """What is written around there without a plate, in at least so many letters; None if nothing is."""
        y, x = self._window(start)
        box = (x.start, y.start, min(x.stop, self.size), min(y.stop, self.size))
        seen = read(self.pixels, under, np.ones_like(self.behind.light), box, self.grain, texts)
        if seen is None or seen.fit < 0.4:
            return None
        w, h = (long / self.size for long in written_size(seen.text, self.grain))
        at = (seen.x / self.size, seen.y / self.size)
        if seen.text != seen.text.strip() or len(seen.text) < least:  # its end lies elsewhere
            return None
        thing = Thing(start.id, TEXT, start.colour, *at, w, h, text=seen.text, ink=seen.ink)
        paint = np.broadcast_to(np.asarray(INKS[seen.ink], np.float64), self.pixels.shape)
        return Claim(thing, seen.fit, self.alpha(thing), paint)

    def _lettered(self, thing: Thing, mean: Plane, veil: Plane, texts: Sequence[str]) -> Thing:
        """The plate with what is written on it; a square where nothing is."""
        if thing.shape not in (SIGN, "square"):
            return replace(thing, text="")
        x0, x1 = (round((thing.x + side * thing.w / 2) * self.size) for side in (-1, 1))
        y0, y1 = (round((thing.y + side * thing.h / 2) * self.size) for side in (-1, 1))
        box = (max(x0 + 1, 0), max(y0 + 1, 0), min(x1 - 1, self.size), min(y1 - 1, self.size))
        part = self.pixels[box[1] : box[3], box[0] : box[2]].reshape(-1, 3)
        if len(part) == 0:
            return replace(thing, shape="square", text="")
        spread = part.max(axis=1) - part.min(axis=1)  # ink is grey, and greys what it is blurred into
        paper = np.median(part[spread >= np.quantile(spread, 0.6)], axis=0) if thing.shape == SIGN else mean
        seen = read(self.pixels, np.broadcast_to(paper, self.pixels.shape), veil, box, self.grain, texts)
        sure = seen is not None and (seen.fit > 0.5 if thing.shape == SIGN else seen.fit > 0.75 and len(seen.text) > 1)
        if seen is None or not sure or not seen.text.strip():
            return replace(thing, shape="square", text="")
        return replace(thing, shape=SIGN, text=seen.text, ink=seen.ink)

    # -- its surface --------------------------------------------------------------------------------------------------

    def _material(self, thing: Thing, mean: Plane, colour: int, veil: Plane) -> str:
        """By the share of the brightness's variance that a period of four grains explains, at any phase."""
        alpha = coverage(thing, self.size, self.grain)
        inside = (cv2.GaussianBlur(alpha, (0, 0), 0.8) > 0.9) & (veil > 0.95)
        if inside.sum() < 10:
            inside = (alpha > 0.95) & (veil > 0.95)
        if inside.sum() < 6:
            return thing.material
        bright = (self.pixels @ mean) / float(mean @ mean) / self.behind.light * self.behind.light[inside].mean()
        values = bright[inside]
        values = values - values.mean()
        beyond = float(values.var()) - (self.behind.sigma**2) / float(mean @ mean)
        if beyond < _TEXTURED**2:
            return ""
        y, x = np.nonzero(inside)
        shares = {}
        for material, along in (("wood", y), ("metal", x), ("fabric", x + y)):
            phase = 2 * np.pi * (along // self.grain) / 4
            waves = np.stack([np.cos(phase), np.sin(phase), np.ones(len(phase))], axis=1)
            left = values - waves @ np.linalg.lstsq(waves, values, rcond=None)[0]
            shares[material] = 1 - float(left @ left) / float(values @ values)
        cells = texture("stone", thing.id, self.size, self.grain)[inside]
        shares["stone"] = max(0.0, float(np.corrcoef(cells, values)[0, 1])) ** 2
        best = max(shares, key=lambda material: shares[material])
        return best if shares[best] > (0.5 if len(values) > 30 else 0.6) else "stone"

    def _through(self, mean: Plane, colour: str, alpha: Plane, under: Plane) -> tuple[float, float]:
        """Which share of what lies behind a pigment shines through, and the grey levels left without an explanation."""
        solid = alpha > 0.9
        if not solid.any():
            return 0.0, 0.0
        pigment = np.asarray(PIGMENTS[colour], np.float64) * self.behind.light[solid].mean()
        span = np.stack([pigment, under[solid].mean(axis=0)], axis=1)
        parts = np.linalg.lstsq(span, mean, rcond=None)[0]
        return float(parts[1]), float(np.linalg.norm(span @ parts - mean))


class Trial:
    """Outlines compared on one window of a picture, over what lies under them and below what lies on them."""

    def __init__(self, sight: Sight, where: Window, paint: Plane, under: Plane, veil: Plane) -> None:
        self.sight, self.where, self.veil = sight, where, veil
        gap, put = sight.pixels[where] - under, paint - under
        self.nothing, self.both, self.all = (gap**2).sum(axis=2), (gap * put).sum(axis=2), (put**2).sum(axis=2)
        self.noise = 3 * sight.behind.sigma**2
        self.whole = max(1.0, float((veil * np.clip(self.nothing - self.noise, 0, _GROSS)).sum()))

    def fit(self, thing: Thing) -> float:
        """1 minus the share of what is in the window that the thing leaves unexplained, in [0, 1]."""
        alpha = self.sight.alpha(thing)[self.where]
        left = np.clip(self.nothing - alpha * (2 * self.both - alpha * self.all) - self.noise, 0, _GROSS)
        return max(0.0, 1 - float((self.veil * left).sum()) / self.whole)


def grown(thing: Thing, by: float) -> Thing:
    """As much wider and higher."""
    return replace(thing, w=thing.w + by, h=thing.h + by)
