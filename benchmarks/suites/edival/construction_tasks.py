"""EdiVal-Agent, step 2: instructions of the nine types, with slots filled by the judge (appendix O.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from ....reward import Image, Program, Task
from ....reward.metrics.edival.task_parser import parse_task
from ....reward.queries.parsing import shorten
from ....reward.queries.prompts import Prompts
from ....reward.sample import POSITIONS, TaskType
from ..construction.reply_rules import parse_name, parse_rendered_text, reject_refusals
from ..construction.validated_replies import RejectionLog, ask_until_valid
from .construction_objects import TEMPERATURE, ListedObject

COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "gray", "orange", "purple", "pink")
"""Basic colours, the targets of colour changes."""

_RELATIONS = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}

_QUOTES = frozenset("'\"[]\n\u2018\u2019\u201c\u201d")
"""Characters that would end a text within an instruction too early."""

TaskInstruction = tuple[Task, str]
"""A task and its instruction with slots in brackets."""


@dataclass(frozen=True)
class TaskInstructionGenerator:
    """Generates the instruction of one turn.

    rng: for all random choices. counts: allowed target counts of count changes.
    """

    notes: RejectionLog
    image: Image
    prompts: Prompts
    rng: Random
    counts: Sequence[int]

    def generate(
        self, task_type: TaskType, available: Sequence[ListedObject], used_names: Sequence[str]
    ) -> Program[TaskInstruction]:
        """An instruction of that type.

        available: editable objects. used_names: all names so far. Raises `ConstructionRejected` without a valid reply.
        """
        match task_type:
            case "subject_add":
                return (yield from self._add(available, used_names))
            case "subject_remove":
                obj = self.rng.choice(available)
                return Task(task_type, object=obj.name), f"Remove [{obj.name}]"
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

    def _ask(
        self, task_type: TaskType, prompt: str, parse: Callable[[str], TaskInstruction], **slots: str
    ) -> Program[TaskInstruction]:
        """Parse the judge's reply, and check that readers of the file will parse the same task."""

        def checked(reply: str) -> TaskInstruction:
            task, format_ = parse(reply)
            if parse_task(instruction_of(task, format_), type=task_type) != task:
                raise ValueError(f"cannot be parsed again from its instruction: {shorten(reply)}")
            return task, format_

        stage, text = prompt.replace("_", "/", 1), self.prompts.render(prompt, **slots)
        return (
            yield from ask_until_valid(
                self.notes, stage, text, self.image, checked, temperature=TEMPERATURE, max_tokens=100, slots=slots
            )
        )

    def _add(self, available: Sequence[ListedObject], used_names: Sequence[str]) -> Program[TaskInstruction]:
        if not available:

            def parse_alone(reply: str) -> TaskInstruction:
                new = _parse_new_object(reply, used_names)
                return Task("subject_add", new=new), f"Add [{new}]"

            return (yield from self._ask("subject_add", "edival_add", parse_alone, place="anywhere in the picture"))
        reference, position = self.rng.choice(available).name, self.rng.choice(POSITIONS)

        def parse(reply: str) -> TaskInstruction:
            new = _parse_new_object(reply, used_names)
            task = Task("subject_add", new=new, position=position, reference=reference)
            return task, f"Add [{new}] on the [{position}] of [{reference}]"

        place = f"{_RELATIONS[position]} this: {reference}"
        return (yield from self._ask("subject_add", "edival_add", parse, place=place))

    def _replace(self, obj: ListedObject, used_names: Sequence[str]) -> Program[TaskInstruction]:
        def parse(reply: str) -> TaskInstruction:
            new = _parse_new_object(reply, used_names)
            return Task("subject_replace", object=obj.name, new=new), f"Replace [{obj.name}] with [{new}]"

        return (yield from self._ask("subject_replace", "edival_replace", parse, object=obj.name))

    def _colour(self, obj: ListedObject) -> Program[TaskInstruction]:
        current = obj.color or "unknown"

        def parse(reply: str) -> TaskInstruction:
            value = parse_name(reply, "colour", max_words=1).replace("grey", "gray")
            if value not in COLOURS:
                raise ValueError(f"{value!r} is none of {', '.join(COLOURS)}")
            if value in current.replace("grey", "gray").split():
                raise ValueError(f"{obj.name} is {value} already")
            task = Task("color_alter", object=obj.name, value=value)
            return task, f"Change the color of [{obj.name}] to [{value}]"

        return (yield from self._ask("color_alter", "edival_color", parse, object=obj.name, color=current))

    def _material(self, obj: ListedObject) -> Program[TaskInstruction]:
        current = obj.material or "unknown"

        def parse(reply: str) -> TaskInstruction:
            value = parse_name(reply, "material", max_words=2)
            if value == current:
                raise ValueError(f"{obj.name} is of {value} already")
            task = Task("material_alter", object=obj.name, value=value)
            return task, f"Change the material of [{obj.name}] to [{value}]"

        return (yield from self._ask("material_alter", "edival_material", parse, object=obj.name, material=current))

    def _position(self, available: Sequence[ListedObject]) -> Program[TaskInstruction]:
        def parse(reply: str) -> TaskInstruction:
            task_reply = _parse_instruction(reply, "position_change")
            moved, reference = (
                _parse_choice(task_reply.object, available),
                _parse_choice(task_reply.reference, available),
            )
            if moved == reference:
                raise ValueError(f"{moved.name} cannot be moved relative to itself")
            task = Task("position_change", object=moved.name, position=task_reply.position, reference=reference.name)
            return task, f"Change the position of [{moved.name}] to [{task.position}] of [{reference.name}]"

        return (yield from self._ask("position_change", "edival_position", parse, objects=_names(available)))

    def _count(self, available: Sequence[ListedObject]) -> Program[TaskInstruction]:
        count = self.rng.choice([target for target in self.counts if any(obj.count != target for obj in available)])

        def parse(reply: str) -> TaskInstruction:
            task_reply = _parse_instruction(reply, "count_change")
            obj = _parse_choice(task_reply.object, available)
            if task_reply.count != count:
                raise ValueError(f"{count} were requested, got {task_reply.count}")
            if obj.count == count:
                raise ValueError(f"there are {count} of {obj.name} already")
            task = Task("count_change", object=obj.name, count=count)
            return task, f"Change the count of [{obj.name}] to [{count}]"

        objects, number = _names(available), str(count)
        return (yield from self._ask("count_change", "edival_count", parse, objects=objects, count=number))

    def _text(self, available: Sequence[ListedObject]) -> Program[TaskInstruction]:
        """New text on an object with text if there is one, else text anywhere."""
        with_text = [obj for obj in available if obj.text and not set(obj.text) & _QUOTES]
        if not with_text:

            def parse_added(reply: str) -> TaskInstruction:
                text = parse_rendered_text(reply)
                return Task("text_change", text=text), f"Add text '[{text}]' on the image"

            situation = "new words are written into the picture"
            return (yield from self._ask("text_change", "edival_text", parse_added, situation=situation))
        obj = self.rng.choice(with_text)

        def parse(reply: str) -> TaskInstruction:
            text = parse_rendered_text(reply)
            if text == obj.text:
                raise ValueError(f"{text!r} is there already")
            task = Task("text_change", text=text, object=obj.name, old=obj.text)
            return task, f"Replace the text '[{obj.text}]' on [{obj.name}] with '[{text}]'"

        situation = f"the words '{obj.text}' are replaced by others on this object: {obj.name}"
        return (yield from self._ask("text_change", "edival_text", parse, situation=situation))

    def _background(self, available: Sequence[ListedObject]) -> Program[TaskInstruction]:
        keep = tuple(obj.name for obj in available if obj.foreground)

        def parse(reply: str) -> TaskInstruction:
            value = parse_name(reply, "background", max_words=2)
            return Task("background_change", value=value, keep=keep), f"Change the background to [{value}]"

        return (yield from self._ask("background_change", "edival_background", parse))


def instruction_of(task: Task, format_: str) -> str:
    """The instruction in natural language: without brackets; a background change lists the objects to keep."""
    text = format_.replace("[", "").replace("]", "")
    return f"{text}, remain the {', '.join(task.keep)} unchanged" if task.keep else text


def _parse_new_object(reply: str, used_names: Sequence[str]) -> str:
    """The name of a new object."""
    name = parse_name(reply, "object")
    if name in {used_name.casefold() for used_name in used_names}:
        raise ValueError(f"{name!r} is in the image already, or was")
    return name


def _names(available: Sequence[ListedObject]) -> str:
    return ", ".join(obj.name for obj in available)


def _parse_instruction(reply: str, task_type: TaskType) -> Task:
    """The instruction in a reply: the last line that can be parsed."""
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
