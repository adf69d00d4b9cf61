"""SceneDetector: boxes of named objects, as open-vocabulary detectors give them."""

from __future__ import annotations

from collections.abc import Sequence

from ....reward import Box, Expert
from ....reward.queries import Abstention, Detect, Detections
from ....reward.queries.kinds import Outcome
from ..vocabulary import TEXT
from .object_names import ObjectName, parse_name
from .object_segments import DetectedObject
from .perception import PerceptionCache, visibility

_OTHER_COLOUR, _OTHER_MATERIAL = 0.63, 0.84
"""Factors of a score where colour or material differs: the shape weighs most, as with real detectors."""
_MAX_SCORE = 0.97


class SceneDetector(Expert):
    """Finds objects by name: `red circle`, `yellow sign`, `text`.

    A score rates shape, colour and material, in that order of weight: an object in another colour than the query's
    still has about 0.55, another shape less than 0.2. Each phrase gets boxes of all objects, near misses too; `text`
    gets the boxes of lines of text. Abstains on phrases that are no names.
    """

    kinds = (Detect,)
    id = "scene-detector@1"

    def __init__(self) -> None:
        self._perception = PerceptionCache.shared()

    def __call__(self, queries: Sequence[Detect]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Detect) -> Detections | Abstention:
        boxes: list[Box] = []
        for phrase in query.phrases:
            name = parse_name(phrase)
            if isinstance(name, str):
                return Abstention(f"a scene detector cannot look for that: {name}")
            if name.kind == TEXT:
                boxes += self._perception.perceive(query.image).locate_text(phrase)
            else:
                objects = self._perception.objects(query.image)
                matches = [
                    Box(obj.box.cx, obj.box.cy, obj.box.w, obj.box.h, name_score(obj, name), phrase) for obj in objects
                ]
                boxes += sorted(matches, key=lambda box: -box.score)
        return Detections(tuple(boxes), min_score=0.0)


def name_score(obj: DetectedObject, name: ObjectName) -> float:
    """How well an object matches a name, in [0, 1]."""
    colour = obj.colours[name.colour] if name.colour else 1.0
    material = obj.materials[name.material] if name.material else 1.0
    factor = (_OTHER_COLOUR + (1 - _OTHER_COLOUR) * colour) * (_OTHER_MATERIAL + (1 - _OTHER_MATERIAL) * material)
    return _MAX_SCORE * obj.shapes[name.kind] * factor * visibility(obj)
