"""The truth for editors nobody has a recipe of: the scene graph that the pixels show.

Analysis by synthesis. Each thing of the guessed scene graphs is drawn at and around its places over the backdrop that
fits, and the residual decides what it is; what stays unexplained then becomes things that moved or that nobody guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from ...reward import Image
from .reidentify_backdrop import fit_behind
from .reidentify_thing import Claim, Sight, grown
from .render import Plane, coverage, put
from .scene import Light, Scene, Thing
from .words import COLOURS, SHAPES, SIGN, TEXT

_TRUSTED = 0.6  # a fit below this is doubtful
_SEEN = 0.35  # a fit below this is nothing that anybody could name
_SAME_LIGHT = 0.03  # share by which the gain may differ from the guessed one and be the same
_GHOSTLY = 0.75  # fit of a ghost; a smear of its colour has about 0.7
_FAINTEST = 0.1  # opacity of a ghost; below it is nothing
_SNAP = 1.3  # pixels within which a thing stands where it was guessed


@dataclass(frozen=True, slots=True)
class Found:
    """scene: what is there; ids are the guesses' ids, things that no guess holds have new ones.

    fits: id -> how well the pixels agree, in [0, 1]; of a guessed thing that is absent, how well they agree with that.
    new: ids that no guess holds. doubtful: ids, present or absent, with a low fit. backdrop: fit of the backdrop.
    Of the backdrop, drift is estimated and `drift_seed` says nothing; of the light, only the gain is looked at. A thing
    in whose place stands something else keeps its id there, unless a guess says what it is or it is found elsewhere.
    """

    scene: Scene
    fits: Mapping[int, float]
    new: tuple[int, ...]
    doubtful: tuple[int, ...]
    backdrop: float


def reidentify(picture: Image, *guesses: Scene) -> Found:
    """Find every thing of the guesses again in a picture, and what else is there.

    guesses: the scene graphs that are plausible, say the one before the edit and the one asked for; all of one size
    and grain. Raises ValueError without one, or where the sizes differ.
    """
    if not guesses:
        raise ValueError("reidentify needs at least one scene graph to start from")
    if any((guess.size, guess.grain) != (guesses[0].size, guesses[0].grain) for guess in guesses):
        raise ValueError("the guesses differ in size or grain: draw them alike")
    if picture.size != (guesses[0].size,) * 2:
        raise ValueError(f"the picture is {picture.width} x {picture.height}, the guesses {guesses[0].size} a side")
    return _Search(np.asarray(picture.pixels, np.float64), guesses).run()


class _Search:
    def __init__(self, pixels: Plane, guesses: tuple[Scene, ...]) -> None:
        self.pixels, self.size, self.grain = pixels, guesses[0].size, guesses[0].grain
        self.sight = Sight(pixels, fit_behind(pixels, guesses), self.grain)
        self.behind = self.sight.behind
        self.base = min(guesses, key=self._miss)
        things = [*self.base.things, *(thing for guess in guesses for thing in guess.things)]
        self.order = list(dict.fromkeys(thing.id for thing in things))
        self.variants = {
            number: list(dict.fromkeys(thing for thing in things if thing.id == number)) for number in self.order
        }
        self.texts = tuple(dict.fromkeys(thing.text for thing in things if thing.text))
        self.held: dict[int, Claim] = {thing.id: self._as_guessed(thing) for thing in self.base.things}

    def run(self) -> Found:
        claims: dict[int, Claim] = {}
        for turn in range(2):
            for number in reversed(self.order):
                if turn and number in claims and claims[number].fit > 0.9:
                    continue
                claim = self._claim(number)
                claims.pop(number, None)
                self.held.pop(number, None)
                if claim is not None and claim.fit >= _SEEN:
                    claims[number] = self.held[number] = claim
                good = [one.thing for one in claims.values() if one.fit > 0.6 and one.thing.shape in SHAPES]
                if turn == 0 and len(good) == 1 and claim is not None and good[0] == claim.thing:
                    self.sight.focus([(thing, *self._around(thing.id, thing)) for thing in good])
            if all(number in claims and claims[number].fit > 0.9 for number in self.order):
                break
        self.held = self._settled(claims)
        known = set(self.order)
        for claim in self._leftovers():
            self.held[claim.thing.id] = claim
        for number in self.order:
            if (ghost := self._ghost(number)) is not None:
                number = number if number not in self.held else max(*self.order, *self.held) + 1
                self.held[number] = replace(ghost, thing=replace(ghost.thing, id=number))
        fits = {number: claim.fit for number, claim in self.held.items()}
        explained = np.linalg.norm(self.pixels - self._composite(), axis=2)
        for number in known - set(self.held):
            fits[number] = self._absence(self.variants[number][0], explained)
        order = [*self.order, *(number for number in self.held if number not in known)]
        things = tuple(self._snapped(self.held[number].thing) for number in order if number in self.held)
        return Found(
            scene=replace(self.base, things=things, backdrop=self.behind.backdrop, light=self._light()),
            fits=fits,
            new=tuple(number for number in self.held if number not in known),
            doubtful=tuple(number for number in sorted(fits) if fits[number] < _TRUSTED),
            backdrop=self.behind.fit,
        )

    # -- where to start -----------------------------------------------------------------------------------------------

    def _miss(self, guess: Scene) -> float:
        plane = self.behind.plane / self.behind.light[..., None]
        for thing in guess.things:
            plane = put(plane, thing, self.grain)
        return float(np.abs(plane * self.behind.light[..., None] - self.pixels).mean())

    def _as_guessed(self, thing: Thing) -> Claim:
        plain = put(np.zeros_like(self.pixels), replace(thing, opacity=1.0), self.grain)
        alpha = coverage(thing, self.size, self.grain)
        paint = plain / np.maximum(alpha, 1e-6)[..., None] * self.behind.light[..., None]
        return Claim(thing, 0.0, self.sight.alpha(thing), paint)

    # -- the guessed things -------------------------------------------------------------------------------------------

    def _around(self, number: int, box: Thing) -> tuple[Plane, Plane]:
        """What lies under a thing, and which share of each pixel nothing lies on it; rivals for its place left out."""
        under, veil, below = self.behind.plane, np.ones((self.size, self.size)), True
        for other in [*self.order, *(one for one in self.held if one not in self.variants)]:
            if other == number:
                below = False
            elif (claim := self.held.get(other)) is not None and claim.thing.box.iou(box.box) < 0.4:
                if below:
                    under = under + claim.alpha[..., None] * (claim.paint - under)
                else:
                    veil = veil * (1 - claim.alpha)
        return under, veil

    def _claim(self, number: int) -> Claim | None:
        best: Claim | None = None
        for variant in self.variants[number]:
            if best is not None and best.fit > 0.9 and best.thing.box.iou(variant.box) > 0.7 and variant.shape != TEXT:
                continue  # it is about the same outline, which has been found
            claim = self.sight.claim(variant, *self._around(number, variant), self.texts)
            if claim is not None and (best is None or self._strange(claim) < self._strange(best)):
                best = claim
        return best

    def _strange(self, claim: Claim) -> float:
        """How unlike the guesses a claim is and how badly it fits: the less, the sooner it is believed."""
        thing = claim.thing
        unlike = min(
            (thing.shape != one.shape) + (thing.colour != one.colour) + (thing.text != one.text)
            for one in self.variants.get(thing.id, [thing])
        )
        return unlike + 1 - claim.fit

    def _settled(self, claims: dict[int, Claim]) -> dict[int, Claim]:
        """One thing a place, the least strange; what looks like a thing that is missing is that thing."""
        kept: dict[int, Claim] = {}
        for number, claim in sorted(claims.items(), key=lambda item: self._strange(item[1])):
            if not any(_overlap(claim.alpha, other.alpha) > 0.5 for other in kept.values()):
                kept[number] = claim
        for number, claim in list(kept.items()):
            if self._strange(claim) >= 1 and (other := self._missing(claim.thing, kept)) is not None:
                del kept[number]
                kept[other] = replace(claim, thing=replace(claim.thing, id=other))
        return kept

    def _missing(self, thing: Thing, kept: Mapping[int, Claim]) -> int | None:
        """The id of a guessed thing that was not found and looks like this one."""
        gone = [one for number in self.order if number not in kept for one in self.variants[number]]
        alike = [one for one in gone if one.like == thing.like] or [
            one for one in gone if (one.shape, one.colour) == (thing.shape, thing.colour) and one.shape != TEXT
        ]
        if thing.shape == TEXT:
            alike = alike or [one for one in gone if one.shape == TEXT]
        return min(alike, key=lambda one: abs(one.x - thing.x) + abs(one.y - thing.y)).id if alike else None

    # -- what else there is -------------------------------------------------------------------------------------------

    def _composite(self) -> Plane:
        plane = self.behind.plane
        for number in [*self.order, *(one for one in self.held if one not in self.variants)]:
            if (claim := self.held.get(number)) is not None:
                plane = plane + claim.alpha[..., None] * (claim.paint - plane)
        return plane

    def _leftovers(self) -> list[Claim]:
        found: list[Claim] = []
        under = self._composite()
        off = np.linalg.norm(self.pixels - under, axis=2) > max(45.0, 6.0 * self.behind.sigma)
        if not off.any():
            return found
        number = max(self.order, default=0) + 1
        kept = dict(self.held)
        for start in self._blobs(off):
            text = start.shape == TEXT
            claim = self.sight.claim_text(start, under, self.texts) if text else self._blob(start, under)
            guessed = claim is not None and (not text or claim.thing.text in self.texts)
            if claim is None or claim.fit < (0.5 if guessed else 0.7):
                continue
            if any(_overlap(claim.alpha, other.alpha) > 0.5 for other in kept.values()):
                continue
            own = self._missing(claim.thing, kept)
            claim = replace(claim, thing=replace(claim.thing, id=number if own is None else own))
            number += own is None
            kept[claim.thing.id] = claim
            found.append(claim)
            under = under + claim.alpha[..., None] * (claim.paint - under)
        return found

    def _ghost(self, number: int) -> Claim | None:
        """A thing where it was guessed but not found, so faint that its pigment is no longer told."""
        held = self.held.get(number)
        apart = [one for one in self.variants[number] if held is None or one.box.iou(held.thing.box) < 0.5]
        under = self._composite() if apart else self.pixels
        best: Claim | None = None
        for thing in apart:
            guessed = self._as_guessed(thing)
            gap, put = self.pixels - under, guessed.alpha[..., None] * (guessed.paint - under)
            opacity = float((gap * put).sum() / max(float((put**2).sum()), 1e-9))
            where = (
                cv2.dilate((guessed.alpha > 0.02).astype(np.uint8), np.ones((7, 7), np.uint8)) > 0
            )  # its edge counts
            noise = 3 * self.behind.sigma**2 * float(where.sum())
            left = float(((gap - opacity * put)[where] ** 2).sum()) - noise
            fit = 1 - max(left, 0.0) / max(float((gap[where] ** 2).sum()) - noise, 1.0)
            if _FAINTEST < opacity < 1 and fit > (_GHOSTLY if best is None else best.fit):
                best = Claim(replace(thing, opacity=round(opacity, 2)), fit, guessed.alpha * opacity, guessed.paint)
        return best

    def _blob(self, start: Thing, under: Plane) -> Claim | None:
        """The thing in a box, with the outline that fits best; sizes of missing things of this colour are tried too."""
        veil = np.ones((self.size, self.size))
        lost = [
            one.at(start.x, start.y)
            for number in self.order
            if number not in self.held
            for one in self.variants[number]
            if one.colour == start.colour and one.shape != TEXT
        ]
        starts = [*lost]
        for by in (0.0, 1.5, 3.0):  # tips are too thin to be seen in a thing's colour
            starts += [grown(replace(start, shape=shape), by / self.size) for shape in SHAPES]
        if (what := self.sight.pigment(start, veil, least=0.15)) is None:
            return None
        trial = self.sight.trial(start, what, under, veil)
        fits = [trial.fit(one) for one in starts]
        claims = [
            self.sight.claim(starts[place], under, veil, self.texts, sizes=True, shapes=())
            for place in sorted(range(len(starts)), key=lambda place: -fits[place])[:3]
        ]
        return max((claim for claim in claims if claim is not None), key=lambda claim: claim.fit, default=None)

    def _blobs(self, off: NDArray[np.bool_]) -> list[Thing]:
        """Boxes of unexplained pixels of one pigment, the largest first, then those of ink."""
        found = []
        least = max(5.0, (0.07 * self.size) ** 2)
        for place, colour in enumerate(COLOURS):
            mask = (off & (self.sight.labels == place)).astype(np.uint8)
            thick = cv2.erode(mask, np.ones((2, 2), np.uint8))
            if thick.sum() < least / 3:
                continue
            count, parts, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
            found += [
                (int(stats[part, 4]), self._start("square", colour, stats[part]))
                for part in range(1, count)
                if stats[part, 4] >= least and thick[parts == part].sum() >= least / 3
            ]
        found.sort(key=lambda one: -one[0])
        inky = (off & (self.sight.labels < 0)).astype(np.uint8)
        for claim in self.held.values():  # letters that have been read, however they are blurred
            if claim.thing.text:
                x0, y0, x1, y1 = claim.thing.box.corners((self.size, self.size))
                inky[max(y0 - 2, 0) : max(y1 + 3, 0), max(x0 - 2, 0) : max(x1 + 3, 0)] = 0
        if inky.sum() >= 6 * self.grain**2:
            joined = cv2.dilate(inky, np.ones((2 * self.grain + 1, 5 * self.grain + 1), np.uint8))
            count, _, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
            found += [(0, self._start(TEXT, "", stats[part])) for part in range(1, count)]
        return [thing for _, thing in found[:12]]

    def _start(self, shape: str, colour: str, stats: NDArray[np.int32]) -> Thing:
        x, y, w, h = (float(value) / self.size for value in stats[:4])
        return Thing(0, shape, colour, x + w / 2, y + h / 2, w, h, text="A" if shape == TEXT else "")

    def _light(self) -> Light:
        """As guessed, but for another gain where it is plainly another."""
        gain = float(self.behind.light.mean())
        same = abs(gain / self.base.light.gain - 1) < _SAME_LIGHT
        return self.base.light if same else replace(self.base.light, gain=round(gain, 3))

    def _absence(self, thing: Thing, explained: Plane) -> float:
        alpha = coverage(thing, self.size, self.grain)
        return float(1 - (alpha * np.minimum(explained, 80.0)).sum() / 80.0 / max(float(alpha.sum()), 1e-9))

    def _snapped(self, thing: Thing) -> Thing:
        """Where it was guessed, and as large, if it is that to about a pixel."""
        near = _SNAP / self.size
        for one in self.variants.get(thing.id, []):
            apart = max(abs(one.x - thing.x), abs(one.y - thing.y))
            sized = max(abs(one.w - thing.w), abs(one.h - thing.h)) < max(2 * near, 0.12 * one.w)
            if apart <= near and (sized or one.shape in (SIGN, TEXT)) and one.shape == thing.shape:
                if one.text == thing.text:
                    return replace(thing, x=one.x, y=one.y, w=one.w, h=one.h)
                return replace(thing, x=one.x, y=one.y)
        return thing


def _overlap(a: Plane, b: Plane) -> float:
    """Intersection over union of two coverages."""
    union = float(np.maximum(a, b).sum())
    return float(np.minimum(a, b).sum()) / union if union > 0 else 0.0
