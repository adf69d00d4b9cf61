"""SceneChanges: what changed in a drawn scene, and whether what was redrawn there is drawn as scenes are."""

from __future__ import annotations

from collections.abc import Sequence

from ....reward import Box
from ....reward.experts.pixel_changes import PixelChanges
from ....reward.queries import MapChanges, RateRegion, RegionRating, Remains
from ....reward.queries.kinds import Outcome
from .object_segments import DetectedObject
from .perception import PerceptionCache, opacity_weight

_SAME_PLACE = 0.7
"""IoU of the boxes from which on an object stands where one stood before."""


class SceneChanges(PixelChanges):
    """Answers `MapChanges` and `Remains` as `PixelChanges` does, and `RateRegion` from the objects of the scene.

    Scenes are drawn: a flat area with a hard outline belongs to them, so that seams and detail say nothing. A new
    object that shows what is behind it does not: the value is that of the faintest new object in the box.
    """

    id = "scene-changes@1"

    def __init__(self) -> None:
        super().__init__()
        self._perception = PerceptionCache.shared()

    def __call__(self, queries: Sequence[MapChanges | Remains | RateRegion]) -> list[Outcome]:
        measured = iter(super().__call__([query for query in queries if not isinstance(query, RateRegion)]))
        return [self._rating(query) if isinstance(query, RateRegion) else next(measured) for query in queries]

    def _rating(self, query: RateRegion) -> RegionRating:
        before = self._perception.objects(query.before)
        new = [
            obj
            for obj in self._perception.objects(query.after)
            if _is_inside(obj, query.box) and not any(obj.box.iou(old.box) >= _SAME_PLACE for old in before)
        ]
        faintest = min((opacity_weight(obj) for obj in new), default=1.0)
        return RegionRating(faintest, {"source": 1 - faintest})


def _is_inside(obj: DetectedObject, box: Box) -> bool:
    return abs(obj.box.cx - box.cx) <= box.w / 2 and abs(obj.box.cy - box.cy) <= box.h / 2
