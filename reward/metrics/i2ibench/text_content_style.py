"""Text content and style: a reader says whether the letters are right, a judge whether they look as was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ..asking import Asks, ask, value_of
from ..edival.degree import normalised
from ..forms import Json
from ..query import ReadText
from ..sample import EditSample
from ..score import Evidence, Score
from .dimension import DimensionMetric, said, shown
from .table import Pipeline

Content = Literal["whole", "part"]

_WORDS = ("style_requirement", "position_requirement", "image_observation", "reasoning")
STYLE = Json.of(
    {
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in _WORDS},
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": [*_WORDS, "score"],
        "additionalProperties": False,
    }
)
"""What the judge says about style and place."""


@dataclass(frozen=True)
class TextContentStyle(DimensionMetric):
    """Style grade, (1 to 5) brought to 0..1, times 1, 0.8, 0.5 or 0.1 by how much of the text is right (equation 5).

    How much is right: 1 - edit distance / length of the longer text, both without case, punctuation and white space.
    content: whether all that is read in the picture has to be the text (`whole`), or the part of it that comes nearest
    (`part`, for pictures with other writing in them; the paper does not say which). There, 1 - distance / length of the
    wanted text.
    """

    content: Content = "whole"

    pipeline: ClassVar[Pipeline] = "text"
    gaming: ClassVar[str] = (
        "Looks at the text and at nothing else. By `whole`, covering other writing in the picture pays; by `part`, "
        "filling it with writing."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.content not in get_args(Content):
            raise ValueError(f"content is one of {', '.join(get_args(Content))}, got {self.content!r}")

    @property
    def roles(self) -> tuple[str, ...]:
        return ("reader", "judge")

    def score(self, sample: EditSample) -> Asks[Score]:
        seen = shown(edited=sample.edited)
        question = self.judge("text_style", STYLE, seen, instruction=sample.instruction, text=sample.text)
        reading, reply = yield from ask(ReadText(sample.edited), question)
        style = value_of(question, reply)["score"]
        right = likeness(reading.text, sample.text, part=self.content == "part")
        why = f"style {style} of 5, {right:.3f} of the text is right"
        boxes = tuple(line.box.labelled(line.text) for line in reading.lines)
        read = Evidence("read", sample.edited.digest, boxes, reading.text, {"right": right})
        return Score.of((style - 1) / 4 * gate(right), why, evidence=[read, said(question, reply)])


def gate(right: float) -> float:
    """What a style is worth where so much of the text is right, in [0, 1] both (equation 5)."""
    return 1.0 if right >= 1 else 0.8 if right >= 0.8 else 0.5 if right >= 0.6 else 0.1


def likeness(read: str, wanted: str, *, part: bool = False) -> float:
    """How much of a text is right, in [0, 1]; see `TextContentStyle`."""
    a, b = normalised(wanted), normalised(read)
    longer = len(a) if part else max(len(a), len(b))
    return max(0.0, 1 - distance(a, b, part=part) / longer) if longer else 1.0


def distance(wanted: str, read: str, *, part: bool = False) -> int:
    """Letters to insert, delete or replace to make one of the other (Levenshtein); with `part`, of a part of `read`."""
    row = [0 if part else column for column in range(len(read) + 1)]
    for number, letter in enumerate(wanted, start=1):
        corner, row[0] = row[0], number
        for column, other in enumerate(read, start=1):
            corner, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, corner + (letter != other))
    return min(row) if part else row[-1]
