"""Ground truth of an edit, and what data sets know beside its images: from scene graphs, without experts or pixels."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ...reward import Box
from ...reward.sample import Operation, TaskType
from .render import visibility_map
from .scene_graph import Backdrop, Scene, SceneObject
from .scene_requests import SceneRequest, position_phrase, side_offset, side_region
from .vocabulary import SIGN

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


OPERATIONS: Mapping[TaskType, str] = MappingProxyType(
    {
        "subject_add": "Add an Object",
        "subject_remove": "Remove an Object",
        "subject_replace": "Replace an Object",
        "position_change": "Move an Object",
        "count_change": "Duplicate an Object",
        "color_alter": "Change Color",
        "material_alter": "Change Texture",
        "text_change": "Add Text",
        "background_change": "Change Background",
    }
)
"""Task type -> Complex-Edit's name of the operation; `operation` has the exceptions."""

_COMMON_DIMENSIONS = (
    "image-quality",
    "aesthetic-quality",
    "blending-naturalness",
    "editing-artifacts",
    "instruction-following",
    "non-edited-fidelity",
    "physical-plausibility",
)
_DIMENSION_TASKS: Mapping[str, tuple[TaskType, ...]] = MappingProxyType(
    {
        "object-manipulation": ("subject_add", "subject_remove", "subject_replace", "count_change"),
        "local-attribute": ("color_alter", "material_alter"),
        "action-state-change": ("position_change",),
        "spatial-accuracy": ("position_change",),
        "world-knowledge": ("count_change", "background_change"),
        "text-content-style": ("text_change",),
        "subject-identity": ("position_change", "color_alter", "material_alter", "text_change", "background_change"),
        "composition-interaction": ("subject_add", "subject_replace", "position_change", "count_change"),
    }
)
"""I2I-Bench's dimensions of one source that apply to some task types only. A moved object is the nearest to a change of
state here; numbers and the look of backdrops are the only world knowledge."""
_MULTI_SOURCE_DIMENSIONS = (
    "composition-interaction",
    "cross-source-attribute",
    "detail-fidelity",
    "inter-subject-consistency",
    "spatial-accuracy",
    "subject-consistency",
    "subject-extraction",
    "world-knowledge",
)


def operation(request: SceneRequest) -> Operation:
    """A request as one step of a compound."""
    task = request.task
    name = OPERATIONS[task.type]
    if task.type == "text_change" and task.object:
        name = "Change Text Properties"
    if task.type == "count_change" and request.removed:
        name = "Remove an Object"
    return Operation(request.instruction, name, task)


def target_boxes(request: SceneRequest, scene: Scene) -> tuple[Box, ...]:
    """Boxes, in the source, of the targets of a request: its objects, and the requested side of a reference.

    Empty where the request has no place (a new object, copy or text) or concerns the whole image (a backdrop).
    """
    task = request.task
    if task.type == "count_change" and request.placed:
        return ()
    boxes = [obj.box for number in request.target_ids if (obj := scene.object_by_id(number)) is not None]
    reference = None if request.reference_id is None else scene.object_by_id(request.reference_id)
    if task.position is not None and reference is not None:
        x0, y0, x1, y1 = side_region(task.position, reference, 0.0)
        boxes.append(Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, label=f"{task.position} {reference.name}"))
    return tuple(boxes)


def expected_state(requests: Sequence[SceneRequest]) -> str:
    """What the image shows after the requests, in plain statements."""
    return " ".join(f"{statement}." for request in requests for statement in _statements(request))


def _statements(request: SceneRequest) -> list[str]:
    task = request.task
    match task.type:
        case "background_change":
            return [f"The background is {task.value}"]
        case "text_change":
            return [f'The text "{task.text}" can be read' + (f" on {task.object}" if task.object else "")]
        case "subject_remove":
            return [f"There is no {task.object}"]
        case "count_change":
            return [f"The number of {task.object} is {task.count}"]
        case "subject_replace":
            return [f"There is no {task.object}", f"There is one {task.new}"]
        case _:
            (obj,) = request.placed
            if task.position is None:
                return [f"There is one {obj.name}"]
            return [f"There is one {obj.name}", f"{obj.name} is {position_phrase(task.position)} {task.reference}"]


def target_text(requests: Sequence[SceneRequest]) -> str:
    """The text that should be legible: of the one request about a text, or of an added sign."""
    texts = [request.task.text or "" for request in requests if request.task.type == "text_change"]
    texts += [obj.text for request in requests for obj in request.placed if obj.shape == SIGN and _is_new(request)]
    return texts[0] if texts else ""


def _is_new(request: SceneRequest) -> bool:
    return request.task.type == "subject_add"


def captions(before: Scene, after: Scene) -> dict[str, str]:
    """Captions of the source and of a perfect edit, for `metadata`."""
    return {"source_caption": _caption(before), "target_caption": _caption(after)}


def _caption(scene: Scene) -> str:
    objects = ", ".join(obj.name for obj in scene.objects if obj.text == "" or obj.shape == SIGN)
    return f"{objects or 'nothing'}; the background is {scene.backdrop.kind}"


def dimensions(requests: Collection[SceneRequest], sources: int = 1) -> tuple[str, ...]:
    """The I2I-Bench dimensions that apply, by its names; with several sources those of its second half."""
    if sources > 1:
        return (
            *_COMMON_DIMENSIONS,
            *_MULTI_SOURCE_DIMENSIONS,
            *(("text-content-style",) if target_text(tuple(requests)) else ()),
        )
    types = {request.task.type for request in requests}
    names = [name for name, task_types in _DIMENSION_TASKS.items() if types & set(task_types)]
    placed = any(request.task.position is not None for request in requests)
    if placed and "spatial-accuracy" not in names:
        names.append("spatial-accuracy")
    return (*_COMMON_DIMENSIONS, *names)
