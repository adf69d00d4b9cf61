"""Questions to experts, and their answers.

A metric asks a *role* a *query* and gets an *answer*. Queries are frozen and known by a digest over their description,
in which a picture is its content digest; answers are numpy arrays and plain values, never tensors. Each query class
names the role it goes to by default, the answer it is given, and what an answer must look like.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from .boxes import Box
from .forms import Form, Message, Reply, check_reply
from .image import Image
from .outcomes import Abstention, Failure

A = TypeVar("A")


class BadAnswer(ValueError):
    """An expert answered, but not with what the query asks for (wrong type, wrong length, NaN)."""


class FloorTooHigh(ValueError):
    """A metric looks for weaker detections than the detector bound to it reports: its `floor` is to be lowered."""


class Query(Generic[A]):
    """Base of all queries. Subclasses are frozen dataclasses of images and plain values."""

    role: ClassVar[str]
    kind: ClassVar[str]

    @property
    def images(self) -> tuple[Image, ...]:
        """The pictures it is about."""
        raise AssertionError(f"{type(self).__name__} does not say which images it is about")

    def describe(self) -> dict[str, Any]:
        """The query as JSON, pictures by digest. Two queries are the same question when this is equal."""
        raise AssertionError(f"{type(self).__name__} does not describe itself")

    @property
    def digest(self) -> str:
        """sha256 over kind and description, hex."""
        known: str | None = self.__dict__.get("_digest")
        if known is None:
            text = json.dumps([self.kind, self.describe()], sort_keys=True, separators=(",", ":"))
            known = hashlib.sha256(text.encode()).hexdigest()
            self.__dict__["_digest"] = known
        return known

    def check(self, answer: object) -> None:
        """Raise `BadAnswer` unless `answer` is a finite answer to this query."""
        raise AssertionError(f"{type(self).__name__} does not check its answers")


def _expect(answer: object, kind: type, query: Query[Any]) -> None:
    if not isinstance(answer, kind):
        raise BadAnswer(f"{query.kind} wants {kind.__name__}, got {type(answer).__name__}")


def _is_number(value: object) -> bool:
    """A finite number of Python's own: numpy's narrower ones cannot be written to a log."""
    return isinstance(value, float | int) and math.isfinite(value)


def _expect_boxes(answer: object, query: Query[Any]) -> None:
    _expect(answer, Detections, query)
    assert isinstance(answer, Detections)
    boxes: Any = answer.boxes
    if not (isinstance(boxes, tuple) and all(map(_is_box, boxes))):
        raise BadAnswer(f"{query.kind} wants a tuple of boxes with text for labels, got {boxes!r:.200}")
    if not _is_number(answer.floor):
        raise BadAnswer(f"{query.kind} wants a finite floor, got {answer.floor!r}")


def _expect_vectors(answer: object, query: Query[Any], count: int) -> None:
    _expect(answer, Vectors, query)
    assert isinstance(answer, Vectors)
    kind, values, patches = query.kind, answer.values, answer.patches
    if values.dtype != np.float32 or patches.dtype.kind not in "iu":
        raise BadAnswer(f"{kind} wants float32 and integers, got {values.dtype} and {patches.dtype}")
    if values.ndim != 2 or values.shape[0] != count:
        raise BadAnswer(f"{kind} wants {count} vectors, got an array of {values.shape}")
    if patches.shape != (count,):
        raise BadAnswer(f"{kind} wants {count} counts of patches, got {patches.shape}")
    if not np.isfinite(values).all():
        raise BadAnswer(f"{kind} got vectors with NaN or infinity in them")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_box(box: object) -> bool:
    return isinstance(box, Box) and _is_text(box.label)


def _is_line(line: object) -> bool:
    return isinstance(line, TextLine) and _is_text(line.text) and _is_box(line.box)


def _expect_measured(answer: object, query: Query[Any]) -> None:
    _expect(answer, Measured, query)
    assert isinstance(answer, Measured)
    stated = [number for number in (answer.value, answer.sigma) if number is not None]
    if not all(map(_is_number, [*stated, answer.share])):
        raise BadAnswer(f"{query.kind} wants finite floats, got {answer!r}")
    if answer.sigma is not None and answer.sigma < 0:
        raise BadAnswer(f"{query.kind} wants a standard deviation of 0 or more, got {answer.sigma!r}")


# -- where is it? -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes a detector found, best guesses included down to its own `floor`.

    A metric thresholds them itself, so that one detection serves every threshold.
    """

    boxes: tuple[Box, ...]
    floor: float = 0.0

    def above(self, threshold: float, label: str | None = None) -> tuple[Box, ...]:
        """Boxes with a score strictly above `threshold` (of one label), in the detector's order.

        Raises `FloorTooHigh` where the detector did not look that far down.
        """
        if threshold < self.floor:
            raise FloorTooHigh(f"threshold {threshold} lies below the detector's floor {self.floor}: lower the floor")
        return tuple(box for box in self.boxes if box.score > threshold and label in (None, box.label))

    def strongest(self) -> float:
        """The highest score of any box, 0.0 without boxes."""
        return max((box.score for box in self.boxes), default=0.0)


@dataclass(frozen=True)
class Detect(Query[Detections]):
    """Where are these phrases in the picture? Several phrases are one joint prompt; boxes carry labels."""

    image: Image
    phrases: tuple[str, ...]
    role: ClassVar[str] = "detector"
    kind: ClassVar[str] = "detect"

    @property
    def images(self) -> tuple[Image, ...]:
        return (self.image,)

    def describe(self) -> dict[str, Any]:
        return {"image": self.image.digest, "phrases": self.phrases}

    def check(self, answer: object) -> None:
        _expect_boxes(answer, self)


@dataclass(frozen=True)
class Match(Query[Detections]):
    """Where are these objects of the base picture in this picture? `targets` are labelled boxes in the base."""

    image: Image
    base: Image
    targets: tuple[Box, ...]
    role: ClassVar[str] = "matcher"
    kind: ClassVar[str] = "match"

    @property
    def images(self) -> tuple[Image, ...]:
        return (self.image, self.base)

    def describe(self) -> dict[str, Any]:
        targets = [(box.label, box.cx, box.cy, box.w, box.h) for box in self.targets]
        return {"image": self.image.digest, "base": self.base.digest, "targets": targets}

    def check(self, answer: object) -> None:
        _expect_boxes(answer, self)


@dataclass(frozen=True)
class Differ(Query[Detections]):
    """Where do two pictures of one size differ? Boxes around changed regions, the largest first.

    Their scores are the mean difference inside, as a share of full scale.
    """

    before: Image
    after: Image
    role: ClassVar[str] = "differences"
    kind: ClassVar[str] = "differ"

    @property
    def images(self) -> tuple[Image, ...]:
        return (self.before, self.after)

    def describe(self) -> dict[str, Any]:
        return {"before": self.before.digest, "after": self.after.digest}

    def check(self, answer: object) -> None:
        _expect_boxes(answer, self)


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Which pixels belong to something: `values` H x W bool at the picture's size. score: how sure the expert is.

    Equal when pixels and score are.
    """

    values: NDArray[np.bool_]
    score: float = 1.0

    def inverted(self) -> Mask:
        """All other pixels."""
        return Mask(~self.values, self.score)

    @property
    def digest(self) -> str:
        """sha256 over size and pixels, hex."""
        return hashlib.sha256(f"{self.values.shape} ".encode() + np.packbits(self.values).tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and self.score == other.score and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.digest, self.score))


@dataclass(frozen=True)
class Segment(Query[Mask]):
    """Which pixels does the command mean ("the red circle")? Its answer is empty where there is no such thing."""

    image: Image
    command: str
    role: ClassVar[str] = "segmenter"
    kind: ClassVar[str] = "segment"

    @property
    def images(self) -> tuple[Image, ...]:
        return (self.image,)

    def describe(self) -> dict[str, Any]:
        return {"image": self.image.digest, "command": self.command}

    def check(self, answer: object) -> None:
        _expect(answer, Mask, self)
        assert isinstance(answer, Mask)
        values: Any = answer.values
        shape = (self.image.height, self.image.width)
        if not isinstance(values, np.ndarray) or values.dtype != np.bool_ or values.shape != shape:
            got = f"{values.dtype} of {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
            raise BadAnswer(f"segment wants an array of bool of {shape}, got {got}")
        if not _is_number(answer.score):
            raise BadAnswer(f"segment wants a finite score, got {answer.score!r}")


# -- what is it like? -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Region:
    """What an embedding is pooled over.

    `cls`: the class token. `patches`: mean of the patch tokens. `tokens`: mean of every token after the class token,
    registers included. With `exclude`, the patches not covered by these boxes: tokens normalised to length 1, the mask
    averaged onto the patch grid, patches less than half uncovered left out, weighted mean. With `inside`, the patches
    that a mask (of any size, stretched over the picture) touches: tokens normalised to length 1, mean weighted by how
    much of each it covers. `grid="guessed"` repeats what released EdiVal code does: it takes registers for patches and
    the most square grid that holds them all.
    """

    pool: Literal["cls", "patches", "tokens"] = "patches"
    exclude: tuple[Box, ...] | None = None
    grid: Literal["true", "guessed"] = "true"
    inside: Mask | None = None

    def __post_init__(self) -> None:
        if self.inside is not None and self.exclude is not None:
            raise ValueError("a region is inside of a mask or outside of boxes: take the boxes out of the mask")

    def describe(self) -> list[Any]:
        boxes = None if self.exclude is None else [(box.cx, box.cy, box.w, box.h) for box in self.exclude]
        said = [self.pool, boxes, self.grid]
        return said if self.inside is None else [*said, self.inside.digest]


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector a region: `values` n x d float32; `patches` n, how many patches each rests on (0: nothing left)."""

    values: NDArray[np.float32]
    patches: NDArray[np.int64]

    def cosine(self, other: Vectors, row: int) -> float:
        """Cosine in [-1, 1] of the two vectors of a region; 0.0 where either is all zeros."""
        a, b = self.values[row].astype(np.float64), other.values[row].astype(np.float64)
        scale = float(np.linalg.norm(a) * np.linalg.norm(b))
        return float(np.clip(a @ b / scale, -1.0, 1.0)) if scale > 0 else 0.0


@dataclass(frozen=True)
class Embed(Query[Vectors]):
    """Features of a picture, pooled inside the expert: large feature maps do not travel."""

    image: Image
    regions: tuple[Region, ...]
    role: ClassVar[str] = "features"
    kind: ClassVar[str] = "embed"

    @property
    def images(self) -> tuple[Image, ...]:
        return (self.image,)

    def describe(self) -> dict[str, Any]:
        return {"image": self.image.digest, "regions": [region.describe() for region in self.regions]}

    def check(self, answer: object) -> None:
        _expect_vectors(answer, self, len(self.regions))


@dataclass(frozen=True)
class EmbedText(Query[Vectors]):
    """Features of a text, in the space of the picture's class token (CLIP and its like): one vector, no patches."""

    text: str
    role: ClassVar[str] = "features"
    kind: ClassVar[str] = "embed_text"

    @property
    def images(self) -> tuple[Image, ...]:
        return ()

    def describe(self) -> dict[str, Any]:
        return {"text": self.text}

    def check(self, answer: object) -> None:
        _expect_vectors(answer, self, 1)


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured quantity; `value` is None where no pixel was left to measure. `share` of the pixels was used.

    sigma: the standard deviation that the expert itself states, in the value's unit, where it states one.
    """

    value: float | None
    share: float = 1.0
    sigma: float | None = None


@dataclass(frozen=True)
class Measure(Query[Measured]):
    """A quantity of the pixels of one picture or a pair, outside of `exclude` where that is given.

    Pairs must have one size. `l1`: 1 - mean absolute difference, in [0, 1]. `ssim`: mean structural similarity of
    luminance, in [-1, 1]. `spread` (one picture): standard deviation of luminance, in [0, 0.5]. `sharpness` (one
    picture): mean absolute Laplacian of luminance, in [0, 4]. `luma99`, `luma999` (one picture): the 99 % and 99.9 %
    quantile of luminance, in [0, 1].
    """

    quantity: Literal["l1", "ssim", "spread", "sharpness", "luma99", "luma999"]
    pictures: tuple[Image, ...]
    exclude: tuple[Box, ...] = ()
    role: ClassVar[str] = "pixels"
    kind: ClassVar[str] = "measure"

    @property
    def images(self) -> tuple[Image, ...]:
        return self.pictures

    def describe(self) -> dict[str, Any]:
        return {
            "quantity": self.quantity,
            "pictures": [image.digest for image in self.pictures],
            "exclude": [(box.cx, box.cy, box.w, box.h) for box in self.exclude],
        }

    def check(self, answer: object) -> None:
        _expect_measured(answer, self)


@dataclass(frozen=True, slots=True)
class Enhanced:
    """A picture made larger and clearer."""

    image: Image


@dataclass(frozen=True)
class Upscale(Query[Enhanced]):
    """The same picture with `factor` times as many pixels a side, and as much more detail as the expert can tell."""

    image: Image
    factor: int = 4
    role: ClassVar[str] = "enhancer"
    kind: ClassVar[str] = "upscale"

    @property
    def images(self) -> tuple[Image, ...]:
        return (self.image,)

    def describe(self) -> dict[str, Any]:
        return {"image": self.image.digest, "factor": self.factor}

    def check(self, answer: object) -> None:
        _expect(answer, Enhanced, self)
        assert isinstance(answer, Enhanced)
        _expect(answer.image, Image, self)
        size = (self.image.width * self.factor, self.image.height * self.factor)
        if answer.image.size != size:
            raise BadAnswer(f"upscale wants a picture of {size}, got one of {answer.image.size}")


# -- what does a judge say? -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judge(Query[Reply]):
    """A question in words and pictures.

    `topic` and `slots` say the same as the words, for experts that know a subject but not language (a colour judge).
    `draw` tells repeated samples of one question apart.
    """

    messages: tuple[Message, ...]
    form: Form
    topic: str = ""
    slots: tuple[tuple[str, str], ...] = ()
    draw: int = 0
    role: ClassVar[str] = "judge"
    kind: ClassVar[str] = "judge"

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(part for message in self.messages for part in message.parts if isinstance(part, Image))

    def describe(self) -> dict[str, Any]:
        return {
            "messages": [message.describe() for message in self.messages],
            "form": self.form.describe(),
            "topic": self.topic,
            "slots": self.slots,
            "draw": self.draw,
        }

    def check(self, answer: object) -> None:
        _expect(answer, Reply, self)
        assert isinstance(answer, Reply)
        if not isinstance(answer.text, str):
            raise BadAnswer(f"judge wants text, got {type(answer.text).__name__}")
        probabilities: Mapping[Any, Any] = answer.probabilities
        for option, p in [*probabilities.items(), ("all its options", 1.0 if answer.mass is None else answer.mass)]:
            if not (isinstance(option, str) and _is_number(p) and 0.0 <= p <= 1.0 + 1e-6):
                raise BadAnswer(f"judge gave probability {p!r} for {option!r}: give text and floats in [0, 1]")
        try:
            check_reply(self.form, answer)
        except ValueError as error:
            raise BadAnswer(f"the judge gave no answer: {error}") from None


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text and where it stands; the box's score says how sure the reader is."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class Reading:
    """Text found in a picture, top to bottom; box scores say how sure the reader is."""

    lines: tuple[TextLine, ...]

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)

    @staticmethod
    def plain(text: str) -> Reading:
        """Of a reader that knows the words but not where they are."""
        return Reading((TextLine(text, Box(0.5, 0.5, 1.0, 1.0)),)) if text else Reading(())


@dataclass(frozen=True)
class ReadText(Query[Reading]):
    """What is written in the picture?"""

    image: Image
    role: ClassVar[str] = "reader"
    kind: ClassVar[str] = "read_text"

    @property
    def images(self) -> tuple[Image, ...]:
        return (self.image,)

    def describe(self) -> dict[str, Any]:
        return {"image": self.image.digest}

    def check(self, answer: object) -> None:
        _expect(answer, Reading, self)
        assert isinstance(answer, Reading)
        lines: Any = answer.lines
        if not (isinstance(lines, tuple) and all(map(_is_line, lines))):
            raise BadAnswer(f"read_text wants a tuple of lines, each text with a box, got {lines!r:.200}")


@dataclass(frozen=True)
class Rate(Query[Measured]):
    """How good is the picture, on the expert's own scale (HPSv3 and its like)? Higher is better.

    prompt: what it was made from or is to show. sources: the pictures that it was edited from, for experts that rate
    edits; others pass over them.
    """

    image: Image
    prompt: str = ""
    quality: str = "preference"
    sources: tuple[Image, ...] = ()
    role: ClassVar[str] = "preference"
    kind: ClassVar[str] = "rate"

    @property
    def images(self) -> tuple[Image, ...]:
        return (*self.sources, self.image)

    def describe(self) -> dict[str, Any]:
        said = {"image": self.image.digest, "prompt": self.prompt, "quality": self.quality}
        return said | ({"sources": [source.digest for source in self.sources]} if self.sources else {})

    def check(self, answer: object) -> None:
        _expect_measured(answer, self)
        assert isinstance(answer, Measured)
        if answer.value is None:
            raise BadAnswer("rate wants a number, got None")


Answer = Detections | Mask | Vectors | Measured | Enhanced | Reply | Reading
"""What an expert can know. What it cannot know is an `Abstention`, what it failed to find out a `Failure`."""


Outcome = Answer | Abstention | Failure


def texts(messages: Sequence[Message]) -> str:
    """The words of a conversation, for a person to read."""
    return "\n".join(part for message in messages for part in message.parts if isinstance(part, str))
