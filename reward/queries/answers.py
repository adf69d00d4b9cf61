"""Answers of experts to queries (`kinds`): arrays and plain values, never tensors; and regions of features."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..boxes import Box
from ..edit_plan import EditPlan
from ..image import Image
from .change_map import ChangeMap
from .outcomes import Abstention, Failure
from .response_formats import Reply


class FloorTooHigh(ValueError):
    """A metric's threshold is below the minimum score that its detector reports: lower the detector's `floor`."""


@dataclass(frozen=True, slots=True)
class Detections:
    """All boxes of a detector with a score of at least `min_score`, in its own order.

    Metrics apply their own thresholds, so that one query serves every threshold, and sort (`boxes.best_first`) where
    the order matters; protocols of released code keep it.
    """

    boxes: tuple[Box, ...]
    min_score: float = 0.0

    def above(self, threshold: float, label: str | None = None) -> tuple[Box, ...]:
        """Boxes with a score strictly above `threshold` (of one label), in the detector's order.

        Raises `FloorTooHigh` for a threshold below `min_score`.
        """
        if threshold < self.min_score:
            raise FloorTooHigh(
                f"threshold {threshold} lies below the detector's floor {self.min_score}: lower the floor"
            )
        return tuple(box for box in self.boxes if box.score > threshold and label in (None, box.label))

    def max_score(self) -> float:
        """The highest score of any box, 0.0 without boxes."""
        return max((box.score for box in self.boxes), default=0.0)


@dataclass(frozen=True)
class RegionRating:
    """How well what stands in a region belongs to its picture.

    Args:
        value: In [0, 1], 1 where nothing gives it away.
        faults: What gives it away -> how much it counts against it, at least 0, as in {"seam": 1.2}.
    """

    value: float
    faults: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A segmentation mask: `values` H x W bool at the image's size.

    Equal when pixels and score are.

    Args:
        score: The expert's confidence.
    """

    values: NDArray[np.bool_]
    score: float = 1.0

    def inverted(self) -> Mask:
        """The complement."""
        return Mask(~self.values, self.score)

    @property
    def digest(self) -> str:
        """sha256 over size and pixels, hex."""
        return hashlib.sha256(f"{self.values.shape} ".encode() + np.packbits(self.values).tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and self.score == other.score and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.digest, self.score))


@dataclass(frozen=True, slots=True)
class Region:
    """The tokens over which an embedding is pooled.

    `cls`: the class token. `patches`: mean of the patch tokens. `tokens`: mean of every token after the class token,
    registers included. With `exclude`, the patches not covered by these boxes: tokens normalised to length 1, the mask
    averaged onto the patch grid, patches less than half uncovered left out, weighted mean. With `inside`, the patches
    that overlap a mask (of any size, stretched over the image): tokens normalised to length 1, mean weighted by the
    covered fraction of each. `grid="guessed"` reproduces released EdiVal code: it treats registers as patches and uses
    the most square grid that holds them all.
    """

    pool: Literal["cls", "patches", "tokens"] = "patches"
    exclude: tuple[Box, ...] | None = None
    grid: Literal["true", "guessed"] = "true"
    inside: Mask | None = None

    def __post_init__(self) -> None:
        if self.inside is not None and self.exclude is not None:
            raise ValueError("a region takes `inside` or `exclude`, not both: subtract the boxes from the mask")

    def describe(self) -> list[Any]:
        """What the digest of a query has of it."""
        boxes = None if self.exclude is None else [(box.cx, box.cy, box.w, box.h) for box in self.exclude]
        description = [self.pool, boxes, self.grid]
        return description if self.inside is None else [*description, self.inside.digest]


@dataclass(frozen=True, slots=True)
class Embeddings:
    """One vector per region: `values` n x d float32; `patches` n, the number of patches in each (0: none left)."""

    values: NDArray[np.float32]
    patches: NDArray[np.int64]

    def cosine(self, other: Embeddings, row: int) -> float:
        """Cosine in [-1, 1] of the two vectors of a region; 0.0 where either is all zeros."""
        a, b = self.values[row].astype(np.float64), other.values[row].astype(np.float64)
        scale = float(np.linalg.norm(a) * np.linalg.norm(b))
        return float(np.clip(a @ b / scale, -1.0, 1.0)) if scale > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured quantity; `value` is None where no pixel was left to measure.

    Args:
        share: Fraction of the pixels used.
        sigma: The expert's own standard deviation, in the value's unit, if it provides one.
    """

    value: float | None
    share: float = 1.0
    sigma: float | None = None


@dataclass(frozen=True, slots=True)
class UpscaledImage:
    """An image after super-resolution."""

    image: Image


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text and its box; the box's score is the reader's confidence."""

    text: str
    box: Box


_WHOLE_IMAGE = Box(0.5, 0.5, 1.0, 1.0)
"""The box of a text in readers that do not localise it."""


MAX_LINES, MAX_READ = 1_000, 10_000
"""Lines, and characters in all of them, that may be read in an image: what is drawn there is compared letter by letter.
A dense printed page has about 60 and 5,000."""


@dataclass(frozen=True, slots=True)
class RecognizedText:
    """Text in an image, top to bottom; box scores are the reader's confidence. At most `MAX_LINES` and `MAX_READ`.

    Args:
        unread: What is text to the reader and hardly or not legible to it, such as letters that it does not know;
            scores are its confidence that this is text. A line of low confidence may be in both. Empty for readers that
            do not say.
    """

    lines: tuple[TextLine, ...]
    unread: tuple[Box, ...] = ()

    @property
    def text(self) -> str:
        """All lines in one, with blanks between them."""
        return " ".join(line.text for line in self.lines)

    @property
    def is_localised(self) -> bool:
        """Whether the boxes say where the lines are; no line has the box of a reader that does not localise text."""
        return not any(replace(line.box, score=1.0, label="") == _WHOLE_IMAGE for line in self.lines)

    @staticmethod
    def without_boxes(text: str) -> RecognizedText:
        """From a reader that does not localise text."""
        return RecognizedText((TextLine(text, _WHOLE_IMAGE),)) if text else RecognizedText(())


Answer = (
    Detections
    | Mask
    | ChangeMap
    | RegionRating
    | Embeddings
    | Measurement
    | UpscaledImage
    | Reply
    | RecognizedText
    | EditPlan
)
"""An answer of an expert; `Abstention` and `Failure` are the outcomes without an answer."""


Outcome = Answer | Abstention | Failure
