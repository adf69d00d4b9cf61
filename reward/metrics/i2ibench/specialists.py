"""Pipelines with a specialist: models that rate the edited image, and a reader that checks the letters of its text."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from ...engine.program import Program, ask, reply_value
from ...queries.kinds import Rate, ReadText
from ...queries.response_formats import Json
from ...sample import EditSample
from ...score import Evidence, Score
from ..edival.conditions import normalize_text
from ..prompted_metric import object_schema, reply_evidence
from .dimension import DimensionMetric, Kinds, labelled_images
from .dimensions import Pipeline

_SPECIALISTS: Mapping[str, tuple[str, str, tuple[float, float]]] = {
    "image-quality": ("quality", "image quality", (1.0, 5.0)),
    "aesthetic-quality": ("aesthetics", "aesthetics", (0.0, 100.0)),
}
"""Dimension -> role, rated quality, and the published range of the paper's model: Q-Insight and ArtiMuse."""


@dataclass(frozen=True)
class SpecialistRating(DimensionMetric):
    """The rating of a specialist model, normalised from its scale to 0..1.

    Args:
        scale: Lowest and highest rating. None: that of the paper's model, Q-Insight with 1 to 5 for image quality and
            ArtiMuse with 0 to 100 for aesthetics. The paper prints normalised values and does not state the range.
            Fails if a rating lies outside the scale.
    """

    scale: tuple[float, float] | None = None

    pipeline: ClassVar[Pipeline] = "specialist"
    failure_modes: ClassVar[str] = (
        "Beautifying and sharpening pay, whether they were asked for or not, and so does no edit."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale is None:
            return
        scale: tuple[float, ...] = tuple(self.scale)  # a spec may have a list
        if len(scale) != 2 or not all(map(math.isfinite, scale)) or scale[0] >= scale[1]:
            raise ValueError(f"scale must be the lowest and the highest rating, got {scale}")
        object.__setattr__(self, "scale", scale)

    @property
    def kinds(self) -> Kinds:
        return {self._specialist[0]: ("rate",)}

    @property
    def _specialist(self) -> tuple[str, str, tuple[float, float]]:
        return _SPECIALISTS[self.dimension.removeprefix("multi-")]

    def score(self, sample: EditSample) -> Program[Score]:
        role, quality, default_scale = self._specialist
        low, high = self.scale or default_scale
        rating = yield from ask(Rate(sample.edited, quality=quality), role=role)
        assert rating.value is not None  # `Rate.check` lets no other answer through
        evidence = [Evidence(f"rate {quality}", sample.edited.digest, numbers={"rating": rating.value})]
        if not low <= rating.value <= high:
            given = f"from {low:g} to {high:g}, got {rating.value:g}"
            return Score.failed(f"the {role} expert rates {given}: give its scale=(low, high)", evidence=evidence)
        value = (rating.value - low) / (high - low)
        return Score.of(value, f"{rating.value:g} of {low:g} to {high:g}", evidence=evidence)


TextContent = Literal["whole", "part"]
Letters = Literal["folded", "exact"]

_WORDS = ("style_requirement", "position_requirement", "image_observation", "reasoning")
_STYLE_SCHEMA = object_schema(
    **{name: {"type": "string"} for name in _WORDS}, score={"type": "integer", "minimum": 1, "maximum": 5}
)
STYLE = Json.from_schema(_STYLE_SCHEMA)
"""The response format for style and position."""
PRINTED_STYLE = Json.from_schema(object_schema(analysis=_STYLE_SCHEMA))
"""The same as the prompt of appendix F.1.2 asks for it."""


@dataclass(frozen=True)
class TextContentStyle(DimensionMetric):
    """Style grade (1 to 5, normalised to 0..1), times 1, 0.8, 0.5 or 0.1 depending on text accuracy (equation 5).

    Text accuracy: 1 - edit distance / length of the longer text, both without case, punctuation and white space, or
    with them where letters is `exact`, but for white space around the text: the paper does not state which.

    Args:
        content: Whether all text read in the image is compared (`whole`), or the part that is nearest to the requested
            text (`part`, for images with other writing; the paper does not specify it). With `part`, 1 - distance /
            length of the requested text.
    """

    content: TextContent = "whole"
    letters: Letters = "folded"

    choices: ClassVar[Mapping[str, Collection[object]]] = {
        "content": get_args(TextContent),
        "letters": get_args(Letters),
    }
    pipeline: ClassVar[Pipeline] = "text"
    pipeline_kinds: ClassVar[Kinds] = {"reader": ("read_text",), "judge": ("judge",)}
    failure_modes: ClassVar[str] = (
        "Looks at the text and at nothing else. By `whole`, covering other writing in the image pays; by `part`, "
        "filling it with writing."
    )

    def score(self, sample: EditSample) -> Program[Score]:
        printed = self.prompt_pack.pack_says("text_style", "analysis")
        form, slots = (
            PRINTED_STYLE if printed else STYLE,
            {"instruction": sample.instruction, "text": sample.target_text},
        )
        question = self.question("i2i/text_style", labelled_images(edited=sample.edited), form, slots)
        reading, reply = yield from ask(ReadText(sample.edited, sample.target_text), question)
        value = reply_value(question, reply)
        style = (value["analysis"] if printed else value)["score"]
        part, exact = self.content == "part", self.letters == "exact"
        accuracy = text_accuracy(reading.text, sample.target_text, part=part, exact=exact)
        boxes = tuple(line.box.with_label(line.text) for line in reading.lines)
        read = Evidence("read", sample.edited.digest, boxes, reading.text, {"right": accuracy})
        reason = f"style {style} of 5, {accuracy:.3f} of the text is right"
        evidence = [read, reply_evidence(question, reply)]
        return Score.of((style - 1) / 4 * text_accuracy_factor(accuracy), reason, evidence=evidence)


def text_accuracy_factor(accuracy: float) -> float:
    """The factor of the style grade for a text accuracy, both in [0, 1] (equation 5)."""
    return 1.0 if accuracy >= 1 else 0.8 if accuracy >= 0.8 else 0.5 if accuracy >= 0.6 else 0.1


def text_accuracy(read: str, expected: str, *, part: bool = False, exact: bool = False) -> float:
    """Text accuracy in [0, 1]; see `TextContentStyle`."""
    a, b = (text.strip() if exact else normalize_text(text) for text in (expected, read))
    longer = len(a) if part else max(len(a), len(b))
    return max(0.0, 1 - edit_distance(a, b, part=part) / longer) if longer else 1.0


def edit_distance(expected: str, read: str, *, part: bool = False) -> int:
    """Levenshtein distance; with `part`, to the nearest substring of `read`."""
    columns = np.arange(len(read) + 1)
    letters = np.array([ord(letter) for letter in read], np.int64)
    row = np.zeros_like(columns) if part else columns
    for number, letter in enumerate(expected, start=1):
        below = np.empty_like(row)
        below[0] = number
        below[1:] = np.minimum(row[1:] + 1, row[:-1] + (letters != ord(letter)))
        row = np.minimum.accumulate(below - columns) + columns  # letters of `read` that are too many
    return int(row.min() if part else row[-1])
