"""SceneSegmenter: the pixels of named objects."""

from __future__ import annotations

import re
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Expert, Image
from ....reward.queries import Abstention
from ....reward.queries.kinds import Mask, Outcome, Segment
from ..vocabulary import TEXT
from .detector import name_score
from .object_names import ObjectName, find_name
from .perception import PerceptionCache

_FOUND = 0.4
"""Score from which on an object matches the command."""
_AS_GOOD = 0.85
"""Share of the best score from which on another object matches too: one of several equal copies."""
_BEHIND = re.compile(r"\W*(?:please\s+)?(?:segment\s+)?(?:the\s+)?(?:background|backdrop)\W*", re.IGNORECASE)
_SEVERAL = re.compile(r"please\ssegment\s(?P<names>.*\w)\W*", re.IGNORECASE)
_JOINT = re.compile(r"\s?(?:,|\band\b)\s?")


class SceneSegmenter(Expert):
    """Answers `Segment` with the pixels of the objects that match the command's name best.

    The command is a bare name or a sentence with one name in it; `Please segment` may be followed by several names,
    joined by `and` or commas, for the union of their pixels; `the background` is everything behind all objects. The
    mask is empty where nothing matches; the score is that of the name that matches worst. Abstains on commands without
    a name, and on other sentences with several.
    """

    kinds = (Segment,)
    id = "scene-segmenter@2"

    def __init__(self) -> None:
        self._perception = PerceptionCache.shared()

    def __call__(self, queries: Sequence[Segment]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Segment) -> Mask | Abstention:
        command = " ".join(query.command.split())
        several = _SEVERAL.fullmatch(command)
        commands = [part for part in _JOINT.split(several["names"]) if part] if several else [command]
        masks = []
        for part in commands:
            if _BEHIND.fullmatch(part):
                masks.append(self._behind(query.image))
                continue
            name = find_name(part)
            if isinstance(name, str):
                return Abstention(f"a scene segmenter cannot follow this command: {name}")
            masks.append(self._mask(query.image, name))
        return Mask(np.logical_or.reduce([mask.values for mask in masks]), min(mask.score for mask in masks))

    def _mask(self, image: Image, name: ObjectName) -> Mask:
        if name.kind == TEXT:
            return self._text(image)
        objects = self._perception.objects(image)
        scores = [name_score(obj, name) for obj in objects]
        best = max(scores, default=0.0)
        mask = np.zeros((image.height, image.width), np.bool_)
        for obj, score in zip(objects, scores, strict=True):
            if best > _FOUND and score >= _AS_GOOD * best:
                mask |= _at_size(obj.mask, image)
        return Mask(mask, best)

    def _text(self, image: Image) -> Mask:
        """Lines of text, by their boxes."""
        values = np.zeros((image.height, image.width), np.bool_)
        boxes = self._perception.perceive(image).locate_text()
        for box in boxes:
            corners = box.clipped_corners(image.size)
            if corners and box.score > _FOUND:
                values[corners[1] : corners[3], corners[0] : corners[2]] = True
        return Mask(values, max((box.score for box in boxes), default=0.0))

    def _behind(self, image: Image) -> Mask:
        masks = [_at_size(obj.mask, image) for obj in self._perception.objects(image)]
        return Mask(~np.logical_or.reduce([*masks, self._text(image).values]), 1.0)


def _at_size(mask: NDArray[np.bool_], image: Image) -> NDArray[np.bool_]:
    return np.asarray(cv2.resize(mask.astype(np.uint8), image.size, interpolation=cv2.INTER_NEAREST) > 0)
