"""Recovers the scene graph from pixels: the ground truth for editors without a recipe.

Analysis by synthesis. Each object of the guessed scene graphs is rendered at and around its places over the fitted
backdrop, and the residual decides what it is. Unexplained pixels become objects that moved or that no guess holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from ...reward import Image
from .backdrop_fitting import fit_backdrop
from .object_fitting import ObjectFitter, ObjectHypothesis, enlarged_by
from .render import Plane, composite, coverage
from .scene_graph import Light, Scene, SceneObject
from .vocabulary import COLOURS, SHAPES, SIGN, TEXT

_CONFIDENT_FIT = 0.6  # a fit below this is uncertain
_MIN_FIT = 0.35  # a fit below this counts as absence
_GAIN_TOLERANCE = 0.03  # relative difference from the guessed gain that counts as equal
_GHOST_FIT = 0.75  # fit of a ghost; a smear of its colour has about 0.7
_MIN_GHOST_OPACITY = 0.1
_SNAP_PIXELS = 1.3  # an object this near to a guessed place is put there


@dataclass(frozen=True, slots=True)
class RecoveredScene:
    """scene: what the image shows, with the guesses' ids; objects that no guess holds have new ones.

    fit_by_id: id -> how well the pixels agree, in [0, 1]; of an absent object, how well they agree with its absence.
    new_ids: ids that no guess holds. uncertain_ids: ids, present or absent, with a low fit. backdrop_fit: fit of the
    backdrop. The backdrop's drift is estimated, its `drift_seed` is meaningless; of the light, only the gain is
    estimated. An object that replaces another at its place has that one's id, unless a guess matches it or the other
    one is detected elsewhere.
    """

    scene: Scene
    fit_by_id: Mapping[int, float]
    new_ids: tuple[int, ...]
    uncertain_ids: tuple[int, ...]
    backdrop_fit: float


def recover_scene(picture: Image, *guesses: Scene) -> RecoveredScene:
    """Detect every object of the guesses in an image, and others.

    Args:
        guesses: Plausible scene graphs, such as the one before the edit and the requested one; all of one size and
            grain.

    Raises:
        ValueError: Without one, or where the sizes differ.
    """
    if not guesses:
        raise ValueError("recover_scene needs at least one scene graph to start from")
    if any((guess.size, guess.grain) != (guesses[0].size, guesses[0].grain) for guess in guesses):
        raise ValueError("the guesses differ in size or grain: pass scenes of one size and grain")
    if picture.size != (guesses[0].size,) * 2:
        raise ValueError(f"the image is {picture.width} x {picture.height}, the guesses {guesses[0].size} a side")
    return _SceneSearch(np.asarray(picture.pixels, np.float64), guesses).run()


class _SceneSearch:
    def __init__(self, pixels: Plane, guesses: tuple[Scene, ...]) -> None:
        self.pixels, self.size, self.grain = pixels, guesses[0].size, guesses[0].grain
        self.sight = ObjectFitter(pixels, fit_backdrop(pixels, guesses), self.grain)
        self.behind = self.sight.backdrop_fit
        self.base = min(guesses, key=self._miss)
        objects = [*self.base.objects, *(obj for guess in guesses for obj in guess.objects)]
        self.order = list(dict.fromkeys(obj.id for obj in objects))
        self.variants = {
            number: list(dict.fromkeys(obj for obj in objects if obj.id == number)) for number in self.order
        }
        self.texts = tuple(dict.fromkeys(obj.text for obj in objects if obj.text))
        self.held: dict[int, ObjectHypothesis] = {obj.id: self._as_guessed(obj) for obj in self.base.objects}

    def run(self) -> RecoveredScene:
        claims: dict[int, ObjectHypothesis] = {}
        for iteration in range(2):
            for number in reversed(self.order):
                if iteration and number in claims and claims[number].fit > 0.9:
                    continue
                claim = self._claim(number)
                claims.pop(number, None)
                self.held.pop(number, None)
                if claim is not None and claim.fit >= _MIN_FIT:
                    claims[number] = self.held[number] = claim
                confident = [one.object for one in claims.values() if one.fit > 0.6 and one.object.shape in SHAPES]
                if iteration == 0 and len(confident) == 1 and claim is not None and confident[0] == claim.object:
                    self.sight.estimate_blur([(obj, *self._around(obj.id, obj)) for obj in confident])
            if all(number in claims and claims[number].fit > 0.9 for number in self.order):
                break
        self.held = self._settled(claims)
        guessed_ids = set(self.order)
        for claim in self._leftovers():
            self.held[claim.object.id] = claim
        for number in self.order:
            if (ghost := self._ghost(number)) is not None:
                number = number if number not in self.held else max(*self.order, *self.held) + 1
                self.held[number] = replace(ghost, object=replace(ghost.object, id=number))
        fits = {number: claim.fit for number, claim in self.held.items()}
        explained = np.linalg.norm(self.pixels - self._composite(), axis=2)
        for number in guessed_ids - set(self.held):
            fits[number] = self._absence(self.variants[number][0], explained)
        order = [*self.order, *(number for number in self.held if number not in guessed_ids)]
        objects = tuple(self._snapped(self.held[number].object) for number in order if number in self.held)
        return RecoveredScene(
            scene=replace(self.base, objects=objects, backdrop=self.behind.backdrop, light=self._light()),
            fit_by_id=fits,
            new_ids=tuple(number for number in self.held if number not in guessed_ids),
            uncertain_ids=tuple(number for number in sorted(fits) if fits[number] < _CONFIDENT_FIT),
            backdrop_fit=self.behind.fit,
        )

    # -- initialisation -----------------------------------------------------------------------------------------------

    def _miss(self, guess: Scene) -> float:
        plane = self.behind.pixels / self.behind.light[..., None]
        for obj in guess.objects:
            plane = composite(plane, obj, self.grain)
        return float(np.abs(plane * self.behind.light[..., None] - self.pixels).mean())

    def _as_guessed(self, obj: SceneObject) -> ObjectHypothesis:
        plain = composite(np.zeros_like(self.pixels), replace(obj, opacity=1.0), self.grain)
        alpha = coverage(obj, self.size, self.grain)
        paint = plain / np.maximum(alpha, 1e-6)[..., None] * self.behind.light[..., None]
        return ObjectHypothesis(obj, 0.0, self.sight.alpha(obj), paint)

    # -- the guessed objects -------------------------------------------------------------------------------------------

    def _around(self, number: int, box: SceneObject) -> tuple[Plane, Plane]:
        """The layers under an object, and the share of each pixel not covered by layers on it; without rivals."""
        under, veil, below = self.behind.pixels, np.ones((self.size, self.size)), True
        for other_id in [*self.order, *(number_held for number_held in self.held if number_held not in self.variants)]:
            if other_id == number:
                below = False
            elif (claim := self.held.get(other_id)) is not None and claim.object.box.iou(box.box) < 0.4:
                if below:
                    under = under + claim.alpha[..., None] * (claim.colour_map - under)
                else:
                    veil = veil * (1 - claim.alpha)
        return under, veil

    def _claim(self, number: int) -> ObjectHypothesis | None:
        best: ObjectHypothesis | None = None
        for variant in self.variants[number]:
            if best is not None and best.fit > 0.9 and best.object.box.iou(variant.box) > 0.7 and variant.shape != TEXT:
                continue  # about the same outline, which fits already
            claim = self.sight.fit_object(variant, *self._around(number, variant), self.texts)
            if claim is not None and (best is None or self._strange(claim) < self._strange(best)):
                best = claim
        return best

    def _strange(self, claim: ObjectHypothesis) -> float:
        """How much a hypothesis differs from the guesses, plus its misfit: the lowest value wins."""
        obj = claim.object
        unlike = min(
            (obj.shape != variant.shape) + (obj.colour != variant.colour) + (obj.text != variant.text)
            for variant in self.variants.get(obj.id, [obj])
        )
        return unlike + 1 - claim.fit

    def _settled(self, claims: dict[int, ObjectHypothesis]) -> dict[int, ObjectHypothesis]:
        """One object per place, the least strange; an object that looks like a missing one takes its id."""
        accepted: dict[int, ObjectHypothesis] = {}
        for number, claim in sorted(claims.items(), key=lambda item: self._strange(item[1])):
            if not any(_overlap(claim.alpha, other_id.alpha) > 0.5 for other_id in accepted.values()):
                accepted[number] = claim
        for number, claim in list(accepted.items()):
            if self._strange(claim) >= 1 and (other_id := self._missing(claim.object, accepted)) is not None:
                del accepted[number]
                accepted[other_id] = replace(claim, object=replace(claim.object, id=other_id))
        return accepted

    def _missing(self, obj: SceneObject, accepted: Mapping[int, ObjectHypothesis]) -> int | None:
        missing = [one for number in self.order if number not in accepted for one in self.variants[number]]
        similar = [one for one in missing if one.appearance == obj.appearance] or [
            one for one in missing if (one.shape, one.colour) == (obj.shape, obj.colour) and one.shape != TEXT
        ]
        if obj.shape == TEXT:
            similar = similar or [one for one in missing if one.shape == TEXT]
        return min(similar, key=lambda one: abs(one.x - obj.x) + abs(one.y - obj.y)).id if similar else None

    # -- other objects ------------------------------------------------------------------------------------------------

    def _composite(self) -> Plane:
        plane = self.behind.pixels
        for number in [*self.order, *(number_held for number_held in self.held if number_held not in self.variants)]:
            if (claim := self.held.get(number)) is not None:
                plane = plane + claim.alpha[..., None] * (claim.colour_map - plane)
        return plane

    def _leftovers(self) -> list[ObjectHypothesis]:
        hypotheses: list[ObjectHypothesis] = []
        under = self._composite()
        unexplained = np.linalg.norm(self.pixels - under, axis=2) > max(45.0, 6.0 * self.behind.noise_sigma)
        if not unexplained.any():
            return hypotheses
        number = max(self.order, default=0) + 1
        accepted = dict(self.held)
        for start in self._blobs(unexplained):
            text = start.shape == TEXT
            claim = self.sight.fit_text(start, under, self.texts) if text else self._blob(start, under)
            guessed = claim is not None and (not text or claim.object.text in self.texts)
            if claim is None or claim.fit < (0.5 if guessed else 0.7):
                continue
            if any(_overlap(claim.alpha, other.alpha) > 0.5 for other in accepted.values()):
                continue
            missing_id = self._missing(claim.object, accepted)
            claim = replace(claim, object=replace(claim.object, id=number if missing_id is None else missing_id))
            number += missing_id is None
            accepted[claim.object.id] = claim
            hypotheses.append(claim)
            under = under + claim.alpha[..., None] * (claim.colour_map - under)
        return hypotheses

    def _ghost(self, number: int) -> ObjectHypothesis | None:
        """An object at a guessed place, too faint for its pigment to be recognised."""
        hypothesis = self.held.get(number)
        candidates = [
            one for one in self.variants[number] if hypothesis is None or one.box.iou(hypothesis.object.box) < 0.5
        ]
        under = self._composite() if candidates else self.pixels
        best: ObjectHypothesis | None = None
        for obj in candidates:
            guessed = self._as_guessed(obj)
            difference, change = self.pixels - under, guessed.alpha[..., None] * (guessed.colour_map - under)
            opacity = float((difference * change).sum() / max(float((change**2).sum()), 1e-9))
            region = (
                cv2.dilate((guessed.alpha > 0.02).astype(np.uint8), np.ones((7, 7), np.uint8)) > 0
            )  # its edge counts
            noise = 3 * self.behind.noise_sigma**2 * float(region.sum())
            residual = float(((difference - opacity * change)[region] ** 2).sum()) - noise
            fit = 1 - max(residual, 0.0) / max(float((difference[region] ** 2).sum()) - noise, 1.0)
            if _MIN_GHOST_OPACITY < opacity < 1 and fit > (_GHOST_FIT if best is None else best.fit):
                best = ObjectHypothesis(
                    replace(obj, opacity=round(opacity, 2)), fit, guessed.alpha * opacity, guessed.colour_map
                )
        return best

    def _blob(self, start: SceneObject, under: Plane) -> ObjectHypothesis | None:
        """The object in a box, with the outline that fits best; sizes of missing objects of this colour count too."""
        veil = np.ones((self.size, self.size))
        missing = [
            one.moved_to(start.x, start.y)
            for number in self.order
            if number not in self.held
            for one in self.variants[number]
            if one.colour == start.colour and one.shape != TEXT
        ]
        starts = [*missing]
        for margin in (0.0, 1.5, 3.0):  # tips are too thin to be seen in an object's colour
            starts += [enlarged_by(replace(start, shape=shape), margin / self.size) for shape in SHAPES]
        if (pigment := self.sight.dominant_colour(start, veil, least=0.15)) is None:
            return None
        trial = self.sight.outline_trial(start, pigment, under, veil)
        fits = [trial.fit(one) for one in starts]
        claims = [
            self.sight.fit_object(starts[index], under, veil, self.texts, sizes=True, shapes=())
            for index in sorted(range(len(starts)), key=lambda index: -fits[index])[:3]
        ]
        return max((claim for claim in claims if claim is not None), key=lambda claim: claim.fit, default=None)

    def _blobs(self, unexplained: NDArray[np.bool_]) -> list[SceneObject]:
        """Boxes of unexplained pixels of one pigment, the largest first, then of ink."""
        boxes = []
        min_area = max(5.0, (0.07 * self.size) ** 2)
        for index, colour in enumerate(COLOURS):
            mask = (unexplained & (self.sight.labels == index)).astype(np.uint8)
            thick = cv2.erode(mask, np.ones((2, 2), np.uint8))
            if thick.sum() < min_area / 3:
                continue
            count, parts, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
            boxes += [
                (int(stats[part, 4]), self._start("square", colour, stats[part]))
                for part in range(1, count)
                if stats[part, 4] >= min_area and thick[parts == part].sum() >= min_area / 3
            ]
        boxes.sort(key=lambda one: -one[0])
        inky = (unexplained & (self.sight.labels < 0)).astype(np.uint8)
        for claim in self.held.values():  # letters that have been read, however they are blurred
            if claim.object.text:
                x0, y0, x1, y1 = claim.object.box.corners((self.size, self.size))
                inky[max(y0 - 2, 0) : max(y1 + 3, 0), max(x0 - 2, 0) : max(x1 + 3, 0)] = 0
        if inky.sum() >= 6 * self.grain**2:
            joined = cv2.dilate(inky, np.ones((2 * self.grain + 1, 5 * self.grain + 1), np.uint8))
            count, _, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
            boxes += [(0, self._start(TEXT, "", stats[part])) for part in range(1, count)]
        return [obj for _, obj in boxes[:12]]

    def _start(self, shape: str, colour: str, stats: NDArray[np.int32]) -> SceneObject:
        x, y, w, h = (float(value) / self.size for value in stats[:4])
        return SceneObject(0, shape, colour, x + w / 2, y + h / 2, w, h, text="A" if shape == TEXT else "")

    def _light(self) -> Light:
        """The guessed light, with the estimated gain where it clearly differs."""
        gain = float(self.behind.light.mean())
        same = abs(gain / self.base.light.gain - 1) < _GAIN_TOLERANCE
        return self.base.light if same else replace(self.base.light, gain=round(gain, 3))

    def _absence(self, obj: SceneObject, explained: Plane) -> float:
        alpha = coverage(obj, self.size, self.grain)
        return float(1 - (alpha * np.minimum(explained, 80.0)).sum() / 80.0 / max(float(alpha.sum()), 1e-9))

    def _snapped(self, obj: SceneObject) -> SceneObject:
        """The object with the guessed place and size, if it is within about a pixel of them."""
        tolerance = _SNAP_PIXELS / self.size
        for variant in self.variants.get(obj.id, []):
            apart = max(abs(variant.x - obj.x), abs(variant.y - obj.y))
            sized = max(abs(variant.w - obj.w), abs(variant.h - obj.h)) < max(2 * tolerance, 0.12 * variant.w)
            if apart <= tolerance and (sized or variant.shape in (SIGN, TEXT)) and variant.shape == obj.shape:
                if variant.text == obj.text:
                    return replace(obj, x=variant.x, y=variant.y, w=variant.w, h=variant.h)
                return replace(obj, x=variant.x, y=variant.y)
        return obj


def _overlap(a: Plane, b: Plane) -> float:
    union = float(np.maximum(a, b).sum())
    return float(np.minimum(a, b).sum()) / union if union > 0 else 0.0
