"""Ground truth of one operation of a sentence, of the objects that it means and of no others."""

from __future__ import annotations

from editcritic.benchmarks.sceneedit.ground_truth import followed, is_visible
from editcritic.benchmarks.sceneedit.scene_graph import Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest

_STILL = 0.05
"""Distance, in sides of the image, up to which a bystander counts as not moved."""


def step_followed(step: SceneRequest, before: Scene, after: Scene) -> bool:
    """Whether `after` shows what a step asked for, of the objects that it means and of no others.

    Like `ground_truth.followed`, which tells objects apart by their look. Here twins look alike: those that the step is
    not about are left out of both scenes, as long as they are as they were.
    """
    if step.task.type in ("color_alter", "material_alter"):
        return all(_has_new_look(step, obj, after) for obj in step.placed)
    looks = {obj.appearance for obj in (*step.placed, *before.objects) if obj.id in (*step.target_ids, *_ids(step))}
    bystanders = [
        obj.id
        for obj in before.objects
        if obj.appearance in looks
        and obj.id not in (*step.target_ids, *_ids(step), step.reference_id)
        and _is_as_before(obj, after)
    ]
    return followed(step, before.without(bystanders), after.without(bystanders))


def _ids(step: SceneRequest) -> tuple[int, ...]:
    return tuple(obj.id for obj in step.placed)


def _has_new_look(step: SceneRequest, requested: SceneObject, after: Scene) -> bool:
    """Later steps may have changed other properties of it."""
    now = after.object_by_id(requested.id)
    if now is None or now.shape != requested.shape or not is_visible(after, now):
        return False
    if step.task.type == "color_alter":
        return now.colour == requested.colour
    return now.material == requested.material


def _is_as_before(obj: SceneObject, after: Scene) -> bool:
    now = after.object_by_id(obj.id)
    return (
        now is not None
        and now.appearance == obj.appearance
        and max(abs(now.x - obj.x), abs(now.y - obj.y)) <= _STILL
        and is_visible(after, now)
    )
