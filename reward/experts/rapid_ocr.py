"""RapidOcr: reads text with the PP-OCR models that come inside the rapidocr wheel. CPU, no download."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, ClassVar
from unicodedata import bidirectional

import cv2
import numpy as np
from numpy.typing import NDArray

from ..boxes import Box
from ..digests import sha256
from ..forks import at_fork, keep_in_child
from ..image import Pixels
from ..installation import install_command
from ..queries.answers import RecognizedText, TextLine
from ..queries.expert import Expert, ExpertDown
from ..queries.kinds import Query, ReadText
from ..queries.outcomes import Abstention
from ..sample import EditSample
from .letters import script_of, without_wanted

_PACKAGE = "rapidocr"
_VERSION = 2  # of pre- and post-processing (the constants below); part of the expert's id
_MIN_SIDE = 4  # pixels: no script is legible in fewer rows or columns

_TINY, _SMALL, _LONGEST = 96, 256, 2000
"""Pixels. The text detector was trained on pages and street scenes: it misses letters that fill the image or are only
a few pixels high. An image whose short side is below `_TINY` is enlarged to that; from `_TINY` to `_SMALL` it is not
resized; above, its short side becomes `short_side`, by at most a factor of two either way and with at most `_LONGEST`
pixels on the long side."""

_MARGIN, _MAX_MARGIN = 0.25, 48
"""Border padding that replicates the rim: a share of the short side, and a maximum in pixels. Without it, letters that
touch the rim are not detected."""

_ELONGATED = 4  # longer images are padded to this aspect ratio, the limit of the detector's training data
_COVERED = 0.7  # A line with this share of its area inside another is a duplicate

_SINGLE_CHARACTER_SCORE = 0.95
"""Minimum score of a single character: on photographs without text, rims and handles are detected as letters with
scores up to 0.9; real single letters score above 0.98."""

_BLANK, _GARBLED, _LEGIBLE, _LONG, _SHOWN = 0.65, 0.7, 0.85, 1.6, 0.75
"""An unread line: the detector's score at least, where the recogniser saw no letters and where it saw some; its own
score at most; the aspect ratio at least, and the share of the box that lies in the image: no letters are in the margin.
Words in scripts that the recogniser does not know are mostly read as blanks; what the detector finds on photographs
without text is mostly read as some letter, has a lower score, is round, or is a wall or a floor that fills the image.
"""

_ROUND = frozenset("0OoQCc8")  # how glasses, coins, wheels and buttons in a row are read


class RapidOcr(Expert):
    """Answers `ReadText`. An image without text is an empty `RecognizedText`, not an abstention.

    Reads the letters that its recogniser has, and abstains on wanted texts with others: docs/experts.md has a table by
    script. Greek is read only by a recogniser with its accented letters; others know the letters of formulas.

    Lines are sorted top to bottom, then left to right, along their median direction; boxes enclose slanted lines. Weak
    on decorative faces and text upside down; spaces between words may be missing. Images under 4 pixels a side hold no
    text.

    Args:
        min_score: Lines with a lower recognition score, in [0, 1], are dropped; single characters below 0.95 always
            are.
        threads: Of each model (`intra_op`); the default is one, since a second saves only a tenth of the time.
        short_side: In pixels, to which larger images are resized; half of it takes a quarter of the time and loses
            small print.
        concurrency: Images read at a time, each by models of its own.
        recogniser: The ONNX file of another recogniser of PP-OCR, with its characters in the metadata, such as those
            for Cyrillic or Arabic (which needs `python-bidi`).
    """

    kinds = (ReadText,)
    adapts: ClassVar[tuple[type[Query[Any]], ...] | None] = ()
    batch = 8
    """Images are read one by one, so that a large batch saves nothing, and what depends on a reading waits for it."""
    deadline_s = 900.0

    def __init__(
        self,
        min_score: float = 0.5,
        threads: int = 1,
        short_side: int = 736,
        concurrency: int = 2,
        recogniser: str = "",
    ) -> None:
        if not 0 <= min_score <= 1:
            raise ValueError(f"min_score must lie in [0, 1], got {min_score}")
        for name, number in (("threads", threads), ("concurrency", concurrency)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if not 96 <= short_side <= _LONGEST:
            raise ValueError(f"short_side must lie in [96, {_LONGEST}] pixels, got {short_side}")
        self.min_score = min_score
        self.threads = threads
        self.short_side = short_side
        self.recogniser = recogniser
        try:  # of the installed package, which determines the models; without importing it
            package = distribution(_PACKAGE).version
        except PackageNotFoundError:
            package = "absent"
        self.id = f"rapidocr@{package} layout={_VERSION} working={short_side} min_score={min_score:g}"
        if recogniser:
            try:
                self.id += f" recogniser={sha256(Path(recogniser))[:16]}"
            except OSError as error:
                raise ValueError(f"recogniser: {recogniser}: {error.strerror}") from None
        self.concurrency = concurrency
        self._idle: list[Any] = []  # models that no call uses
        at_fork(self, RapidOcr._in_child)

    def _in_child(self) -> None:
        keep_in_child(self._idle)  # freeing a session waits for its threads, which stayed in the parent
        self._idle = []

    def load(self) -> None:
        """Load the models.

        Raises:
            ExpertDown: If the packages or the models in the wheel are missing.
        """
        self._idle.append(self._take())

    def _take(self) -> Any:
        """Models for one call."""
        with suppress(IndexError):
            return self._idle.pop()
        return self._new_models()

    def _new_models(self) -> Any:
        _onnxruntime()
        from rapidocr import RapidOCR

        detector, path = _model("det"), self.recogniser or _model("rec")
        right_to_left = self.recogniser and any(bidirectional(letter) in ("R", "AL") for letter in _characters(path))
        # With a path, no model is downloaded.
        return RapidOCR(
            params={
                "Det.model_path": detector,
                "Rec.model_path": path,
                "Global.use_cls": False,  # it wrongly rotates short upright words more often than it helps
                "Global.text_score": 0.0,
                "Global.log_level": "critical",
                "Det.limit_type": "max",  # the canvas already has the right size
                "Det.limit_side_len": 2 * _LONGEST,
                "Global.max_side_len": 2 * _LONGEST,
                "EngineConfig.onnxruntime.intra_op_num_threads": min(self.threads, os.cpu_count() or 1),
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
            | ({"Rec.lang_type": "arabic"} if right_to_left else {})
        )

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Without the wanted text; an abstention if it has letters that the recogniser does not know."""
        return without_wanted(query, self._knows) if isinstance(query, ReadText) else query

    def _knows(self, letter: str) -> bool:
        if letter.isascii():
            return True
        characters = _characters(self.recogniser or _model("rec"))
        if script_of(letter) == "Greek" and "ά" not in characters:
            return False
        return not characters.isdisjoint((letter, letter.lower(), letter.upper()))

    def __call__(self, queries: Sequence[ReadText]) -> list[RecognizedText]:
        models = self._take()
        try:
            return [self._reading(models, query.image.pixels) for query in queries]
        finally:
            self._idle.append(models)

    def _reading(self, models: Any, pixels: Pixels) -> RecognizedText:
        height, width = pixels.shape[:2]
        if min(width, height) < _MIN_SIDE:
            return RecognizedText(())
        canvas, scale, (left, top) = _canvas(pixels, self.short_side)
        # All that is detected: the whole pipeline leaves out what has no readable text.
        found, _, read, _ = models.run_ocr_steps(np.ascontiguousarray(canvas[:, :, ::-1]), {})  # BGR
        if found.boxes is None or read.txts is None:
            return RecognizedText(())
        corners = np.asarray(found.boxes, np.float64)
        quads = np.clip((corners - (left, top)) / scale, 0, (width, height))
        texts = [text.strip() for text in read.txts]
        scores = [min(max(float(score), 0.0), 1.0) for score in read.scores]
        sure = [min(max(float(score), 0.0), 1.0) for score in found.scores]

        def box(i: int, score: float) -> Box:
            (x0, y0), (x1, y1) = quads[i].min(0), quads[i].max(0)
            return Box.from_corners(float(x0), float(y0), float(x1), float(y1), (width, height), score=score)

        least = [self.min_score if len(text) > 1 else max(self.min_score, _SINGLE_CHARACTER_SCORE) for text in texts]
        kept = [i for i, text in enumerate(texts) if text and scores[i] >= least[i]]
        lines = tuple(TextLine(texts[i], box(i, scores[i])) for i in _in_reading_order(quads, kept))
        shown = np.ptp(quads, axis=1).prod(-1) * scale**2 / np.ptp(corners, axis=1).prod(-1)
        long = [i for i in range(len(texts)) if shown[i] >= _SHOWN and _is_long(corners[i])]
        unread = [i for i in long if _is_illegible(texts[i], scores[i], sure[i])]
        return RecognizedText(lines, tuple(box(i, sure[i]) for i in _in_reading_order(quads, unread)))


def _is_long(quad: NDArray[np.float64]) -> bool:
    """Whether a quadrilateral is as long as words are; with corners as of `_in_reading_order`."""
    left, upper, right, lower = np.linalg.norm(quad - np.roll(quad, 1, 0), axis=1)
    return bool(upper + lower >= _LONG * (left + right))


def _is_illegible(text: str, score: float, detected: float) -> bool:
    """Whether something is text to the detector, and the recogniser is not sure of what it reads there."""
    letters = {letter for letter in text if letter.isalnum()}
    if not letters:
        return detected >= _BLANK
    return detected >= _GARBLED and score < _LEGIBLE and not letters <= _ROUND


def _onnxruntime() -> Any:
    try:
        import onnxruntime
        import rapidocr  # noqa: F401
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: {install_command('ocr')}") from None
    onnxruntime.set_default_logger_severity(3)  # suppresses a warning on machines without a GPU
    return onnxruntime


@cache
def _characters(path: str) -> frozenset[str]:
    """The characters that a recogniser knows. Raises `ExpertDown` for a file that does not say."""
    session = _onnxruntime().InferenceSession(path, providers=["CPUExecutionProvider"])
    characters = session.get_modelmeta().custom_metadata_map.get("character", "")
    if not characters:
        raise ExpertDown(f"{path} does not say in its metadata which characters it knows: give a recogniser that does")
    return frozenset(characters.splitlines())


def _model(part: str) -> str:
    """The path of a model from the wheel; other, downloaded models may be in the same folder."""
    package = distribution(_PACKAGE)
    paths = [file for file in package.files or () if file.suffix == ".onnx" and f"_{part}_" in file.name]
    if len(paths) != 1 or not (path := Path(str(package.locate_file(paths[0])))).is_file():
        names = ", ".join(file.name for file in paths) or "none"
        raise ExpertDown(
            f"rapidocr {package.version} should contain one {part} model, found {names}: "
            f"{install_command('ocr', '--force-reinstall')}"
        )
    return str(path)


def _canvas(pixels: Pixels, short_side: int) -> tuple[Pixels, float, tuple[int, int]]:
    """The resized and padded image, the scale, and the offset of its upper left corner."""
    height, width = pixels.shape[:2]
    short, long = min(width, height), max(width, height)
    scale = max(1.0, _TINY / short) if short < _SMALL else min(max(short_side / short, 0.5), 2.0)
    scale = min(scale, _LONGEST / long)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    interpolation = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    resized = pixels if size == (width, height) else cv2.resize(pixels, size, interpolation=interpolation)
    margin = min(round(_MARGIN * min(size)), _MAX_MARGIN)
    across = max(margin, math.ceil((size[1] / _ELONGATED - size[0]) / 2))
    down = max(margin, math.ceil((size[0] / _ELONGATED - size[1]) / 2))
    padded = cv2.copyMakeBorder(resized, down, down, across, across, cv2.BORDER_REPLICATE)
    return np.asarray(padded, np.uint8), scale, (across, down)


def _in_reading_order(quads: NDArray[np.float64], kept: Sequence[int]) -> list[int]:
    """The lines `kept` without duplicates, row by row. quads: n x 4 corners x 2, clockwise from the left upper one."""
    if not kept:
        return []
    along = quads[:, 1] - quads[:, 0] + quads[:, 2] - quads[:, 3]
    slant = float(np.median(np.arctan2(along[kept, 1], along[kept, 0])))
    turn = np.array([[math.cos(slant), -math.sin(slant)], [math.sin(slant), math.cos(slant)]])
    upright = quads @ turn  # now the median line is horizontal
    low, high = upright.min(1), upright.max(1)
    middle, height = (low[:, 1] + high[:, 1]) / 2, high[:, 1] - low[:, 1]
    distinct = [i for i in kept if not any(_inside(i, j, low, high) for j in kept)]
    rows: list[list[int]] = []
    for i in sorted(distinct, key=lambda i: (middle[i], low[i, 0])):
        # A row: lines whose centre is within half a letter height of the first line's centre.
        if rows and middle[i] - middle[rows[-1][0]] <= 0.5 * min(height[i], height[rows[-1][0]]):
            rows[-1].append(i)
        else:
            rows.append([i])
    return [i for row in rows for i in sorted(row, key=lambda i: float(low[i, 0]))]


def _inside(line: int, outer: int, low: NDArray[np.float64], high: NDArray[np.float64]) -> bool:
    """Whether a line lies mostly inside another that is larger (or as large and earlier)."""
    area, larger = (float(np.prod(high[i] - low[i])) for i in (line, outer))
    if (-area, line) <= (-larger, outer):
        return False
    shared = np.clip(np.minimum(high[line], high[outer]) - np.maximum(low[line], low[outer]), 0, None)
    return float(np.prod(shared)) > _COVERED * area
