"""Queries to experts. Their answers: `answers`.

A metric sends a *query* to a *role* and gets an *answer*. Queries are frozen and identified by a digest over their
description, in which an image is its content digest; answers are numpy arrays and plain values, never tensors. Each
query class defines its default role, its answer type, and the validation of answers.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast, get_args, get_origin

import numpy as np

from ..boxes import Box
from ..edit_plan import EditPlan, plan_from_json, plan_to_json
from ..image import Image
from .answers import (
    MAX_LINES,
    MAX_READ,
    Detections,
    Embeddings,
    Mask,
    Measurement,
    RecognizedText,
    Region,
    RegionRating,
    TextLine,
    UpscaledImage,
)
from .change_map import ChangeMap
from .response_formats import Message, Reply, ResponseFormat, validate_reply

A = TypeVar("A")


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode  # `json.dumps` makes one a call


class InvalidAnswer(ValueError):
    """An expert's answer is invalid for the query (wrong type, wrong length, NaN)."""


class Query(Generic[A]):
    """Base of all queries. Subclasses are frozen dataclasses of images and plain values."""

    role: ClassVar[str]
    kind: ClassVar[str]
    _answer_type: ClassVar[type] = object
    _optional: ClassVar[tuple[str, ...]] = ()
    """Fields that the description has only where they are not empty."""

    def __init_subclass__(cls) -> None:
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is Query:
                cls._answer_type = get_args(base)[0]

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of the query."""
        return tuple(_images_in(tuple(vars(self).values())))

    def describe(self) -> dict[str, Any]:
        """The query as JSON, images by digest. Queries with equal kind and description are identical."""
        values = {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}
        return {name: _plain(value) for name, value in values.items() if value or name not in self._optional}

    @property
    def digest(self) -> str:
        """sha256 over kind and description, hex."""
        digest: str | None = self.__dict__.get("_digest")
        if digest is None:
            digest = hashlib.sha256(_CANONICAL([self.kind, self.describe()]).encode()).hexdigest()
            self.__dict__["_digest"] = digest
        return digest

    def rewritten_as(self, digest: str) -> Query[A]:
        """This query under the digest of what an expert rewrote it to, where only that is known: in a replay."""
        rewritten = copy.copy(self)
        rewritten.__dict__["_digest"] = digest
        return rewritten

    def check(self, answer: object) -> None:
        """Raise `InvalidAnswer` unless `answer` is a valid, finite answer to this query."""
        if not isinstance(answer, self._answer_type):
            raise InvalidAnswer(f"{self.kind} expects {self._answer_type.__name__}, got {type(answer).__name__}")
        self._check(cast("A", answer))

    def _check(self, answer: A) -> None:
        """The same, of an answer of the right type, whose fields may hold anything."""


def _images_in(value: object) -> Iterator[Image]:
    if isinstance(value, Image):
        yield value
    elif isinstance(value, tuple | Message):
        for item in value if isinstance(value, tuple) else value.content:
            yield from _images_in(item)


def _plain(value: Any) -> Any:
    match value:
        case Image():
            return value.digest
        case Box():
            return value.cx, value.cy, value.w, value.h
        case tuple():
            return tuple(map(_plain, value))
        case _:
            return value.describe() if hasattr(value, "describe") else value


def _is_number(value: object) -> bool:
    """Whether it is a finite Python number: numpy's narrower types cannot be written to a log."""
    return isinstance(value, float | int) and math.isfinite(value)


def _check_boxes(query: Query[Detections], answer: Detections) -> None:
    boxes: Any = answer.boxes
    if not (isinstance(boxes, tuple) and all(map(_is_box, boxes))):
        raise InvalidAnswer(f"{query.kind} expects a tuple of boxes with text labels, got {boxes!r:.200}")
    if not _is_number(answer.min_score):
        raise InvalidAnswer(f"{query.kind} expects a finite min_score, got {answer.min_score!r}")


def _check_vectors(kind: str, answer: Embeddings, count: int) -> None:
    values, patches = answer.values, answer.patches
    if values.dtype != np.float32 or patches.dtype.kind not in "iu":
        raise InvalidAnswer(f"{kind} expects float32 and integers, got {values.dtype} and {patches.dtype}")
    if values.ndim != 2 or values.shape[0] != count:
        raise InvalidAnswer(f"{kind} expects {count} vectors, got an array of {values.shape}")
    if patches.shape != (count,):
        raise InvalidAnswer(f"{kind} expects {count} patch counts, got {patches.shape}")
    if not np.isfinite(values).all():
        raise InvalidAnswer(f"{kind} got vectors with NaN or infinity")


def _is_box(box: object) -> bool:
    return isinstance(box, Box) and isinstance(box.label, str)


def _is_line(line: object) -> bool:
    return isinstance(line, TextLine) and all((isinstance(line.text, str), _is_box(line.box)))


def _check_measured(query: Query[Measurement], answer: Measurement) -> None:
    optional = [number for number in (answer.value, answer.sigma) if number is not None]
    if not all(map(_is_number, [*optional, answer.share])):
        raise InvalidAnswer(f"{query.kind} expects finite floats, got {answer!r}")
    if answer.sigma is not None and answer.sigma < 0:
        raise InvalidAnswer(f"{query.kind} expects a standard deviation of 0 or more, got {answer.sigma!r}")


# -- localisation -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Detect(Query[Detections]):
    """Detect phrases in an image. Several phrases are one joint prompt; boxes carry labels."""

    image: Image
    phrases: tuple[str, ...]
    role: ClassVar[str] = "detector"
    kind: ClassVar[str] = "detect"
    _check = _check_boxes


@dataclass(frozen=True)
class Match(Query[Detections]):
    """Locate objects of a base image in another image. `targets` are labelled boxes in the base."""

    image: Image
    base: Image
    targets: tuple[Box, ...]
    role: ClassVar[str] = "matcher"
    kind: ClassVar[str] = "match"
    _check = _check_boxes

    def describe(self) -> dict[str, Any]:
        targets = [(box.label, box.cx, box.cy, box.w, box.h) for box in self.targets]
        return {"image": self.image.digest, "base": self.base.digest, "targets": targets}


@dataclass(frozen=True)
class Differ(Query[Detections]):
    """Locate differences of two images of one size. Answer: boxes around changed regions, the largest first.

    Their scores are the mean difference inside, as a fraction of full scale.
    """

    before: Image
    after: Image
    role: ClassVar[str] = "differences"
    kind: ClassVar[str] = "differ"
    _check = _check_boxes


Beside = Literal["tone", "focus"]


@dataclass(frozen=True)
class MapChanges(Query[ChangeMap]):
    """Map the changes of an edited image against what is harmless for its source. The edit is resized to the source.

    Args:
        beside: Only what no such change of everything explains. `tone`: rising curves of the channels and another
            saturation. `focus`: a blur or a sharpening. It is fitted outside of the boxes in `exclude`.
    """

    before: Image
    after: Image
    beside: tuple[Beside, ...] = ()
    exclude: tuple[Box, ...] = ()
    role: ClassVar[str] = "changes"
    kind: ClassVar[str] = "map_changes"

    def describe(self) -> dict[str, Any]:
        description: dict[str, Any] = {"before": self.before.digest, "after": self.after.digest}
        if not self.beside:
            return description
        boxes = [(box.cx, box.cy, box.w, box.h) for box in self.exclude]
        return description | {"beside": self.beside, "exclude": boxes}

    def _check(self, answer: ChangeMap) -> None:
        if problem := answer.problem():
            raise InvalidAnswer(f"{self.kind} {problem}")


RegionChange = Literal["removed", "new", "recoloured", "text"]
"""What was to happen in a region: an object goes; something new stands there; it gets another colour; words."""


SMALLEST_PLACE = 6
"""Pixels of a side from which on there is something in a place to be rated."""


@dataclass(frozen=True)
class RateRegion(Query[RegionRating]):
    """Rate whether what stands in a box after an edit belongs to the picture around it. The edit is resized to the
    source.

    Args:
        change: What was asked for there.
    """

    before: Image
    after: Image
    box: Box
    change: RegionChange
    role: ClassVar[str] = "changes"
    kind: ClassVar[str] = "rate_region"

    def _check(self, answer: RegionRating) -> None:
        faults: object = answer.faults  # of a recording: anything
        numbers = [answer.value, *faults.values()] if isinstance(faults, Mapping) else [math.nan]
        valid = all(isinstance(x, float | int) and math.isfinite(x) and x >= 0 for x in numbers)
        if not valid or answer.value > 1:
            raise InvalidAnswer(f"{self.kind} expects a value in [0, 1] and faults of at least 0, got {answer!r:.200}")


@dataclass(frozen=True)
class Segment(Query[Mask]):
    """Segment the object that a command refers to ("the red circle"). The mask is empty if there is none."""

    image: Image
    command: str
    role: ClassVar[str] = "segmenter"
    kind: ClassVar[str] = "segment"

    def _check(self, answer: Mask) -> None:
        values: Any = answer.values
        shape = (self.image.height, self.image.width)
        if not isinstance(values, np.ndarray) or values.dtype != np.bool_ or values.shape != shape:
            got = f"{values.dtype} of {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
            raise InvalidAnswer(f"segment expects an array of bool of {shape}, got {got}")
        if not _is_number(answer.score):
            raise InvalidAnswer(f"segment expects a finite score, got {answer.score!r}")


# -- features and measurements ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Embed(Query[Embeddings]):
    """Features of an image, pooled inside the expert, so that large feature maps are not transferred."""

    image: Image
    regions: tuple[Region, ...]
    role: ClassVar[str] = "features"
    kind: ClassVar[str] = "embed"

    def _check(self, answer: Embeddings) -> None:
        _check_vectors(self.kind, answer, len(self.regions))


@dataclass(frozen=True)
class EmbedText(Query[Embeddings]):
    """Features of a text, in the space of the image's class token (CLIP-like models): one vector, no patches."""

    text: str
    role: ClassVar[str] = "features"
    kind: ClassVar[str] = "embed_text"

    def _check(self, answer: Embeddings) -> None:
        _check_vectors(self.kind, answer, 1)


PixelQuantity = Literal["l1", "ssim", "spread", "sharpness", "luma99", "luma999", "linear_luma99", "linear_luma999"]
LookQuantity = Literal["lightness", "contrast", "saturation", "warmth", "tint", "detail"]
Quantity = PixelQuantity | LookQuantity | Literal["chroma"]
"""See `Measure`."""


@dataclass(frozen=True)
class Measure(Query[Measurement]):
    """A quantity of the pixels of one image or a pair, outside of the boxes in `exclude`.

    Pairs must have one size. `l1`: 1 - mean absolute difference, in [0, 1]. `ssim`: mean structural similarity of
    luminance, in [-1, 1]. `spread` (one image): standard deviation of luminance, in [0, 0.5]. `sharpness` (one
    image): mean absolute Laplacian of luminance, in [0, 4]. `luma99`, `luma999` (one image): the 99 % and 99.9 %
    quantile of luminance, in [0, 1]; `linear_luma99`, `linear_luma999`: likewise, of linear light (sRGB decoded).
    `chroma` (one image): typical distance from grey, in CIE L*a*b*, at least 0.

    By how much the second image of a pair has more than the first, in units of CIE L*a*b*: `lightness`, `contrast`,
    `saturation`, `warmth` (a cast towards orange), `tint` (a cast towards magenta), each beside the others; `detail`:
    fine gradients beside contrast and noise, as the natural logarithm of their ratio.
    """

    quantity: Quantity
    pictures: tuple[Image, ...]
    exclude: tuple[Box, ...] = ()
    role: ClassVar[str] = "pixels"
    kind: ClassVar[str] = "measure"
    _check = _check_measured


@dataclass(frozen=True)
class Remains(Query[Measurement]):
    """How much of objects of the source still stands at their places in an edited image.

    The answer is the largest share among the objects, in [0, 1], by their own pixels: 0 where an object is gone, about
    1 where it stands, in whatever colour. Its `share` is that of the structure around them that is where it was, or
    where the image as a whole moved it to (mirrored, cropped). None: their places are not in the edited image.

    Args:
        boxes: Theirs in the source.
        unchanged: The answer is the smallest share among the objects that is as it was, in structure and in colours.
            None: nothing of them can be told from what is around them.
    """

    before: Image
    after: Image
    boxes: tuple[Box, ...]
    unchanged: bool = False
    role: ClassVar[str] = "changes"
    kind: ClassVar[str] = "remains"
    _optional = ("unchanged",)
    _check = _check_measured


@dataclass(frozen=True)
class Upscale(Query[UpscaledImage]):
    """Super-resolution by `factor` per side."""

    image: Image
    factor: int = 4
    role: ClassVar[str] = "enhancer"
    kind: ClassVar[str] = "upscale"

    def _check(self, answer: UpscaledImage) -> None:
        if not isinstance(answer.image, Image):
            raise InvalidAnswer(f"upscale expects an Image, got {type(answer.image).__name__}")
        size = (self.image.width * self.factor, self.image.height * self.factor)
        if answer.image.size != size:
            raise InvalidAnswer(f"upscale expects an image of {size}, got one of {answer.image.size}")


# -- judges, text and ratings -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judge(Query[Reply]):
    """A prompt of text and images.

    `topic` and `slots` encode the prompt's content for experts without a language model (a colour judge).
    `draw` distinguishes repeated samples of one prompt.
    """

    messages: tuple[Message, ...]
    form: ResponseFormat
    topic: str = ""
    slots: tuple[tuple[str, str], ...] = ()
    draw: int = 0
    role: ClassVar[str] = "judge"
    kind: ClassVar[str] = "judge"

    def _check(self, answer: Reply) -> None:
        for text in (answer.text, answer.note):
            if not isinstance(text, str):
                raise InvalidAnswer(f"judge expects text, got {type(text).__name__}")
        probabilities: Mapping[Any, Any] = answer.probabilities
        for option, p in [
            *probabilities.items(),
            ("all its options", 1.0 if answer.option_mass is None else answer.option_mass),
        ]:
            if not (isinstance(option, str) and _is_number(p) and 0.0 <= p <= 1.0 + 1e-6):
                raise InvalidAnswer(f"judge gave probability {p!r} for {option!r}: give text and floats in [0, 1]")
        try:
            validate_reply(self.form, answer)
        except ValueError as error:
            raise InvalidAnswer(f"the judge gave no answer: {error}") from None


@dataclass(frozen=True)
class ReadText(Query[RecognizedText]):
    """Read the text in an image (OCR).

    Args:
        wanted: A text that is compared with what is read; may be empty. A reader abstains in `rewrite_query` on one
            that has letters it does not know, and drops it from others: what it reads does not depend on it.
    """

    image: Image
    wanted: str = ""
    role: ClassVar[str] = "reader"
    kind: ClassVar[str] = "read_text"
    _optional = ("wanted",)

    def _check(self, answer: RecognizedText) -> None:
        lines: Any = answer.lines
        unread: Any = answer.unread
        if not (isinstance(lines, tuple) and all(map(_is_line, lines))):
            raise InvalidAnswer(f"read_text expects a tuple of lines, each text with a box, got {lines!r:.200}")
        if not (isinstance(unread, tuple) and all(map(_is_box, unread))):
            raise InvalidAnswer(f"read_text expects a tuple of boxes of unread lines, got {unread!r:.200}")
        letters = sum(len(line.text) for line in lines)
        number = max(len(lines), len(unread))
        if number > MAX_LINES or letters > MAX_READ:
            raise InvalidAnswer(
                f"{number:,} lines of {letters:,} characters were read, and at most {MAX_LINES:,} of {MAX_READ:,} "
                "are compared: crop the image"
            )


@dataclass(frozen=True)
class Rate(Query[Measurement]):
    """Rate an image on the expert's own scale (HPSv3 and similar models). Higher is better.

    Args:
        prompt: The image's prompt or intended content.
        sources: The source images, for experts that rate edits; others ignore them.
    """

    image: Image
    prompt: str = ""
    quality: str = "preference"
    sources: tuple[Image, ...] = ()
    role: ClassVar[str] = "preference"
    kind: ClassVar[str] = "rate"
    _optional = ("sources",)

    @property
    def images(self) -> tuple[Image, ...]:
        return (*self.sources, self.image)

    def _check(self, answer: Measurement) -> None:
        _check_measured(self, answer)
        if answer.value is None:
            raise InvalidAnswer("rate expects a number, got None")


@dataclass(frozen=True)
class Plan(Query[EditPlan]):
    """Take an instruction about source images apart. The edited image is no part of it: a group shares one plan."""

    sources: tuple[Image, ...]
    instruction: str
    role: ClassVar[str] = "planner"
    kind: ClassVar[str] = "plan"

    def _check(self, answer: EditPlan) -> None:
        try:
            again = plan_from_json(plan_to_json(answer))
        except (TypeError, ValueError) as error:
            raise InvalidAnswer(f"plan expects an EditPlan of valid fields: {error}") from None
        if repr(again) != repr(answer):  # `==` takes True for 1
            raise InvalidAnswer(f"plan expects an EditPlan that JSON can hold, got {answer!r:.200}")
