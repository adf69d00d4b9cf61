"""Parses names such as `wood red circle`, instructions, and everyday words for changes of a whole picture.

An instruction is one of EdiVal's forms, several of them, or a composition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ....reward import Box
from ....reward.metrics.edival.task_parser import parse_task
from ....reward.sample import Task
from ..vocabulary import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT

_KINDS = (*SHAPES, SIGN, TEXT)
_SYNONYMS = (
    {"wooden": "wood", "metallic": "metal"}
    | {f"{kind}s": kind for kind in _KINDS}
    | {
        "crosses": "cross",
        "crosse": "cross",
        "cros": "cross",
        "texts": TEXT,
    }
)
_STOP_WORDS = {"a", "an", "the", "new", "this", "that", "of", "made"}
"""Words without a meaning for the look of an object."""

VOCABULARY_HELP = f"it knows {', '.join(_KINDS)}, in {', '.join(COLOURS)}, made of {', '.join(MATERIALS)}"
"""The vocabulary, for messages."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The terms of a name; empty where it has none."""

    kind: str = ""
    colour: str = ""
    material: str = ""


def parse_name(text: str) -> ObjectName | str:
    """The name of an object, or the reason, as a text, why it cannot be parsed: an unknown word, no shape, or two terms
    of one category.
    """
    terms: dict[str, str] = {}
    for word in _words(text):
        category = _term_category(word)
        if category is None:
            return f"{word!r} in {text!r} means nothing to it: {VOCABULARY_HELP}"
        if terms.setdefault(category, word) != word:
            return f"{text!r} says both {terms[category]!r} and {word!r}: ask for one"
    if "kind" not in terms:
        return f"{text!r} names no thing: {VOCABULARY_HELP}"
    return ObjectName(**terms)


def find_name(sentence: str) -> ObjectName | str:
    """The one object that a sentence names: its last shape, with the colours and materials right before it.

    The reason, as a text, where it names none or different ones.
    """
    distinct = list(dict.fromkeys(find_names(sentence)))
    if not distinct:
        return f"{sentence!r} names no thing: {VOCABULARY_HELP}"
    if len(distinct) > 1:
        return f"{sentence!r} speaks of {len(distinct)} things: ask for one"
    return distinct[0]


def find_names(sentence: str) -> list[ObjectName]:
    """All objects that a sentence names, in order: each shape with the colours and materials right before it."""
    names: list[ObjectName] = []
    terms: dict[str, str] = {}
    for word in _words(sentence, keep_all=True):
        category = _term_category(word)
        if category is None:
            terms = {} if word not in _STOP_WORDS else terms
            continue
        terms[category] = word
        if category == "kind":
            names.append(ObjectName(**terms))
            terms = {}
    return names


def canonical_term(text: str) -> str:
    """A colour, a material or a backdrop in canonical form; unknown terms stay unchanged."""
    term = text.casefold().strip().rstrip(".")
    return _SYNONYMS.get(term, term)


def _words(text: str, *, keep_all: bool = False) -> list[str]:
    plain = "".join(letter if letter.isalnum() else " " for letter in text.casefold())
    words = [_SYNONYMS.get(word, word) for word in plain.split()]
    return words if keep_all else [word for word in words if word not in _STOP_WORDS]


def _term_category(word: str) -> str | None:
    if word in _KINDS:
        return "kind"
    if word in COLOURS:
        return "colour"
    return "material" if word in MATERIALS else None


_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "deblur": r"deblur\w*|unblur\w*|sharp\w*|(?:remove|reduce|fix|undo|get rid of)\b.*\bblur\w*|in focus",
        "blur": r"blur\w*|out of focus",
        "sepia": r"sepia",
        "black and white": r"black[ -]and[ -]white|gr[ae]yscale|monochrome",
        "pixel art": r"pixel[ -]?art|pixel(?:ate|ated|s)",
        "pencil drawing": r"pencil (?:drawing|sketch)",
        "snowfall": r"snowfall|snowing|falling snow",
        "fog": r"fog|foggy|mist|misty",
        "red light": r"red light",
        "rain": r"rain|rainy|raining|rainfall|raindrops",
        "night": r"night|nighttime|night-time|nightfall|midnight",
        "upside down": r"upside down|(?:flip|mirror)\w*\b.{0,100}\bvertical\w*",
        "mirror": r"mirror\w*|flip\w*",
    }
)
"""Look -> its words; the first that matches is meant."""
_PATTERNS = tuple((look, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for look, words in _WORDS.items())

_CROP = re.compile(r"\b(?:crop|zoom|trim|cut)\w*\b", re.IGNORECASE)
_HALF = re.compile(r"\b(?P<side>left|right|top|upper|bottom|lower)(?:-hand)? half\b", re.IGNORECASE)
_HALVES: Mapping[str, Box] = MappingProxyType(
    {
        "left": Box(0.25, 0.5, 0.5, 1.0),
        "right": Box(0.75, 0.5, 0.5, 1.0),
        "top": Box(0.5, 0.25, 1.0, 0.5),
        "upper": Box(0.5, 0.25, 1.0, 0.5),
        "bottom": Box(0.5, 0.75, 1.0, 0.5),
        "lower": Box(0.5, 0.75, 1.0, 0.5),
    }
)
_NEVER_DRAWN = re.compile(
    r"\b(?:flags|staircase|balloon|books|flooded|umbrella|bicycle|clock|suitcase|pineapple|violin)\b|covered with sand",
    re.IGNORECASE,
)


def look_of(words: str) -> str | None:
    """The look that words are about, a key of `picture_looks.LOOKS` or `CHANGES`; None for other words."""
    return next((look for look, pattern in _PATTERNS if pattern.search(words)), None)


def crop_of(words: str) -> Box | ObjectName | None:
    """What a request to crop or zoom wants to show: a half of the picture, or an object; None for other requests."""
    if not _CROP.search(words):
        return None
    half = _HALF.search(words)
    if half is not None:
        return _HALVES[half["side"].casefold()]
    name = find_name(words)
    return name if isinstance(name, ObjectName) else None


def is_never_drawn(words: str) -> bool:
    """Whether words ask for things that no picture of SceneEdit shows, such as flags or stairs."""
    return bool(_NEVER_DRAWN.search(words))


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
