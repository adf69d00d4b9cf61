"""What a place in a picture tells about how it got there: seams, detail, neighbours, and remains of the source.

Every statistic compares the place with its surroundings in the same picture, or with the source, so that it is near 0
for a place that was photographed or drawn with the rest, whatever the picture shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from .matching.patch_descriptors import Plane, averaged, to_lab

Bits = NDArray[np.bool_]
Corners = tuple[int, int, int, int]

_SIDE = 160  # pixels: square root of the area at which a larger place is compared
_LONGEST = 768  # pixels of its surroundings
_AROUND, _LEAST_AROUND = 0.75, 24 / 512  # of the root of the place's area; of the image's longer side
_CHANGED = 6.0  # Lab units from which on a pixel was redrawn
_FEW = 60  # pixels: too few for statistics
_VISIBLE = 12.0  # Lab units per pixel: stronger edges count no more


@dataclass(frozen=True)
class _Place:
    """A place with its surroundings, at the size at which it is compared. before, after: H x W x 3, CIE L*a*b*. box:
    x0, y0, x1, y1 in pixels, of the place or of all that was redrawn. redrawn: what differs from the source in and near
    the box, or all of the box where nearly nothing does. inside: what is compared. outside: with what. inner: pixels
    that have surroundings."""

    before: Plane
    after: Plane
    box: tuple[float, float, float, float]
    redrawn: Bits
    inside: Bits
    outside: Bits
    inner: Bits


def region_statistics(
    before: Plane, after: Plane, corners: Corners, *, as_drawn: bool = False
) -> Mapping[str, float] | None:
    """Name -> statistic of a place; None where nothing was redrawn. before, after: H x W x 3 RGB of 0 to 255, of one
    size. corners: x0, y0, x1, y1 of the place in pixels. as_drawn: whether seams are looked for around all that was
    redrawn, instead of around the place."""
    place = _place(before, after, corners, as_drawn)
    if place is None:
        return None
    textures = _textures(place.after)
    statistics = _detail(place, textures) | _seams(place) | _remains(place) | _neighbours(place, textures)
    return statistics | {"interpolated": _interpolated(place)}


def _place(before: Plane, after: Plane, corners: Corners, as_drawn: bool) -> _Place | None:
    height, width = before.shape[:2]
    x0, y0, x1, y1 = corners
    root, longer = float(np.sqrt((x1 - x0) * (y1 - y0))), max(height, width)
    margin = max(_AROUND * root, _LEAST_AROUND * longer)
    left, top = int(max(0, x0 - margin)), int(max(0, y0 - margin))
    right, bottom = int(min(width, x1 + margin)), int(min(height, y1 + margin))
    crops = [np.ascontiguousarray(plane[top:bottom, left:right]) for plane in (before, after)]
    box = np.array([x0 - left, y0 - top, x1 - left, y1 - top], float)
    scale = min(1.0, _SIDE / root, _LONGEST / max(crops[0].shape[:2]))
    if scale < 1:
        rows, columns = crops[0].shape[:2]
        size = (max(8, round(columns * scale)), max(8, round(rows * scale)))
        box *= np.array([size[0] / columns, size[1] / rows] * 2)
        crops = [averaged(crop, size) for crop in crops]
    source, edited = (to_lab(crop) for crop in crops)
    whole = _rectangle(source.shape[:2], box, 1.0)
    near = _rectangle(source.shape[:2], box, 1.35)
    difference = np.linalg.norm(cv2.GaussianBlur(source - edited, (0, 0), 1.0), axis=2)
    beside = difference[~near]
    threshold = max(_CHANGED, 3 * float(np.median(beside))) if beside.size else _CHANGED
    changed = ((difference > threshold) & near).astype(np.uint8)
    changed = cv2.morphologyEx(changed, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    changed = cv2.morphologyEx(changed, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (15, 15)))
    if not changed.any():
        return None
    redrawn = changed > 0 if changed[whole].mean() > 0.04 else whole
    inside = cv2.erode(redrawn.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    outside = cv2.dilate((whole | redrawn).astype(np.uint8), np.ones((5, 5), np.uint8)) == 0
    outside = outside if outside.sum() >= _FEW else ~whole
    inner = np.zeros(whole.shape, np.bool_)
    inner[3:-3, 3:-3] = True
    if as_drawn:
        rows, columns = np.nonzero(redrawn)
        low, high = np.percentile([columns, rows], [1, 99], axis=1)
        box = np.array([*low, *(high + 1)])
    return _Place(
        source,
        edited,
        (float(box[0]), float(box[1]), float(box[2]), float(box[3])),
        redrawn,
        inside if inside.sum() >= _FEW else redrawn,
        outside if outside.sum() >= _FEW else np.ones_like(outside),
        inner,
    )


def _rectangle(shape: tuple[int, ...], box: Sequence[float] | NDArray[np.float64], scale: float) -> Bits:
    """The pixels of a box with sides times `scale`."""
    inside = np.zeros(shape, np.bool_)
    x, y, w, h = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, scale * (box[2] - box[0]), scale * (box[3] - box[1])
    rows = slice(max(0, round(float(y - h / 2))), round(float(y + h / 2)))
    inside[rows, max(0, round(float(x - w / 2))) : round(float(x + w / 2))] = True
    return inside


def _textures(lab: Plane) -> dict[str, Plane]:
    """Logarithms of the strength of detail around each pixel. fine, middle, coarse: of L* in octaves. chroma: of a* and
    b*. across, along: of gradients of L* in the direction in which they are strongest, and in the other one."""
    light = lab[:, :, 0]
    textures: dict[str, Plane] = {}
    previous = light
    for name, sigma, window in (("fine", 0.8, 2.5), ("middle", 1.6, 3.0), ("coarse", 3.2, 4.0)):
        smooth = np.asarray(cv2.GaussianBlur(light, (0, 0), sigma), np.float32)
        textures[name] = _strength((previous - smooth) ** 2, window)
        previous = smooth
    colours = lab[:, :, 1:]
    textures["chroma"] = _strength(((colours - cv2.GaussianBlur(colours, (0, 0), 1.2)) ** 2).sum(2), 3.0)
    gx, gy = _gradients(light)
    xx, yy, xy = (cv2.GaussianBlur(part, (0, 0), 2.5) for part in (gx * gx, gy * gy, gx * gy))
    mean, spread = (xx + yy) / 2, np.sqrt(((xx - yy) / 2) ** 2 + xy * xy)
    textures["across"] = np.log(np.sqrt(mean + spread) + np.float32(0.1))
    textures["along"] = np.log(np.sqrt(np.maximum(mean - spread, 0)) + np.float32(0.1))
    return textures


def _strength(energy: Plane, window: float) -> Plane:
    return np.asarray(np.log(np.sqrt(cv2.GaussianBlur(energy, (0, 0), window)) + np.float32(0.15)), np.float32)


def _gradients(plane: Plane) -> tuple[Plane, Plane]:
    gx, gy = (cv2.Sobel(plane, cv2.CV_32F, *order, scale=1 / 8) for order in ((1, 0), (0, 1)))
    return np.asarray(gx, np.float32), np.asarray(gy, np.float32)


def _detail(place: _Place, textures: Mapping[str, Plane]) -> dict[str, float]:
    """How the strength of detail inside differs from that outside: quantiles, and shares beyond what is outside."""
    statistics: dict[str, float] = {}
    for name, texture in textures.items():
        inside, outside = texture[place.inside], texture[place.outside]
        for percent in (20, 50, 80):
            statistics[f"{name}.{percent}"] = _percentile(inside, percent) - _percentile(outside, percent)
        statistics[f"{name}.below"] = float((inside < _percentile(outside, 3) - 0.1).mean())
        statistics[f"{name}.above"] = float((inside > _percentile(outside, 97) + 0.1).mean())
    for name, strong, weak in (("slope", "fine", "coarse"), ("direction", "across", "along")):
        ratio = textures[strong] - textures[weak]
        statistics[name] = float(np.median(ratio[place.inside]) - np.median(ratio[place.outside]))
    statistics["slope.itself"] = float(np.median((textures["fine"] - textures["coarse"])[place.inside]))
    gx, gy = _gradients(place.after[:, :, 0])
    gradient = np.sqrt(gx * gx + gy * gy)
    statistics["peaks"] = _peakedness(gradient[place.inside]) - _peakedness(gradient[place.outside])
    flat = gradient < 0.08
    statistics["flat"] = float(flat[place.inside].mean() - flat[place.outside].mean())
    return statistics


def _percentile(values: Plane, percent: float) -> float:
    return float(np.percentile(values, percent))


def _peakedness(gradient: Plane) -> float:
    return float(np.log(((gradient**2).mean() + 0.01) / (gradient.mean() ** 2 + 0.01)))


def _seams(place: _Place) -> dict[str, float]:
    """Edges and steps of colour along the outlines of the box and of the ellipse in it. That of what was redrawn may be
    an outline of what is there now."""
    whole = _rectangle(place.redrawn.shape, place.box, 1.0)
    ellipse = np.zeros(whole.shape, np.uint8)
    x0, y0, x1, y1 = place.box
    centre, half = (int((x0 + x1) / 2), int((y0 + y1) / 2)), (max(2, int((x1 - x0) / 2)), max(2, int((y1 - y0) / 2)))
    cv2.ellipse(ellipse, centre, half, 0, 0, 360, 1, -1)
    statistics: dict[str, float] = {}
    for name, area in (("box", whole), ("ellipse", ellipse > 0)):
        has_outline = 20 <= area.sum() <= area.size - 20
        statistics[f"seam.{name}"] = _edge_on_outline(place, area) if has_outline else 0.0
        statistics[f"step.{name}"] = _step_over_outline(place, area) if has_outline else 0.0
    strengths = _new_edges_on_sides(place)
    for number in range(3):
        statistics[f"side.{number + 1}"] = float(np.log(strengths[number] + 0.3))
    return statistics


def _distance_inside(area: Bits) -> Plane:
    """Distance to the outline in pixels: positive inside, negative outside."""
    inside, outside = (cv2.distanceTransform(part.astype(np.uint8), cv2.DIST_L2, 3) for part in (area, ~area))
    return np.asarray(inside - outside, np.float32)


def _edge_on_outline(place: _Place, area: Bits) -> float:
    """How much stronger edges along an outline are on it than beside it, less those that the source has there."""
    distance = _distance_inside(area)
    nx, ny = _gradients(np.asarray(cv2.GaussianBlur(distance, (0, 0), 1.0), np.float32))
    length = np.sqrt(nx * nx + ny * ny) + np.float32(1e-6)
    nx, ny = nx / length, ny / length

    def across_outline(lab: Plane) -> Plane:
        total = np.zeros(distance.shape, np.float32)
        for channel in range(3):
            gx, gy = _gradients(lab[:, :, channel])
            total += (gx * nx + gy * ny) ** 2
        return np.sqrt(total)

    before, after = (np.minimum(across_outline(lab), _VISIBLE) for lab in (place.before, place.after))
    edges = np.maximum(0, after - cv2.dilate(before, np.ones((3, 3), np.uint8)))
    profile = np.full(19, np.nan)
    for index, offset in enumerate(range(-9, 10)):
        ring = (distance >= offset - 0.5) & (distance < offset + 0.5) & place.inner
        if ring.sum() > 12:
            profile[index] = edges[ring].mean()
    on, beside = profile[7:12], np.r_[profile[:5], profile[14:]]
    strongest = float(np.nanmax(on)) if np.isfinite(on).any() else 0.0
    usual = float(np.nanmedian(beside)) if np.isfinite(beside).any() else strongest
    return float(np.log((strongest + 0.3) / (usual + 0.3)))


def _step_over_outline(place: _Place, area: Bits) -> float:
    """Difference of mean colours just inside and just outside of an outline, less that in the source, relative to those
    over outlines beside it."""
    distance = _distance_inside(area)
    here, *beside = (_mean_step(place, distance, offset) for offset in (0, -9, -14, 8))
    if here is None:
        return 0.0
    others = [step.after for step in beside if step is not None]
    new = max(0.0, here.after - here.before)
    usual = float(np.median(others)) if others else new
    return float(np.log((new + 1.5) / (usual + 1.5)))


class _Step(NamedTuple):
    """Mean difference of the colours on both sides of an outline, in Lab units."""

    before: float
    after: float


def _mean_step(place: _Place, distance: Plane, offset: int, width: int = 3) -> _Step | None:
    inner = (distance > offset) & (distance <= offset + width) & place.inner
    outer = (distance > offset - 2 * width) & (distance <= offset - width) & place.inner
    if min(inner.sum(), outer.sum()) < 12:
        return None
    shares = [cv2.blur(side.astype(np.float32), (15, 15)) for side in (inner, outer)]
    outline = (np.abs(distance - offset) < 1) & (shares[0] > 0.01) & (shares[1] > 0.01)
    if outline.sum() < 8:
        return None

    def step(lab: Plane) -> float:
        inside, outside = (
            cv2.blur(np.where(side[:, :, None], lab, np.float32(0)), (15, 15)) / (share + np.float32(1e-6))[:, :, None]
            for side, share in zip((inner, outer), shares, strict=True)
        )
        return float(np.linalg.norm(inside - outside, axis=2)[outline].mean())

    return _Step(step(place.before), step(place.after))


def _new_edges_on_sides(place: _Place) -> list[float]:
    """Edges along each side of the box that the source does not have and that end at its corners, strongest first; 0
    for sides on the border. A door frame or a horizon goes on beyond the corners."""
    strengths = []
    corners = [round(corner) for corner in place.box]
    for vertical in (True, False):
        edges, new = (np.ascontiguousarray(part if vertical else part.T) for part in _edges_along(place, vertical))
        low, high = (corners[1], corners[3]) if vertical else (corners[0], corners[2])
        for at in (corners[0], corners[2]) if vertical else (corners[1], corners[3]):
            if 5 <= at <= edges.shape[1] - 6 and high - low >= 6:
                rows = max(0, low), min(edges.shape[0], high)
                strengths += [_edge_on_side(edges, new, at, *rows, (high - low) // 2)]
    return [*sorted(strengths, reverse=True), 0.0, 0.0, 0.0]


def _edges_along(place: _Place, vertical: bool) -> tuple[Plane, Plane]:
    """Strength of vertical or horizontal edges, and what the source does not have of it."""
    order = 0 if vertical else 1
    energies = (
        sum((_gradients(lab[:, :, channel])[order] ** 2 for channel in range(3)), np.float32(0))
        for lab in (place.before, place.after)
    )
    before, after = (np.minimum(np.sqrt(energy), _VISIBLE) for energy in energies)
    return after, np.maximum(0, after - cv2.dilate(before, np.ones((3, 3), np.uint8)))


def _edge_on_side(edges: Plane, new: Plane, at: int, low: int, high: int, reach: int) -> float:
    """The strongest new edge within 3 columns of one, from row `low` to `high`, less what is beside it and beyond."""
    length, columns = edges.shape
    strongest = 0.0
    for column in range(max(1, at - 3), min(columns - 2, at + 3) + 1):
        beside = np.median(edges[low:high, [max(0, column - 5), min(columns - 1, column + 5)]])
        beyond = np.r_[
            edges[max(0, low - reach) : max(0, low - 4), column],
            edges[min(length, high + 4) : min(length, high + reach), column],
        ]
        continued = 0.8 * beyond.mean() if beyond.size > 6 else 0.0
        strongest = max(strongest, float(new[low:high, column].mean() - 0.5 * beside - continued))
    return strongest


_PLAIN = 0.25  # of L*, squared: weaker structure cannot be seen


def _remains(place: _Place) -> dict[str, float]:
    """Correlation with the source inside, in three bands: `remains`, near 0 where the source is too plain to be seen,
    and `kept`, near 1 there, with the share of the source's structure that is left."""
    statistics = {}
    for name, low, high in (("fine", 0.8, 2.0), ("middle", 2.0, 5.0), ("coarse", 5.0, 12.0)):
        before, after = (
            (cv2.GaussianBlur(lab[:, :, 0], (0, 0), low) - cv2.GaussianBlur(lab[:, :, 0], (0, 0), high))[place.inside]
            for lab in (place.before, place.after)
        )
        before, after = before - before.mean(), after - after.mean()
        shared, energy = float((before * after).sum()), float((before * before).sum())
        statistics[f"remains.{name}"] = shared / float(np.sqrt(energy * float((after * after).sum()) + 1e-3))
        plain = _PLAIN * before.size
        strength = float(np.sqrt((energy + plain) * (float((after * after).sum()) + plain)))
        statistics[f"kept.{name}"] = (shared + plain) / strength
        statistics[f"kept share.{name}"] = (shared + plain) / (energy + plain)
    return statistics


_STEP = 4  # pixels between patches
_MOST_INSIDE, _MOST_OUTSIDE = 400, 1200
_UNITS = np.array([12, 6, 6] + [0.5] * 5, np.float32)  # a difference of one is clearly visible


def _neighbours(place: _Place, textures: Mapping[str, Plane]) -> dict[str, float]:
    """Distance of patches inside to the nearest one outside, relative to that among patches outside."""
    layers = [cv2.blur(place.after[:, :, channel], (8, 8)) for channel in range(3)]
    layers += [textures[name] for name in ("fine", "middle", "coarse", "across", "along")]
    patches = (np.stack(layers, axis=2) / _UNITS)[_STEP // 2 :: _STEP, _STEP // 2 :: _STEP]
    # numpy guarantees RandomState's stream; that of its newer generators may change.
    random = np.random.RandomState(0)
    chosen = []
    for area, most in ((place.inside, _MOST_INSIDE), (place.outside, _MOST_OUTSIDE)):
        found = patches[area[_STEP // 2 :: _STEP, _STEP // 2 :: _STEP]]
        chosen.append(found if len(found) <= most else found[random.permutation(len(found))[:most]])
    inside, outside = chosen
    names = {"all": slice(0, 8), "texture": slice(3, 8), "colour": slice(0, 3)}
    if len(inside) <= 3 or len(outside) <= 20:
        return {f"far.{name}.{percent}": 0.0 for name in names for percent in (50, 85)}
    shuffled = outside[random.permutation(len(outside))]
    half = len(outside) // 2
    statistics = {}
    for name, part in names.items():
        far = _nearest(inside[:, part], outside[:, part])
        usual = _nearest(shuffled[:half, part], shuffled[half:, part])
        for percent in (50, 85):
            ratio = (_percentile(far, percent) + 0.2) / (_percentile(usual, percent) + 0.2)
            statistics[f"far.{name}.{percent}"] = float(np.log(ratio))
    return statistics


def _nearest(patches: Plane, others: Plane) -> Plane:
    """Distance of each patch to the nearest of the others."""
    squares = (patches**2).sum(1)[:, None] + (others**2).sum(1)[None] - 2 * patches @ others.T
    return np.sqrt(np.maximum(squares.min(1), 0))


_SMALL = 64  # pixels of the longer side of the place


def _interpolated(place: _Place) -> float:
    """How far the place is from the best interpolation of its own border, relative to how varied the border is. Near 0
    and above for what was photographed or drawn, and on plain ground; far below where a varied border was smeared,
    faded or diffused inwards."""
    small = _shrunk(place)
    if small is None:
        return 0.0
    lab, (x0, y0, x1, y1) = small
    inside = np.zeros(lab.shape[:2], np.uint8)
    inside[y0:y1, x0:x1] = 1
    border = lab[(cv2.dilate(inside, np.ones((7, 7), np.uint8)) > 0) & (inside == 0)]
    if len(border) < 20:
        return 0.0
    shown = _soft(lab)[y0:y1, x0:x1]
    candidates = [*_diffused(lab, inside, (x0, y0, x1, y1)), *_faded(lab, (x0, y0, x1, y1))]
    errors = [np.sqrt(((shown - _soft(candidate)) ** 2).sum(2).mean()) for candidate in candidates]
    varied = np.sqrt(((border - border.mean(0)) ** 2).sum(1).mean())
    return float(np.log((min(errors) + 0.8) / (varied + 0.8)))


def _shrunk(place: _Place) -> tuple[Plane, Corners] | None:
    """The edited surroundings at a small size, and the place in it with a margin; None where there is too little."""
    height, width = place.after.shape[:2]
    x0, y0, x1, y1 = place.box
    scale = min(1.0, _SMALL / max(x1 - x0, y1 - y0))
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    lab = cv2.resize(place.after, size, interpolation=cv2.INTER_AREA) if scale < 1 else place.after
    across, down = size[0] / width if scale < 1 else 1.0, size[1] / height if scale < 1 else 1.0
    height, width = lab.shape[:2]
    corners = (
        max(0, round(x0 * across) - 1),
        max(0, round(y0 * down) - 1),
        min(width, round(x1 * across) + 1),
        min(height, round(y1 * down) + 1),
    )
    w, h = corners[2] - corners[0], corners[3] - corners[1]
    return (np.asarray(lab, np.float32), corners) if min(w, h) >= 6 and w * h <= 0.9 * width * height else None


def _soft(lab: Plane) -> Plane:
    return np.asarray(cv2.GaussianBlur(np.ascontiguousarray(lab, np.float32), (0, 0), 0.7), np.float32)


_OFFSET, _FACTOR = np.array([0, 128, 128], np.float32), np.array([2.55, 1, 1], np.float32)  # CIE L*a*b* as bytes


def _diffused(lab: Plane, inside: NDArray[np.uint8], corners: Corners) -> list[Plane]:
    """Classical inpainting of the place."""
    x0, y0, x1, y1 = corners
    packed = np.clip(lab * _FACTOR + _OFFSET, 0, 255).astype(np.uint8)
    filled = (cv2.inpaint(packed, inside, 3, method) for method in (cv2.INPAINT_TELEA, cv2.INPAINT_NS))
    return [(np.asarray(one, np.float32)[y0:y1, x0:x1] - _OFFSET) / _FACTOR for one in filled]


def _faded(lab: Plane, corners: Corners) -> list[Plane]:
    """Linear interpolations between opposite sides, and between all four. A side on the border is as its opposite."""
    x0, y0, x1, y1 = corners
    height, width = lab.shape[:2]
    top = lab[y0 - 1, x0:x1][None] if y0 > 0 else None
    bottom = lab[y1, x0:x1][None] if y1 < height else top
    left = lab[y0:y1, x0 - 1][:, None] if x0 > 0 else None
    right = lab[y0:y1, x1][:, None] if x1 < width else left
    top, left = bottom if top is None else top, right if left is None else left
    down = np.linspace(0, 1, y1 - y0, dtype=np.float32)[:, None, None]
    along = np.linspace(0, 1, x1 - x0, dtype=np.float32)[None, :, None]
    shape = (y1 - y0, x1 - x0, 3)
    fades: list[Plane] = []
    if top is not None and bottom is not None:
        fades.append(np.broadcast_to((1 - down) * top + down * bottom, shape))
    if left is not None and right is not None:
        fades.append(np.broadcast_to((1 - along) * left + along * right, shape))
    if len(fades) == 2 and top is not None and bottom is not None:
        # Coons, "Surfaces for computer-aided design of space forms", 1967
        corner: Plane = (1 - down) * ((1 - along) * top[:, :1] + along * top[:, -1:])
        corner = corner + down * ((1 - along) * bottom[:, :1] + along * bottom[:, -1:])
        both = fades[0] + fades[1]
        fades += [both - corner, both / np.float32(2)]
    return fades
