"""What fills paint into a box. Each takes a place, the box, parameters and a generator; it returns h x w x 3."""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from numpy.typing import NDArray

from .place import Place, Plane, other_photograph
from .real_edit import Corners

Values = Mapping[str, float]
Generator = np.random.Generator


def flat(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """One grey: `level`."""
    return _grained(_plain(box, np.full(3, values["level"])), place, box, values, rng)


def border_mean(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The mean colour around the box."""
    return _grained(_plain(box, place.ring(box).mean(axis=0) + values["shift"]), place, box, values, rng)


def blurred(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box itself, so blurred that nothing of it is told."""
    x0, y0, x1, y1 = box
    sigma = max(2.0, values["blur"] * max(x1 - x0, y1 - y0))
    by = round(2 * sigma)
    top, left = max(0, y0 - by), max(0, x0 - by)
    soft = np.asarray(cv2.GaussianBlur(place.source[top : y1 + by, left : x1 + by], (0, 0), sigma), np.float32)
    return _grained(soft[y0 - top :, x0 - left :][: y1 - y0, : x1 - x0], place, box, values, rng)


def pixelated(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box as a few fields along its longer side."""
    inside = _cut(place.source, box)
    height, width = inside.shape[:2]
    scale = values["fields"] / max(width, height)
    small = cv2.resize(
        inside, (max(1, round(width * scale)), max(1, round(height * scale))), interpolation=cv2.INTER_AREA
    )
    coarse = np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST), np.float32)
    return _grained(coarse, place, box, values, rng)


def noise(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Uniform noise, each pixel and channel by itself; milder, it is mixed with the mean of the surroundings."""
    mean = place.ring(box).mean(axis=0)
    share = values["strength"]
    return np.asarray(mean + share * (rng.uniform(0, 255, _shape(box)) - mean), np.float32)


def gradient(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Between the four sides, each weighing by its nearness."""
    return _grained(_between_sides(place, box) + values["shift"], place, box, values, rng)


def telea(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Classical inpainting (Telea 2004)."""
    return _inpainted(place, box, values, rng, cv2.INPAINT_TELEA)


def navier_stokes(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """Classical inpainting (Bertalmio et al. 2001)."""
    return _inpainted(place, box, values, rng, cv2.INPAINT_NS)


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
    return _grained(streaks if upright else streaks.swapaxes(0, 1), place, box, values, rng)


def mirrored(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The box itself, left for right, or from `upside_down` 0.5 on turned by 180 degrees."""
    inside = _cut(place.source, box)[:, ::-1]
    return inside[::-1] if values["upside_down"] >= 0.5 else inside


def new_colour(place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """The mean colour of what the honest edit put there."""
    return _grained(_plain(box, place.new_colour + values["shift"]), place, box, values, rng)


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


def _grained(content: Plane, place: Place, box: Corners, values: Values, rng: Generator) -> Plane:
    """With noise as strong as the surroundings' finest detail, times `grain`."""
    if not values["grain"]:
        return np.asarray(content, np.float32)
    plain = rng.normal(0, 1, _shape(box)[:2]).astype(np.float32)
    soft = np.asarray(cv2.GaussianBlur(plain, (0, 0), 0.7), np.float32)
    noise = soft / max(1e-6, float(soft.std()))
    return np.asarray(content + values["grain"] * place.grain(box) * noise[..., None], np.float32)


def _between_sides(place: Place, box: Corners) -> Plane:
    above, below, before, after = place.sides(box)
    height, width = _shape(box)[:2]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)[..., None] + np.float32(0.5)
    weights = [1 / y, 1 / (height - y), 1 / x, 1 / (width - x)]
    shown = [above[None], below[None], before[:, None], after[:, None]]
    total = sum(weight * side for weight, side in zip(weights, shown, strict=True))
    return np.asarray(total / sum(weights), np.float32)


def _inpainted(place: Place, box: Corners, values: Values, rng: Generator, method: int) -> Plane:
    """Of a neighbourhood of the box, at most 256 px a side: the filled place is as smooth at any size."""
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
    return _grained(large[y0 - top :, x0 - left :][: y1 - y0, : x1 - x0], place, box, values, rng)
