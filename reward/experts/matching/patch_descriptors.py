"""Descriptors of an image on a grid of patches, for comparing it with another image at the same places."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from ...queries.change_map import BANDS

Plane = NDArray[np.float32]

_FLOOR = 0.5
"""L* per pixel: weaker gradients cannot be seen and are noise."""

_CHROMA_FLOOR = 2.0
"""a* and b* per pixel: compression and autoencoders add as much to grey images."""


@dataclass(frozen=True, slots=True)
class PatchDescriptors:
    """colour: rows x columns x 3, mean CIE L*a*b*. gradients: rows x columns x bands x 4: of L* to the right, left,
    down and up, with the logarithm of their joint strength. chroma: rows x columns x bands, logarithm of the root mean
    square gradient of a* and b*. amplitude: rows x columns x bands, root mean square gradient of L*.
    """

    colour: Plane
    gradients: Plane
    chroma: Plane
    amplitude: Plane

    @property
    def nbytes(self) -> int:
        return sum(int(part.nbytes) for part in (self.colour, self.gradients, self.chroma, self.amplitude))

    def feature_distances(self, edited: PatchDescriptors) -> Plane:
        """rows x columns x 2 bands: distance of gradients, and gain of chroma; about 1 for another texture.

        Only a gain: what an editor's round trip does to chroma is to lose it.
        """
        gradients = np.sqrt(((self.gradients - edited.gradients) ** 2).sum(3))
        return np.concatenate([gradients, np.maximum(edited.chroma - self.chroma, 0)], axis=2)


def to_lab(pixels: Plane) -> Plane:
    """H x W x 3 RGB from 0 to 255 to CIE L*a*b*."""
    scaled = np.clip(pixels, 0, 255) * np.float32(1 / 255)
    return np.asarray(cv2.cvtColor(scaled, cv2.COLOR_RGB2LAB), np.float32)


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
        vector = _pooled(np.stack([np.maximum(part, 0) for part in light], axis=2), grid)
        strength = np.linalg.norm(vector, axis=2, keepdims=True)
        energy = _pooled(across * across + down * down, grid)
        chroma_energy = energy[:, :, 1] + energy[:, :, 2]
        gradients.append(vector * (np.log1p(strength / _FLOOR) / (strength + 1e-6)))
        chromas.append(np.log(np.maximum(chroma_energy, 0) + _CHROMA_FLOOR**2) / 2)
        amplitudes.append(np.sqrt(np.maximum(energy[:, :, 0], 0)))
    colour = _pooled(lab, grid)
    return PatchDescriptors(colour, *(np.stack(parts, axis=2) for parts in (gradients, chromas, amplitudes)))


def _pooled(values: Plane, grid: tuple[int, int]) -> Plane:
    return np.asarray(cv2.resize(values, (grid[1], grid[0]), interpolation=cv2.INTER_AREA), np.float32)
