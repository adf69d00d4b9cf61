"""Segments: the things in a picture, found by their colour against the backdrop, and what they look like."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Box
from ..words import COLOURS
from .outlines import fit
from .pigments import PIGMENTS, Looks, Mask, Plane, at_size, look, unmixed
from .surfaces import materials

_FAINT = 0.17
"""Share of a pigment from which on a pixel shows a thing."""
_LEAST = 14
"""Pixels; fewer show nothing."""
_MOST = 32
"""Segments, the largest first; more are noise."""
_ENOUGH = 32
"""Pixels that tell a material well enough."""
_TONE = 0.08
"""How far (as an angle) what people call by one colour may lie apart."""
_ALIKE = 0.09
"""Angle between the colours of two parts of one thing, at most; the nearest pigments lie 0.22 apart."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A thing as it looks.

    box: around all of it, what is covered included. colours, shapes, materials: name -> how sure, in [0, 1] (an empty
    material is plain). opacity: how solid it looks, in [0, 1]. shown: the share of it that is not covered. lettered:
    how surely there are letters on it. mask: where it is seen, at the size the picture was looked at.
    """

    box: Box
    colours: dict[str, float]
    shapes: dict[str, float]
    materials: dict[str, float]
    opacity: float
    shown: float
    lettered: float
    mask: Mask


def segments(pixels: NDArray[np.uint8]) -> list[Seen]:
    """The things in a picture (H x W x 3 uint8 RGB, at least 4 pixels a side; else none), the largest first."""
    if min(pixels.shape[:2]) < 4:
        return []
    picture, scale = at_size(pixels)
    looks = look(picture)
    masks = sorted(_joined(_masks(looks), looks), key=lambda pair: -int(pair[1].sum()))[:_MOST]
    owner = np.zeros(looks.name.shape, np.int32)
    for number, (_, mask) in enumerate(masks, 1):
        owner[mask] = number
    return [_seen(number, colour, mask, owner, looks, scale) for number, (colour, mask) in enumerate(masks, 1)]


# -- which pixels belong together -------------------------------------------------------------------------------------


def _masks(looks: Looks) -> list[tuple[int, Mask]]:
    """Connected regions of one pigment, without the fringe between two."""
    shown = (looks.mine > 0.5) | (looks.calm > _FAINT)
    found: list[tuple[int, Mask]] = []
    for colour in range(len(COLOURS)):
        here = shown & (looks.name == colour)
        if np.count_nonzero(here) < _LEAST:
            continue
        for region in _regions(here):
            found += [(colour, part) for part in _solid(region, looks, 2)]
    return found


def _regions(mask: Mask) -> list[Mask]:
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    return [labels == number for number in range(1, count) if stats[number, cv2.CC_STAT_AREA] >= _LEAST]


def _solid(region: Mask, looks: Looks, depth: int) -> list[Mask]:
    """The parts of a region that are at least half as solid as the most solid one, then what is left, likewise."""
    level = _quantile(looks.calm[region], 0.85)
    share = looks.mine if level > 0.5 else looks.calm
    if level < _FAINT:
        return []
    core = region & (share > 0.5 * level)
    parts = [part for part in _regions(core) if not _thin(part)]
    if depth > 1:
        left = region & (cv2.dilate(core.astype(np.uint8), np.ones((5, 5), np.uint8)) == 0)
        for part in _regions(left):
            parts += _solid(part, looks, depth - 1)
    return parts


def _joined(masks: list[tuple[int, Mask]], looks: Looks) -> list[tuple[int, Mask]]:
    """Neighbours of nearly one colour are one thing, whose colour lies between two pigments."""
    means = [looks.picture[mask].mean(axis=0) for _, mask in masks]
    hues = [mean / max(float(np.linalg.norm(mean)), 1.0) for mean in means]
    joined: list[tuple[int, Mask]] = []
    kept: list[NDArray[np.float32]] = []
    for (colour, mask), hue in sorted(zip(masks, hues, strict=True), key=lambda pair: -int(pair[0][1].sum())):
        for place, other in enumerate(kept):
            if float(np.linalg.norm(hue - other)) < _ALIKE and _touch(mask, joined[place][1]):
                joined[place] = (joined[place][0], joined[place][1] | mask)
                break
        else:
            joined.append((colour, mask))
            kept.append(hue)
    return joined


def _touch(one: Mask, other: Mask) -> bool:
    return bool((cv2.dilate(one.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0)[other].any())


def _thin(mask: Mask) -> bool:
    """Whether it is a line of a pixel or so: the fringe between two things."""
    return int(cv2.erode(mask.astype(np.uint8), np.ones((2, 2), np.uint8), borderValue=0).sum()) * 5 < int(mask.sum())


# -- what they look like ----------------------------------------------------------------------------------------------


def _seen(number: int, colour: int, mask: Mask, owner: NDArray[np.int32], looks: Looks, scale: float) -> Seen:
    height, width = mask.shape
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    top, bottom, left, right = max(ys[0] - 3, 0), min(ys[-1] + 4, height), max(xs[0] - 3, 0), min(xs[-1] + 4, width)
    near = np.s_[top:bottom, left:right]
    own = mask[near]
    other = (owner[near] > 0) & (owner[near] != number)
    rim = (cv2.dilate(other.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0) & ~own
    inner = own & (looks.mine[near] >= 0.8 * _quantile(looks.mine[near][own], 0.70))
    mean = looks.picture[near][inner].mean(axis=0)
    paint, rest, misfit = (values[:, 0] for values in unmixed(mean[None], looks.backdrop))
    shares = paint / np.maximum(paint + rest, 1e-6)
    opacity = float(shares[colour])
    tone = _TONE * shares + 0.01
    likely = np.exp(-misfit / (2 * tone**2)) + 1e-4
    likely /= likely.sum()
    level = _quantile(looks.calm[near][own], 0.85)
    around = cv2.dilate(own.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    cover = np.where(around & ~other, np.minimum(looks.share[colour][near] / level, 1.0), 0.0)
    cover = np.where(own, np.maximum(cover, 0.5), cover).astype(np.float32)
    holes, lettered = _letters(own, looks.ink[near])
    cover = np.where(holes, np.float32(1), cover)
    corners = _edges(cover)
    touched = _touched(own, other, (left == 0, top == 0, right == width, bottom == height))
    hidden = rim | (looks.written[near] & ~holes)
    fitted = fit(cover, hidden.astype(np.float32), corners, touched, lettered, max(scale, 1.0))
    x0, y0, x1, y1 = fitted.corners
    x0, y0, x1, y1 = x0 + left, y0 + top, x1 + left, y1 + top
    box = Box.from_corners(max(x0, 0.0), max(y0, 0.0), min(x1, width), min(y1, height), (width, height))
    noise = looks.noise / float(np.linalg.norm(PIGMENTS[colour]))
    return Seen(
        box=box,
        colours=dict(zip(COLOURS, likely.tolist(), strict=True)),
        shapes=fitted.shapes,
        materials=_materials(looks.bright[near], inner, own, looks.ink[near], scale, noise),
        opacity=opacity,
        shown=fitted.shown,
        lettered=lettered,
        mask=mask,
    )


def _materials(bright: Plane, inner: Mask, own: Mask, ink: Mask, scale: float, noise: float) -> dict[str, float]:
    """Of pixels that show nothing but the thing: where it is large, and may be smooth, away from edges and ink."""
    if scale == 2.0:  # each pixel stands there four times
        return materials(bright[::2, ::2], inner[::2, ::2], noise)
    clean = inner
    size = min(np.ptp(np.flatnonzero(own.any(axis=1))), np.ptp(np.flatnonzero(own.any(axis=0))))
    for reach in range(max(int(size) // 12, int(scale < 1)), 0, -1):
        kernel = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
        clean = inner & (cv2.dilate((ink | ~own).astype(np.uint8), kernel, borderValue=0) == 0)
        if np.count_nonzero(clean) >= _ENOUGH:
            break
    return materials(bright, clean, noise)


def _letters(own: Mask, ink: Mask) -> tuple[Mask, float]:
    """Where letters stand on a thing, and how surely there are some: ink in it, if it is wider than high."""
    rows, columns = np.flatnonzero(own.any(axis=1)), np.flatnonzero(own.any(axis=0))
    height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
    if width < 1.25 * height:  # a ring's hole may show something white
        return np.zeros_like(own), 0.0
    reach = int(0.3 * height) + 1
    plate = cv2.morphologyEx(
        np.pad(own, reach).astype(np.uint8), cv2.MORPH_CLOSE, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
    )[reach:-reach, reach:-reach]
    holes = (plate > 0) & ~own & (cv2.dilate(ink.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0)
    part = float(holes.sum()) / max(float(own.sum() + holes.sum()), 1.0)
    return holes, 1 / (1 + float(np.exp(-(part - 0.1) / 0.02)))


def _edges(cover: Plane) -> tuple[float, float, float, float]:
    """Corners x0, y0, x1, y1 in pixels, where half of a pixel is covered."""
    x0, x1 = _ends(cover.max(axis=0))
    y0, y1 = _ends(cover.max(axis=1))
    return x0, y0, x1, y1


def _ends(line: Plane) -> tuple[float, float]:
    inside = np.flatnonzero(line >= 0.5)
    first, last = int(inside[0]), int(inside[-1])
    before = float(line[first - 1]) if first else 0.0
    after = float(line[last + 1]) if last + 1 < len(line) else 0.0
    start = first + 0.5 - (float(line[first]) - 0.5) / max(float(line[first]) - before, 1e-6)
    end = last + 0.5 + (float(line[last]) - 0.5) / max(float(line[last]) - after, 1e-6)
    return start, end


def _touched(own: Mask, other: Mask, edges: tuple[bool, bool, bool, bool]) -> tuple[bool, ...]:
    """The sides (left, top, right, bottom) on which it may go on, beneath something else or beyond the picture."""
    height, width = own.shape
    ys, xs = np.flatnonzero(own.any(axis=1)), np.flatnonzero(own.any(axis=0))
    x0, y0, x1, y1 = xs[0], ys[0], xs[-1], ys[-1]
    cut = (edges[0] and x0 == 0, edges[1] and y0 == 0, edges[2] and x1 == width - 1, edges[3] and y1 == height - 1)
    meet = own & (cv2.dilate(other.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0)
    if not meet.any():
        return cut
    x, y = (x0 + x1) // 2, (y0 + y1) // 2
    rows, columns = other[y0 : y1 + 1], other[:, x0 : x1 + 1]
    covered = (
        meet[:, :x].any() and rows[:, : x0 + 1].any(),
        meet[:y].any() and columns[: y0 + 1].any(),
        meet[:, x + 1 :].any() and rows[:, x1:].any(),
        meet[y + 1 :].any() and columns[y1:].any(),
    )
    return tuple(bool(side) or at_edge for side, at_edge in zip(covered, cut, strict=True))


def _quantile(values: Plane, share: float) -> float:
    place = int(share * (values.size - 1))
    return float(np.partition(values, place)[place])
