"""RapidOcr: reads text with the PP-OCR models that come inside the rapidocr wheel. CPU, no download."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ..boxes import Box
from ..expert import Expert, ExpertDown
from ..image import Pixels
from ..query import Reading, ReadText, TextLine

_PACKAGE = "rapidocr"
_VERSION = 1
"""Of what is done before and after the models (the constants below); part of the expert's id."""

_LEAST = 4
"""Pixels: no script is legible in fewer rows or columns."""

_TINY, _SMALL, _LONGEST = 96, 256, 2000
"""Pixels. The text detector was trained on pages and street scenes: it misses letters that fill the picture or are only
a few pixels high. A picture whose short side is below `_TINY` is enlarged to that; from `_TINY` to `_SMALL` it stays as
it is; from there on its short side becomes `working`, by at most a factor of two either way and to no more than
`_LONGEST` on the long side."""

_MARGIN, _MOST_MARGIN = 0.25, 48
"""The frame put around the picture by repeating its rim: a share of the short side, and pixels at most. Letters that
touch the rim are not detected without it."""

_ELONGATED = 4
"""Longer pictures are framed to this aspect ratio, the least extreme that the detector was trained on."""

_COVERED = 0.7
"""A line that lies to this share inside of another is the same text detected twice."""

_ALONE = 0.95
"""A single character needs this score: on photographs without text the detector takes rims and handles for letters,
with scores up to 0.9, while real single letters score above 0.98."""


class RapidOcr(Expert):
    """Answers `ReadText`. A picture without text is an empty `Reading`, not an abstention.

    min_score: lines the recogniser is less sure of, in [0, 1], are dropped; single characters below 0.95 always are.
    threads: of each model (`intra_op`); the second saves a tenth of the time for twice the work, so one is the default.
    working: short side, in pixels, that larger pictures are brought to; half of it takes a quarter of the time and
    loses small print.

    Lines come top to bottom, then left to right, along the direction most of them are written in; boxes enclose slanted
    lines. Weak on decorative faces and text upside down; spaces between words may be missing. Pictures under 4 pixels
    a side hold no text.
    """

    kinds = (ReadText,)
    deadline_s = 900.0

    def __init__(self, min_score: float = 0.5, threads: int = 1, working: int = 736) -> None:
        if not 0 <= min_score <= 1:
            raise ValueError(f"min_score must lie in [0, 1], got {min_score}")
        if threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        if not 96 <= working <= _LONGEST:
            raise ValueError(f"working must lie in [96, {_LONGEST}] pixels, got {working}")
        self.min_score = min_score
        self.threads = threads
        self.working = working
        self.id = f"rapidocr@{_version()} layout={_VERSION} working={working} min_score={min_score:g}"
        self._read: Any = None

    def load(self) -> None:
        """Load the models. Raises `ExpertDown` if the packages or the models in the wheel are missing."""
        try:
            import onnxruntime
            from rapidocr import RapidOCR
        except ImportError as error:
            raise ExpertDown(f"{error.name} is not installed: pip install 'editcritic[ocr]'") from None
        onnxruntime.set_default_logger_severity(3)  # it greets machines without a GPU with a warning
        # Given by path, a model is never looked for on the network.
        self._read = RapidOCR(
            params={
                "Det.model_path": _model("det"),
                "Rec.model_path": _model("rec"),
                "Global.use_cls": False,  # it turns short upright words upside down more often than it helps
                "Global.text_score": 0.0,
                "Global.log_level": "critical",
                "Det.limit_type": "max",  # the canvas has the right size already
                "Det.limit_side_len": 2 * _LONGEST,
                "Global.max_side_len": 2 * _LONGEST,
                "EngineConfig.onnxruntime.intra_op_num_threads": min(self.threads, os.cpu_count() or 1),
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def __call__(self, queries: Sequence[ReadText]) -> list[Reading]:
        return [self._reading(query.image.pixels) for query in queries]

    def _reading(self, pixels: Pixels) -> Reading:
        height, width = pixels.shape[:2]
        if min(width, height) < _LEAST:
            return Reading(())
        canvas, scale, (left, top) = _canvas(pixels, self.working)
        found = self._read(np.ascontiguousarray(canvas[:, :, ::-1]))  # it takes BGR
        if getattr(found, "txts", None) is None:
            return Reading(())
        quads = np.clip((np.asarray(found.boxes, np.float64) - (left, top)) / scale, 0, (width, height))
        texts = [text.strip() for text in found.txts]
        scores = [min(max(float(score), 0.0), 1.0) for score in found.scores]
        sure = [i for i, text in enumerate(texts) if scores[i] >= self._enough(text)]
        lines = []
        for i in _in_reading_order(quads, sure):
            (x0, y0), (x1, y1) = quads[i].min(0), quads[i].max(0)
            box = Box.from_corners(float(x0), float(y0), float(x1), float(y1), (width, height), score=scores[i])
            lines.append(TextLine(texts[i], box))
        return Reading(tuple(lines))

    def _enough(self, text: str) -> float:
        return self.min_score if len(text) > 1 else max(self.min_score, _ALONE)


def _version() -> str:
    """Of the installed package; it determines the models. Known without importing it."""
    try:
        return distribution(_PACKAGE).version
    except PackageNotFoundError:
        return "absent"


def _model(part: str) -> str:
    """The path of a model that the wheel brought along; others may lie beside it, downloaded for somebody else."""
    brought = distribution(_PACKAGE)
    paths = [file for file in brought.files or () if file.suffix == ".onnx" and f"_{part}_" in file.name]
    if len(paths) != 1 or not (path := Path(str(brought.locate_file(paths[0])))).is_file():
        names = ", ".join(file.name for file in paths) or "none"
        raise ExpertDown(
            f"rapidocr {brought.version} should bring one {part} model, found {names}: "
            "pip install --force-reinstall 'editcritic[ocr]'"
        )
    return str(path)


def _canvas(pixels: Pixels, working: int) -> tuple[Pixels, float, tuple[int, int]]:
    """The picture at the size the detector likes, in a frame; the scale; where its left upper corner lies."""
    height, width = pixels.shape[:2]
    short, long = min(width, height), max(width, height)
    scale = max(1.0, _TINY / short) if short < _SMALL else min(max(working / short, 0.5), 2.0)
    scale = min(scale, _LONGEST / long)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    way = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    picture = pixels if size == (width, height) else cv2.resize(pixels, size, interpolation=way)
    margin = min(round(_MARGIN * min(size)), _MOST_MARGIN)
    across = max(margin, math.ceil((size[1] / _ELONGATED - size[0]) / 2))
    down = max(margin, math.ceil((size[0] / _ELONGATED - size[1]) / 2))
    framed = cv2.copyMakeBorder(picture, down, down, across, across, cv2.BORDER_REPLICATE)
    return np.asarray(framed, np.uint8), scale, (across, down)


def _in_reading_order(quads: NDArray[np.float64], sure: Sequence[int]) -> list[int]:
    """Those of the lines `sure` that are no doubles, row by row.

    quads: n x 4 corners x 2, clockwise from the left upper one.
    """
    if not sure:
        return []
    along = quads[:, 1] - quads[:, 0] + quads[:, 2] - quads[:, 3]
    slant = float(np.median(np.arctan2(along[sure, 1], along[sure, 0])))
    turn = np.array([[math.cos(slant), -math.sin(slant)], [math.sin(slant), math.cos(slant)]])
    upright = quads @ turn  # now the median line is horizontal
    low, high = upright.min(1), upright.max(1)
    middle, height = (low[:, 1] + high[:, 1]) / 2, high[:, 1] - low[:, 1]
    kept = [i for i in sure if not any(_inside(i, j, low, high) for j in sure)]
    rows: list[list[int]] = []
    for i in sorted(kept, key=lambda i: (middle[i], low[i, 0])):
        # In one row are those whose middle lies within half a letter of the middle of the row's first.
        if rows and middle[i] - middle[rows[-1][0]] <= 0.5 * min(height[i], height[rows[-1][0]]):
            rows[-1].append(i)
        else:
            rows.append([i])
    return [i for row in rows for i in sorted(row, key=lambda i: float(low[i, 0]))]


def _inside(one: int, other: int, low: NDArray[np.float64], high: NDArray[np.float64]) -> bool:
    """Whether a line lies mostly inside of another, which is larger (or as large and found before)."""
    area, larger = (float(np.prod(high[i] - low[i])) for i in (one, other))
    if (-area, one) <= (-larger, other):
        return False
    shared = np.clip(np.minimum(high[one], high[other]) - np.maximum(low[one], low[other]), 0, None)
    return float(np.prod(shared)) > _COVERED * area
