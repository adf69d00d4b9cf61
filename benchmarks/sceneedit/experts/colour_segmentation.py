"""Pigments: how much of which colour is in each pixel, and what lies behind.

A pixel is taken for a mixture of one pigment and the backdrop. Mixtures are linear, so that light, which multiplies
both, changes neither which pigment fits best nor how much of it there is; and a half-covered pixel at an edge looks
like what it is. What colours look like is this package's own knowledge.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]
Mask = NDArray[np.bool_]

PIGMENTS = np.array(
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
_OFF, _LITTLE = 0.15, 0.3
"""How far faint ink is darker or lighter than the backdrop, and how much of a pigment may be in it."""
_DARK_INK, _LIGHT_INK, _PALE = 50, 170, 28
"""Grey levels: the brightest channel of dark letters, the darkest of light ones, and how far their channels may
lie apart."""


class Looks(NamedTuple):
    """A picture taken apart, pixel by pixel."""

    picture: Plane  # H x W x 3
    backdrop: NDArray[np.float32]  # 3
    share: Plane  # pigments x H x W: how much of each pigment would be in a pixel
    name: NDArray[np.intp]  # H x W: which pigment it is
    mine: Plane  # H x W: how much of it
    calm: Plane  # the same, noise averaged out
    bright: Plane  # H x W: how bright that is by itself, whatever lies behind
    ink: Mask  # what letters may be made of
    written: Mask  # what they are made of, and no pigment
    noise: float  # grey levels


def at_size(pixels: NDArray[np.uint8]) -> tuple[Plane, float]:
    """The picture at a size that can be looked at, and by how much it was enlarged."""
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
    total = flat @ np.ones(3, np.float32)
    chroma = flat[:, :2] / np.maximum(total, 1.0)[:, None]
    red, green = chroma[:, 0] - 1 / 3, chroma[:, 1] - 1 / 3
    strength = red**2 + green**2 + (red + green) ** 2
    known = PIGMENTS[:, :2] / PIGMENTS.sum(axis=1, keepdims=True)
    near = np.min([(chroma[:, 0] - x) ** 2 + (chroma[:, 1] - y) ** 2 for x, y in known], axis=0)
    unusual = np.min([(chroma[:, 0] - x) ** 2 + (chroma[:, 1] - y) ** 2 for x, y in _USUAL], axis=0)
    weight = (np.exp(-strength / 0.12**2) + 0.03) * (0.15 + np.exp(-unusual / 0.06**2))
    weight *= 1 - 0.97 * np.exp(-near / 0.06**2)
    weight *= total > 100
    cells = np.clip((chroma * 48).astype(np.int32), 0, 47)
    single = np.bincount(cells[:, 1] * 48 + cells[:, 0], weight, 48 * 48).reshape(48, 48)
    counts = np.asarray(cv2.blur(single, (3, 3), borderType=cv2.BORDER_CONSTANT))
    if counts.max() * 9 < _BACKDROP_LEAST * len(flat):
        return np.full(3, max(float(np.median(total)) / 3, 60.0), np.float32)
    y, x = np.unravel_index(int(counts.argmax()), counts.shape)
    centre = np.array([(x + 0.5) / 48, (y + 0.5) / 48], np.float32)
    away = np.square(chroma - centre).sum(axis=1)
    like = (away < max(0.035**2, 1.0001 * float(away[total > 100].min()))) & (total > 100)
    return np.asarray(np.median(flat[like], axis=0), np.float32)


def _noise(picture: Plane, backdrop: NDArray[np.float32]) -> float:
    """Standard deviation of the noise, in grey levels: of what differs from pixel to pixel of the backdrop in hue, as
    its texture does not. 0 where little of the backdrop is seen.
    """
    hue = (picture[..., 0] - picture[..., 1]) / np.float32(np.sqrt(2))
    direction = backdrop / np.linalg.norm(backdrop)
    along = picture @ direction
    behind = np.einsum("hwc,hwc->hw", picture, picture) - np.square(along) < np.square(0.15 * along)
    behind = cv2.erode(behind.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=0) > 0
    if np.count_nonzero(behind) < 48:
        return 0.0
    off = np.abs(hue - cv2.blur(hue, (3, 3)))[behind]
    return float(np.quantile(off, 0.3)) / 0.385 / float(np.sqrt(8 / 9))  # 0.385: this quantile of |N(0, 1)|


def look(picture: Plane) -> Looks:
    """Take a picture (H x W x 3, grey levels) apart."""
    backdrop = _backdrop(picture)
    height, width = picture.shape[:2]
    flat = picture.reshape(-1, 3)
    red, green, blue = cv2.split(picture)
    high, low = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    white = (low > _LIGHT_INK) & (high - low < _PALE)
    written = (high < _DARK_INK) | (white & (low > 1.12 * float(backdrop.mean())))
    paint, rest, misfit = (plane.reshape(-1, height, width) for plane in unmixed(flat, backdrop))
    share = np.where(written, np.float32(0), paint / np.maximum(paint + rest, 1e-6))
    name = cv2.blur(misfit.transpose(1, 2, 0), (3, 3)).argmin(axis=2)
    mine, by_itself, behind = (np.take_along_axis(plane, name[None], axis=0)[0] for plane in (share, paint, rest))
    bright = by_itself / np.maximum(1 - behind, 0.1)
    off = np.abs((red + green + blue) / float(backdrop.sum()) - 1) > _OFF
    ink = written | white | (off & (mine < _LITTLE))
    noise = _noise(picture, backdrop)
    return Looks(picture, backdrop, share, name, mine, cv2.blur(mine, (3, 3)), bright, ink, written, noise)


def unmixed(colours: Plane, backdrop: NDArray[np.float32]) -> tuple[Plane, Plane, Plane]:
    """Each colour (n x 3) as u pigment + v backdrop with u, v >= 0: u, v and, as squared sines, how far it is from any
    such mixture; all pigments x n.
    """
    pp = np.square(PIGMENTS).sum(axis=1)[:, None]
    pb = (PIGMENTS @ backdrop)[:, None]
    bb = float(backdrop @ backdrop)
    xp, xb = PIGMENTS @ colours.T, (colours @ backdrop)[None]
    xx = np.maximum(np.einsum("nc,nc->n", colours, colours), 1.0)[None]
    det = np.maximum(pp * bb - pb * pb, 1.0)
    u = (bb * xp - pb * xb) / det
    v = (pp * xb - pb * xp) / det
    u, v = np.where(v < 0, xp / pp, np.maximum(u, 0)), np.where(u < 0, xb / bb, np.maximum(v, 0))
    return u, v, np.maximum(1 - (u * xp + v * xb) / xx, 0.0)  # what the best u and v explain
