"""EdiVal-Agent's first steps: objects of an image, listed by the judge and confirmed by a detector, and instructions.
Paper: section 2.2, Alg. 1, appendix O.1 and O.2.1. The instructions are of nine types, with slots filled by the judge
(appendix O.2.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from ....reward import Box, Image, Program, Task
from ....reward.boxes import best_first
from ....reward.engine.program import ask_many
from ....reward.metrics.edival.task_parser import parse_task
from ....reward.queries import Detect
from ....reward.queries.parsing import shorten
from ....reward.queries.prompts import Prompts
from ....reward.sample import POSITIONS, TaskType
from ..construction.reply_rules import parse_fields, parse_name, parse_rendered_text, reject_refusals
from ..construction.workspace import ConstructionRejected, RejectionLog, ask_until_valid

TEMPERATURE = 0.7  # of all queries, as in the released code

Oversized = Literal["either", "both"]

_ALL_OBJECTS_KEY = "All Objects"
_UNKNOWN_VALUES = frozenset({"", "null", "none", "unknown", "n/a"})
_PERSON_WORDS = frozenset(
    {"person", "people", "man", "men", "woman", "women", "boy", "boys", "girl", "girls", "child", "children", "human"}
)
_SCHEMA = json.dumps({"type": "object", "minProperties": 1})


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object of an image. name: "{material} {color} {object}". boxes: of the detector."""

    name: str
    object: str
    color: str | None = None
    material: str | None = None
    text: str | None = None
    count: int = 1
    foreground: bool = True
    boxes: tuple[Box, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The authors' format between the grounding filter and the instructions."""
        return {
            "object": self.object,
            "color": self.color,
            "material": self.material,
            "text": self.text,
            "count": self.count,
            "foreground": self.foreground,
            "grounding_count": len(self.boxes),
            "grounding_phrases": [box.label for box in self.boxes],
            "grounding_boxes": [[box.cx, box.cy, box.w, box.h] for box in self.boxes],
            "grounding_scores": [box.score for box in self.boxes],
        }


@dataclass(frozen=True, slots=True)
class Grounding:
    """Criteria for detections that confirm an object. threshold: of their score, exclusive. side, area: maximum box, in
    shares of the image; an object with a larger box is rejected. oversized: a box is too large by `either` limit (Alg.
    1 and O.1) or by `both` (released code)."""

    threshold: float = 0.35
    side: float = 0.9
    area: float = 0.4
    oversized: Oversized = "either"

    def problem(self, boxes: Sequence[Box]) -> str:
        """Why an object with these boxes is rejected; empty if it is kept."""
        if not boxes:
            return f"the detector finds nothing above {self.threshold}"
        for box in boxes:
            # A side of exactly 0.9 is too long in the paper (w, h < 0.9) and allowed in the released code (w > 0.9).
            if self.oversized == "either":
                too_large = max(box.w, box.h) >= self.side or box.area > self.area
            else:
                too_large = max(box.w, box.h) > self.side and box.area > self.area
            if too_large:
                return f"a box of {box.w:.2f} x {box.h:.2f} of the image is too large: it may be the background"
        return ""


def list_objects(notes: RejectionLog, image: Image, prompts: Prompts) -> Program[tuple[ListedObject, ...]]:
    """The objects listed by the judge. Raises `ConstructionRejected`."""

    def read(reply: str) -> tuple[ListedObject, ...]:
        objects: dict[str, ListedObject] = {}
        problems: list[str] = []
        for key, value in parse_fields(_SCHEMA, reply).items():
            if key == _ALL_OBJECTS_KEY:
                continue
            try:
                obj = _parse_object(key, value)
            except ValueError as error:
                problems.append(str(error))
                continue
            objects.setdefault(obj.name, obj)
        if not objects:
            raise ValueError(problems[-1] if problems else "it lists no object")
        for problem in problems:
            notes.add("edival/objects", problem)
        return tuple(objects.values())

    prompt = prompts.render("edival_objects")
    return (
        yield from ask_until_valid(
            notes, "edival/objects", prompt, image, read, temperature=TEMPERATURE, max_tokens=4096
        )
    )


def ground_objects(
    notes: RejectionLog, image: Image, objects: Sequence[ListedObject], filter_: Grounding
) -> Program[tuple[ListedObject, ...]]:
    """The objects that the detector confirms, one query each, with boxes. Raises `ConstructionRejected` if none is
    left."""
    results = yield from ask_many([Detect(image, (obj.name,)) for obj in objects])
    grounded = []
    for obj, detections in zip(objects, results, strict=True):
        boxes = best_first(detections.above(filter_.threshold))
        if problem := filter_.problem(boxes):
            notes.add("edival/grounding", f"{obj.name}: {problem}")
        else:
            grounded.append(replace(obj, boxes=boxes))
    if not grounded:
        raise ConstructionRejected("the detector finds none of the objects that the judge lists")
    return tuple(grounded)


def grounding_file(index: int, objects: Sequence[ListedObject], listed: Sequence[ListedObject]) -> dict[str, Any]:
    """The input of the authors' instruction generator for an image, `{index}_input_raw.json`."""
    parsed_json: dict[str, Any] = {obj.name: obj.to_json() for obj in objects}
    parsed_json[f"Filtered {_ALL_OBJECTS_KEY}"] = join_names(objects)
    parsed_json[_ALL_OBJECTS_KEY] = join_names(listed)
    return {"success": True, "image_index": str(index), "parsed_json": parsed_json}


def join_names(objects: Sequence[ListedObject]) -> str:
    """Names in one string, each followed by a full stop."""
    return " ".join(f"{obj.name}." for obj in objects)


def _parse_object(key: str, value: object) -> ListedObject:
    if not isinstance(value, Mapping):
        raise ValueError(f"{key!r} is not a JSON object")
    noun, color, material = (_words(value.get(field)) for field in ("object", "color", "material"))
    if noun is None:
        raise ValueError(f"{key!r} lacks the kind of object")
    if noun.split()[-1] in _PERSON_WORDS:
        raise ValueError(f"{key!r} is a person: only what people wear is an object")
    parts = [part for part in (material, color) if part is not None and part not in noun.split()]
    name = " ".join((*dict.fromkeys(parts), noun))
    if re.search(r"[^\w \-'/&]|[\d_]", name) or not _is_usable_name(name):
        raise ValueError(f"{name!r} cannot be named in an instruction")
    text = value.get("text")
    count = value.get("count")
    return ListedObject(
        name,
        noun,
        color,
        material,
        text.strip() if isinstance(text, str) and text.strip().casefold() not in _UNKNOWN_VALUES else None,
        count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1,
        value.get("foreground") is True,
    )


def _words(value: object) -> str | None:
    text = " ".join(value.casefold().split()) if isinstance(value, str) else ""
    return None if text in _UNKNOWN_VALUES else text


def _is_usable_name(name: str) -> bool:
    moved = parse_task(f"Change the position of {name} to left of lamp")
    swapped = parse_task(f"Replace {name} with lamp")
    added = parse_task(f"Add lamp on the left of {name}")
    recoloured = parse_task(f"Change the color of {name} to red")
    return (
        (moved is not None and moved.object == name)
        and (swapped is not None and swapped.object == name)
        and (added is not None and added.reference == name)
        and (recoloured is not None and recoloured.object == name)
    )


COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "gray", "orange", "purple", "pink")
"""Basic colours, the targets of colour changes."""

_RELATIONS = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}

_QUOTES = frozenset("'\"[]\n\u2018\u2019\u201c\u201d")
"""Characters that would end a text within an instruction too early."""


@dataclass(frozen=True)
class TaskGenerator:
    """Generates the task of one turn. rng: for all random choices. counts: allowed target counts of count changes."""

    notes: RejectionLog
    image: Image
    prompts: Prompts
    rng: Random
    counts: Sequence[int]

    def generate(
        self, task_type: TaskType, available: Sequence[ListedObject], used_names: Sequence[str]
    ) -> Program[Task]:
        """A task of that type. available: editable objects. used_names: all names so far. Raises `ConstructionRejected`
        without a valid reply."""
        match task_type:
            case "subject_add":
                return (yield from self._add(available, used_names))
            case "subject_remove":
                return Task(task_type, object=self.rng.choice(available).name)
            case "subject_replace":
                return (yield from self._replace(self.rng.choice(available), used_names))
            case "color_alter":
                return (yield from self._colour(self.rng.choice(available)))
            case "material_alter":
                return (yield from self._material(self.rng.choice(available)))
            case "position_change":
                return (yield from self._position(available))
            case "count_change":
                return (yield from self._count(available))
            case "text_change":
                return (yield from self._text(available))
            case "background_change":
                return (yield from self._background(available))

    def _ask(self, prompt: str, parse: Callable[[str], Task], **slots: str) -> Program[Task]:
        """Parse the judge's reply, and check that readers of the file will parse the same task."""

        def checked(reply: str) -> Task:
            task = parse(reply)
            if parse_task(instruction_of(task, format_of(task)), type=task.type) != task:
                raise ValueError(f"cannot be parsed again from its instruction: {shorten(reply)}")
            return task

        stage, text = f"edival/{prompt}", self.prompts.render(f"edival_{prompt}", **slots)
        return (
            yield from ask_until_valid(
                self.notes, stage, text, self.image, checked, temperature=TEMPERATURE, max_tokens=100, slots=slots
            )
        )

    def _add(self, available: Sequence[ListedObject], used_names: Sequence[str]) -> Program[Task]:
        reference = self.rng.choice(available).name if available else None
        position = self.rng.choice(POSITIONS) if available else None

        def parse(reply: str) -> Task:
            new = _parse_new_object(reply, used_names)
            return Task("subject_add", new=new, position=position, reference=reference)

        place = "anywhere in the picture" if position is None else f"{_RELATIONS[position]} this: {reference}"
        return (yield from self._ask("add", parse, place=place))

    def _replace(self, obj: ListedObject, used_names: Sequence[str]) -> Program[Task]:
        def parse(reply: str) -> Task:
            return Task("subject_replace", object=obj.name, new=_parse_new_object(reply, used_names))

        return (yield from self._ask("replace", parse, object=obj.name))

    def _colour(self, obj: ListedObject) -> Program[Task]:
        current = obj.color or "unknown"

        def parse(reply: str) -> Task:
            value = parse_name(reply, "colour", max_words=1).replace("grey", "gray")
            if value not in COLOURS:
                raise ValueError(f"{value!r} is none of {', '.join(COLOURS)}")
            if value in current.replace("grey", "gray").split():
                raise ValueError(f"{obj.name} is {value} already")
            return Task("color_alter", object=obj.name, value=value)

        return (yield from self._ask("color", parse, object=obj.name, color=current))

    def _material(self, obj: ListedObject) -> Program[Task]:
        current = obj.material or "unknown"

        def parse(reply: str) -> Task:
            value = parse_name(reply, "material", max_words=2)
            if value == current:
                raise ValueError(f"{obj.name} is of {value} already")
            return Task("material_alter", object=obj.name, value=value)

        return (yield from self._ask("material", parse, object=obj.name, material=current))

    def _position(self, available: Sequence[ListedObject]) -> Program[Task]:
        def parse(reply: str) -> Task:
            said = _parse_instruction(reply, "position_change")
            moved, reference = (_parse_choice(name, available) for name in (said.object, said.reference))
            if moved == reference:
                raise ValueError(f"{moved.name} cannot be moved relative to itself")
            return Task("position_change", object=moved.name, position=said.position, reference=reference.name)

        return (yield from self._ask("position", parse, objects=_names(available)))

    def _count(self, available: Sequence[ListedObject]) -> Program[Task]:
        count = self.rng.choice([target for target in self.counts if any(obj.count != target for obj in available)])

        def parse(reply: str) -> Task:
            said = _parse_instruction(reply, "count_change")
            obj = _parse_choice(said.object, available)
            if said.count != count:
                raise ValueError(f"{count} were requested, got {said.count}")
            if obj.count == count:
                raise ValueError(f"there are {count} of {obj.name} already")
            return Task("count_change", object=obj.name, count=count)

        return (yield from self._ask("count", parse, objects=_names(available), count=str(count)))

    def _text(self, available: Sequence[ListedObject]) -> Program[Task]:
        with_text = [obj for obj in available if obj.text and not set(obj.text) & _QUOTES]
        obj = self.rng.choice(with_text) if with_text else None

        def parse(reply: str) -> Task:
            text = parse_rendered_text(reply)
            if obj is None:
                return Task("text_change", text=text)
            if text == obj.text:
                raise ValueError(f"{text!r} is there already")
            return Task("text_change", text=text, object=obj.name, old=obj.text)

        situation = "new words are written into the picture"
        if obj is not None:
            situation = f"the words '{obj.text}' are replaced by others on this object: {obj.name}"
        return (yield from self._ask("text", parse, situation=situation))

    def _background(self, available: Sequence[ListedObject]) -> Program[Task]:
        keep = tuple(obj.name for obj in available if obj.foreground)

        def parse(reply: str) -> Task:
            return Task("background_change", value=parse_name(reply, "background", max_words=2), keep=keep)

        return (yield from self._ask("background", parse))


def format_of(task: Task) -> str:
    """The instruction with its slots in brackets, as in `format_instructions`."""
    match task.type:
        case "subject_add" if task.reference is None:
            return f"Add [{task.new}]"
        case "subject_add":
            return f"Add [{task.new}] on the [{task.position}] of [{task.reference}]"
        case "subject_remove":
            return f"Remove [{task.object}]"
        case "subject_replace":
            return f"Replace [{task.object}] with [{task.new}]"
        case "position_change":
            return f"Change the position of [{task.object}] to [{task.position}] of [{task.reference}]"
        case "count_change":
            return f"Change the count of [{task.object}] to [{task.count}]"
        case "color_alter":
            return f"Change the color of [{task.object}] to [{task.value}]"
        case "material_alter":
            return f"Change the material of [{task.object}] to [{task.value}]"
        case "text_change" if task.object is None:
            return f"Add text '[{task.text}]' on the image"
        case "text_change":
            return f"Replace the text '[{task.old}]' on [{task.object}] with '[{task.text}]'"
        case "background_change":
            return f"Change the background to [{task.value}]"


def instruction_of(task: Task, format_: str) -> str:
    """The instruction in natural language: without brackets; a background change lists the objects to keep."""
    text = format_.replace("[", "").replace("]", "")
    return f"{text}, remain the {', '.join(task.keep)} unchanged" if task.keep else text


def _parse_new_object(reply: str, used_names: Sequence[str]) -> str:
    name = parse_name(reply, "object")
    if name in {used_name.casefold() for used_name in used_names}:
        raise ValueError(f"{name!r} is in the image already, or was")
    return name


def _names(available: Sequence[ListedObject]) -> str:
    return ", ".join(obj.name for obj in available)


def _parse_instruction(reply: str, task_type: TaskType) -> Task:
    reject_refusals(reply)
    for line in reversed(reply.splitlines()):
        start = line.casefold().find("change the")
        task = None if start < 0 else parse_task(line[start:].strip().strip("\"'*`"), type=task_type)
        if task is not None:
            return task
    raise ValueError(f"no instruction of the requested form in {shorten(reply)}")


def _parse_choice(name: str | None, available: Sequence[ListedObject]) -> ListedObject:
    for obj in available:
        if name is not None and obj.name == name.casefold():
            return obj
    raise ValueError(f"{name!r} is none of {_names(available)}")
