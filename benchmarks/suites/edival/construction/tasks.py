"""EdiVal-Agent: one instruction of each of the nine types, with the judge's words in its slots (appendix O.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from ...reward import Asks, Image, Task
from ...reward.edival.instructions import parse
from ...reward.prompts import Prompts
from ...reward.reading import short
from ...reward.sample import POSITIONS, TaskType
from .asking import Notes, insist
from .edival_objects import TEMPERATURE, Thing
from .words import lettering, name, refuse_refusals

COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "gray", "orange", "purple", "pink")
"""The basic ones, to which colours are changed."""

_WHERE = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}

_QUOTES = frozenset("'\"[]\n\u2018\u2019\u201c\u201d")
"""What would end a text within an instruction too early."""

Written = tuple[Task, str]
"""A task and its instruction with slots in brackets."""


@dataclass(frozen=True)
class Asker:
    """Asks for the instruction of one turn.

    chance: what is drawn is drawn of it. counts: what the number of an object may be changed to.
    """

    notes: Notes
    image: Image
    prompts: Prompts
    chance: Random
    counts: Sequence[int]

    def ask(self, kind: TaskType, available: Sequence[Thing], everything: Sequence[str]) -> Asks[Written]:
        """An instruction of that type.

        available: what can be edited. everything: names that have been given. Raises `Rejected` where the judge gives
        nothing usable.
        """
        match kind:
            case "subject_add":
                return (yield from self._add(available, everything))
            case "subject_remove":
                thing = self.chance.choice(available)
                return Task(kind, object=thing.name), f"Remove [{thing.name}]"
            case "subject_replace":
                return (yield from self._replace(self.chance.choice(available), everything))
            case "color_alter":
                return (yield from self._colour(self.chance.choice(available)))
            case "material_alter":
                return (yield from self._material(self.chance.choice(available)))
            case "position_change":
                return (yield from self._position(available))
            case "count_change":
                return (yield from self._count(available))
            case "text_change":
                return (yield from self._text(available))
            case "background_change":
                return (yield from self._background(available))

    def _asked(self, kind: TaskType, prompt: str, read: Callable[[str], Written], **slots: str) -> Asks[Written]:
        """What the judge says, read; and read once more as readers of the file will."""

        def understood(said: str) -> Written:
            task, format_ = read(said)
            if parse(instruction_of(task, format_), type=kind) != task:
                raise ValueError(f"cannot be told from its words in an instruction: {short(said)}")
            return task, format_

        stage, words = prompt.replace("_", "/", 1), self.prompts.render(prompt, **slots)
        return (
            yield from insist(
                self.notes, stage, words, self.image, understood, temperature=TEMPERATURE, max_tokens=100, slots=slots
            )
        )

    def _add(self, available: Sequence[Thing], everything: Sequence[str]) -> Asks[Written]:
        if not available:

            def alone(said: str) -> Written:
                new = _new(said, everything)
                return Task("subject_add", new=new), f"Add [{new}]"

            return (yield from self._asked("subject_add", "edival_add", alone, place="anywhere in the picture"))
        reference, position = self.chance.choice(available).name, self.chance.choice(POSITIONS)

        def read(said: str) -> Written:
            new = _new(said, everything)
            task = Task("subject_add", new=new, position=position, reference=reference)
            return task, f"Add [{new}] on the [{position}] of [{reference}]"

        place = f"{_WHERE[position]} this: {reference}"
        return (yield from self._asked("subject_add", "edival_add", read, place=place))

    def _replace(self, thing: Thing, everything: Sequence[str]) -> Asks[Written]:
        def read(said: str) -> Written:
            new = _new(said, everything)
            return Task("subject_replace", object=thing.name, new=new), f"Replace [{thing.name}] with [{new}]"

        return (yield from self._asked("subject_replace", "edival_replace", read, object=thing.name))

    def _colour(self, thing: Thing) -> Asks[Written]:
        now = thing.color or "unknown"

        def read(said: str) -> Written:
            value = name(said, "colour", most=1).replace("grey", "gray")
            if value not in COLOURS:
                raise ValueError(f"{value!r} is none of {', '.join(COLOURS)}")
            if value in now.replace("grey", "gray").split():
                raise ValueError(f"{thing.name} is {value} already")
            task = Task("color_alter", object=thing.name, value=value)
            return task, f"Change the color of [{thing.name}] to [{value}]"

        return (yield from self._asked("color_alter", "edival_color", read, object=thing.name, color=now))

    def _material(self, thing: Thing) -> Asks[Written]:
        now = thing.material or "unknown"

        def read(said: str) -> Written:
            value = name(said, "material", most=2)
            if value == now:
                raise ValueError(f"{thing.name} is of {value} already")
            task = Task("material_alter", object=thing.name, value=value)
            return task, f"Change the material of [{thing.name}] to [{value}]"

        return (yield from self._asked("material_alter", "edival_material", read, object=thing.name, material=now))

    def _position(self, available: Sequence[Thing]) -> Asks[Written]:
        def read(said: str) -> Written:
            asked = _sentence(said, "position_change")
            moved, reference = _one_of(asked.object, available), _one_of(asked.reference, available)
            if moved == reference:
                raise ValueError(f"{moved.name} cannot be moved relative to itself")
            task = Task("position_change", object=moved.name, position=asked.position, reference=reference.name)
            return task, f"Change the position of [{moved.name}] to [{task.position}] of [{reference.name}]"

        return (yield from self._asked("position_change", "edival_position", read, objects=_names(available)))

    def _count(self, available: Sequence[Thing]) -> Asks[Written]:
        count = self.chance.choice([one for one in self.counts if any(thing.count != one for thing in available)])

        def read(said: str) -> Written:
            asked = _sentence(said, "count_change")
            thing = _one_of(asked.object, available)
            if asked.count != count:
                raise ValueError(f"{count} were asked for, got {asked.count}")
            if thing.count == count:
                raise ValueError(f"there are {count} of {thing.name} already")
            task = Task("count_change", object=thing.name, count=count)
            return task, f"Change the count of [{thing.name}] to [{count}]"

        objects, number = _names(available), str(count)
        return (yield from self._asked("count_change", "edival_count", read, objects=objects, count=number))

    def _text(self, available: Sequence[Thing]) -> Asks[Written]:
        """New words on something that has words, where there is such a thing; else words anywhere."""
        lettered = [thing for thing in available if thing.text and not set(thing.text) & _QUOTES]
        if not lettered:

            def added(said: str) -> Written:
                text = lettering(said)
                return Task("text_change", text=text), f"Add text '[{text}]' on the image"

            situation = "new words are written into the picture"
            return (yield from self._asked("text_change", "edival_text", added, situation=situation))
        thing = self.chance.choice(lettered)

        def read(said: str) -> Written:
            text = lettering(said)
            if text == thing.text:
                raise ValueError(f"{text!r} is there already")
            task = Task("text_change", text=text, object=thing.name, old=thing.text)
            return task, f"Replace the text '[{thing.text}]' on [{thing.name}] with '[{text}]'"

        situation = f"the words '{thing.text}' are replaced by others on this object: {thing.name}"
        return (yield from self._asked("text_change", "edival_text", read, situation=situation))

    def _background(self, available: Sequence[Thing]) -> Asks[Written]:
        keep = tuple(thing.name for thing in available if thing.foreground)

        def read(said: str) -> Written:
            value = name(said, "background", most=2)
            return Task("background_change", value=value, keep=keep), f"Change the background to [{value}]"

        return (yield from self._asked("background_change", "edival_background", read))


def instruction_of(task: Task, format_: str) -> str:
    """The instruction in natural language: without brackets; a change of background says what is to stay."""
    text = format_.replace("[", "").replace("]", "")
    return f"{text}, remain the {', '.join(task.keep)} unchanged" if task.keep else text


def _new(said: str, everything: Sequence[str]) -> str:
    """The name of an object that has not been there."""
    found = name(said, "object")
    if found in {one.casefold() for one in everything}:
        raise ValueError(f"{found!r} is in the picture already, or was")
    return found


def _names(available: Sequence[Thing]) -> str:
    return ", ".join(thing.name for thing in available)


def _sentence(said: str, kind: TaskType) -> Task:
    """The instruction in an answer: its last line that is one."""
    refuse_refusals(said)
    for line in reversed(said.splitlines()):
        begin = line.casefold().find("change the")
        task = None if begin < 0 else parse(line[begin:].strip().strip("\"'*`"), type=kind)
        if task is not None:
            return task
    raise ValueError(f"no instruction of the form that was asked for in {short(said)}")


def _one_of(said: str | None, available: Sequence[Thing]) -> Thing:
    for thing in available:
        if said is not None and thing.name == said.casefold():
            return thing
    raise ValueError(f"{said!r} is none of {_names(available)}")
