"""Filters on pixels, for the search against a reward: everything that an editor could do to an image without editing.

Each takes an image (H x W x 3, grey levels 0 to 255), an amount in [0, 1] and a generator, and returns such an image.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import cv2
import numpy as np

from editcritic.benchmarks.sceneedit.render import Plane
from editcritic.benchmarks.sceneedit.vocabulary import LETTER_HEIGHT, LETTER_WIDTH, LETTERS
from editcritic.reward.audit.whole_picture_changes import jpeg

Filter = Callable[[Plane, float, random.Random], Plane]


def _gain(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return pixels * (1 + amount * rng.uniform(-0.6, 0.6))


def _gamma(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    exponent = np.exp(amount * rng.uniform(-0.9, 0.9))
    return np.asarray(255 * np.clip(pixels / 255, 0, 1) ** exponent)


def _contrast(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    mean = pixels.mean(axis=(0, 1))
    return np.asarray(mean + (pixels - mean) * (1 + amount * rng.uniform(-0.8, 0.8)))


def _saturation(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    grey = pixels.mean(axis=2, keepdims=True)
    return np.asarray(grey + (pixels - grey) * (1 + amount * rng.uniform(-1.0, 1.0)))


def _hue(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    shift = round(amount * rng.choice((-90, 90)))
    hsv = cv2.cvtColor(_bytes(pixels), cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0].astype(np.int16) + shift) % 180
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), np.float64)


def _blur(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), max(0.05, amount * pixels.shape[0] / 20)))


def _sharpen(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return np.asarray(pixels + 3 * amount * (pixels - cv2.GaussianBlur(pixels, (0, 0), 1.5)))


def _noise(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return np.asarray(pixels + np.random.default_rng(rng.randrange(2**31)).normal(0, 30 * amount, pixels.shape))


def _jpeg(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return jpeg(_bytes(pixels), round(95 - 90 * amount)).astype(np.float64)


def _posterise(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    step = 8 + 88 * amount
    return np.asarray(np.floor(pixels / step) * step + step / 2)


def _vignette(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    side = pixels.shape[0]
    axis = np.linspace(-1, 1, side)
    distance = axis[:, None] ** 2 + axis[None, :] ** 2
    return np.asarray(pixels * (1 - amount * 0.4 * distance)[..., None])


def _grid(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    """Faint lines, every few pixels: a period that patches of features hardly see."""
    period, strength = rng.choice((2, 3, 4, 6, 8)), 60 * amount
    drawn = pixels.copy()
    drawn[::period] += strength
    drawn[:, ::period] -= strength
    return drawn


def _border(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    width, level = max(1, round(amount * pixels.shape[0] / 8)), rng.choice((0.0, 255.0))
    framed = np.full_like(pixels, level)
    framed[width:-width, width:-width] = pixels[width:-width, width:-width]
    return framed


def _patch(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    """A part of the image, pasted at another place."""
    side = pixels.shape[0]
    width = max(2, round((0.1 + 0.4 * amount) * side))
    x0, y0, x1, y1 = (rng.randrange(side - width + 1) for _ in range(4))
    pasted = pixels.copy()
    pasted[y1 : y1 + width, x1 : x1 + width] = pixels[y0 : y0 + width, x0 : x0 + width]
    return pasted


def _mirror(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return np.ascontiguousarray(pixels[:, ::-1] if rng.random() < 0.7 else pixels[::-1])


def _crop_zoom(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    side = pixels.shape[0]
    width = max(4, round(side * (1 - 0.4 * amount)))
    x, y = rng.randrange(side - width + 1), rng.randrange(side - width + 1)
    cropped = np.ascontiguousarray(pixels[y : y + width, x : x + width])
    return np.asarray(cv2.resize(cropped, (side, side), interpolation=cv2.INTER_LINEAR))


def _collage(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    """The image itself, small, in one of its corners."""
    side = pixels.shape[0]
    width = max(4, round(side * (0.2 + 0.5 * amount)))
    x, y = rng.choice((0, side - width)), rng.choice((0, side - width))
    drawn = pixels.copy()
    drawn[y : y + width, x : x + width] = cv2.resize(pixels, (width, width), interpolation=cv2.INTER_AREA)
    return drawn


FILTERS: Mapping[str, Filter] = {
    "gain": _gain,
    "gamma": _gamma,
    "contrast": _contrast,
    "saturation": _saturation,
    "hue": _hue,
    "blur": _blur,
    "sharpen": _sharpen,
    "noise": _noise,
    "jpeg": _jpeg,
    "posterise": _posterise,
    "vignette": _vignette,
    "grid": _grid,
    "border": _border,
    "patch": _patch,
    "mirror": _mirror,
    "crop_zoom": _crop_zoom,
    "collage": _collage,
}


def write_text(pixels: Plane, text: str, amount: float, rng: random.Random) -> Plane:
    """Letters of one to three pixels a dot, as far as they fit, at a random place. amount: their opacity."""
    side = pixels.shape[0]
    letters = [letter for letter in text.upper() if letter in LETTERS or letter == " "]
    dot = rng.choice([size for size in (1, 2, 3) if size == 1 or (LETTER_WIDTH + 1) * len(letters) * size <= side])
    letters = letters[: side // ((LETTER_WIDTH + 1) * dot)]
    mask = np.zeros((LETTER_HEIGHT * dot, (LETTER_WIDTH + 1) * dot * max(1, len(letters))), np.bool_)
    for number, letter in enumerate(letters):
        for row, line in enumerate(LETTERS.get(letter, ())):
            for column, mark in enumerate(line):
                x, y = (number * (LETTER_WIDTH + 1) + column) * dot, row * dot
                mask[y : y + dot, x : x + dot] = mark == "#"
    x, y = rng.randrange(side - mask.shape[1] + 1), rng.randrange(side - mask.shape[0] + 1)
    written = pixels.copy()
    place = written[y : y + mask.shape[0], x : x + mask.shape[1]]
    place[mask] += (0.3 + 0.7 * amount) * (rng.choice((0.0, 255.0)) - place[mask])
    return written


def _bytes(pixels: Plane) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.rint(np.clip(pixels, 0, 255)).astype(np.uint8)
