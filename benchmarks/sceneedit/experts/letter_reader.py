"""Reads SceneEdit's letters: dots of ink, three wide and five high, matched letter by letter.

Ink has no hue and is nearly black or nearly white; nothing else in these images has such dots in that pattern. Each
place is read at every possible grain (pixels per dot), and of overlapping readings the better one is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from ..vocabulary import LETTER_HEIGHT, LETTER_WIDTH, LETTERS

Pixels = NDArray[np.uint8]
Plane = NDArray[np.float32]
Floats = NDArray[np.float64]
Line = tuple[str, tuple[int, int, int, int], float]

_GRAINS = range(1, 9)
_ROWS, _COLUMNS = LETTER_HEIGHT + 2, LETTER_WIDTH + 2  # dots of a letter's template, with an empty rim
_PITCH = LETTER_WIDTH + 1
_LEAST = 2  # least number of letters of a line: a single one may be accidental

_PAPER = {"dark": 110.0, "light": 120.0}
"""Grey levels. Brighter pixels (for dark ink: by the brightest channel) or darker ones (for light ink: by the darkest)
are no ink."""
_INK = {"dark": (90.0, 55.0), "light": (145.0, 175.0)}
"""Grey levels of the same channels at which ink begins to count, and counts fully."""
_HUE = (48.0, 28.0)
"""Spread of the channels of dark ink, in grey levels: dark objects keep their hue. Light ink has none."""
_CONTRAST = (20.0, 45.0)  # grey levels between paper and ink
_LIKE = (0.80, 0.96)  # correlation of the dots with the letter's
_FLOOR = 0.02  # lower scores are no letters

_NAMES = tuple(LETTERS)
_DOTS = np.pad(
    np.array([[[dot == "#" for dot in row] for row in LETTERS[name]] for name in _NAMES], np.float64),
    ((0, 0), (1, 1), (1, 1)),
).reshape(len(_NAMES), -1)
_CENTRED = _DOTS - _DOTS.mean(1, keepdims=True)
_TEMPLATES = _CENTRED / np.linalg.norm(_CENTRED, axis=1, keepdims=True)
_INKED = _DOTS / _DOTS.sum(1, keepdims=True)
_BARE = (1 - _DOTS) / (1 - _DOTS).sum(1, keepdims=True)
_INSIDE = np.pad(np.ones((LETTER_HEIGHT, LETTER_WIDTH), bool), 1).ravel()
_FEWEST, _MOST = int(_DOTS.sum(1).min()), int(_DOTS.sum(1).max())


@dataclass(frozen=True, slots=True)
class _Letter:
    name: str
    x: int
    y: int
    sure: float


def read_lines(pixels: Pixels) -> list[Line]:
    """The text of an image (H x W x 3 uint8 RGB), top to bottom.

    Each line: its text, with a blank between words; the pixel corners x0, y0, x1, y1 of its ink; its confidence in (0,
    1), which changes continuously with the pixels. Letters are read one by one: a misspelt word stays misspelt. Lines
    have at least two letters of 1 to 8 whole pixels per dot, wholly inside the image.
    """
    channels = [pixels[..., channel].astype(np.float32) for channel in range(3)]
    high, low = np.maximum.reduce(channels), np.minimum.reduce(channels)
    lines: list[Line] = []
    for ink in ("dark", "light"):
        for grain in _GRAINS:
            if LETTER_HEIGHT * grain <= pixels.shape[0] and LETTER_WIDTH * grain <= pixels.shape[1]:
                lines += _lines(high, low, ink, grain)
    accepted: list[Line] = []
    for line in sorted(lines, key=lambda line: -line[2] * len(line[0])):
        if not any(_overlap(line[1], accepted_line[1]) for accepted_line in accepted):
            accepted.append(line)
    return sorted(accepted, key=lambda line: (line[1][1], line[1][0]))


def _lines(high: Plane, low: Plane, ink: str, grain: int) -> list[Line]:
    letters, inky = _letters(high, low, ink, grain)
    lines = []
    while letters:
        seed = letters[0]
        preceding = _onwards(seed, -1, letters, inky, grain)
        line = [*reversed(preceding), seed, *_onwards(seed, 1, letters, inky, grain)]
        text = "".join(" " if letter is None else letter.name for letter in line)
        line_letters = [letter for letter in line if letter is not None]
        x0, x1 = line_letters[0].x, line_letters[-1].x + LETTER_WIDTH * grain
        y0, y1 = (
            min(letter.y for letter in line_letters),
            max(letter.y for letter in line_letters) + LETTER_HEIGHT * grain,
        )
        if len(line_letters) >= _LEAST:
            confidence = sum(letter.sure for letter in line_letters) / len(line_letters)
            lines.append((text, (x0, y0, x1, y1), max(0.001, 0.999 * confidence)))
        letters = [
            letter
            for letter in letters
            if not _overlap((x0, y0, x1, y1), (letter.x, letter.y, letter.x + 3 * grain, letter.y + 5 * grain))
        ]
    return lines


def _onwards(
    seed: _Letter, direction: int, letters: list[_Letter], inky: NDArray[np.uint8], grain: int
) -> list[_Letter | None]:
    """The letters of a line after (or before) one of them; None for blanks between them."""
    line: list[_Letter | None] = []
    slack = grain // 3
    x, y, step = seed.x, seed.y, direction * _PITCH * grain
    while True:
        next_letter = _at(x + step, y, letters, slack)
        if next_letter is None and _empty(x + step, y, inky):
            next_letter = _at(x + 2 * step, y, letters, slack)
            if next_letter is not None:
                line.append(None)
        if next_letter is None:
            return line
        line.append(next_letter)
        x, y = next_letter.x, next_letter.y


def _at(x: int, y: int, letters: list[_Letter], slack: int) -> _Letter | None:
    nearby = (letter for letter in letters if abs(letter.x - x) <= slack and abs(letter.y - y) <= slack)
    return max(nearby, key=lambda letter: letter.sure, default=None)


def _empty(x: int, y: int, inky: NDArray[np.uint8]) -> bool:
    """Whether hardly a dot at a letter's place is ink."""
    return 0 <= y < inky.shape[0] and 0 <= x < inky.shape[1] and int(inky[y, x]) <= 1


def _letters(high: Plane, low: Plane, ink: str, grain: int) -> tuple[list[_Letter], NDArray[np.uint8]]:
    """Letters of one ink and grain, the likeliest first; and the number of inky dots of a letter at each place.

    high, low: the brightest and the darkest channel.
    """
    height, width = high.shape[0] - LETTER_HEIGHT * grain + 1, high.shape[1] - LETTER_WIDTH * grain + 1
    dot_core = grain - 2 * (grain // 4)
    if dot_core > 1:  # only the middle of a dot counts: enlarging blurs its edges
        high, low = (
            np.asarray(cv2.blur(plane, (dot_core, dot_core), anchor=(0, 0)), np.float32) for plane in (high, low)
        )
    if ink == "dark":
        level, is_ink = np.minimum(high, _PAPER[ink]), (high < _INK[ink][0]) & (high - low < 2 * _HUE[0])
    else:
        level, is_ink = np.maximum(low, _PAPER[ink]), low > _INK[ink][0]
    inside, around = np.zeros((height, width), np.uint8), np.zeros((height, width), np.uint8)
    if np.count_nonzero(is_ink) < _LEAST * _FEWEST:
        return [], inside
    # Beyond the edge there is no ink.
    level = np.pad(level, grain, constant_values=_PAPER[ink])
    counts = np.pad(is_ink, grain).astype(np.uint8)
    spread = np.pad(high - low, grain)
    inset = grain // 4
    offsets = [(row * grain + inset, column * grain + inset) for row in range(_ROWS) for column in range(_COLUMNS)]
    for (down, across), within in zip(offsets, _INSIDE, strict=True):
        counted = inside if within else around
        counted += counts[down : down + height, across : across + width]
    y, x = np.nonzero((inside >= _FEWEST - 1) & (inside <= _MOST + 1) & (around <= 3))
    if not len(y):
        return [], inside
    patch = np.stack([level[y + down, x + across] for down, across in offsets], axis=1).astype(np.float64)
    sign = -1.0 if ink == "dark" else 1.0
    centred = sign * (patch - patch.mean(1, keepdims=True))
    correlations = (centred @ _TEMPLATES.T) / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    best = correlations.argmax(1)
    inked = _INKED[best]
    level_of_ink, level_of_paper = (patch * inked).sum(1), (patch * _BARE[best]).sum(1)
    contrast = sign * (level_of_ink - level_of_paper)
    confidence = _ramp(correlations.max(1), *_LIKE) * _ramp(contrast, *_CONTRAST) * _ramp(level_of_ink, *_INK[ink])
    if ink == "dark":
        hue = np.stack([spread[y + down, x + across] for down, across in offsets], axis=1)
        confidence *= _ramp((hue * inked).sum(1), *_HUE)
    confidence *= correlations.max(1)  # prefers the exact place to its neighbours where both are certain
    order = np.argsort(-confidence, kind="stable")
    letters = [
        _Letter(_NAMES[best[index]], int(x[index]), int(y[index]), float(confidence[index]))
        for index in order[: int((confidence > _FLOOR).sum())]
    ]
    return letters, inside


def _overlap(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _ramp(value: Floats, start: float, end: float) -> Floats:
    """0 up to `start`, 1 from `end` on (which may lie below), smooth between."""
    t = np.clip((value - start) / (end - start), 0.0, 1.0)
    return np.asarray(t * t * (3 - 2 * t))
