"""SceneDetector: where named things are in a picture, as open-vocabulary detectors tell it."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from ....reward import Abstention, Box, Detect, Detections, Expert, Image
from ....reward.query import Outcome
from ..words import TEXT
from .glyphs import read_lines
from .phrases import Name, parse
from .segments import Seen, segments

_OTHER_COLOUR, _OTHER_MATERIAL = 0.63, 0.84
"""What is left of a score where colour or material is another: the shape makes the thing, as it does for detectors."""
_TOP = 0.97
_FAINT, _FAINT_SOFT = 0.19, 0.045
"""Opacity at which half of a thing counts as seen, and how softly that sets in."""


class Looker:
    """Segments of the pictures seen last, so that ten phrases cost one look."""

    def __init__(self, kept: int = 512) -> None:
        self._kept = kept
        self._seen: OrderedDict[str, list[Seen]] = OrderedDict()

    def look(self, image: Image) -> list[Seen]:
        """The things in a picture."""
        found = self._seen.get(image.digest)
        if found is None:
            found = self._seen[image.digest] = segments(image.pixels)
            if len(self._seen) > self._kept:
                self._seen.popitem(last=False)
        self._seen.move_to_end(image.digest)
        return found


class SceneDetector(Expert):
    """Finds things by name: `red circle`, `yellow sign`, `text`.

    A score says how well shape, colour and material fit, in that order of weight: a thing in another colour than asked
    for still has about 0.55, another shape less than 0.2. All things are answered for each phrase, near misses too; the
    boxes of lines of text for `text`. Abstains on what is no name.
    """

    kinds = (Detect,)
    id = "scene-detector@1"

    def __init__(self) -> None:
        self._looker = Looker()

    def __call__(self, queries: Sequence[Detect]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Detect) -> Detections | Abstention:
        boxes: list[Box] = []
        for phrase in query.phrases:
            name = parse(phrase)
            if isinstance(name, str):
                return Abstention(f"a scene detector cannot look for that: {name}")
            if name.kind == TEXT:
                boxes += lines(query.image, phrase)
            else:
                seen = self._looker.look(query.image)
                found = [Box(s.box.cx, s.box.cy, s.box.w, s.box.h, score(s, name), phrase) for s in seen]
                boxes += sorted(found, key=lambda box: -box.score)
        return Detections(tuple(boxes), floor=0.0)


def lines(image: Image, label: str) -> list[Box]:
    """Lines of text in a picture, the surest first."""
    found = [
        Box.from_corners(*corners, image.size, score=sure, label=label) for _, corners, sure in read_lines(image.pixels)
    ]
    return sorted(found, key=lambda box: -box.score)


def score(seen: Seen, name: Name) -> float:
    """How well a thing goes by a name, in [0, 1]."""
    colour = seen.colours[name.colour] if name.colour else 1.0
    material = seen.materials[name.material] if name.material else 1.0
    fits = (_OTHER_COLOUR + (1 - _OTHER_COLOUR) * colour) * (_OTHER_MATERIAL + (1 - _OTHER_MATERIAL) * material)
    return _TOP * seen.shapes[name.kind] * fits * visibility(seen)


def visibility(seen: Seen) -> float:
    """How much a thing counts for being faint or covered, in [0, 1]."""
    shown = 1 / (1 + math.exp(-(seen.opacity - _FAINT) / _FAINT_SOFT))
    return shown * (0.88 + 0.12 * seen.opacity) * (0.85 + 0.15 * seen.shown)
