"""Fills: ways to destroy the place that an edit was to change, for the operations that they can pretend to be.

Each is a content, painted over the boxes through a mask. None is an honest edit but by the photograph (a wall of one
colour), which a reader has to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from numpy.typing import NDArray

from editcritic.reward import Image

from .real_edit import OPERATIONS, Corners, Mask, Operation, Place, Plane, as_image, other_photograph

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
    """What the honest edit shows, but a share of the box from the left has the object."""
    result = _cut(_honest(place), box).copy()
    across = max(1, round(values["share"] * result.shape[1]))
    result[:, :across] = _cut(place.source, box)[:, :across]
    return result


def copied_patch(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Another part of the source of the same size. `unlike`: of twelve, from the one most like the surroundings (0) to
    the one least like them (1)."""
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
    """The two sides drawn into the box as streaks, which meet in its middle."""
    _, _, before, after = place.sides(box)
    width = box[2] - box[0]
    share = np.clip((np.arange(width) + 0.5 - width / 2) / (values["length"] * width) + 0.5, 0, 1)[:, None, None]
    return np.asarray((before[None] * (1 - share) + after[None] * share).swapaxes(0, 1), np.float32)


def mirrored(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box itself, left for right."""
    return _cut(place.source, box)[:, ::-1]


def new_colour(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The mean colour of what the honest edit put there."""
    return _plain(box, place.new_colour + values["shift"])


def tint(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box and what is around it behind a glass of the new colour, as light as before."""
    inside = _cut(place.source, box)
    light = inside.mean(axis=2, keepdims=True) / max(1.0, float(place.new_colour.mean()))
    return np.asarray(inside + values["strength"] * (place.new_colour * light - inside), np.float32)


def coloured_noise(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Grey noise around the new colour."""
    grains = rng.normal(0, 1, _shape(box)[:2]).astype(np.float32)
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


@dataclass(frozen=True)
class FillKind:
    """One way to destroy a place.

    values: parameters of the mask and of the content. over_honest: painted on the honest edit instead of the source.
    on_object: only the pixels that the honest edit changed are painted. Both need an honest edit.
    """

    name: str
    operations: frozenset[Operation]
    content: Content
    values: Values
    over_honest: bool
    on_object: bool

    def fill(self, place: Place, seed: int = 0) -> Image:
        """The source with the place destroyed; the same for the same arguments. Raises ValueError without an honest
        edit where it needs one."""
        values = self.values
        result = (_honest(place) if self.over_honest else place.source).copy()
        rng = np.random.default_rng([seed, *self.name.encode()])
        for box in place.boxes:
            x0, y0, x1, y1 = grown = _grown(box, values["grow"], place.source.shape[:2])
            content = self.content(place, grown, values, rng)
            if values["grain"]:
                content = content + values["grain"] * place.grain(grown) * _noise(grown, rng)
            cover = _cover(grown, values["feather"], values["ellipse"] >= 0.5)
            if self.on_object:
                cover = cover * place.object[y0:y1, x0:x1]
            result[y0:y1, x0:x1] += cover[..., None] * (content - result[y0:y1, x0:x1])
        return as_image(result)


_DEFAULTS = {"grow": 0.0, "feather": 0.0, "ellipse": 0.0, "grain": 0.0, "shift": 0.0}
"""grow: of the box's shorter side, on each side; feather: width of the soft edge, likewise; ellipse: 1 for one; grain:
times that of the surroundings; shift: of the colour, in grey levels."""


def fill_kind(
    name: str, operations: str, content: Content, *, over_honest: bool = False, on_object: bool = False, **values: float
) -> FillKind:
    """A kind. operations: those of edits that it may pretend to be."""
    chosen = frozenset(one for one in OPERATIONS if one in operations.split())
    return FillKind(name, chosen, content, {**_DEFAULTS, **values}, over_honest, on_object)


def _noise(box: Corners, rng: Generator) -> Plane:
    """h x w x 1, of unit strength."""
    soft = np.asarray(cv2.GaussianBlur(rng.normal(0, 1, _shape(box)[:2]).astype(np.float32), (0, 0), 0.7), np.float32)
    return np.asarray((soft / max(1e-6, float(soft.std())))[..., None], np.float32)


def _grown(box: Corners, share: float, shape: tuple[int, ...]) -> Corners:
    """Wider by a share of the shorter side, within the picture; a narrower one keeps at least 2 px."""
    x0, y0, x1, y1 = box
    by = round(share * min(x1 - x0, y1 - y0))
    by = max(by, -((min(x1 - x0, y1 - y0) - 2) // 2))
    return max(0, x0 - by), max(0, y0 - by), min(shape[1], x1 + by), min(shape[0], y1 + by)


def _cover(box: Corners, feather: float, ellipse: bool) -> Mask:
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


KINDS: Sequence[FillKind] = (
    # of what was to go
    fill_kind("flat grey", "removal replacement text", flat, level=128.0),
    fill_kind("border mean", "removal replacement text", border_mean),
    fill_kind("border mean, feathered", "removal", border_mean, feather=0.25),
    fill_kind("border mean, ellipse", "removal", border_mean, ellipse=1.0),
    fill_kind("border mean with grain", "removal", border_mean, grain=1.0, feather=0.1),
    fill_kind("border mean, smaller", "removal", border_mean, grow=-0.12),
    fill_kind("border mean, larger", "removal", border_mean, grow=0.2),
    fill_kind("blurred", "removal replacement text", blurred, blur=0.12),
    fill_kind("blurred, feathered", "removal", blurred, blur=0.12, grain=1.0, feather=0.25),
    fill_kind("pixelated", "removal text", pixelated, fields=5.0),
    fill_kind("noise", "removal replacement addition material", noise, strength=1.0),
    fill_kind("gradient", "removal", gradient),
    fill_kind("gradient, feathered, grain", "removal", gradient, grain=1.0, feather=0.15),
    fill_kind("inpainted (Telea)", "removal", partial(inpainted, method=cv2.INPAINT_TELEA), radius=3.0),
    fill_kind("inpainted (Navier-Stokes)", "removal", partial(inpainted, method=cv2.INPAINT_NS), radius=3.0),
    fill_kind("ghost", "removal", ghost, share=0.4, over_honest=True),
    fill_kind("remnant", "removal", remnant, share=0.34, over_honest=True),
    fill_kind("copied patch", "removal replacement", copied_patch, unlike=0.5),
    fill_kind("sticker", "removal replacement addition", sticker, scale=0.6),
    fill_kind("smear", "removal replacement addition material", smear, length=0.4),
    fill_kind("mirrored box", "removal", mirrored),
    # of what was to look otherwise
    fill_kind("object painted flat", "recolour material", new_colour, on_object=True),
    fill_kind("tint over the surroundings", "recolour", tint, strength=0.6, grow=0.2, feather=0.1),
    fill_kind("flat box of the colour", "recolour material", new_colour),
    fill_kind("noise of the colour", "recolour material", coloured_noise, strength=0.4, on_object=True),
    # of what was to be there
    fill_kind("blob of the colour", "replacement addition", new_colour, ellipse=1.0, feather=0.1),
    fill_kind("half-transparent object", "replacement addition", half_transparent, share=0.4),
    fill_kind("text on a flat patch", "text", text_on_patch, level=235.0, size=0.6),
)
"""All of them."""


def kinds_of(operation: Operation, kinds: Sequence[FillKind] = KINDS) -> list[FillKind]:
    """The kinds for an operation."""
    return [kind for kind in kinds if operation in kind.operations]


def patchwork(place: Place, box: Corners, values: Values, rng: np.random.Generator) -> Plane:
    """Small tiles of the near surroundings, shuffled: right in colour and detail, wrong in every line."""
    x0, y0, x1, y1 = box
    height, width = place.source.shape[:2]
    side = max(3, round(values["tile"] * min(x1 - x0, y1 - y0)))
    reach = max(side + 2, round(0.5 * max(x1 - x0, y1 - y0)))
    result = np.zeros((y1 - y0, x1 - x0, 3), np.float32)
    top, left = max(0, y0 - reach), max(0, x0 - reach)
    bottom, right = min(height, y1 + reach), min(width, x1 + reach)
    for y in range(0, y1 - y0, side):
        for x in range(0, x1 - x0, side):
            h, w = min(side, y1 - y0 - y), min(side, x1 - x0 - x)
            best: tuple[float, Plane] | None = None
            for _ in range(8):
                v, u = (
                    int(rng.integers(top, max(top + 1, bottom - h + 1))),
                    int(rng.integers(left, max(left + 1, right - w + 1))),
                )
                tile = place.source[v : v + h, u : u + w]
                covered = float(place.inside[v : v + h, u : u + w].mean())
                if tile.shape[:2] == (h, w) and (best is None or covered < best[0]):
                    best = covered, tile
            if best is not None:
                result[y : y + h, x : x + w] = best[1]
    return result


def cloned(place: Place, box: Corners, values: Values, rng: np.random.Generator) -> Plane:
    """A part of another photograph, made to fit the rim without a seam (Perez et al. 2003)."""
    x0, y0, x1, y1 = box
    height, width = y1 - y0, x1 - x0
    other = other_photograph(int(rng.integers(4)))
    share = values["scale"] * min(other.shape[1] / width, other.shape[0] / height)
    w, h = max(2, round(width * share)), max(2, round(height * share))
    x, y = int(rng.integers(0, other.shape[1] - w + 1)), int(rng.integers(0, other.shape[0] - h + 1))
    piece = cv2.resize(other[y : y + h, x : x + w], (width, height), interpolation=cv2.INTER_AREA)
    difference = place.source[y0:y1, x0:x1] - piece
    grid = (min(64, width), min(64, height))
    known = cv2.resize(difference, grid, interpolation=cv2.INTER_AREA)
    rim = np.ones((grid[1], grid[0]), bool)
    rim[1:-1, 1:-1] = False
    coarse = np.where(rim[..., None], known, known[rim].mean(axis=0)).astype(np.float32)
    for _ in range(600):  # Laplace's equation with the rim's difference
        coarse = np.where(rim[..., None], known, cv2.blur(coarse, (3, 3))).astype(np.float32)
    film = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(piece + film, np.float32)


def swirled(place: Place, box: Corners, values: Values, rng: np.random.Generator) -> Plane:
    """What stands in the box, wound round its middle: its colours and details, and no shape."""
    x0, y0, x1, y1 = box
    shown = place.source if place.honest is None else place.honest
    if values["honest"] < 0.5:
        shown = place.source
    inside = shown[y0:y1, x0:x1]
    height, width = inside.shape[:2]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    dx, dy = (x - width / 2) / (width / 2), (y - height / 2) / (height / 2)
    radius = np.hypot(dx, dy)
    turn = values["turns"] * 2 * np.pi * np.clip(1 - radius, 0, 1) ** 1.5
    cos, sin = np.cos(turn), np.sin(turn)
    map_x = ((cos * dx - sin * dy) * width / 2 + width / 2).astype(np.float32)
    map_y = ((sin * dx + cos * dy) * height / 2 + height / 2).astype(np.float32)
    return np.asarray(cv2.remap(inside, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT), np.float32)


LATER_KINDS = (
    fill_kind("patchwork", "removal replacement addition text material", patchwork, tile=0.14),
    fill_kind("cloned photograph", "removal replacement addition text", cloned, scale=0.5),
    fill_kind("swirled object", "removal", swirled, turns=1.0, honest=0.0),
    fill_kind(
        "swirled result",
        "recolour replacement addition text material",
        swirled,
        turns=1.0,
        honest=1.0,
        over_honest=True,
    ),
)
"""Nobody had seen them while the rating of places was made; they were looked at once. Who changes it needs others."""
