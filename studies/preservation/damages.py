"""Simulated damage to photographs, harmless changes, drift; and pairs of a photograph and an edited version of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.reward.audit.whole_picture_changes import (
    clipped,
    contrasted,
    gridded,
    jpeg,
    moved,
    noisy,
    resized,
    scaled,
    sharpened,
    with_cast,
)
from studies.preservation.photographs import RoundTrip

from .photographs import photograph

Pixels = NDArray[np.uint8]
Generator = np.random.Generator
Area = tuple[int, int, int, int]
"""x, y, width, height in pixels."""

MIN_VISIBLE = 4.0
"""Mean distance in CIE L*a*b* over the area; less is no visible damage, and another place is tried."""

_ATTEMPTS = 40


def damaged(name: str, pixels: Pixels, share: float, generator: Generator) -> Pixels | None:
    """A photograph with one damage in an area of this share of it; None where no place makes it visible."""
    height, width = pixels.shape[:2]
    for _ in range(_ATTEMPTS):
        ratio = float(np.exp(generator.uniform(-0.4, 0.4)))
        w, h = (max(4, round(np.sqrt(share * width * height) * side)) for side in (ratio, 1 / ratio))
        w, h = min(w, width - 2), min(h, height - 2)
        area = (int(generator.integers(width - w)), int(generator.integers(height - h)), w, h)
        result = DAMAGES[name](pixels, area, generator)
        if visibility(pixels, result, area) >= MIN_VISIBLE:
            return result
    return None


def visibility(before: Pixels, after: Pixels, area: Area) -> float:
    """Mean distance in CIE L*a*b* inside the area, after smoothing of one pixel."""
    x, y, w, h = area
    labs = [
        cv2.cvtColor(cv2.GaussianBlur(image, (0, 0), 1.0).astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
        for image in (before, after)
    ]
    return float(np.linalg.norm(labs[0] - labs[1], axis=2)[y : y + h, x : x + w].mean())


# -- damage -----------------------------------------------------------------------------------------------------------


def _ellipse(area: Area, soft: float = 1.5) -> NDArray[np.float32]:
    """Height x width of the area, 1 inside of an ellipse, with a soft edge."""
    _, _, w, h = area
    y, x = np.mgrid[0:h, 0:w]
    radius = np.hypot((x + 0.5 - w / 2) / (w / 2), (y + 0.5 - h / 2) / (h / 2))
    return np.asarray(np.clip((1.1 - radius) * min(w, h) / 2 / soft, 0, 1), np.float32)


def blended(pixels: Pixels, area: Area, content: NDArray[np.number], soft: float = 1.5) -> Pixels:
    """Other content in the ellipse of an area. soft: width of its edge in pixels."""
    x, y, w, h = area
    result, weight = pixels.copy(), _ellipse(area, soft)[..., None]
    result[y : y + h, x : x + w] = np.clip(
        result[y : y + h, x : x + w] * (1 - weight) + content * weight + 0.5, 0, 255
    ).astype(np.uint8)
    return result


def _elsewhere(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    _, _, w, h = area
    height, width = pixels.shape[:2]
    x, y = int(generator.integers(width - w)), int(generator.integers(height - h))
    return pixels[y : y + h, x : x + w]


def _content(pixels: NDArray[Any], area: Area) -> NDArray[Any]:
    x, y, w, h = area
    return pixels[y : y + h, x : x + w]


def _texture(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    """Another part, turned and in other colours."""
    other = np.rot90(_elsewhere(pixels, (area[0], area[1], area[3], area[2]), generator))
    return blended(pixels, area, np.roll(other, 1, axis=2) if generator.random() < 0.5 else 255 - other)


def _duplicate(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    return blended(pixels, area, _elsewhere(pixels, area, generator))


def _removal(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    x, y, w, h = area
    mask = np.zeros(pixels.shape[:2], np.uint8)
    mask[y : y + h, x : x + w] = _ellipse(area) > 0
    return np.asarray(cv2.inpaint(pixels, mask, 3, cv2.INPAINT_TELEA), np.uint8)


def _recolour(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    shift = generator.choice([-1, 1], 3) * generator.uniform(10, 45, 3)
    return blended(pixels, area, _content(pixels, area) + shift)


def _blur(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    return blended(pixels, area, _content(cv2.GaussianBlur(pixels, (0, 0), generator.uniform(4, 8)), area))


def _warp(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    height, width = pixels.shape[:2]
    _x, _y, w, h = area
    wave = [cv2.GaussianBlur(generator.standard_normal((height, width)).astype(np.float32), (0, 0), 6) for _ in "xy"]
    reach = 0.12 * np.sqrt(w * h) + 4
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    shifted = [np.asarray(part / part.std() * reach, np.float32) for part in wave]
    return blended(pixels, area, _content(cv2.remap(pixels, columns + shifted[0], rows + shifted[1], 1), area))


def _text(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    x, y, w, h = area
    result = pixels.copy()
    text = "".join(generator.choice(list("ABCDEFGHKLMNPRSTUVXYZ"), 4))
    (tw, th), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 1.0, 2)
    size = min(w / tw, h / th)
    colour = tuple(int(c) for c in generator.choice([0, 255], 3))
    at = (x + int((w - size * tw) / 2), y + int((h + size * th) / 2))
    return np.asarray(
        cv2.putText(result, text, at, cv2.FONT_HERSHEY_SIMPLEX, size, colour, max(1, round(3 * size)), cv2.LINE_AA),
        np.uint8,
    )


def _moved_content(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    _, _, w, h = area
    angle, distance = generator.uniform(0, 2 * np.pi), generator.uniform(0.15, 0.4) * np.sqrt(w * h) + 3
    warp = np.array([[1, 0, np.cos(angle) * distance], [0, 1, np.sin(angle) * distance]])
    size = (pixels.shape[1], pixels.shape[0])
    shifted = cv2.warpAffine(pixels, warp, size, borderMode=cv2.BORDER_REFLECT)
    return blended(pixels, area, _content(np.asarray(shifted, np.uint8), area))


def _noisy_area(pixels: Pixels, area: Area, generator: Generator) -> Pixels:
    content = _content(pixels, area)
    return blended(pixels, area, content + generator.standard_normal(content.shape) * generator.uniform(25, 50))


DAMAGES: Mapping[str, Callable[[Pixels, Area, Generator], Pixels]] = {
    "texture": _texture,
    "duplicate": _duplicate,
    "removal": _removal,
    "recolour": _recolour,
    "blur": _blur,
    "warp": _warp,
    "text": _text,
    "moved": _moved_content,
    "noise": _noisy_area,
}
"""Each returns the photograph with an area damaged."""


# -- harmless ---------------------------------------------------------------------------------------------------------


HARMLESS: Mapping[str, Callable[[Pixels, Generator], Pixels]] = {
    "nothing": lambda pixels, generator: pixels,
    "jpeg 80": lambda pixels, generator: jpeg(pixels, 80),
    "jpeg 90": lambda pixels, generator: jpeg(pixels, 90),
    "resize 0.7": lambda pixels, generator: resized(pixels, 0.7),
    "zoom 1 %": lambda pixels, generator: moved(pixels, 1.01, 0, 0),
    "zoom 2 %": lambda pixels, generator: moved(pixels, 1.02, *generator.uniform(-1, 1, 2)),
    "shrink 1 %": lambda pixels, generator: moved(pixels, 0.99, *generator.uniform(-2, 2, 2)),
    "shift": lambda pixels, generator: moved(pixels, 1.0, *generator.uniform(-5, 5, 2)),
    "brighter": lambda pixels, generator: scaled(pixels, 1 + generator.uniform(0.01, 0.04)),
    "darker": lambda pixels, generator: scaled(pixels, 1 - generator.uniform(0.01, 0.04)),
    "noise": lambda pixels, generator: noisy(pixels, 2.5, generator),
}
"""Each returns the same content."""

MOVES = ("zoom 1 %", "zoom 2 %", "shrink 1 %", "shift")
"""Harmless changes that move content."""


_MOVING = 2

SHARES = (0.007, 0.015, 0.04)
"""Areas of damage, in shares of the photograph."""


@dataclass(frozen=True, slots=True)
class Pair:
    """photo: its name. change: a key of `DAMAGES` or `HARMLESS`. share: damaged area, 0 for harmless.

    passage: a key of `passages`.
    """

    photo: str
    change: str
    share: float
    passage: str
    before: Pixels
    after: Pixels


def passages(round_trip: RoundTrip) -> Mapping[str, Callable[[Pixels, Generator], Pixels]]:
    """What happens to the whole picture in an editor."""
    return {
        "as is": lambda pixels, generator: pixels,
        "round trip": lambda pixels, generator: round_trip(pixels),
        "round trip, zoom, shift": lambda pixels, generator: _moved(round_trip(pixels), generator),
    }


def _moved(pixels: Pixels, generator: Generator) -> Pixels:
    zoom = 1 + generator.choice([-1, 1]) * generator.uniform(0.005, 0.01)
    return moved(pixels, zoom, *generator.uniform(-3, 3, 2))


def pairs(
    names: Sequence[str], round_trip: RoundTrip, *, seed: int, shares: Sequence[float] = SHARES
) -> Iterator[Pair]:
    """Every change with every passage of every photograph; damage that no place makes visible is left out."""
    for number, name in enumerate(names):
        before = photograph(name)
        for way, (passage, through) in enumerate(passages(round_trip).items()):
            for index, (change, harmless) in enumerate(HARMLESS.items()):
                if way == _MOVING and change in MOVES:
                    continue  # two moves in turn can exceed what is harmless, and lose the border twice
                generator = np.random.default_rng([seed, number, way, index, 0])
                after = through(harmless(before, generator), generator)
                yield Pair(name, change, 0.0, passage, before, after)
            for index, change in enumerate(DAMAGES):
                for size, share in enumerate(shares):
                    generator = np.random.default_rng([seed, number, way, index, 1 + size])
                    result = damaged(change, before, share, generator)
                    if result is not None:
                        yield Pair(name, change, share, passage, before, through(result, generator))


Change = Callable[[Pixels, float], Pixels]


def _blurred(pixels: Pixels, sigma: float) -> Pixels:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.uint8) if sigma else pixels


def _saturated(pixels: Pixels, strength: float) -> Pixels:
    grey = pixels.mean(axis=2, keepdims=True)
    return clipped(grey + (pixels - grey) * (1 + strength))


def _noise(pixels: Pixels, sigma: float) -> Pixels:
    return noisy(pixels, sigma, np.random.default_rng(0))


DRIFTS: Mapping[str, tuple[Change, tuple[float, ...]]] = {
    "gain": (lambda pixels, strength: scaled(pixels, 1 + strength), (0, 0.02, 0.05, 0.1, 0.2, 0.4)),
    "darker": (lambda pixels, strength: scaled(pixels, 1 - strength), (0, 0.02, 0.05, 0.1, 0.2, 0.4)),
    "contrast": (lambda pixels, strength: contrasted(pixels, 1 + strength), (0, 0.05, 0.1, 0.2, 0.4)),
    "colour cast, grey levels": (
        lambda pixels, strength: with_cast(pixels, (strength, 0, -strength)),
        (0, 2, 5, 10, 20, 40),
    ),
    "saturation": (_saturated, (0, 0.05, 0.1, 0.2, 0.4, 0.8)),
    "blur, sigma in pixels": (_blurred, (0, 0.5, 1, 1.5, 2, 3, 5)),
    "sharpening": (lambda pixels, strength: sharpened(pixels, strength, 1.5), (0, 0.25, 0.5, 1, 2, 4)),
    "noise, sigma in grey levels": (_noise, (0, 2, 5, 10, 20)),
    "grid of 8 px, grey levels": (lambda pixels, strength: gridded(pixels, strength, 8), (0, 2, 5, 10, 20)),
}
"""Name -> change and strengths."""

ROUND_TRIPS = (0, 1, 2, 3, 5, 8)


def drift_table(names: Sequence[str], round_trip: RoundTrip) -> dict[str, dict[str, float]]:
    """Name of a drift -> strength -> preservation, mean over photographs."""
    from studies.preservation.__main__ import measure

    def value(name: str, after: Pixels) -> float:
        return 1 - measure(Pair(name, "drift", 0.0, "", photograph(name), after)).values["preservation"]

    table = {
        drift: {str(s): float(np.mean([value(name, change(photograph(name), s)) for name in names])) for s in strengths}
        for drift, (change, strengths) in DRIFTS.items()
    }
    trips = {name: _trips(photograph(name), round_trip) for name in names}
    table["round trips"] = {
        str(count): float(np.mean([value(name, trips[name][count]) for name in names])) for count in ROUND_TRIPS
    }
    return table


def _trips(pixels: Pixels, round_trip: RoundTrip) -> list[Pixels]:
    """After 0 to 8 round trips; the blocks of the code lie elsewhere each time, as in edits of other sizes."""
    results = [pixels]
    for number in range(max(ROUND_TRIPS)):
        moved = np.roll(results[-1], (3 * number % 8, 5 * number % 8), axis=(0, 1))
        results.append(np.roll(round_trip(moved), (-(3 * number % 8), -(5 * number % 8)), axis=(0, 1)))
    return results
