"""SceneSegmenter: which pixels belong to a named thing."""

from __future__ import annotations

import re
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Abstention, Expert, Image
from ....reward.query import Mask, Outcome, Segment
from ..words import TEXT
from .detector import score
from .phrases import Name, find
from .sights import Looker

_FOUND = 0.4
"""Score from which on something is what the command means."""
_AS_GOOD = 0.85
"""Share of the best score with which another thing is meant too: one of several equal copies."""
_BEHIND = re.compile(r"\W*(?:please\s+)?(?:segment\s+)?(?:the\s+)?(?:background|backdrop)\W*", re.IGNORECASE)
_SEVERAL = re.compile(r"please\s+segment\s+(?P<names>.+?)\W*", re.IGNORECASE)
_JOINT = re.compile(r"\s*(?:,|\band\b)\s*")


class SceneSegmenter(Expert):
    """Answers `Segment` with the pixels of the things that the command's name fits best.

    The command may be a bare name or a sentence with one name in it; `Please segment` may be followed by several names,
    joined by `and` or commas, for all their pixels together; `the background` is what lies behind all things.
    The mask is empty where nothing fits; the score is that of the name that fits worst. Abstains on commands without a
    name, and on other sentences with several.
    """

    kinds = (Segment,)
    id = "scene-segmenter@2"

    def __init__(self, looker: Looker | None = None) -> None:
        self._looker = looker or Looker()

    def __call__(self, queries: Sequence[Segment]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Segment) -> Mask | Abstention:
        several = _SEVERAL.fullmatch(query.command)
        asked = [part for part in _JOINT.split(several["names"]) if part] if several else [query.command]
        masks = []
        for part in asked:
            if _BEHIND.fullmatch(part):
                masks.append(self._behind(query.image))
                continue
            name = find(part)
            if isinstance(name, str):
                return Abstention(f"a scene segmenter cannot follow this command: {name}")
            masks.append(self._mask(query.image, name))
        return Mask(np.logical_or.reduce([mask.values for mask in masks]), min(mask.score for mask in masks))

    def _mask(self, image: Image, name: Name) -> Mask:
        if name.kind == TEXT:
            return self._text(image)
        seen = self._looker.look(image)
        scores = [score(one, name) for one in seen]
        best = max(scores, default=0.0)
        whole = np.zeros((image.height, image.width), np.bool_)
        for one, fits in zip(seen, scores, strict=True):
            if best > _FOUND and fits >= _AS_GOOD * best:
                whole |= _at_size(one.mask, image)
        return Mask(whole, best)

    def _text(self, image: Image) -> Mask:
        """Lines of text, by their boxes."""
        values = np.zeros((image.height, image.width), np.bool_)
        found = self._looker.see(image).texts()
        for box in found:
            corners = box.inside(image.size)
            if corners and box.score > _FOUND:
                values[corners[1] : corners[3], corners[0] : corners[2]] = True
        return Mask(values, max((box.score for box in found), default=0.0))

    def _behind(self, image: Image) -> Mask:
        things = [_at_size(one.mask, image) for one in self._looker.look(image)]
        return Mask(~np.logical_or.reduce([*things, self._text(image).values]), 1.0)


def _at_size(mask: NDArray[np.bool_], image: Image) -> NDArray[np.bool_]:
    return np.asarray(cv2.resize(mask.astype(np.uint8), image.size, interpolation=cv2.INTER_NEAREST) > 0)
