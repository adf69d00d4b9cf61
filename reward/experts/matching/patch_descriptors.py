"""Descriptors of an image: of its patches, their layout, its fine structure, and periodic artefacts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...queries.change_map import BANDS

Plane = NDArray[np.float32]

_FLOOR = 0.5  # L* per pixel: weaker gradients cannot be seen and are noise
_CHROMA_FLOOR = 2.0  # a* and b* per pixel: compression and autoencoders add as much to grey images


@dataclass(frozen=True, slots=True)
class PatchDescriptors:
    """colour: rows x columns x 3, mean CIE L*a*b*. gradients: rows x columns x bands x 4: of L* to the right, left,
    down and up, with the logarithm of their joint strength. chroma: rows x columns x bands, logarithm of the root mean
    square gradient of a* and b*. amplitude: rows x columns x bands, root mean square gradient of L*."""

    colour: Plane
    gradients: Plane
    chroma: Plane
    amplitude: Plane

    @property
    def nbytes(self) -> int:
        return sum(int(part.nbytes) for part in (self.colour, self.gradients, self.chroma, self.amplitude))

    def feature_distances(self, edited: PatchDescriptors) -> Plane:
        """rows x columns x 2 bands: distance of gradients, and gain of chroma; about 1 for another texture. Only a
        gain: what an editor's round trip does to chroma is to lose it."""
        gradients = np.sqrt(((self.gradients - edited.gradients) ** 2).sum(3))
        return np.concatenate([gradients, np.maximum(edited.chroma - self.chroma, 0)], axis=2)


def to_lab(pixels: Plane) -> Plane:
    """H x W x 3 RGB from 0 to 255 to CIE L*a*b*."""
    scaled = np.clip(pixels, 0, 255) * np.float32(1 / 255)
    return np.asarray(cv2.cvtColor(scaled, cv2.COLOR_RGB2LAB), np.float32)


def averaged(pixels: NDArray[Any], size: tuple[int, int]) -> Plane:
    """An image at a smaller size (width, height)."""
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.float32)


def size_within(pixels: NDArray[Any], longest: int, least: int = 1) -> tuple[int, int]:
    """Width and height of an image with a longer side of at most `longest` pixels, and sides of at least `least`."""
    height, width = pixels.shape[:2]
    ratio = min(1.0, longest / max(height, width))
    return max(least, round(width * ratio)), max(least, round(height * ratio))


def describe(lab: Plane, grid: tuple[int, int]) -> PatchDescriptors:
    """The descriptors of an image on a grid of (rows, columns), each patch of at least 4 x 4 pixels."""
    gradients, chromas, amplitudes = list[Plane](), list[Plane](), list[Plane]()
    plane = lab
    for band in range(BANDS):
        if band:
            plane = np.asarray(cv2.pyrDown(plane), np.float32)
        across = cv2.Sobel(plane, cv2.CV_32F, 1, 0, scale=1 / 8)
        down = cv2.Sobel(plane, cv2.CV_32F, 0, 1, scale=1 / 8)
        light = (across[:, :, 0], -across[:, :, 0], down[:, :, 0], -down[:, :, 0])
        vector = averaged(np.stack([np.maximum(part, 0) for part in light], axis=2), grid[::-1])
        strength = np.linalg.norm(vector, axis=2, keepdims=True)
        energy = averaged(across * across + down * down, grid[::-1])
        chroma_energy = energy[:, :, 1] + energy[:, :, 2]
        gradients.append(vector * (np.log1p(strength / _FLOOR) / (strength + 1e-6)))
        chromas.append(np.log(np.maximum(chroma_energy, 0) + _CHROMA_FLOOR**2) / 2)
        amplitudes.append(np.sqrt(np.maximum(energy[:, :, 0], 0)))
    colour = averaged(lab, grid[::-1])
    return PatchDescriptors(colour, *(np.stack(parts, axis=2) for parts in (gradients, chromas, amplitudes)))


_GRID = (12, 12)
_SIDE = 192  # pixels


def layout(lab: Plane) -> Plane:
    """144 x 144: similarity of any two patches of an image in CIE L*a*b*, of any size."""
    patches = describe(averaged(lab, (_SIDE, _SIDE)), _GRID)
    parts = (patches.colour, np.log(patches.amplitude + 0.5), patches.gradients.reshape(*_GRID, -1))
    statistics = np.concatenate(parts, axis=2)
    # Each statistic counts relative to its spread over the picture, colour, contrast and gradients as groups.
    groups = np.split(statistics.reshape(_GRID[0] * _GRID[1], -1), [3, 6], axis=1)
    return np.asarray(np.mean([_similarities(group) for group in groups], axis=0), np.float32)


def _similarities(statistics: Plane) -> Plane:
    centred = statistics - statistics.mean(0)
    scaled = centred / (centred.std(0) + 0.1 * centred.std() + 1e-3)
    unit = scaled / (np.linalg.norm(scaled, axis=1, keepdims=True) + 0.3 * np.sqrt(scaled.shape[1]))
    return np.asarray(unit @ unit.T, np.float32)


def layout_agreement(one: Plane, other: Plane) -> float:
    """Correlation in [-1, 1] of two layouts; 1 for two flat images, 0 for a flat one and another."""
    upper = np.triu_indices(len(one), 1)
    a, b = one[upper], other[upper]
    a, b = a - a.mean(), b - b.mean()
    flat = [float(np.abs(part).max()) < 1e-4 for part in (a, b)]
    if any(flat):
        return float(all(flat))
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


_VISIBLE = 1.0  # grey levels, added before two amounts are compared: what cannot be seen is not lost
_WIDTHS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2)
"""Standard deviations in pixels; less is no blur, and more is another focus."""


def fine_structure(pixels: Plane, grid: tuple[int, int]) -> Plane:
    """rows x columns: mean absolute Laplacian of an image (H x W x 3, 0 to 255) in grey levels."""
    grey = cv2.cvtColor(np.asarray(pixels, np.float32), cv2.COLOR_RGB2GRAY)
    return averaged(np.abs(cv2.Laplacian(grey, cv2.CV_32F)), grid[::-1])


def typical_gain(before: Plane, after: Plane) -> float:
    """Logarithm of the ratio of two amounts of fine structure (rows x columns), as most of the structure has it."""
    ratios, weights = np.log((after + _VISIBLE) / (before + _VISIBLE)).ravel(), (before + after).ravel()
    order = np.argsort(ratios)
    sums = np.cumsum(weights[order])
    return float(ratios[order[np.searchsorted(sums, sums[-1] / 2)]]) if sums[-1] > 0 else 0.0


def no_sharper(edited: Plane, source: Plane, grid: tuple[int, int]) -> Plane:
    """An image (H x W x 3, 0 to 255), blurred as far as its fine structure exceeds that of a source of its size."""
    known, softer = fine_structure(source, grid), edited
    for width in _WIDTHS:
        if typical_gain(known, fine_structure(softer, grid)) <= 0:
            break
        softer = np.asarray(cv2.GaussianBlur(edited, (0, 0), width), np.float32)
    return softer


_WINDOW = 64  # pixels
_MIN_SIDE = 2 * _WINDOW  # fewer windows hold noise and objects, and no statistics
_MAX_WINDOWS = 7  # per side
_PERIOD = 16  # pixels: decoders work in blocks of 8 or 16, whose waves have 1, 2, ... in a block
_LOWEST = 6  # waves in a window: fewer are content; a grid of 16 px has its harmonics above
_INVISIBLE = 0.3  # grey levels: amplitude of a wave that cannot be seen


def log_spectra(grey: Plane) -> Plane | None:
    """n x 64 x 33: log power by frequency of n windows at full resolution; None for an image under 128 px."""
    if min(grey.shape) < _MIN_SIDE:
        return None
    hann = np.hanning(_WINDOW + 2)[1:-1].astype(np.float32)
    taper = np.outer(hann, hann)
    offsets = [np.unique(np.linspace(0, side - _WINDOW, _MAX_WINDOWS).astype(int)) for side in grey.shape]
    windows = np.stack([grey[y : y + _WINDOW, x : x + _WINDOW] for y in offsets[0] for x in offsets[1]])
    transform = np.fft.rfft2((windows - windows.mean((1, 2), keepdims=True)) * taper)
    power = np.abs(transform) ** 2 / float(taper.sum()) ** 2 * 4  # of a wave: its amplitude, squared
    return np.log(np.fft.fftshift(power, axes=1) + _INVISIBLE**2).astype(np.float32)


def periodic_excess(before: Plane | None, after: Plane | None) -> float:
    """Amplitude in grey levels of the strongest wave that is new in most windows, and stands out from its neighbours.
    In most windows: a new fence is content."""
    if before is None or after is None:
        return 0.0
    gained = np.median(after - before, axis=0)
    around = cv2.medianBlur(cv2.copyMakeBorder(gained, 2, 2, 2, 2, cv2.BORDER_REFLECT), 5)[2:-2, 2:-2]
    rows, columns = np.mgrid[-_WINDOW // 2 : _WINDOW // 2, 0 : _WINDOW // 2 + 1]
    step = _WINDOW // _PERIOD
    possible = (rows % step == 0) & (columns % step == 0) & (np.hypot(rows, columns) >= _LOWEST)
    excess = np.where(possible, gained - around, 0)
    row, column = np.unravel_index(int(excess.argmax()), excess.shape)
    power = float(np.exp(np.median(after[:, row, column])))
    return float(np.sqrt(power * (1 - np.exp(-max(0.0, float(excess[row, column]))))))
