"""Wishes: what an instruction asks for, by its words: one of EdiVal's forms, several of them, or a composition."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ....reward.edival.instructions import parse as form_of
from ....reward.sample import Task
from ..words import BACKDROPS, COLOURS, MATERIALS
from .phrases import Name, parse, word


class Unknown(Exception):
    """Says what cannot be known."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing asked for. object, new, reference: the task's names, taken apart. source: place of the picture that the
    new thing is taken from, among the sources.
    """

    task: Task
    object: Name | None = None
    new: Name | None = None
    reference: Name | None = None
    source: int = 0

    @property
    def result(self) -> Name | None:
        """What is to be seen afterwards where something is done to a thing or put in; None where nothing is."""
        task = self.task
        match task.type:
            case "color_alter" if self.object is not None:
                return Name(self.object.kind, task.value or "", self.object.material)
            case "material_alter" if self.object is not None:
                return Name(self.object.kind, self.object.colour, task.value or "")
            case "subject_add" | "subject_replace":
                return self.new
            case "subject_remove" | "background_change":
                return None
            case _:
                return self.object

    @property
    def names(self) -> tuple[Name, ...]:
        """Of all things whose number or looks it changes."""
        return tuple(dict.fromkeys(name for name in (self.object, self.new, self.result) if name is not None))


_COMPOSITION = re.compile(
    r"put (?P<new>.+?) of the (?P<source>first|second|third|fourth) picture into the first one, (?P<rest>.+)",
    re.IGNORECASE,
)
_ORDINALS = ("first", "second", "third", "fourth")
_JOINT = re.compile(r"(?:, and |, | and )(?=(?:add|remove|replace|change)\b)", re.IGNORECASE)


def wishes(instruction: str, operations: str = "") -> tuple[Wish, ...]:
    """What an instruction asks for, in order. operations: its steps as a JSON list of texts, where they are known.

    Raises `Unknown` with the words that it does not understand.
    """
    steps = _listed(operations) if operations else []
    return tuple(_wish(step) for step in steps) if steps else _read(instruction)


def _listed(operations: str) -> list[str]:
    try:
        steps = json.loads(operations)
    except ValueError:
        raise Unknown(f"which operations are meant: {operations!r:.80} is no JSON") from None
    if not (isinstance(steps, list) and all(isinstance(step, str) for step in steps)):
        raise Unknown(f"which operations are meant: {operations!r:.80} is no list of texts")
    return steps


def _read(instruction: str) -> tuple[Wish, ...]:
    try:
        return (_wish(instruction),)
    except Unknown:
        parts = _JOINT.split(instruction)
        if len(parts) == 1:
            raise
    return tuple(_wish(part) for part in parts)


def _wish(sentence: str) -> Wish:
    composed = _COMPOSITION.fullmatch(sentence.strip().rstrip("."))
    if composed is not None:
        task = form_of(f"Add {composed['new']} {composed['rest']}")
        source = _ORDINALS.index(composed["source"].casefold())
    else:
        task, source = form_of(sentence), 0
    if task is None:
        raise Unknown(
            f"what {sentence!r:.120} asks for: it reads the nine forms of EdiVal, and several in one sentence"
        )
    for value, known in _values(task):
        if value not in known:
            raise Unknown(f"whether anything is {value!r}: it knows {', '.join(known)}")
    thing, new, reference = (named(text) if text else None for text in (task.object, task.new, task.reference))
    return Wish(task, thing, new, reference, source)


def _values(task: Task) -> list[tuple[str, Sequence[str]]]:
    known = {"color_alter": COLOURS, "material_alter": MATERIALS, "background_change": BACKDROPS}.get(task.type)
    return [] if known is None else [(word(task.value or ""), known)]


def named(text: str) -> Name:
    """What a name means. Raises `Unknown` with the word that means nothing."""
    name = parse(text)
    if isinstance(name, str):
        raise Unknown(name)
    return name
