"""SceneSegmenter: which pixels belong to a named thing."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from ....reward import Abstention, Expert, Image
from ....reward.query import Mask, Outcome, Segment
from ..words import TEXT
from .detector import Looker, lines, score
from .phrases import find

_FOUND = 0.4
"""Score from which on something is what the command means."""
_AS_GOOD = 0.85
"""Share of the best score with which another thing is meant too: one of several equal copies."""


class SceneSegmenter(Expert):
    """Answers `Segment` with the pixels of the things that the command's name fits best.

    The command may be a bare name or a sentence with one name in it. The mask is empty where nothing fits; the score
    is the best match. Abstains on commands without a name or with several.
    """

    kinds = (Segment,)
    id = "scene-segmenter@1"

    def __init__(self) -> None:
        self._looker = Looker()

    def __call__(self, queries: Sequence[Segment]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Segment) -> Mask | Abstention:
        name = find(query.command)
        if isinstance(name, str):
            return Abstention(f"a scene segmenter cannot follow this command: {name}")
        if name.kind == TEXT:
            return _text(query.image)
        seen = self._looker.look(query.image)
        scores = [score(one, name) for one in seen]
        best = max(scores, default=0.0)
        whole = np.zeros((query.image.height, query.image.width), np.bool_)
        for one, fits in zip(seen, scores, strict=True):
            if best > _FOUND and fits >= _AS_GOOD * best:
                whole |= cv2.resize(one.mask.astype(np.uint8), query.image.size, interpolation=cv2.INTER_NEAREST) > 0
        return Mask(whole, best)


def _text(image: Image) -> Mask:
    """Lines of text, by their boxes."""
    values = np.zeros((image.height, image.width), np.bool_)
    found = lines(image, TEXT)
    best = max((box.score for box in found), default=0.0)
    for box in found:
        corners = box.inside(image.size)
        if corners and box.score > _FOUND:
            values[corners[1] : corners[3], corners[0] : corners[2]] = True
    return Mask(values, best)
