"""Segments: the things in a picture, found by their colour against the backdrop.

A pixel is taken for a mixture of one pigment and the backdrop. Mixtures are linear, so that light, which multiplies
both, changes neither which pigment fits best nor how much of it there is; and a half-covered pixel at an edge looks
like what it is. What a pigment, an outline or a surface looks like is this package's own knowledge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Box
from ..words import COLOURS
from .outlines import fit
from .surfaces import materials

Plane = NDArray[np.float32]
Mask = NDArray[np.bool_]

_PIGMENTS = np.array(
    [
        (206, 40, 42),
        (240, 132, 22),
        (240, 214, 36),
        (38, 148, 58),
        (4, 150, 146),
        (46, 82, 206),
        (128, 54, 176),
        (240, 104, 176),
    ],
    np.float32,
)
"""What the colours look like, in their order; any light multiplies them."""

_USUAL = np.array(
    [(0.29, 0.33), (0.32, 0.39), (0.375, 0.345), (0.28, 0.295), (0.4, 0.315), (0.26, 0.34), (0.33, 0.33)], np.float32
)
"""Chroma (red and green shares) of what usually lies behind; another is believed where there is enough of it."""
_BACKDROP_LEAST = 0.01
"""Share of the picture that tells the backdrop."""

_LARGEST, _SMALLEST = 128, 64
"""Pixels of the longer side beyond which pictures are reduced, and below which they are enlarged."""
_FAINT = 0.17
"""Share of a pigment from which on a pixel shows a thing."""
_LEAST = 14
"""Pixels; fewer show nothing."""
_MOST = 32
"""Segments, the largest first; more are noise."""
_ENOUGH = 32
"""Pixels that tell a material well enough."""
_NOISY = 5.0
"""Grey levels of noise that do no harm."""
_OFF, _LITTLE = 0.15, 0.3
"""How far faint ink is darker or lighter than the backdrop, and how much of a pigment may be in it."""
_TONE = 0.08
"""How far (as an angle) what people call by one colour may lie apart."""
_ALIKE = 0.09
"""Angle between the colours of two parts of one thing, at most; the nearest pigments lie 0.22 apart."""
_DARK_INK, _LIGHT_INK, _PALE = 50, 170, 28
"""Grey levels: the brightest channel of dark letters, the darkest of light ones, and how far their channels may
lie apart."""


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
    picture, scale = _at_size(pixels)
    backdrop = _backdrop(picture)
    looks = _look(picture, backdrop, _noise(picture, backdrop))
    masks = sorted(_joined(_masks(looks), looks), key=lambda pair: -int(pair[1].sum()))[:_MOST]
    owner = np.zeros(looks.name.shape, np.int32)
    for number, (_, mask) in enumerate(masks, 1):
        owner[mask] = number
    return [_seen(number, colour, mask, owner, looks, scale) for number, (colour, mask) in enumerate(masks, 1)]


class _Looks(NamedTuple):
    picture: Plane  # H x W x 3
    backdrop: NDArray[np.float32]  # 3
    share: Plane  # pigments x H x W: how much of each pigment would be in a pixel
    name: NDArray[np.intp]  # H x W: which pigment it is
    mine: Plane  # H x W: how much of it
    bright: Plane  # H x W: how bright that is by itself, whatever lies behind
    calm: Plane  # the same, noise averaged out
    ink: Mask  # what letters may be made of
    written: Mask  # what they are made of, and no pigment
    noise: float  # grey levels


def _at_size(pixels: NDArray[np.uint8]) -> tuple[Plane, float]:
    height, width = pixels.shape[:2]
    longer = max(height, width)
    if longer > _LARGEST:
        scale = _LARGEST / longer
        size = (max(4, round(width * scale)), max(4, round(height * scale)))
        return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.float32), scale
    if longer < _SMALLEST:
        return pixels.repeat(2, axis=0).repeat(2, axis=1).astype(np.float32), 2.0
    return pixels.astype(np.float32), 1.0


def _backdrop(picture: Plane) -> NDArray[np.float32]:
    """The colour of what lies behind, in whatever light: frequent, pale, and no pigment."""
    flat = picture[::2, ::2].reshape(-1, 3) if min(picture.shape[:2]) > 24 else picture.reshape(-1, 3)
    total = flat.sum(axis=1)
    chroma = flat[:, :2] / np.maximum(total, 1.0)[:, None]
    third = 1 - chroma.sum(axis=1)
    strength = np.square(chroma - 1 / 3).sum(axis=1) + np.square(third - 1 / 3)
    known = _PIGMENTS[:, :2] / _PIGMENTS.sum(axis=1, keepdims=True)
    near = np.square(chroma).sum(axis=1)[:, None] + np.square(known).sum(axis=1) - 2 * chroma @ known.T
    unusual = np.square(chroma[:, None] - _USUAL).sum(axis=2).min(axis=1)
    weight = (np.exp(-strength / 0.12**2) + 0.03) * (0.15 + np.exp(-unusual / 0.06**2))
    weight *= 1 - 0.97 * np.exp(-np.maximum(near.min(axis=1), 0) / 0.06**2)
    weight *= total > 100
    cells = np.clip((chroma * 48).astype(np.int32), 0, 47)
    single = np.bincount(cells[:, 1] * 48 + cells[:, 0], weight, 48 * 48).reshape(48, 48)
    counts = np.asarray(cv2.blur(single, (3, 3), borderType=cv2.BORDER_CONSTANT))
    if counts.max() * 9 < _BACKDROP_LEAST * len(flat):
        return np.full(3, max(float(np.median(total)) / 3, 60.0), np.float32)
    y, x = np.unravel_index(int(counts.argmax()), counts.shape)
    centre = np.array([(x + 0.5) / 48, (y + 0.5) / 48], np.float32)
    like = (np.square(chroma - centre).sum(axis=1) < 0.035**2) & (total > 100)
    return np.asarray(np.median(flat[like], axis=0), np.float32)


def _noise(picture: Plane, backdrop: NDArray[np.float32]) -> float:
    """Standard deviation of the noise, in grey levels: of what differs from pixel to pixel of the backdrop in hue, as
    its texture does not. 0 where little of the backdrop is seen.
    """
    hue = (picture[..., 0] - picture[..., 1]) / np.float32(np.sqrt(2))
    direction = backdrop / np.linalg.norm(backdrop)
    along = picture @ direction
    behind = np.square(picture).sum(axis=2) - np.square(along) < np.square(0.15 * along)
    behind = cv2.erode(behind.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=0) > 0
    if np.count_nonzero(behind) < 48:
        return 0.0
    off = np.abs(hue - cv2.blur(hue, (3, 3)))[behind]
    return float(np.quantile(off, 0.3)) / 0.385 / float(np.sqrt(8 / 9))  # 0.385: this quantile of |N(0, 1)|


def _look(grainy: Plane, backdrop: NDArray[np.float32], noise: float) -> _Looks:
    """What there is of each pigment, after smoothing noise away as far as it needs; how bright, before that."""
    height, width = grainy.shape[:2]
    smooth = noise > _NOISY
    picture = cv2.GaussianBlur(grainy, (0, 0), 0.5 + min(noise, 20.0) / 40) if smooth else grainy
    flat = picture.reshape(-1, 3)
    high, low = picture.max(axis=2), picture.min(axis=2)
    white = (low > _LIGHT_INK) & (high - low < _PALE)
    written = (high < _DARK_INK) | (white & (low > 1.12 * float(backdrop.mean())))
    paint, rest, misfit = (plane.reshape(-1, height, width) for plane in _unmixed(flat, backdrop))
    share = np.where(written, np.float32(0), paint / np.maximum(paint + rest, 1e-6))
    name = cv2.blur(misfit.transpose(1, 2, 0), (3, 3)).argmin(axis=2)
    mine, by_itself, behind = (np.take_along_axis(plane, name[None], axis=0)[0] for plane in (share, paint, rest))
    if smooth:
        own = [plane.reshape(-1, height, width) for plane in _unmixed(grainy.reshape(-1, 3), backdrop)[:2]]
        by_itself, behind = (np.take_along_axis(plane, name[None], axis=0)[0] for plane in own)
    bright = by_itself / np.maximum(1 - behind, 0.1)
    off = np.abs(picture.sum(axis=2) / float(backdrop.sum()) - 1) > _OFF
    ink = written | white | (off & (mine < _LITTLE))
    return _Looks(picture, backdrop, share, name, mine, bright, cv2.blur(mine, (3, 3)), ink, written, noise)


def _unmixed(colours: Plane, backdrop: NDArray[np.float32]) -> tuple[Plane, Plane, Plane]:
    """Each colour (n x 3) as u pigment + v backdrop with u, v >= 0: u, v and, as squared sines, how far it is from any
    such mixture; all pigments x n.
    """
    pp = np.square(_PIGMENTS).sum(axis=1)[:, None]
    pb = (_PIGMENTS @ backdrop)[:, None]
    bb = float(backdrop @ backdrop)
    xp, xb = _PIGMENTS @ colours.T, (colours @ backdrop)[None]
    xx = np.maximum(np.square(colours).sum(axis=1), 1.0)[None]
    det = np.maximum(pp * bb - pb * pb, 1.0)
    u = (bb * xp - pb * xb) / det
    v = (pp * xb - pb * xp) / det
    u, v = np.where(v < 0, xp / pp, np.maximum(u, 0)), np.where(u < 0, xb / bb, np.maximum(v, 0))
    fitted = 2 * (u * xp + v * xb) - (u * u * pp + 2 * u * v * pb + v * v * bb)
    return u, v, np.maximum(1 - fitted / xx, 0.0)


# -- which pixels belong together -------------------------------------------------------------------------------------


def _masks(looks: _Looks) -> list[tuple[int, Mask]]:
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


def _solid(region: Mask, looks: _Looks, depth: int) -> list[Mask]:
    """The parts of a region that are at least half as solid as the most solid one, then what is left, likewise."""
    level = float(np.percentile(looks.calm[region], 85))
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


def _joined(masks: list[tuple[int, Mask]], looks: _Looks) -> list[tuple[int, Mask]]:
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


def _seen(number: int, colour: int, mask: Mask, owner: NDArray[np.int32], looks: _Looks, scale: float) -> Seen:
    height, width = mask.shape
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    top, bottom, left, right = max(ys[0] - 3, 0), min(ys[-1] + 4, height), max(xs[0] - 3, 0), min(xs[-1] + 4, width)
    near = np.s_[top:bottom, left:right]
    own = mask[near]
    other = (owner[near] > 0) & (owner[near] != number)
    rim = (cv2.dilate(other.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0) & ~own
    inner = own & (looks.mine[near] >= 0.8 * float(np.percentile(looks.mine[near][own], 70)))
    mean = looks.picture[near][inner].mean(axis=0)
    paint, rest, misfit = (values[:, 0] for values in _unmixed(mean[None], looks.backdrop))
    shares = paint / np.maximum(paint + rest, 1e-6)
    opacity = float(shares[colour])
    tone = _TONE * shares + 0.01
    likely = np.exp(-misfit / (2 * tone**2)) + 1e-4
    likely /= likely.sum()
    level = float(np.percentile(looks.calm[near][own], 85))
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
    noise = looks.noise / float(np.linalg.norm(_PIGMENTS[colour]))
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
    """The sides (left, top, right, bottom) on which what is seen ends at something else, or at the picture's edge."""
    beside = cv2.dilate(other.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    ys, xs = np.nonzero(own)
    x0, y0, x1, y1 = xs.min(), ys.min(), xs.max(), ys.max()
    height, width = own.shape
    ends = (beside[:, x0] & own[:, x0], beside[y0] & own[y0], beside[:, x1] & own[:, x1], beside[y1] & own[y1])
    cut = (edges[0] and x0 == 0, edges[1] and y0 == 0, edges[2] and x1 == width - 1, edges[3] and y1 == height - 1)
    return tuple(bool(end.any()) or at_edge for end, at_edge in zip(ends, cut, strict=True))
