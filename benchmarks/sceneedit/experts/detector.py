"""SceneDetector: where named things are in a picture, as open-vocabulary detectors tell it."""

from __future__ import annotations

from collections.abc import Sequence

from ....reward import Abstention, Box, Detect, Detections, Expert
from ....reward.query import Outcome
from ..words import TEXT
from .phrases import Name, parse
from .segments import Seen
from .sights import Looker, visibility

_OTHER_COLOUR, _OTHER_MATERIAL = 0.63, 0.84
"""What is left of a score where colour or material is another: the shape makes the thing, as it does for detectors."""
_TOP = 0.97


class SceneDetector(Expert):
    """Finds things by name: `red circle`, `yellow sign`, `text`.

    A score says how well shape, colour and material fit, in that order of weight: a thing in another colour than asked
    for still has about 0.55, another shape less than 0.2. All things are answered for each phrase, near misses too; the
    boxes of lines of text for `text`. Abstains on what is no name.
    """

    kinds = (Detect,)
    id = "scene-detector@1"

    def __init__(self, looker: Looker | None = None) -> None:
        self._looker = looker or Looker()

    def __call__(self, queries: Sequence[Detect]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Detect) -> Detections | Abstention:
        boxes: list[Box] = []
        for phrase in query.phrases:
            name = parse(phrase)
            if isinstance(name, str):
                return Abstention(f"a scene detector cannot look for that: {name}")
            if name.kind == TEXT:
                boxes += self._looker.see(query.image).texts(phrase)
            else:
                seen = self._looker.look(query.image)
                found = [Box(s.box.cx, s.box.cy, s.box.w, s.box.h, score(s, name), phrase) for s in seen]
                boxes += sorted(found, key=lambda box: -box.score)
        return Detections(tuple(boxes), floor=0.0)


def score(seen: Seen, name: Name) -> float:
    """How well a thing goes by a name, in [0, 1]."""
    colour = seen.colours[name.colour] if name.colour else 1.0
    material = seen.materials[name.material] if name.material else 1.0
    fits = (_OTHER_COLOUR + (1 - _OTHER_COLOUR) * colour) * (_OTHER_MATERIAL + (1 - _OTHER_MATERIAL) * material)
    return _TOP * seen.shapes[name.kind] * fits * visibility(seen)
