"""SceneReader: OCR for SceneEdit images, a few milliseconds for 64 x 64 pixels."""

from __future__ import annotations

from collections.abc import Sequence

from ....reward import Box, Expert
from ....reward.queries import ReadText, RecognizedText
from ....reward.queries.kinds import TextLine
from .perception import PerceptionCache


class SceneReader(Expert):
    """Answers `ReadText`. Boxes surround the ink; their scores are confidences in (0, 1).

    An image without text gives an empty `RecognizedText`, not an abstention. Limits: see `letter_reader.read_lines`.
    """

    id = "scene-reader@1"
    kinds = (ReadText,)

    def __init__(self) -> None:
        self._perception = PerceptionCache.shared()

    def __call__(self, queries: Sequence[ReadText]) -> list[RecognizedText]:
        return [self._reading(query) for query in queries]

    def _reading(self, query: ReadText) -> RecognizedText:
        size = query.image.size
        return RecognizedText(
            tuple(
                TextLine(text, Box.from_corners(*corners, size, score=confidence))
                for text, corners, confidence in self._perception.perceive(query.image).text_lines
            )
        )
