"""Parsing of instructions into tasks: the nine forms of EdiVal (Table 2) and common variants.

A sentence that is not clearly one of the nine forms is rejected: the sample then needs a `task`. Slots are kept as
written, in any script; only a leading article of an object or a value is removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from ...sample import TASK_TYPES, EditSample, Position, Task, TaskType


def parse_task(instruction: str, *, type: TaskType | None = None) -> Task | None:  # noqa: A002  (the field's name)
    """The task of an instruction, or None if it matches none of the nine forms (or not `type`).

    Double quotes around the sentence, trailing full stops, the brackets of `format_instructions` and case outside the
    slots are ignored. A sentence with two requests matches no form.
    """
    if type is not None and type not in TASK_TYPES:
        raise ValueError(f"unknown task type {type!r}: expected one of {', '.join(TASK_TYPES)}")
    sentence = _strip_wrapping(instruction)
    for kind, parse in _FORMS.items():
        if type in (None, kind):
            task = parse(sentence)
            if task is not None:
                return task
    return None


def task_of(sample: EditSample) -> Task | None:
    """The sample's `task`, or the one parsed from its instruction."""
    return sample.task or parse_task(sample.instruction)


# -- patterns of the forms ---------------------------------------------------------------------------------------------

_SCENE = r"(?:the\s+)?(?:image|picture|photo|photograph|scene)"
_OPEN, _CLOSE = "[\"'“”\u2018\u2019«「『]", "[\"'“”\u2018\u2019»」』]"
# "left" and "right" need their "of", or a left shoe would be something at the left of a shoe.
_PLACE = (
    r"(?:(?:on|to|at|towards?)\s+)?(?:the\s+)?"
    r"(?:(?P<side>left|right)(?:\s+side)?\s+of|(?P<level>above|below)(?:\s+of)?)"
)


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ADD_AT = _form(rf"(?:add|insert)\s+(?P<new>.+?)\s+{_PLACE}\s+(?P<reference>.+)")
_ADD = _form(rf"(?:add|insert)\s+(?P<new>.+?)(?:\s+(?:to|in|into|on)\s+{_SCENE})?")
_REMOVE = _form(rf"(?:remove|delete|erase)\s+(?P<object>.+?)(?:\s+from\s+{_SCENE})?")
_REPLACE = _form(r"replace\s+(?P<object>.+?)\s+with\s+(?P<new>.+)")
_MOVE = _form(rf"(?:change\s+the\s+position\s+of|move)\s+(?P<object>.+?)\s+(?:to\s+)?{_PLACE}\s+(?P<reference>.+)")
_COUNT = _form(r"change\s+the\s+(?:count|number)\s+of\s+(?P<object>.+)\s+to\s+(?P<count>\w+)")
_COLOR = _form(r"change\s+the\s+colou?r\s+of\s+(?P<object>.+)\s+(?:in)?to\s+(?P<value>.+)")
_MATERIAL = _form(r"change\s+the\s+material\s+of\s+(?P<object>.+)\s+(?:in)?to\s+(?P<value>.+)")
_ADD_TEXT = _form(
    rf"(?:add|insert|write)\s+(?:the\s+)?(?:text|words?)\s+{_OPEN}(?P<text>.+){_CLOSE}"
    rf"(?:\s+(?:on|to|in|into)\s+(?:{_SCENE}|(?P<object>.+)))?"
)
_REPLACE_TEXT = _form(
    rf"(?:replace|change)\s+the\s+text(?:\s+{_OPEN}(?P<old>.+){_CLOSE})?(?:\s+(?:on|in)\s+(?:{_SCENE}|(?P<object>.+)))?"
    rf"\s+(?:with|to)\s+{_OPEN}(?P<text>.+){_CLOSE}"
)
_BACKGROUND = _form(
    r"(?:change|replace)\s+the\s+background\s+(?:(?:in)?to|with)\s+(?P<value>.+?)"
    r"(?:\s*,?\s+(?:and\s+)?(?:remain|keep|make|leave)\s+(?P<keep>.+)\s+unchanged)?"
)

_ARTICLE = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)
_TWO_REQUESTS = re.compile(
    r"[.;!?]\s|[\n,]|\b(?:and|then)\s+(?:add|insert|remove|delete|erase|replace|change|move|make|write)\b",
    re.IGNORECASE,
)
_LOOSE_PLACE = re.compile(r"\b(?:on|in|into|to|at|near|next|beside|behind|under|over|between|inside)\b", re.IGNORECASE)
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _strip_wrapping(instruction: str) -> str:
    """The instruction without brackets, surrounding blanks, one pair of double quotes and full stops."""
    sentence = instruction.replace("[", "").replace("]", "").strip()
    while True:
        before = sentence
        sentence = sentence.rstrip(".。!").strip()
        if len(sentence) > 1 and sentence[0] in '"“' and sentence[-1] in '"”':
            sentence = sentence[1:-1].strip()
        if sentence == before:
            return sentence


def _name(slot: str | None) -> str:
    """A slot without its article; empty if it contains more than one request."""
    if slot is None or _TWO_REQUESTS.search(slot):
        return ""
    return _ARTICLE.sub("", slot.strip(), count=1) if _ARTICLE.match(slot.strip()) else slot.strip()


def _position(match: re.Match[str]) -> Position:
    return cast(Position, (match["side"] or match["level"]).lower())


# -- one parser per form -----------------------------------------------------------------------------------------------


def _text(sentence: str) -> Task | None:
    match = _ADD_TEXT.fullmatch(sentence) or _REPLACE_TEXT.fullmatch(sentence)
    if not match or not match["text"].strip() or (match["object"] and not _name(match["object"])):
        return None
    old = match.groupdict().get("old")
    return Task("text_change", text=match["text"].strip(), object=_name(match["object"]) or None, old=old)


def _background(sentence: str) -> Task | None:
    match = _BACKGROUND.fullmatch(sentence)
    value = _name(match["value"]) if match else ""
    if not match or not value:
        return None
    items = [item.strip() for item in (match["keep"] or "").split(",")]
    keep = [_name(item.removeprefix("and ")) for item in items if item]
    return Task("background_change", value=value, keep=tuple(keep)) if all(keep) else None


def _add(sentence: str) -> Task | None:
    match = _ADD_AT.fullmatch(sentence)
    if match:
        new, reference = _name(match["new"]), _name(match["reference"])
        if not (new and reference):
            return None
        return Task("subject_add", new=new, position=_position(match), reference=reference)
    match = _ADD.fullmatch(sentence)
    new = _name(match["new"]) if match else ""
    # "a cat on the sofa" has a place that is none of the four positions, and must not be dropped.
    return Task("subject_add", new=new) if new and not _LOOSE_PLACE.search(new) and not _is_text(new) else None


def _remove(sentence: str) -> Task | None:
    match = _REMOVE.fullmatch(sentence)
    name = _name(match["object"]) if match else ""
    return Task("subject_remove", object=name) if name else None


def _replace(sentence: str) -> Task | None:
    match = _REPLACE.fullmatch(sentence)
    if not match:
        return None
    name, new = _name(match["object"]), _name(match["new"])
    if not (name and new) or _is_text(name) or re.search(r"\swith\s", new, re.IGNORECASE):
        return None  # with two "with" it is ambiguous
    return Task("subject_replace", object=name, new=new)


def _is_text(name: str) -> bool:
    """Whether it begins like a text change without quotes: `Replace the text X with Y`."""
    return bool(re.match(r"(?:text|words?)\s", name, re.IGNORECASE))


def _move(sentence: str) -> Task | None:
    match = _MOVE.fullmatch(sentence)
    if not match:
        return None
    name, reference = _name(match["object"]), _name(match["reference"])
    if not (name and reference):
        return None
    return Task("position_change", object=name, position=_position(match), reference=reference)


def _count(sentence: str) -> Task | None:
    match = _COUNT.fullmatch(sentence)
    if not match or not (name := _name(match["object"])):
        return None
    word = match["count"].lower()
    if not word.isdecimal() and word not in _NUMBERS:
        return None
    return Task("count_change", object=name, count=int(word) if word.isdecimal() else _NUMBERS.index(word))


def _attribute(kind: TaskType, form: re.Pattern[str]) -> Callable[[str], Task | None]:
    def parse(sentence: str) -> Task | None:
        match = form.fullmatch(sentence)
        if not match:
            return None
        name, value = _name(match["object"]), _name(match["value"])
        return Task(kind, object=name, value=value) if name and value else None

    return parse


# Specific forms first: text and background changes are not changes of an object.
_FORMS: Mapping[TaskType, Callable[[str], Task | None]] = MappingProxyType(
    {
        "text_change": _text,
        "background_change": _background,
        "position_change": _move,
        "count_change": _count,
        "color_alter": _attribute("color_alter", _COLOR),
        "material_alter": _attribute("material_alter", _MATERIAL),
        "subject_add": _add,
        "subject_replace": _replace,
        "subject_remove": _remove,
    }
)
