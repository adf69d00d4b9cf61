"""SceneReader: reads what is written in SceneEdit pictures. A few milliseconds a picture of 64 x 64 pixels."""

from __future__ import annotations

from collections.abc import Sequence

from ....reward import Box, Expert, Reading, ReadText
from ....reward.query import TextLine
from .glyphs import read_lines


class SceneReader(Expert):
    """Answers `ReadText`. Boxes are those of the ink; their scores are how sure it is, in (0, 1).

    A picture without text is an empty `Reading`, not an abstention. What it cannot read: `glyphs.read_lines`.
    """

    id = "scene-reader@1"
    kinds = (ReadText,)

    def __call__(self, queries: Sequence[ReadText]) -> list[Reading]:
        return [_reading(query) for query in queries]


def _reading(query: ReadText) -> Reading:
    size = query.image.size
    return Reading(
        tuple(
            TextLine(text, Box.from_corners(*corners, size, score=sure))
            for text, corners, sure in read_lines(query.image.pixels)
        )
    )
