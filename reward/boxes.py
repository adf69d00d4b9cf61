"""Boxes: rectangles in an image, in fractions of its width and height."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

_ROUND_TRIP = 1e-6
"""In pixels. Boxes are stored as fractions; the conversion back must not round a whole pixel down to the one before."""
_TINY = 16  # pixels of the longer side up to which a box of one pixel is none in fractions


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle by centre and size, each a fraction of the image's width or height (the format of detectors).

    Args:
        score: The detector's confidence in [0, 1] (1.0 for a hand-drawn box).
        label: The phrase that it answers.
    """

    cx: float
    cy: float
    w: float
    h: float
    score: float = 1.0
    label: str = ""

    def __post_init__(self) -> None:
        numbers = (self.cx, self.cy, self.w, self.h, self.score)
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"box {numbers} of {self.label!r} holds a NaN or an infinity: drop it or redraw it")
        if self.w < 0 or self.h < 0:
            raise ValueError(f"box {numbers} of {self.label!r} has a negative size: give x0 < x1 and y0 < y1")
        if set(map(type, numbers)) != {float}:  # canonical: 1 and numpy's 1.0 become 1.0
            for name, number in zip(("cx", "cy", "w", "h", "score"), numbers, strict=True):
                object.__setattr__(self, name, float(number))

    @staticmethod
    def from_corners(
        x0: float, y0: float, x1: float, y1: float, size: tuple[int, int], *, score: float = 1.0, label: str = ""
    ) -> Box:
        """A box from pixel corners in an image of `size` (width, height).

        Raises:
            ValueError: For corners in fractions: all of them in 0 to 1, and not whole, unless that is the image's size.
        """
        width, height = size
        corners = (x0, y0, x1, y1)
        if max(size) > _TINY and all(0 <= corner <= 1 for corner in corners) and any(corner % 1 for corner in corners):
            raise ValueError(_in_fractions(corners, size, label))
        return Box((x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height, score, label)

    @property
    def x0(self) -> float:
        """Left edge, a fraction of the width."""
        return self.cx - self.w / 2

    @property
    def y0(self) -> float:
        """Upper edge, a fraction of the height."""
        return self.cy - self.h / 2

    @property
    def x1(self) -> float:
        """Right edge, a fraction of the width."""
        return self.cx + self.w / 2

    @property
    def y1(self) -> float:
        """Lower edge, a fraction of the height."""
        return self.cy + self.h / 2

    @property
    def area(self) -> float:
        """As a fraction of the image."""
        return self.w * self.h

    def corners(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Pixel corners x0, y0, x1, y1, truncated to integers; may lie outside of the image."""
        width, height = size
        return (
            math.floor(self.x0 * width + _ROUND_TRIP),
            math.floor(self.y0 * height + _ROUND_TRIP),
            math.floor(self.x1 * width + _ROUND_TRIP),
            math.floor(self.y1 * height + _ROUND_TRIP),
        )

    def clipped_corners(self, size: tuple[int, int]) -> tuple[int, int, int, int] | None:
        """Like `corners`, clipped to the image; None if nothing is left."""
        x0, y0, x1, y1 = self.corners(size)
        x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, size[0]), min(y1, size[1])
        return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None

    def iou(self, other: Box) -> float:
        """Intersection over union, in [0, 1]; 0 where both are empty."""
        across = min(self.x1, other.x1) - max(self.x0, other.x0)
        down = min(self.y1, other.y1) - max(self.y0, other.y0)
        if across <= 0 or down <= 0:
            return 0.0
        shared = across * down
        union = self.area + other.area - shared
        return shared / union if union > 0 else 0.0

    def contains(self, other: Box) -> bool:
        """Whether the other box lies in this one; equal edges count."""
        return self.x0 <= other.x0 and self.y0 <= other.y0 and self.x1 >= other.x1 and self.y1 >= other.y1

    def with_label(self, label: str) -> Box:
        """The same box with another label."""
        return replace(self, label=label)


def boxes_of_corners(label: str, corner_lists: Any, size: tuple[int, int]) -> tuple[Box, ...]:
    """The boxes of an object from pixel corners that a person gave, in an image of `size` (width, height).
    corner_lists: any number of boxes, four numbers x0, y0, x1, y1 each; a single one needs no second pair of brackets.
    Raises ValueError, with what to give, for boxes that are empty, outside of the image, or in fractions of it.
    """
    given = list(corner_lists)
    if len(given) == 4 and all(isinstance(number, Real) for number in given):
        given = [given]
    return tuple(_box_of_person(label, corners, size) for corners in given)


def _box_of_person(label: str, given: Any, size: tuple[int, int]) -> Box:
    width, height = size
    corners = list(given) if hasattr(given, "__iter__") and not isinstance(given, str) else []
    if len(corners) != 4 or not all(isinstance(number, Real) for number in corners):
        raise ValueError(f"a box of {label!r} is x0, y0, x1, y1 in pixels of the source, got {given!r:.80}")
    if not all(abs(corner) < 1e9 for corner in corners):  # also false for NaN
        raise ValueError(f"box {corners} of {label!r} holds a NaN or an infinity: redraw it")
    x0, y0, x1, y1 = corners
    if x1 <= x0 or y1 <= y0:
        raise ValueError(f"box {corners} of {label!r} is empty: give x0 < x1 and y0 < y1, in pixels")
    near = all(-1 < corner < 2 for corner in corners) and any(corner % 1 for corner in corners)  # a little outside
    if max(size) > _TINY and (near or all(0 <= corner <= 1 for corner in corners)):
        raise ValueError(_in_fractions(corners, size, label))
    if x0 < 0 or y0 < 0 or x1 > width or y1 > height:
        raise ValueError(
            f"box {corners} of {label!r} lies outside of its {width} x {height} image: "
            "boxes are x0, y0, x1, y1 in pixels of the source"
        )
    return Box.from_corners(x0, y0, x1, y1, size)


def _in_fractions(corners: Sequence[float], size: tuple[int, int], label: str) -> str:
    """What is wrong with a box in fractions, with the pixels it would be."""
    width, height = size
    pixels = [round(corner * side) for corner, side in zip(corners, (width, height, width, height), strict=True)]
    return f"box {list(corners)} of {label!r} is in fractions of its {width} x {height} image: in pixels it is {pixels}"


def highest_scoring(boxes: Iterable[Box]) -> Box | None:
    """The box with the highest score (the first of equals); None without boxes."""
    return max(boxes, key=lambda box: box.score, default=None)


def best_first(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """The boxes by falling score; equals keep their order."""
    return tuple(sorted(boxes, key=lambda box: -box.score))


def suppress_overlaps(boxes: Sequence[Box], iou_threshold: float = 0.8) -> tuple[Box, ...]:
    """Greedy de-duplication in input order: drops boxes whose IoU with a kept one exceeds `iou_threshold`."""
    kept: list[Box] = []
    for box in boxes:
        if all(box.iou(other) <= iou_threshold for other in kept):
            kept.append(box)
    return tuple(kept)


def box_around(boxes: Collection[Box]) -> Box:
    """The smallest box around all boxes, without score and label. Raises ValueError without boxes."""
    x0, y0 = min(box.x0 for box in boxes), min(box.y0 for box in boxes)
    x1, y1 = max(box.x1 for box in boxes), max(box.y1 for box in boxes)
    return Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
