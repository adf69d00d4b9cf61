"""Parses instructions into requests: one of EdiVal's forms, several of them, or a composition."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ....reward.metrics.edival.task_parser import parse_task
from ....reward.sample import Task
from ..vocabulary import BACKDROPS, COLOURS, MATERIALS
from .object_names import ObjectName, canonical_term, parse_name


class UnanswerableError(Exception):
    """A question that cannot be answered; the message completes "cannot tell ..."."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """One request. object, new_object, reference: the task's names, parsed. source_index: of the image, among the
    sources, that the new object is taken from.
    """

    task: Task
    object: ObjectName | None = None
    new_object: ObjectName | None = None
    reference: ObjectName | None = None
    source_index: int = 0

    @property
    def resulting_object(self) -> ObjectName | None:
        """The object that should be visible afterwards; None after a removal or a background change."""
        task = self.task
        match task.type:
            case "color_alter" if self.object is not None:
                return ObjectName(self.object.kind, task.value or "", self.object.material)
            case "material_alter" if self.object is not None:
                return ObjectName(self.object.kind, self.object.colour, task.value or "")
            case "subject_add" | "subject_replace":
                return self.new_object
            case "subject_remove" | "background_change":
                return None
            case _:
                return self.object

    @property
    def affected_names(self) -> tuple[ObjectName, ...]:
        """Names of the objects whose number or look it changes."""
        return tuple(
            dict.fromkeys(name for name in (self.object, self.new_object, self.resulting_object) if name is not None)
        )


_COMPOSITION = re.compile(
    r"put (?P<new>.+?) of the (?P<source>first|second|third|fourth) picture into the first one, (?P<rest>.+)",
    re.IGNORECASE,
)
_ORDINALS = ("first", "second", "third", "fourth")
_JOINT = re.compile(r"(?:, and |, | and )(?=(?:add|remove|replace|change)\b)", re.IGNORECASE)


def parse_instruction(instruction: str, operations_json: str = "") -> tuple[ParsedRequest, ...]:
    """The requests of an instruction, in order. operations_json: its steps as a JSON list of texts, where they are
    known.

    Raises `UnanswerableError` with the words that it does not understand.
    """
    steps = _operation_list(operations_json) if operations_json else []
    return tuple(_parse_request(step) for step in steps) if steps else _parse_sentence(instruction)


def _operation_list(operations: str) -> list[str]:
    try:
        steps = json.loads(operations)
    except ValueError:
        raise UnanswerableError(f"which operations are meant: {operations!r:.80} is no JSON") from None
    if not (isinstance(steps, list) and all(isinstance(step, str) for step in steps)):
        raise UnanswerableError(f"which operations are meant: {operations!r:.80} is no list of texts")
    return steps


def _parse_sentence(instruction: str) -> tuple[ParsedRequest, ...]:
    try:
        return (_parse_request(instruction),)
    except UnanswerableError:
        parts = _JOINT.split(instruction)
        if len(parts) == 1:
            raise
    return tuple(_parse_request(part) for part in parts)


def _parse_request(sentence: str) -> ParsedRequest:
    composition = _COMPOSITION.fullmatch(sentence.strip().rstrip("."))
    if composition is not None:
        task = parse_task(f"Add {composition['new']} {composition['rest']}")
        source = _ORDINALS.index(composition["source"].casefold())
    else:
        task, source = parse_task(sentence), 0
    if task is None:
        raise UnanswerableError(
            f"what {sentence!r:.120} asks for: it reads the nine forms of EdiVal, and several in one sentence"
        )
    for value, options in _values(task):
        if value not in options:
            raise UnanswerableError(f"whether anything is {value!r}: it knows {', '.join(options)}")
    target, new, reference = (
        parse_known_name(text) if text else None for text in (task.object, task.new, task.reference)
    )
    return ParsedRequest(task, target, new, reference, source)


def _values(task: Task) -> list[tuple[str, Sequence[str]]]:
    options = {"color_alter": COLOURS, "material_alter": MATERIALS, "background_change": BACKDROPS}.get(task.type)
    return [] if options is None else [(canonical_term(task.value or ""), options)]


def parse_known_name(text: str) -> ObjectName:
    """The parsed name. Raises `UnanswerableError` with an unknown word."""
    name = parse_name(text)
    if isinstance(name, str):
        raise UnanswerableError(name)
    return name
