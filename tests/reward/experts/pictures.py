"""Pictures of the experts' tests, and what is done to photographs."""

import cv2
import numpy as np
import skimage.data

from editcritic.reward import Image

PHOTOS = {name: getattr(skimage.data, name)() for name in ("astronaut", "coffee", "chelsea", "rocket")}


def patches(number: int, size: tuple[int, int]) -> Image:
    """6 x 6 patches of random colours, whose differences survive resizing."""
    width, height = size
    coarse = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.of(coarse[np.arange(height) * 6 // height][:, np.arange(width) * 6 // width])


def rounded(pixels):
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def jpeg(pixels, quality):
    return cv2.imdecode(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)


def noisy(pixels, deviation, seed=0):
    return rounded(pixels + np.random.default_rng(seed).normal(0, deviation, pixels.shape))


def inpainted(photo, corners, margin=6):
    """The photograph without what is in the box."""
    x0, y0, x1, y1 = corners
    mask = np.zeros(photo.shape[:2], np.uint8)
    mask[max(0, y0 - margin) : y1 + margin, max(0, x0 - margin) : x1 + margin] = 255
    return cv2.inpaint(photo, mask, 5, cv2.INPAINT_TELEA)
