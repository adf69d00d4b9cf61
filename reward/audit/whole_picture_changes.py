"""Changes of a whole picture, as functions on H x W x 3 uint8 RGB pixels. None changes its argument.

Families of variants are made of them, and so are simulated edits of the studies.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ..image import Pixels


def clipped(values: NDArray[Any]) -> Pixels:
    """Numbers of any type and shape as uint8, rounded half up."""
    return np.clip(values + 0.5, 0, 255).astype(np.uint8)


def mapped(pixels: Pixels, levels: NDArray[np.uint8]) -> Pixels:
    """Each grey level replaced. levels: 256 new ones for all channels, or 256 x 3."""
    return np.asarray(cv2.LUT(pixels, np.ascontiguousarray(levels.reshape(1, 256, -1))), np.uint8)


def jpeg(pixels: Pixels, quality: int) -> Pixels:
    """As JPEG of this quality (1 to 100, colours at half resolution) and back. No side above 65,500 px."""
    _, data = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.asarray(cv2.cvtColor(np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR)), cv2.COLOR_BGR2RGB), np.uint8)


def resized(pixels: Pixels, scale: float) -> Pixels:
    """Averaged to a smaller size and back. scale: of the sides, in (0, 1]."""
    height, width = pixels.shape[:2]
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_LANCZOS4), np.uint8)


def moved(pixels: Pixels, zoom: float, x: float, y: float) -> Pixels:
    """Content scaled about the centre and shifted, in pixels; the border is reflected."""
    height, width = pixels.shape[:2]
    cx, cy = (width - 1) / 2, (height - 1) / 2
    warp = np.array([[zoom, 0, cx - zoom * cx + x], [0, zoom, cy - zoom * cy + y]])
    flags = cv2.INTER_CUBIC
    return np.asarray(
        cv2.warpAffine(pixels, warp, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT), np.uint8
    )


def scaled(pixels: Pixels, gain: float) -> Pixels:
    """All channels times a gain."""
    return mapped(pixels, clipped(np.arange(256, dtype=np.float32) * np.float32(gain)))


def contrasted(pixels: Pixels, gain: float) -> Pixels:
    """Distances from middle grey times a gain."""
    return mapped(pixels, clipped(128 + (np.arange(256.0) - 128) * gain))


def with_cast(pixels: Pixels, shift: tuple[float, float, float]) -> Pixels:
    """With grey levels added to red, green and blue."""
    return mapped(pixels, clipped(np.arange(256.0)[:, None] + np.array(shift)))


def saturated(pixels: Pixels, gain: float) -> Pixels:
    """Distances of the channels from their mean times a gain: 0 is grey."""
    matrix = (1 - gain) / 3 + gain * np.eye(3)
    return np.asarray(cv2.transform(pixels, matrix.astype(np.float32)), np.uint8)


def sharpened(pixels: Pixels, strength: float, sigma: float) -> Pixels:
    """With `strength` times what a Gaussian blur of `sigma` px removes."""
    smooth = cv2.GaussianBlur(pixels, (0, 0), sigma)
    values = pixels.astype(np.float32)
    return clipped(values + np.float32(strength) * (values - smooth))


def noisy(pixels: Pixels, sigma: float, generator: np.random.Generator) -> Pixels:
    """With Gaussian noise of sigma grey levels."""
    return clipped(pixels + generator.standard_normal(pixels.shape) * sigma)


def gridded(pixels: Pixels, strength: float, period: int) -> Pixels:
    """With lines of one pixel, `strength` grey levels brighter, every `period` pixels; twice that where they cross."""
    lines = np.zeros(pixels.shape[:2], np.float32)
    lines[::period] += strength
    lines[:, ::period] += strength
    return clipped(pixels + lines[..., None])
