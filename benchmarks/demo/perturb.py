"""Small damage as from saving and sending an image; a robust ranking survives it."""

from __future__ import annotations

import numpy as np

from ...reward.audit.whole_picture_changes import jpeg
from .photographs import Pixels


def perturb(pixels: Pixels, seed: int) -> Pixels:
    """A copy of an H x W x 3 uint8 image, up to 4 % brighter or darker, with noise, and saved as JPEG.

    Sampled from the seed: brightness 0.96 to 1.04, the noise's standard deviation 1 to 3 (of 255), quality 80 to 95.
    """
    random = np.random.default_rng(seed)
    brightness, sigma = random.uniform(0.96, 1.04), random.uniform(1.0, 3.0)
    quality = int(random.integers(80, 96))
    noise = random.standard_normal(pixels.shape, np.float32)  # float32: half the time of float64
    noisy = pixels * np.float32(brightness) + noise * np.float32(sigma)
    return jpeg(np.clip(np.rint(noisy), 0, 255).astype(np.uint8), quality)
