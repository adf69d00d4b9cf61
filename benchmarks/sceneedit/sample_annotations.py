"""Annotations: what a data set knows about an edit beside its images, derived from the scene graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from ...reward import Box
from ...reward.sample import Operation, TaskType
from .scene_graph import Scene
from .scene_requests import SceneRequest, position_phrase, side_region
from .vocabulary import SIGN

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
