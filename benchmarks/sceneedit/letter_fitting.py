"""Reads letters at a known place: each is compared with every letter of the alphabet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from .render import INK_RGB, Plane
from .vocabulary import LETTER_HEIGHT, LETTER_WIDTH, LETTERS

_STEP = LETTER_WIDTH + 1
_ALPHABET = " " + "".join(LETTERS)
_BLURS = (0.0, 0.4, 0.7)  # sigma in grains
_OFFSETS = (-1.0, -0.5, 0.0, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class TextFit:
    """text, its centre in pixels, the ink, and a fit in [0, 1]."""

    text: str
    x: float
    y: float
    ink: str
    fit: float


def ink_share(pixels: Plane, paper: Plane, ink: str) -> Plane:
    """The share of ink in each pixel, between paper (0) and ink (1), clipped to [0, 1.1]."""
    way = np.asarray(INK_RGB[ink], np.float64) - paper
    share = ((pixels - paper) * way).sum(axis=-1) / np.maximum((way**2).sum(axis=-1), 1.0)
    return np.asarray(np.clip(share, 0.0, 1.1))


def fit_text(
    pixels: Plane, paper: Plane, veil: Plane, box: tuple[int, int, int, int], grain: int, guesses: Sequence[str]
) -> TextFit | None:
    """The text in a box x0, y0, x1, y1 (pixels, exclusive), in the ink that fits better; None if there is none.

    pixels, paper: size x size x 3, in grey levels. veil: size x size, 1 where nothing covers the letters. A guessed
    text wins where it fits about as well as the best one.
    """
    x0, y0, x1, y1 = box
    if x1 - x0 < LETTER_WIDTH * grain or y1 - y0 < LETTER_HEIGHT * grain:
        return None
    region = (slice(y0, y1), slice(x0, x1))
    distance = np.linalg.norm(pixels[region] - paper[region], axis=-1)
    best: TextFit | None = None
    for ink in INK_RGB:
        share = ink_share(pixels[region], paper[region], ink)
        contrast = np.linalg.norm(np.asarray(INK_RGB[ink], np.float64) - paper[region], axis=-1)
        legible = contrast.mean() > 60  # ink that is much like the paper cannot be read
        share = np.where((distance > 35) & (veil[region] > 0.5) & legible, share, 0.0)
        fit = _fit_in_ink(share, veil[region], grain, guesses)
        if fit is not None and (best is None or fit[3] > best.fit):
            best = TextFit(fit[0], x0 + fit[1], y0 + fit[2], ink, fit[3])
    return best


def _fit_in_ink(
    share: Plane, veil: Plane, grain: int, guesses: Sequence[str]
) -> tuple[str, float, float, float] | None:
    """Text, centre within `share`, fit."""
    dark = share > 0.3
    columns, rows = np.flatnonzero(dark.any(axis=0)), np.flatnonzero(dark.any(axis=1))
    if len(columns) == 0:
        return None
    width, height = columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1
    number = round((width / grain + 1) / _STEP)
    if number < 1 or height > (LETTER_HEIGHT + 3) * grain or height < (LETTER_HEIGHT - 2) * grain:
        return None
    middle = ((columns[0] + columns[-1]) / 2, (rows[0] + rows[-1]) / 2)
    ink_energy = float((share**2).sum())
    tries = {number, *(len(guess) for guess in guesses if abs(len(guess) - number) <= 1)}
    results = [
        _fit_at_offset(share, veil, middle, n, dx, dy, grain, guesses)
        for n in tries
        for dx in _OFFSETS
        for dy in _OFFSETS
    ]
    cost, text, x, y = min(results, key=lambda one: one[0])
    return text, x, y, float(np.clip(1 - cost / max(ink_energy, 1e-9), 0, 1))


def _fit_at_offset(
    share: Plane, veil: Plane, middle: tuple[float, float], number: int, dx: float, dy: float, grain: int,
    guesses: Sequence[str],
) -> tuple[float, str, float, float]:  # fmt: skip
    """Squared error over all of `share`, the text, and its centre, for a number of letters at an offset in grains."""
    x = middle[0] + dx * grain - (number * _STEP - 2) * grain / 2
    y = middle[1] + dy * grain - (LETTER_HEIGHT - 1) * grain / 2
    across = np.float32(x) + np.arange(number * _STEP, dtype=np.float32) * grain
    down = np.float32(y) + np.arange(LETTER_HEIGHT, dtype=np.float32) * grain
    grid = np.meshgrid(across, down)

    def cut(plane: Plane) -> Plane:
        samples = cv2.remap(plane.astype(np.float32), grid[0], grid[1], cv2.INTER_LINEAR, borderValue=0.0)
        return np.asarray(samples.reshape(LETTER_HEIGHT, number, _STEP).transpose(1, 0, 2).reshape(number, -1))

    cells, weight = cut(share), cut(veil)
    tries = []
    for blur in _BLURS:
        letters = _templates(blur)
        costs = ((cells[:, None] - letters[None]) ** 2 * weight[:, None]).sum(axis=2)
        ink = letters[costs.argmin(axis=1)]
        amount = float(np.clip((cells * ink).sum() / max(float((ink**2).sum()), 1e-9), 0.6, 1.2))
        tries.append(((cells[:, None] - amount * letters[None]) ** 2 * weight[:, None]).sum(axis=2))
    costs = min(tries, key=lambda one: float(one.min(axis=1).sum()))
    text, cost = "".join(_ALPHABET[i] for i in costs.argmin(axis=1)), float(costs.min(axis=1).sum())
    for guess in guesses:
        if len(guess) == number and guess != text:
            guess_cost = float(sum(costs[i, _ALPHABET.index(letter)] for i, letter in enumerate(guess)))
            if guess_cost <= 1.1 * cost + 0.2:
                text = guess
    outside = float((share**2).sum()) / grain**2 - float((cells**2).sum())
    centre = (float(x) + (number * _STEP - 2) * grain / 2 + 0.5, float(y) + (LETTER_HEIGHT - 1) * grain / 2 + 0.5)
    return (cost + max(outside, 0.0)) * grain**2, text, *centre


@lru_cache(maxsize=16)
def _templates(blur: float) -> Plane:
    """Letters (blank first) as they look on a grid of dots: number of letters x (5 x 4)."""
    dots = np.zeros((len(_ALPHABET), LETTER_HEIGHT, _STEP), np.float64)
    for place, letter in enumerate(_ALPHABET[1:], start=1):
        dots[place, :, :LETTER_WIDTH] = [[dot == "#" for dot in row] for row in LETTERS[letter]]
    if blur > 0.2:
        dots = np.stack([cv2.GaussianBlur(one, (0, 0), blur, borderType=cv2.BORDER_CONSTANT) for one in dots])
    return dots.reshape(len(_ALPHABET), -1)
