"""SceneReader: reads what is written in SceneEdit pictures. A few milliseconds a picture of 64 x 64 pixels."""

from __future__ import annotations

from collections.abc import Sequence

from ....reward import Box, Expert, Reading, ReadText
from ....reward.query import TextLine
from .sights import Looker


class SceneReader(Expert):
    """Answers `ReadText`. Boxes are those of the ink; their scores are how sure it is, in (0, 1).

    A picture without text is an empty `Reading`, not an abstention. What it cannot read: `glyphs.read_lines`.
    """

    id = "scene-reader@1"
    kinds = (ReadText,)

    def __init__(self, looker: Looker | None = None) -> None:
        self._looker = looker or Looker()

    def __call__(self, queries: Sequence[ReadText]) -> list[Reading]:
        return [self._reading(query) for query in queries]

    def _reading(self, query: ReadText) -> Reading:
        size = query.image.size
        return Reading(
            tuple(
                TextLine(text, Box.from_corners(*corners, size, score=sure))
                for text, corners, sure in self._looker.see(query.image).lines
            )
        )
