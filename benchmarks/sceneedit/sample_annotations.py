"""Annotations: what a data set knows about an edit beside its pictures, as the world that made it knows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from ...reward import Box
from ...reward.sample import Operation, TaskType
from .requests import Request, said_place, side_of
from .scene import Scene
from .words import SIGN

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
"""Task type -> what Complex-Edit calls such an operation; of a text that is changed and a number that is lowered, see
`operation`."""

_COMMON = (
    "image-quality",
    "aesthetic-quality",
    "blending-naturalness",
    "editing-artifacts",
    "instruction-following",
    "non-edited-fidelity",
    "physical-plausibility",
)
_SINGLE: Mapping[str, tuple[TaskType, ...]] = MappingProxyType(
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
"""I2I-Bench's dimensions of one source that not every request has, and the types that have them. A thing that moves is
all that comes near to a change of state here; numbers and what snow looks like are the only knowledge."""
_MULTI = (
    "composition-interaction",
    "cross-source-attribute",
    "detail-fidelity",
    "inter-subject-consistency",
    "spatial-accuracy",
    "subject-consistency",
    "subject-extraction",
    "world-knowledge",
)


def operation(request: Request) -> Operation:
    """A request as one step of a compound."""
    task = request.task
    name = OPERATIONS[task.type]
    if task.type == "text_change" and task.object:
        name = "Change Text Properties"
    if task.type == "count_change" and request.gone:
        name = "Remove an Object"
    return Operation(request.instruction, name, task)


def targets(request: Request, scene: Scene) -> tuple[Box, ...]:
    """Boxes, in the source, of what a request is about: its things, and the side of a reference that one is to be on.

    None where it may be carried out anywhere (a thing, a copy or a text without a place) or everywhere (a backdrop).
    """
    task = request.task
    if task.type == "count_change" and request.put:
        return ()
    boxes = [thing.box for number in request.targets if (thing := scene.get(number)) is not None]
    reference = None if request.reference is None else scene.get(request.reference)
    if task.position is not None and reference is not None:
        x0, y0, x1, y1 = side_of(task.position, reference, 0.0)
        boxes.append(Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, label=f"{task.position} {reference.name}"))
    return tuple(boxes)


def hint(requests: Sequence[Request]) -> str:
    """What is to be seen once the requests are carried out, in plain statements."""
    return " ".join(f"{statement}." for request in requests for statement in _statements(request))


def _statements(request: Request) -> list[str]:
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
            (thing,) = request.put
            if task.position is None:
                return [f"There is one {thing.name}"]
            return [f"There is one {thing.name}", f"{thing.name} is {said_place(task.position)} {task.reference}"]


def text(requests: Sequence[Request]) -> str:
    """The letters that are to be read: of the one request about a text, or of a sign that is put in."""
    written = [request.task.text or "" for request in requests if request.task.type == "text_change"]
    written += [thing.text for request in requests for thing in request.put if thing.shape == SIGN and _is_new(request)]
    return written[0] if written else ""


def _is_new(request: Request) -> bool:
    return request.task.type == "subject_add"


def captions(before: Scene, after: Scene) -> dict[str, str]:
    """What is to be seen in the source, and in the picture that a perfect edit makes of it; for `metadata`."""
    return {"source_caption": _caption(before), "target_caption": _caption(after)}


def _caption(scene: Scene) -> str:
    things = ", ".join(thing.name for thing in scene.things if thing.text == "" or thing.shape == SIGN)
    return f"{things or 'nothing'}; the background is {scene.backdrop.kind}"


def dimensions(requests: Collection[Request], sources: int = 1) -> tuple[str, ...]:
    """Those of I2I-Bench that apply, by its names: of several sources the ones of its other half."""
    if sources > 1:
        return (*_COMMON, *_MULTI, *(("text-content-style",) if text(tuple(requests)) else ()))
    types = {request.task.type for request in requests}
    found = [name for name, those in _SINGLE.items() if types & set(those)]
    placed = any(request.task.position is not None for request in requests)
    if placed and "spatial-accuracy" not in found:
        found.append("spatial-accuracy")
    return (*_COMMON, *found)
