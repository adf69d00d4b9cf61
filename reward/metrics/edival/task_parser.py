"""Parsing of instructions into tasks: the nine forms of EdiVal (Table 2) and common variants.

A sentence that is not clearly one of the nine forms is rejected: the sample then needs a `task`. Slots are kept as
written, in any script; only a leading article of an object or a value is removed. Slots in brackets, as in EdiVal's
`format_instructions`, are what stands between the brackets, whatever it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from ...sample import MAX_INSTRUCTION, POSITIONS, TASK_TYPES, EditSample, Pools, Task, TaskType


def parse_task(instruction: str, *, type: TaskType | None = None) -> Task | None:  # noqa: A002  (the field's name)
    """The task of an instruction, or None if it is none of the nine forms (or not `type`). Wrapping quotes, full stops,
    blanks and case do not matter, nor brackets unless all is a format (`parse_format`). Linear in the length."""
    if type is not None and type not in TASK_TYPES:
        raise ValueError(f"unknown task type {type!r}: expected one of {', '.join(TASK_TYPES)}")
    start, end = _wrapped_range(instruction)
    if "[" in instruction and "\n" not in instruction:
        for kind in TASK_TYPES if type is None else (type,):
            for bracketed in _BRACKETED[kind]:
                if match := bracketed.fullmatch(instruction, start, end):
                    return _bracketed_task(kind, match)
    sentence = _strip_wrapping(instruction)
    if "\n" in sentence:
        return None
    for kind, parse in _FORMS.items():
        if type in (None, kind):
            task = parse(sentence)
            if task is not None:
                return task
    return None


def parse_format(form: str, type: TaskType) -> Task | None:  # noqa: A002  (the field's name)
    """The task in a published format of this type, slots verbatim in brackets, anywhere in `form`; as the released code
    reads it. None if there is none, a slot is invalid, or beyond the length of an instruction."""
    if len(form) > MAX_INSTRUCTION:
        return None
    matches = (bracketed.search(form) for bracketed in _BRACKETED[type])
    match = next(filter(None, matches), None)
    return match and _bracketed_task(type, match)


def task_of(sample: EditSample) -> Task | None:
    """The sample's `task`, or the one parsed from its instruction."""
    return sample.task or parse_task(sample.instruction)


def _brackets(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\[(\w+)\]", r"\\[(?P<\1>[^\\]]+)\\]", pattern))


_BRACKETED: Mapping[TaskType, tuple[re.Pattern[str], ...]] = MappingProxyType(
    {
        "subject_add": (_brackets("Add [new] on the [position] of [reference]"), _brackets("Add [new]")),
        "subject_remove": (_brackets("Remove [object]"),),
        "subject_replace": (_brackets("Replace [object] with [new]"),),
        "position_change": (_brackets("Change the position of [object] to [position] of [reference]"),),
        "count_change": (_brackets("Change the count of [object] to [count]"),),
        "color_alter": (_brackets("Change the color of [object] to [value]"),),
        "material_alter": (_brackets("Change the material of [object] to [value]"),),
        "text_change": (
            _brackets("Replace the text '[old]' on [object] with '[text]'"),
            _brackets("Add text '[text]' on the image"),
        ),
        "background_change": (_brackets("Change the background to [value]"),),
    }
)
"""The formats of each type, that with more slots first."""


def _bracketed_task(kind: TaskType, match: re.Match[str]) -> Task | None:
    slots: dict[str, Any] = match.groupdict()
    if slots.get("position", "left") not in POSITIONS:
        return None
    if "count" in slots:
        digits = slots["count"].strip()
        if not digits.isdecimal() or len(digits) > _MAX_DIGITS:
            return None
        slots["count"] = int(digits)
    return Task(kind, **slots)


# -- patterns of the forms ---------------------------------------------------------------------------------------------
# Each takes linear time on a sentence of one line and without two blanks in a row: after a slot of any length follows
# at most one part of which a bounded number of characters is looked at. `_replaced_text` and `_background` are in code,
# since in their forms several such slots follow each other.

_BLANKS = re.compile("[\\s\u200b\u2060\ufeff]+")
"""White space of any script, and the marks of no width that stand for it."""


_SCENE = r"(?:the\s)?(?:image|picture|photo|photograph|scene)"
_QUOTES_OPEN, _QUOTES_CLOSE = "\"'“”\u2018\u2019«「『", "\"'“”\u2018\u2019»」』"
_OPEN, _CLOSE = f"[{_QUOTES_OPEN}]", f"[{_QUOTES_CLOSE}]"
# "left" and "right" need their "of", or a left shoe would be something at the left of a shoe.
_PLACE = (
    r"(?:(?:on|to|at|towards?)\s)?(?:the\s)?"
    r"(?:(?P<side>left|right)(?:\sside)?\sof|(?P<level>above|below)(?:\sof)?)"
)


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ADD_AT = _form(rf"(?:add|insert)\s(?P<new>.+?)\s{_PLACE}\s(?P<reference>.+)")
_ADD = _form(rf"(?:add|insert)\s(?P<new>.+?)(?:\s(?:to|in|into|on)\s{_SCENE})?")
_REMOVE = _form(rf"(?:remove|delete|erase)\s(?P<object>.+?)(?:\sfrom\s{_SCENE})?")
_REPLACE = _form(r"replace\s(?P<object>.+?)\swith\s(?P<new>.+)")
_MOVE = _form(rf"(?:change\sthe\sposition\sof|move)\s(?P<object>.+?)\s(?:to\s)?{_PLACE}\s(?P<reference>.+)")
_COUNT = _form(r"change\sthe\s(?:count|number)\sof\s(?P<object>.+)\sto\s(?P<count>\w+)")
_COLOR = _form(r"change\sthe\scolou?r\sof\s(?P<object>.+)\s(?:in)?to\s(?P<value>.+)")
_MATERIAL = _form(r"change\sthe\smaterial\sof\s(?P<object>.+)\s(?:in)?to\s(?P<value>.+)")
_ADD_TEXT = _form(
    rf"(?:add|insert|write)\s(?:the\s)?(?:text|words?)\s{_OPEN}(?P<text>.+){_CLOSE}"
    rf"(?:\s(?:on|to|in|into)\s(?:{_SCENE}|(?P<object>.+)))?"
)
_REPLACE_TEXT = _form(r"(?:replace|change)\sthe\stext")
_OLD_TEXT = _form(rf"\s{_OPEN}")
_TEXT_PLACE = _form(rf"\s(?:on|in)\s(?:{_SCENE}(?P<scene>\s(?:with|to)\s{_OPEN}))?")
_NEW_TEXT = _form(rf"\s(?:with|to)\s{_OPEN}")
_BACKGROUND = _form(r"(?:change|replace)\sthe\sbackground\s(?:(?:in)?to|with)\s(?P<value>.+)")
_KEEP = _form(r"\s?,?\s(?:and\s)?(?:remain|keep|make|leave)\s")
_UNCHANGED = _form(r"\sunchanged\Z")

_ARTICLE = _form(r"(?:the|an?)\s")
_TWO_REQUESTS = re.compile(
    r"[.;!?]\s|,|\b(?:and|then)\s(?:add|insert|remove|delete|erase|replace|change|move|make|write)\b", re.IGNORECASE
)
_LOOSE_PLACE = _form(r"\b(?:on|in|into|to|at|near|next|beside|behind|under|over|between|inside)\b")
_WITH = _form(r"\swith\s")
_TEXT_NAME = _form(r"(?:text|words?)\s")
_MAX_DIGITS = 6
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _strip_wrapping(instruction: str) -> str:
    """The instruction with single blanks, without brackets, surrounding blanks, double quotes and full stops."""
    sentence = _BLANKS.sub(
        lambda blanks: "\n" if "\n" in blanks[0] else " ", instruction.replace("[", "").replace("]", "")
    )
    start, end = _wrapped_range(sentence)
    return sentence[start:end]


def _wrapped_range(sentence: str) -> tuple[int, int]:
    """Where the sentence begins and ends inside of surrounding blanks, double quotes and full stops."""
    start, end = 0, len(sentence)
    while True:
        while start < end and (sentence[end - 1].isspace() or sentence[end - 1] in ".。!"):
            end -= 1
        while start < end and sentence[start].isspace():
            start += 1
        if end - start < 2 or sentence[start] not in '"“' or sentence[end - 1] not in '"”':
            return start, end
        start, end = start + 1, end - 1


def _name(slot: str | None) -> str:
    """A slot without its article; empty if it contains more than one request."""
    if slot is None or _TWO_REQUESTS.search(slot):
        return ""
    return _ARTICLE.sub("", slot.strip(), count=1) if _ARTICLE.match(slot.strip()) else slot.strip()


def _text(sentence: str) -> Task | None:
    match = _ADD_TEXT.fullmatch(sentence)
    slots = (match["text"], match["object"], None) if match else _replaced_text(sentence)
    if slots is None:
        return None
    text, place, old = slots
    if not text.strip() or (place and not _name(place)):
        return None
    return Task("text_change", text=text.strip(), object=_name(place) or None, old=old)


def _replaced_text(sentence: str) -> tuple[str, str | None, str | None] | None:
    """New text, object and old text (the longest, then the object) of `Replace the text "X" on Y with "Z"`."""
    begin = _REPLACE_TEXT.match(sentence)
    last = len(sentence) - 1
    if begin is None or sentence[last] not in _QUOTES_CLOSE:
        return None
    starts = {match.start(): match.end() for match in _NEW_TEXT.finditer(sentence, begin.end()) if match.end() < last}
    last_start = max(starts, default=0)

    def rest(end: int) -> tuple[str, str | None] | None:
        """New text and object of what follows the old text."""
        place = _TEXT_PLACE.match(sentence, end)
        if place is None:
            return (sentence[starts[end] : last], None) if end in starts else None
        if place["scene"] and place.start("scene") in starts:
            return sentence[place.end() : last], None
        start = place.start() + 4  # " on " and " in "
        return (sentence[starts[last_start] : last], sentence[start:last_start]) if start < last_start else None

    old = _OLD_TEXT.match(sentence, begin.end())
    first = last_start if old is None else old.end()
    for position in range(last_start - 1, first, -1):
        if sentence[position] in _QUOTES_CLOSE and (found := rest(position + 1)):
            return (*found, sentence[first:position])
    found = rest(begin.end())
    return found and (*found, None)


def _background(sentence: str) -> Task | None:
    match = _BACKGROUND.fullmatch(sentence)
    if match is None:
        return None
    value, kept = match["value"], ""
    if unchanged := _UNCHANGED.search(value):
        keep = _KEEP.search(value, 1, unchanged.start())
        if keep is not None and keep.end() < unchanged.start():
            value, kept = value[: keep.start()], value[keep.end() : unchanged.start()]
    value = _name(value)
    items = [item.strip() for item in kept.split(",")]
    names = [_name(item.removeprefix("and ")) for item in items if item]
    return Task("background_change", value=value, keep=tuple(names)) if value and all(names) else None


def _plain_form(kind: TaskType, form: re.Pattern[str], sentence: str) -> Task | None:
    """The task of a form whose slots are names, a place or a count. None if a name or a count is none."""
    match = form.fullmatch(sentence)
    if match is None:
        return None
    texts = match.groupdict()
    slots: dict[str, Any] = {
        slot: _name(text) for slot, text in texts.items() if slot not in ("side", "level", "count")
    }
    if not all(slots.values()):
        return None
    if "side" in texts:
        slots["position"] = (texts["side"] or texts["level"]).lower()
    if "count" in texts:
        word = texts["count"].lower()
        if not (word.isdecimal() and len(word) <= _MAX_DIGITS) and word not in _NUMBERS:
            return None
        slots["count"] = int(word) if word.isdecimal() else _NUMBERS.index(word)
    return Task(kind, **slots)


def _add(sentence: str) -> Task | None:
    if _ADD_AT.fullmatch(sentence):
        return _plain_form("subject_add", _ADD_AT, sentence)
    task = _plain_form("subject_add", _ADD, sentence)
    # "a cat on the sofa" has a place that is none of the four positions, and must not be dropped.
    return None if task is None or _LOOSE_PLACE.search(task.new or "") or _is_text(task.new) else task


def _replace(sentence: str) -> Task | None:
    task = _plain_form("subject_replace", _REPLACE, sentence)
    # With two "with" it is ambiguous.
    return None if task is None or _is_text(task.object) or _WITH.search(task.new or "") else task


def _is_text(name: str | None) -> bool:
    return _TEXT_NAME.match(name or "") is not None


# Specific forms first: text and background changes are not changes of an object.
_FORMS: Mapping[TaskType, Callable[[str], Task | None]] = MappingProxyType(
    {
        "text_change": _text,
        "background_change": _background,
        "position_change": partial(_plain_form, "position_change", _MOVE),
        "count_change": partial(_plain_form, "count_change", _COUNT),
        "color_alter": partial(_plain_form, "color_alter", _COLOR),
        "material_alter": partial(_plain_form, "material_alter", _MATERIAL),
        "subject_add": _add,
        "subject_replace": _replace,
        "subject_remove": partial(_plain_form, "subject_remove", _REMOVE),
    }
)


COLORS = (
    "red", "blue", "green", "yellow", "black", "white", "brown", "gray", "orange", "purple", "pink", "gold", "teal",
)  # fmt: skip
_MATERIALS = (
    "wood", "metal", "plastic", "leather", "cotton", "fabric", "paper", "glass", "ceramic", "stone", "concrete", "fur",
    "silk", "wool", "nylon", "denim", "polyester", "velvet", "rubber", "straw", "brick", "gold", "plush", "chocolate",
    "fondant", "synthetic",
)  # fmt: skip
"""Colours and materials in the published renamings. Beige, tan, cream or knit, skin, cord are not among them."""


def update_pools(pools: Pools, task: Task, *, foreground: Collection[str] | None = None) -> Pools:
    """The pools after one more turn. foreground: the original foreground objects, for changes of the background; by
    default what the instruction keeps. Nothing leaves `all`; a new colour or material is a new name."""
    all_names, available, unchanged = pools.all, pools.available, pools.unchanged
    match task.type:
        case "subject_add":
            all_names, available = _with(all_names, task.new), _with(available, task.new)
        case "subject_remove":
            available, unchanged = _without(available, task.object), _without(unchanged, task.object)
        case "subject_replace":
            all_names = _with(all_names, task.new)
            available = _with(_without(available, task.object), task.new)
            unchanged = _without(unchanged, task.object)
        case "color_alter" | "material_alter":
            new = renamed_object(task)
            all_names = _with(all_names, new)
            available = _with(_without(available, task.object), new)
            unchanged = _without(unchanged, task.object)
        case "position_change":
            # The reference is removed too: the moved object often covers it.
            unchanged = _without(unchanged, task.object, task.reference)
        case "count_change":
            unchanged = _without(unchanged, task.object)
        case "text_change" if task.object is None:
            all_names = _with(all_names, "text")
        case "text_change":
            unchanged = _without(unchanged, task.object)
        case "background_change":
            kept_names = {name.casefold() for name in (task.keep if foreground is None else foreground)}
            available = tuple(name for name in available if name.casefold() in kept_names)
            unchanged = tuple(name for name in unchanged if name.casefold() in kept_names)
    return Pools(all_names, available, unchanged, pools.background and task.type != "background_change")


def renamed_object(task: Task) -> str:
    """The new name after a change of colour or material: the first word with one in it is replaced (a `feathered red
    bird` becomes a `blue red bird`, as published); without any, the new one goes in front."""
    old, new = task.object or "", task.value or ""
    terms = COLORS if task.type == "color_alter" else _MATERIALS
    words = old.split(" ")
    for index, word in enumerate(words):
        if any(name in word.casefold() for name in terms):
            return " ".join((*words[:index], new, *words[index + 1 :]))
    return f"{new} {old}"


def pools_of(sample: EditSample) -> Pools | None:
    """The pools after the sample's turn: its own, or the last known ones updated by the turns since.

    If no turn has pools, they start from the names of the sample's boxes. None without boxes, or if the instruction of
    a turn cannot be parsed.
    """
    turns = sample.turns
    last_known = max((number for number, turn in enumerate(turns) if turn.pools is not None), default=-1)
    names = tuple(sample.boxes or turns[0].boxes)
    pools = turns[last_known].pools if last_known >= 0 else Pools(names, names, names) if names else None
    for turn in turns[last_known + 1 :]:
        task = task_of(turn)
        if pools is None or task is None:
            return None
        pools = update_pools(pools, task)
    return pools


def _with(names: tuple[str, ...], new: str | None) -> tuple[str, ...]:
    if new is None or new.casefold() in {name.casefold() for name in names}:
        return names
    return (*names, new)


def _without(names: tuple[str, ...], *names_removed: str | None) -> tuple[str, ...]:
    removed = {name.casefold() for name in names_removed if name is not None}
    return tuple(name for name in names if name.casefold() not in removed)
