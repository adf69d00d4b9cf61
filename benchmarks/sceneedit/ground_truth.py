"""Ground truth of an edit, computed from scene graphs and recipes without experts or pixels."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from .render import visibility_map
from .scene_graph import Backdrop, Scene, SceneObject
from .scene_requests import SceneRequest, side_offset

MIN_OPACITY = 0.25
"""Opacity from which on an object counts as present; fainter ones are smudges."""

_MAX_BACKDROP_DRIFT = 0.7  # drift beyond which a backdrop is no longer of its kind
_LOST_DISTANCE = 0.25  # of the side: an object that moved this far is not preserved
_SPURIOUS_PENALTY = 0.25  # taken from the background for each object that was not requested
_MAX_GAIN_CHANGE = 0.6  # relative gain at which nothing of the lighting is preserved


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """followed: the instruction was carried out. kept: the preserved share, in [0, 1], of what it does not mention.

    `objects` and `background` are the halves of `kept`; None where there is nothing to preserve.
    """

    followed: bool
    objects: float | None
    background: float | None

    @property
    def kept(self) -> float | None:
        halves = [half for half in (self.objects, self.background) if half is not None]
        return sum(halves) / len(halves) if halves else None

    @property
    def overall(self) -> float:
        """Like EdiVal-O: sqrt(followed x kept); `kept` counts as 1 where there is nothing to keep."""
        return math.sqrt(float(self.followed) * (1.0 if self.kept is None else self.kept))


def followed(request: SceneRequest, before: Scene, after: Scene) -> bool:
    """Whether `after` shows exactly what was requested. Other changes count in `kept`, not here.

    Two objects where one was to be added or moved do not follow the request, nor does an object that was to be removed
    and is still visible.
    """
    task = request.task
    targets = _objects(before, request.target_ids)
    if len(targets) < len(request.target_ids):
        return False  # an earlier turn removed the target
    if task.type == "background_change":
        return shows_backdrop(after.backdrop, task.value or "")
    if task.type == "subject_remove":
        return not any(_visible_matches(after, target) for target in targets)
    if task.type == "count_change":
        return len(_visible_matches(after, targets[0])) == task.count
    requested_objects = request.requested_objects(before)
    if targets and task.type in ("color_alter", "material_alter", "text_change"):
        return all(_matches_request(obj, after) for obj in requested_objects)
    matches = _visible_matches(after, requested_objects[0])
    if task.type == "subject_replace":
        replaced = any(match.box.iou(targets[0].box) > 0 for match in matches)
        return replaced and not _visible_matches(after, targets[0])
    if len(matches) != 1:
        return False
    (match,) = matches
    if task.position is not None and request.reference_id is not None:
        reference, reference_before = (
            after.object_by_id(request.reference_id),
            before.object_by_id(request.reference_id),
        )
        if (
            reference is None
            or reference_before is None
            or reference.appearance != reference_before.appearance
            or not is_visible(after, reference)
        ):
            return False
        return side_offset(task.position, match, reference) > 0
    return True  # something, or a text, was to be added anywhere


def kept(
    requests: Collection[SceneRequest], base: Scene, after: Scene, *, damage: float = 0.0
) -> tuple[float | None, float | None]:
    """How much of the base is preserved, in [0, 1]: objects and background; None where there is nothing to preserve.

    requests: all of this and earlier turns. damage: to the whole image, which scene graphs do not hold.
    """
    touched = frozenset[int]().union(*(request.affected_ids for request in requests))
    light = max(0.0, 1.0 - abs(after.light.gain / base.light.gain - 1.0) / _MAX_GAIN_CHANGE) * (1.0 - damage)
    kept_things = [_similarity(obj, after.object_by_id(obj.id)) for obj in base.objects if obj.id not in touched]
    objects = light * sum(kept_things) / len(kept_things) if kept_things else None
    if any(request.backdrop is not None for request in requests):
        return objects, None
    known_ids = {obj.id for obj in base.objects} | touched
    spurious = sum(obj.opacity for obj in after.objects if obj.id not in known_ids)
    same_kind = after.backdrop.kind == base.backdrop.kind
    ground = (1.0 - after.backdrop.drift) * max(0.0, 1.0 - _SPURIOUS_PENALTY * spurious) if same_kind else 0.0
    return objects, light * ground


def shows_backdrop(backdrop: Backdrop, kind: str) -> bool:
    """Whether a backdrop is of this kind and has not drifted too far from it."""
    return backdrop.kind == kind and backdrop.drift <= _MAX_BACKDROP_DRIFT


def visible_objects(scene: Scene) -> list[SceneObject]:
    """Objects of a scene that are visible."""
    return [obj for obj in scene.objects if is_visible(scene, obj)]


def is_visible(scene: Scene, obj: SceneObject) -> bool:
    """Whether at least a quarter of its area is uncovered and its opacity is at least `MIN_OPACITY`."""
    return obj.opacity >= MIN_OPACITY and _uncovered(scene, obj) >= 0.25


def _uncovered(scene: Scene, obj: SceneObject) -> float:
    box_area = obj.w * obj.h * scene.size**2
    visible_area = float(visibility_map(scene, obj.id).sum()) / obj.opacity
    # A star fills a third of its box, letters half of theirs.
    return min(1.0, visible_area / (0.3 * box_area)) if box_area > 0 else 0.0


def _objects(scene: Scene, numbers: Collection[int]) -> list[SceneObject]:
    return [obj for obj in scene.objects if obj.id in numbers]


def _visible_matches(scene: Scene, obj: SceneObject) -> list[SceneObject]:
    return [candidate for candidate in visible_objects(scene) if candidate.appearance == obj.appearance]


def _matches_request(requested: SceneObject, after: Scene) -> bool:
    match = after.object_by_id(requested.id)
    return match is not None and match.appearance == requested.appearance and is_visible(after, match)


def _similarity(before: SceneObject, after: SceneObject | None) -> float:
    """1 for an unchanged object, 0 for one that is gone."""
    if after is None:
        return 0.0
    distance = math.hypot(after.x - before.x, after.y - before.y)
    similarity = max(0.0, 1.0 - distance / _LOST_DISTANCE) * min(after.opacity / before.opacity, 1.0)
    for changed, factor in (
        (after.shape != before.shape, 0.2),
        (after.colour != before.colour, 0.5),
        (after.material != before.material, 0.7),
        (after.text != before.text, 0.5),
    ):
        similarity *= factor if changed else 1.0
    return similarity * min(before.w, after.w) / max(before.w, after.w)
