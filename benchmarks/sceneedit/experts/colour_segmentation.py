"""Colour segmentation: the pigment and the backdrop in each pixel.

Each pixel is modelled as a mixture of one pigment and the backdrop. Mixtures are linear: light, which multiplies both,
changes neither the best pigment nor its share, and a half-covered pixel at an edge is a valid mixture. The colours are
this package's own estimates.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]
Mask = NDArray[np.bool_]

REFERENCE_RGB = np.array(
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
"""RGB of the colours, in their order; light multiplies them."""

_REFERENCE_CHROMATICITY = np.array(
    [(0.29, 0.33), (0.32, 0.39), (0.375, 0.345), (0.28, 0.295), (0.4, 0.315), (0.26, 0.34), (0.33, 0.33)], np.float32
)
"""Chroma (red and green shares) of the usual backdrops; another one is accepted where it covers enough."""
_BACKDROP_LEAST = 0.01
"""Least share of the image that identifies the backdrop."""

_LARGEST, _SMALLEST = 128, 64
"""Pixels of the longer side above which images are reduced, and below which they are enlarged."""
_OFF, _LITTLE = 0.15, 0.3
"""Relative difference in brightness of faint ink from the backdrop, and its greatest share of a pigment."""
_DARK_INK, _LIGHT_INK, _PALE = 50, 170, 28
"""Grey levels: brightest channel of dark letters, darkest channel of light ones, and greatest spread of channels."""


class ColourSegmentation(NamedTuple):
    """Pixel-wise decomposition of an image."""

    picture: Plane  # H x W x 3
    backdrop: NDArray[np.float32]  # 3
    colour_shares: Plane  # pigments x H x W: share of each pigment, if a pixel had that one
    colour_index: NDArray[np.intp]  # H x W: the best pigment
    colour_amount: Plane  # H x W: its share
    smoothed_amount: Plane  # the same, denoised
    brightness: Plane  # H x W: brightness of the pigment without the backdrop
    ink_candidates: Mask  # possible ink of letters
    text_mask: Mask  # certain ink of letters, no pigment
    noise_sigma: float  # grey levels


def resized_for_analysis(pixels: NDArray[np.uint8]) -> tuple[Plane, float]:
    """The image at the size of the analysis, and the scale factor."""
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
    """The colour of the backdrop in this light: frequent, pale, and no pigment."""
    flat = picture[::2, ::2].reshape(-1, 3) if min(picture.shape[:2]) > 24 else picture.reshape(-1, 3)
    total = flat @ np.ones(3, np.float32)
    chroma = flat[:, :2] / np.maximum(total, 1.0)[:, None]
    red, green = chroma[:, 0] - 1 / 3, chroma[:, 1] - 1 / 3
    strength = red**2 + green**2 + (red + green) ** 2
    pigment_chroma = REFERENCE_RGB[:, :2] / REFERENCE_RGB.sum(axis=1, keepdims=True)
    pigment_distance = np.min([(chroma[:, 0] - x) ** 2 + (chroma[:, 1] - y) ** 2 for x, y in pigment_chroma], axis=0)
    prior_distance = np.min(
        [(chroma[:, 0] - x) ** 2 + (chroma[:, 1] - y) ** 2 for x, y in _REFERENCE_CHROMATICITY], axis=0
    )
    weight = (np.exp(-strength / 0.12**2) + 0.03) * (0.15 + np.exp(-prior_distance / 0.06**2))
    weight *= 1 - 0.97 * np.exp(-pigment_distance / 0.06**2)
    weight *= total > 100
    cells = np.clip((chroma * 48).astype(np.int32), 0, 47)
    single = np.bincount(cells[:, 1] * 48 + cells[:, 0], weight, 48 * 48).reshape(48, 48)
    counts = np.asarray(cv2.blur(single, (3, 3), borderType=cv2.BORDER_CONSTANT))
    if counts.max() * 9 < _BACKDROP_LEAST * len(flat):
        return np.full(3, max(float(np.median(total)) / 3, 60.0), np.float32)
    y, x = np.unravel_index(int(counts.argmax()), counts.shape)
    centre = np.array([(x + 0.5) / 48, (y + 0.5) / 48], np.float32)
    distances = np.square(chroma - centre).sum(axis=1)
    members = (distances < max(0.035**2, 1.0001 * float(distances[total > 100].min()))) & (total > 100)
    return np.asarray(np.median(flat[members], axis=0), np.float32)


def _noise(picture: Plane, backdrop: NDArray[np.float32]) -> float:
    """Standard deviation of the noise, in grey levels, from pixel-to-pixel differences in hue of the backdrop, which
    its texture does not have. 0 where too little of the backdrop is visible.
    """
    hue = (picture[..., 0] - picture[..., 1]) / np.float32(np.sqrt(2))
    direction = backdrop / np.linalg.norm(backdrop)
    projection = picture @ direction
    background = np.einsum("hwc,hwc->hw", picture, picture) - np.square(projection) < np.square(0.15 * projection)
    background = cv2.erode(background.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=0) > 0
    if np.count_nonzero(background) < 48:
        return 0.0
    deviations = np.abs(hue - cv2.blur(hue, (3, 3)))[background]
    return float(np.quantile(deviations, 0.3)) / 0.385 / float(np.sqrt(8 / 9))  # 0.385: this quantile of |N(0, 1)|


def segment_colours(picture: Plane) -> ColourSegmentation:
    """Decompose an image (H x W x 3, grey levels)."""
    backdrop = _backdrop(picture)
    height, width = picture.shape[:2]
    flat = picture.reshape(-1, 3)
    red, green, blue = cv2.split(picture)
    high, low = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    white = (low > _LIGHT_INK) & (high - low < _PALE)
    text_mask = (high < _DARK_INK) | (white & (low > 1.12 * float(backdrop.mean())))
    pigment_amount, backdrop_amount, misfit = (
        plane.reshape(-1, height, width) for plane in unmix_colours(flat, backdrop)
    )
    share = np.where(text_mask, np.float32(0), pigment_amount / np.maximum(pigment_amount + backdrop_amount, 1e-6))
    colour_index = cv2.blur(misfit.transpose(1, 2, 0), (3, 3)).argmin(axis=2)
    colour_amount, chosen_amount, chosen_rest = (
        np.take_along_axis(plane, colour_index[None], axis=0)[0] for plane in (share, pigment_amount, backdrop_amount)
    )
    brightness = chosen_amount / np.maximum(1 - chosen_rest, 0.1)
    deviates = np.abs((red + green + blue) / float(backdrop.sum()) - 1) > _OFF
    ink = text_mask | white | (deviates & (colour_amount < _LITTLE))
    noise = _noise(picture, backdrop)
    return ColourSegmentation(
        picture,
        backdrop,
        share,
        colour_index,
        colour_amount,
        cv2.blur(colour_amount, (3, 3)),
        brightness,
        ink,
        text_mask,
        noise,
    )


def unmix_colours(colours: Plane, backdrop: NDArray[np.float32]) -> tuple[Plane, Plane, Plane]:
    """Each colour (n x 3) as u pigment + v backdrop with u, v >= 0: u, v and, as squared sines, the distance from the
    best such mixture; all pigments x n.
    """
    pp = np.square(REFERENCE_RGB).sum(axis=1)[:, None]
    pb = (REFERENCE_RGB @ backdrop)[:, None]
    bb = float(backdrop @ backdrop)
    xp, xb = REFERENCE_RGB @ colours.T, (colours @ backdrop)[None]
    xx = np.maximum(np.einsum("nc,nc->n", colours, colours), 1.0)[None]
    det = np.maximum(pp * bb - pb * pb, 1.0)
    u = (bb * xp - pb * xb) / det
    v = (pp * xb - pb * xp) / det
    u, v = np.where(v < 0, xp / pp, np.maximum(u, 0)), np.where(u < 0, xb / bb, np.maximum(v, 0))
    return u, v, np.maximum(1 - (u * xp + v * xb) / xx, 0.0)  # what the best u and v explain
