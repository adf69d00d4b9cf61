"""Fills: ways to destroy the place that an edit was to change, for the operations that they can pretend to be.

Each is a content, painted over the boxes through a mask. Parameters have the value of the named kind and the range that
a search may use; within it nothing becomes an honest edit but by the photograph (a wall of one colour), which a reader
has to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import cv2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from numpy.typing import NDArray

from editcritic.reward import Image

from .place import Mask, Place, Plane, as_image, other_photograph
from .real_edit import Corners, Operation

Values = Mapping[str, float]
Generator = np.random.Generator
Content = Callable[[Place, Corners, Values, Generator], Plane]
"""Place, box (the grown one), parameters and a generator -> what is painted into the box, h x w x 3."""


# -- contents ---------------------------------------------------------------------------------------------------------


def flat(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """One grey: `level`."""
    return _plain(box, np.full(3, values["level"]))


def border_mean(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The mean colour around the box."""
    return _plain(box, place.ring(box).mean(axis=0) + values["shift"])


def blurred(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box itself, so blurred that nothing of it is told."""
    x0, y0, x1, y1 = box
    sigma = max(2.0, values["blur"] * max(x1 - x0, y1 - y0))
    by = round(2 * sigma)
    top, left = max(0, y0 - by), max(0, x0 - by)
    soft = np.asarray(cv2.GaussianBlur(place.source[top : y1 + by, left : x1 + by], (0, 0), sigma), np.float32)
    return soft[y0 - top :, x0 - left :][: y1 - y0, : x1 - x0]


def pixelated(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box as a few fields along its longer side."""
    inside = _cut(place.source, box)
    height, width = inside.shape[:2]
    scale = values["fields"] / max(width, height)
    small = cv2.resize(
        inside, (max(1, round(width * scale)), max(1, round(height * scale))), interpolation=cv2.INTER_AREA
    )
    return np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST), np.float32)


def noise(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Uniform noise, each pixel and channel by itself; milder, it is mixed with the mean of the surroundings."""
    mean = place.ring(box).mean(axis=0)
    share = values["strength"]
    return np.asarray(mean + share * (rng.uniform(0, 255, _shape(box)) - mean), np.float32)


def gradient(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Between the four sides, each weighing by its nearness."""
    above, below, before, after = place.sides(box)
    height, width = _shape(box)[:2]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)[..., None] + np.float32(0.5)
    weights = [1 / y, 1 / (height - y), 1 / x, 1 / (width - x)]
    shown = [above[None], below[None], before[:, None], after[:, None]]
    total = sum(weight * side for weight, side in zip(weights, shown, strict=True))
    return np.asarray(total / sum(weights), np.float32) + values["shift"]


def ghost(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """A share of the object over what the honest edit shows."""
    shown = _cut(_honest(place), box)
    return np.asarray(shown + values["share"] * (_cut(place.source, box) - shown), np.float32)


def remnant(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """What the honest edit shows, but a share of the box from one side (left, right, upper, lower) has the object."""
    result = _cut(_honest(place), box).copy()
    before = _cut(place.source, box)
    height, width = result.shape[:2]
    side = round(values["side"])
    across, down = max(1, round(values["share"] * width)), max(1, round(values["share"] * height))
    left, upper = (width - across if side == 1 else 0), (height - down if side == 3 else 0)
    right, lower = (across if side == 0 else width), (down if side == 2 else height)
    result[upper:lower, left:right] = before[upper:lower, left:right]
    return result


def copied_patch(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Another part of the source of the same size. `unlike`: of twelve, from the one most like the surroundings (0) to
    the one least like them (1).
    """
    x0, y0, x1, y1 = box
    height, width = place.source.shape[:2]
    mean = place.ring(box).mean(axis=0)
    found: list[tuple[float, float, Plane]] = []
    for _ in range(12):
        x, y = int(rng.integers(0, width - (x1 - x0) + 1)), int(rng.integers(0, height - (y1 - y0) + 1))
        patch = place.source[y : y + y1 - y0, x : x + x1 - x0]
        shared = float(place.inside[y : y + y1 - y0, x : x + x1 - x0].mean())
        found.append((round(shared, 1), float(np.abs(patch.mean((0, 1)) - mean).mean()), patch))
    apart = [one for one in found if one[0] <= min(found, key=lambda one: one[0])[0]]
    apart.sort(key=lambda one: one[1])
    return apart[round(values["unlike"] * (len(apart) - 1))][2]


def sticker(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """A part of another photograph."""
    other = other_photograph(int(rng.integers(4)))
    height, width = _shape(box)[:2]
    fit = values["scale"] * min(other.shape[1] / width, other.shape[0] / height)
    w, h = max(1, round(width * fit)), max(1, round(height * fit))
    x, y = (other.shape[1] - w) // 2, (other.shape[0] - h) // 2
    return np.asarray(cv2.resize(other[y : y + h, x : x + w], (width, height), interpolation=cv2.INTER_AREA))


def smear(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The two sides drawn into the box as streaks, which meet in its middle; from `across` 0.5 on, down and up."""
    above, below, before, after = place.sides(box)
    height, width = _shape(box)[:2]
    upright = values["across"] >= 0.5
    first, last, length = (above, below, height) if upright else (before, after, width)
    share = np.clip((np.arange(length) + 0.5 - length / 2) / (values["length"] * length) + 0.5, 0, 1)[:, None, None]
    streaks = first[None] * (1 - share) + last[None] * share
    return streaks if upright else streaks.swapaxes(0, 1)


def mirrored(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box itself, left for right, or from `upside_down` 0.5 on turned by 180 degrees."""
    inside = _cut(place.source, box)[:, ::-1]
    return inside[::-1] if values["upside_down"] >= 0.5 else inside


def new_colour(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The mean colour of what the honest edit put there."""
    return _plain(box, place.new_colour + values["shift"])


def tint(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box and what is around it behind a glass of the new colour, as light as before."""
    inside = _cut(place.source, box)
    light = inside.mean(axis=2, keepdims=True) / max(1.0, float(place.new_colour.mean()))
    return np.asarray(inside + values["strength"] * (place.new_colour * light - inside), np.float32)


def coloured_noise(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Grey noise around the new colour, in grains of up to `coarse` pixels."""
    grains = rng.normal(0, 1, _shape(box)[:2]).astype(np.float32)
    if values["coarse"] >= 0.5:
        grains = np.asarray(cv2.GaussianBlur(grains, (0, 0), values["coarse"] / 2), np.float32)
        grains = grains / max(1e-6, float(grains.std()))
    return np.asarray(place.new_colour + 100 * values["strength"] * grains[..., None], np.float32)


def half_transparent(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """A share of what the honest edit put there over the source."""
    before = _cut(place.source, box)
    return np.asarray(before + values["share"] * (_cut(_honest(place), box) - before), np.float32)


def text_on_patch(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The text on a patch of one grey."""
    height, width = _shape(box)[:2]
    level = values["level"]
    patch = PIL.Image.new("L", (width, height), round(level))
    draw = PIL.ImageDraw.Draw(patch)
    widest = draw.textlength(place.text, PIL.ImageFont.load_default(100)) / 100
    size = max(4.0, values["size"] * min(height, width / max(widest, 0.1)))
    font = PIL.ImageFont.load_default(size)
    draw.text((width / 2, height / 2), place.text, fill=20 if level > 127 else 235, font=font, anchor="mm")
    return np.repeat(np.asarray(patch, np.float32)[..., None], 3, axis=2)


def _shape(box: Corners) -> tuple[int, int, int]:
    return box[3] - box[1], box[2] - box[0], 3


def _cut(plane: Plane, box: Corners) -> Plane:
    return plane[box[1] : box[3], box[0] : box[2]]


def _plain(box: Corners, colour: NDArray[np.floating]) -> Plane:
    return np.asarray(np.broadcast_to(colour, _shape(box)), np.float32)


def _honest(place: Place) -> Plane:
    if place.honest is None:
        raise ValueError("this fill needs an honest edit")
    return place.honest


def inpainted(place: Place, box: Corners, values: Values, rng: Generator, method: int) -> Plane:
    """Classical inpainting of a neighbourhood of the box, at most 256 px a side: as smooth at any size."""
    x0, y0, x1, y1 = box
    by = max(8, round(0.3 * max(x1 - x0, y1 - y0)))
    top, left = max(0, y0 - by), max(0, x0 - by)
    near = np.clip(place.source[top : y1 + by, left : x1 + by], 0, 255).astype(np.uint8)
    hole = np.zeros(near.shape[:2], np.uint8)
    hole[y0 - top : y1 - top, x0 - left : x1 - left] = 1
    if hole.all():
        return border_mean(place, box, {**values, "shift": 0.0}, rng)
    scale = min(1.0, 256 / max(near.shape))
    size = (max(1, round(near.shape[1] * scale)), max(1, round(near.shape[0] * scale)))
    small = cv2.resize(near, size, interpolation=cv2.INTER_AREA)
    covered = (cv2.resize(hole, size, interpolation=cv2.INTER_LINEAR_EXACT) > 0).astype(np.uint8)
    filled = cv2.inpaint(small, covered, values["radius"], method)
    large = cv2.resize(filled, near.shape[1::-1], interpolation=cv2.INTER_CUBIC).astype(np.float32)
    return large[y0 - top :, x0 - left :][: y1 - y0, : x1 - x0]


# -- kinds ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of a fill. value: in the named kind. low, high: what a search may choose from."""

    name: str
    value: float
    low: float
    high: float


_NAMED: Values = {}

MASK = (
    Parameter("grow", 0.0, -0.15, 0.25),  # of the box's shorter side, on each side
    Parameter("feather", 0.0, 0.0, 0.35),  # width of the soft edge, likewise
    Parameter("ellipse", 0.0, 0.0, 1.0),  # from 0.5 on
    Parameter("opacity", 1.0, 0.7, 1.0),
)


@dataclass(frozen=True)
class FillKind:
    """One way to destroy a place.

    over: what it is painted on: the source, or the honest edit. on_object: only the pixels that the honest edit changed
    are painted. Both need an honest edit.
    """

    name: str
    operations: frozenset[Operation]
    content: Content
    own: tuple[Parameter, ...] = ()
    mask: tuple[Parameter, ...] = MASK
    over_honest: bool = False
    on_object: bool = False

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Those of the mask, then those of the content."""
        return (*self.mask, *self.own)

    def fill(self, place: Place, values: Values = _NAMED, seed: int = 0) -> Image:
        """The source with the place destroyed; the same for the same arguments.

        values: of parameters that are not as in the named kind. Raises ValueError without an honest edit where it needs
        one.
        """
        chosen = {**{one.name: one.value for one in self.parameters}, **values}
        under = _honest(place) if self.over_honest else place.source
        result = under.copy()
        rng = np.random.default_rng([seed, *self.name.encode()])
        for box in place.boxes:
            x0, y0, x1, y1 = grown = _grown(box, chosen["grow"], place.source.shape[:2])
            content = self.content(place, grown, chosen, rng)
            if chosen.get("grain"):
                content = content + chosen["grain"] * place.grain(grown) * _noise(grown, rng)
            cover = chosen["opacity"] * _cover(grown, chosen["feather"], chosen["ellipse"] >= 0.5)
            if self.on_object:
                cover = cover * place.object[y0:y1, x0:x1]
            result[y0:y1, x0:x1] += cover[..., None] * (content - result[y0:y1, x0:x1])
        return as_image(result)


def _noise(box: Corners, rng: Generator) -> Plane:
    """h x w x 1, of unit strength."""
    soft = np.asarray(cv2.GaussianBlur(rng.normal(0, 1, _shape(box)[:2]).astype(np.float32), (0, 0), 0.7), np.float32)
    return (soft / max(1e-6, float(soft.std())))[..., None]


def _grown(box: Corners, share: float, shape: tuple[int, ...]) -> Corners:
    """Wider by a share of the shorter side, within the picture; a narrower one keeps at least 2 px."""
    x0, y0, x1, y1 = box
    by = round(share * min(x1 - x0, y1 - y0))
    by = max(by, -((min(x1 - x0, y1 - y0) - 2) // 2))
    return max(0, x0 - by), max(0, y0 - by), min(shape[1], x1 + by), min(shape[0], y1 + by)


def _cover(box: Corners, feather: float, ellipse: bool) -> Mask:
    """h x w of the box: 1 inside, falling to 0 at the edge over the feather's width."""
    width, height = box[2] - box[0], box[3] - box[1]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) + np.float32(0.5)
    if ellipse:
        radius = np.hypot((x - width / 2) / (width / 2), (y - height / 2) / (height / 2))
        depth = (1 - radius) * min(width, height) / 2
    else:
        depth = np.minimum(np.minimum(x, width - x), np.minimum(y, height - y))
    soft = max(1.0 if ellipse else 0.5, feather * min(width, height))
    linear = np.clip(depth / soft, 0, 1)
    return np.asarray(linear * linear * (3 - 2 * linear), np.float32)


def _masked(**values: float) -> tuple[Parameter, ...]:
    """The mask's parameters with other values."""
    return tuple(replace(one, value=values.get(one.name, one.value)) for one in MASK)


_HARD = (*MASK[:1], Parameter("feather", 0.0, 0.0, 0.05), *MASK[2:])
"""For what is wrong by its content: nothing of it is hidden by a soft edge."""
_SOFT = _masked(feather=0.25)
_OPAQUE = tuple(replace(one, low=1.0) if one.name == "opacity" else one for one in MASK)
"""For what is transparent, or partly honest, by its content."""
_LEVEL = Parameter("level", 128.0, 0.0, 255.0)
_SHIFT = Parameter("shift", 0.0, -40.0, 40.0)  # of the colour, in grey levels
_GRAIN = Parameter("grain", 0.0, 0.0, 2.0)  # times that of the surroundings
_MATCHED = replace(_GRAIN, value=1.0)
_BLUR = Parameter("blur", 0.12, 0.06, 0.4)  # sigma, of the longer side
_RADIUS = Parameter("radius", 3.0, 2.0, 12.0)  # of inpainting, in pixels
_SCALE = Parameter("scale", 0.6, 0.3, 1.0)  # of another photograph
_FIELDS = Parameter("fields", 5.0, 2.0, 12.0)
_MIXED = Parameter("strength", 1.0, 0.3, 1.0)
_GHOST = Parameter("share", 0.4, 0.25, 0.6)
_THIRD = Parameter("share", 0.34, 0.25, 0.6)
_SIDE = Parameter("side", 0.0, 0.0, 3.0)
_UNLIKE = Parameter("unlike", 0.5, 0.0, 1.0)
_ACROSS = Parameter("across", 0.0, 0.0, 1.0)
_LENGTH = Parameter("length", 0.4, 0.1, 1.0)
_UPSIDE_DOWN = Parameter("upside_down", 0.0, 0.0, 1.0)
_TINT = Parameter("strength", 0.6, 0.3, 0.9)
_ROUGH = Parameter("strength", 0.4, 0.15, 1.0)
_COARSE = Parameter("coarse", 0.0, 0.0, 8.0)
_PALE = Parameter("share", 0.4, 0.2, 0.55)
_SIZE = Parameter("size", 0.6, 0.3, 0.9)

_REMOVAL: frozenset[Operation] = frozenset(("removal",))
_GONE: frozenset[Operation] = frozenset(("removal", "replacement"))
_ANY_NEW: frozenset[Operation] = frozenset(("replacement", "addition"))
_NEARLY_ALL: frozenset[Operation] = frozenset(("removal", "replacement", "addition", "material"))
_RECOLOUR: frozenset[Operation] = frozenset(("recolour",))
_TEXT: frozenset[Operation] = frozenset(("text",))
_MATERIAL: frozenset[Operation] = frozenset(("material",))

KINDS: Sequence[FillKind] = (
    # of what was to go
    FillKind("flat grey", _GONE | _TEXT, flat, (_LEVEL, _GRAIN)),
    FillKind("border mean", _GONE | _TEXT, border_mean, (_SHIFT, _GRAIN)),
    FillKind("border mean, feathered", _REMOVAL, border_mean, (_SHIFT, _GRAIN), _SOFT),
    FillKind("border mean, ellipse", _REMOVAL, border_mean, (_SHIFT, _GRAIN), _masked(ellipse=1.0)),
    FillKind("border mean with grain", _REMOVAL, border_mean, (_SHIFT, _MATCHED), _masked(feather=0.1)),
    FillKind("border mean, smaller", _REMOVAL, border_mean, (_SHIFT, _GRAIN), _masked(grow=-0.12)),
    FillKind("border mean, larger", _REMOVAL, border_mean, (_SHIFT, _GRAIN), _masked(grow=0.2)),
    FillKind("blurred", _GONE | _TEXT, blurred, (_BLUR, _GRAIN)),
    FillKind("blurred, feathered", _REMOVAL, blurred, (_BLUR, _MATCHED), _SOFT),
    FillKind("pixelated", _REMOVAL | _TEXT, pixelated, (_FIELDS, _GRAIN)),
    FillKind("noise", _NEARLY_ALL, noise, (_MIXED,)),
    FillKind("gradient", _REMOVAL, gradient, (_SHIFT, _GRAIN)),
    FillKind("gradient, feathered, grain", _REMOVAL, gradient, (_SHIFT, _MATCHED), _masked(feather=0.15)),
    FillKind("inpainted (Telea)", _REMOVAL, partial(inpainted, method=cv2.INPAINT_TELEA), (_RADIUS, _GRAIN)),
    FillKind("inpainted (Navier-Stokes)", _REMOVAL, partial(inpainted, method=cv2.INPAINT_NS), (_RADIUS, _GRAIN)),
    FillKind("ghost", _REMOVAL, ghost, (_GHOST,), _OPAQUE, over_honest=True),
    FillKind("remnant", _REMOVAL, remnant, (_THIRD, _SIDE), _OPAQUE, over_honest=True),
    FillKind("copied patch", _GONE, copied_patch, (_UNLIKE,), _HARD),
    FillKind("sticker", _GONE | _ANY_NEW, sticker, (_SCALE,), _HARD),
    FillKind("smear", _NEARLY_ALL, smear, (_ACROSS, _LENGTH, _GRAIN)),
    FillKind("mirrored box", _REMOVAL, mirrored, (_UPSIDE_DOWN,), _HARD),
    # of what was to look otherwise
    FillKind("object painted flat", _RECOLOUR | _MATERIAL, new_colour, (_SHIFT, _GRAIN), on_object=True),
    FillKind("tint over the surroundings", _RECOLOUR, tint, (_TINT,), _masked(grow=0.2, feather=0.1)),
    FillKind("flat box of the colour", _RECOLOUR | _MATERIAL, new_colour, (_SHIFT, _GRAIN)),
    FillKind("noise of the colour", _RECOLOUR | _MATERIAL, coloured_noise, (_ROUGH, _COARSE), on_object=True),
    # of what was to be there
    FillKind("blob of the colour", _ANY_NEW, new_colour, (_SHIFT, _GRAIN), _masked(ellipse=1.0, feather=0.1)),
    FillKind("half-transparent object", _ANY_NEW, half_transparent, (_PALE,)),
    FillKind("text on a flat patch", _TEXT, text_on_patch, (replace(_LEVEL, value=235.0), _SIZE), _HARD),
)
"""All of them. The operations of each are those of edits that it may pretend to be."""


def kinds_of(operation: Operation, kinds: Sequence[FillKind] = KINDS) -> list[FillKind]:
    """The kinds for an operation."""
    return [kind for kind in kinds if operation in kind.operations]
