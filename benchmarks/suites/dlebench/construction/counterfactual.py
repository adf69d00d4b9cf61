"""DLEBench, step 1: a question about a small object becomes an edit that makes a wrong answer true.

Paper: section 3.1 (counterfactual synthesis), table 15.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from ...reward import Asks, Box
from ...reward.prompts import Prompts
from ...reward.reading import short
from ..inputs import InputError
from ..suites.dlebench.reading import boxes_of
from .asking import Notes, Rejected, insist
from .given import PROMPTS, opened
from .words import fields, sentence

STAGE = "dlebench/counterfactual"
TEMPERATURE = 0.7
"""The paper gives none."""

TYPES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "location": ("remove_object", "Removal Object"),
        "color": ("alter_color", "Change Color"),
        "material": ("alter_material", "Change Material"),
        "count": ("add_object", "Change Count"),
        "shape": ("alter_shape", "Change Shape"),
        "object": ("replace_object", "Replace Object"),
        "ocr": ("alter_text", "Change OCR"),
    }
)
"""Type of a question -> operation, and what the data set calls its edits."""

_SAME = MappingProxyType({"text_flip": "alter_text"})  # table 15 has both
_FIELDS = ("q_type", "prompt_clean", "prompt_adv", "edit_ops", "edit_instruction", "modified_object")
_TEXT = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1}]}
_SCHEMA = json.dumps({"type": "object", "properties": dict.fromkeys(_FIELDS, _TEXT), "required": list(_FIELDS)})
_SPELLINGS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "id": ("id", "sample_id", "question_id", "index"),
        "image": ("image", "image_path", "input_image"),
        "question": ("question", "query", "text"),
        "options": ("options", "choices", "answer_options"),
        "answer": ("answer", "ground_truth", "correct_answer"),
        "boxes": ("boxes", "bbox", "bboxes", "box", "target_boxes"),
    }
)


@dataclass(frozen=True, slots=True)
class Question:
    """A visual question whose targets somebody has drawn boxes around. options: all, the right one among them."""

    id: str
    image: Path
    text: str
    options: tuple[str, ...]
    answer: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is edited, and what is true of the picture before and after it. type: of the published data."""

    type: str
    clean: str
    adverse: str
    operation: str
    instruction: str
    object: str
    wrong: str


def read_questions(path: Path) -> Iterator[Question | tuple[str, str]]:
    """The questions of a JSONL file (or of `questions.jsonl` in a folder); the id and the problem of a bad line.

    Fields: `image` (a path beside the file), `question`, `options` (a list, or letter -> text), `answer` (a text or a
    letter), `boxes` (pixel corners of each target) and `id`; other usual spellings are understood. Raises `InputError`.
    """
    path = path / "questions.jsonl" if path.is_dir() else path
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}): give a JSONL file of questions, or a folder with it"
        ) from None
    if not any(line.strip() for line in lines):
        raise InputError(f"{path} holds no questions: one JSON object a line is expected")
    seen: set[str] = set()
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        name = f"{number:04}"
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("one JSON object a line is expected")
            name = re.sub(r"[^\w.-]", "_", str(_of(row, "id") or name))
            if name in seen:
                raise ValueError(f"the id {name} is that of another line too")
            seen.add(name)
            yield _question(row, name, path.parent)
        except (ValueError, InputError) as error:
            yield name, f"{path.name}:{number + 1}: {error}"


def _question(row: Mapping[str, Any], name: str, folder: Path) -> Question:
    missing = [field for field in ("image", "question", "options", "answer", "boxes") if not _of(row, field)]
    if missing:
        said = "; ".join(f"{field} (accepted: {', '.join(_SPELLINGS[field])})" for field in missing)
        hint = ": draw them with `editcritic bench label`" if "boxes" in missing else ""
        raise ValueError(f"lacks {said}{hint}")
    image = folder / str(_of(row, "image"))
    given = _of(row, "options")
    labelled = dict(given) if isinstance(given, Mapping) else _labelled(given)
    answer = str(_of(row, "answer")).strip()
    options = {key: _bare(str(text)) for key, text in labelled.items()}
    letter = re.fullmatch(r"\(?([A-Za-z])\)?[.:]?", answer)
    right = options.get(letter[1].upper()) if letter else None
    right = right or next((text for text in options.values() if text.casefold() == _bare(answer).casefold()), None)
    if right is None:
        raise ValueError(f"the answer {answer!r} is none of its options {list(options.values())}")
    boxes = boxes_of(_of(row, "boxes"), opened(image).size)
    return Question(name, image, str(_of(row, "question")).strip(), tuple(options.values()), right, boxes)


def _of(row: Mapping[str, Any], field: str) -> Any:
    return next((row[name] for name in _SPELLINGS[field] if row.get(name) not in (None, "", [], {})), None)


def _labelled(given: Any) -> dict[str, str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"options are a list of texts or letter -> text, got {given!r}")
    return {chr(ord("A") + place): str(one) for place, one in enumerate(given)}


def _bare(option: str) -> str:
    """Without its letter, as in `(A) red` or `A. red`, and without a full stop behind it."""
    return re.sub(r"\A\s*(?:\([A-Za-z]\)|[A-Za-z][.):])\s+", "", option).strip().rstrip(".")


def program(question: Question, prompts: Prompts = PROMPTS, seed: int = 0) -> Callable[[Notes], Asks[Metadata]]:
    """What makes the metadata of an edit: a wrong option is drawn, and the judge says what would make it true."""

    def run(notes: Notes) -> Asks[Metadata]:
        others = [option for option in question.options if option.casefold() != question.answer.casefold()]
        if not others:
            raise Rejected("there is no wrong option to be made true")
        wrong = Random(f"{seed} {question.id} {question.text}").choice(others)
        words = prompts.render(
            "dlebench_counterfactual",
            question=question.text,
            options="; ".join(question.options),
            answer=question.answer,
            wrong=wrong,
        )
        slots = {"question": question.text, "answer": question.answer, "wrong": wrong}
        return (
            yield from insist(
                notes,
                STAGE,
                words,
                None,  # the paper's prompt has the question alone
                lambda said: metadata(said, wrong),
                temperature=TEMPERATURE,
                max_tokens=512,
                slots=slots,
            )
        )

    return run


def metadata(said: str, wrong: str) -> Metadata:
    """What a judge said of a question. Raises ValueError for what breaks a rule of table 15."""
    row = {key: _plain(value) for key, value in fields(_SCHEMA, said).items() if key in _FIELDS}
    kind = row["q_type"].casefold()
    if kind not in TYPES:
        raise ValueError(f"the type {row['q_type']!r} is none of {', '.join(TYPES)}")
    operation, type_ = TYPES[kind]
    asked = _SAME.get(row["edit_ops"], row["edit_ops"])
    if asked != operation:
        raise ValueError(f"a question of type {kind} takes {operation}, got {row['edit_ops']!r}")
    clean, adverse, told = (sentence(row[key]) for key in ("prompt_clean", "prompt_adv", "edit_instruction"))
    thing = row["modified_object"]
    if not thing:
        raise ValueError("it names no object")
    for caption in (clean, adverse):
        if thing.casefold() not in caption.casefold():
            raise ValueError(f"the caption {short(caption)} lacks the words for the object, {thing!r}")
    if clean.casefold() == adverse.casefold():
        raise ValueError("both captions say the same")
    if not _words(thing) & _words(told):
        raise ValueError(f"the instruction does not name {thing!r}: {short(told)}")
    removes = bool(re.match(r"remov|delet|eras", told, re.IGNORECASE))
    if removes != (kind == "location"):
        raise ValueError(f"only questions of location remove the object, and this is one of {kind}: {short(told)}")
    if kind == "location":
        if not re.search(r"\b(?:no|not|absent|without|none|missing)\b|n't\b", adverse, re.IGNORECASE):
            raise ValueError(f"the second caption does not say that the object is gone: {short(adverse)}")
    else:
        if clean.split()[0].casefold() != adverse.split()[0].casefold():
            raise ValueError(f"the captions are not built alike: {short(clean)} and {short(adverse)}")
        if _words(wrong) and not _words(wrong) & _words(told):
            raise ValueError(f"the instruction does not say what changes to {wrong!r}: {short(told)}")
    return Metadata(type_, clean, adverse, operation, told, thing, wrong)


def _plain(value: str | list[str]) -> str:
    return " ".join((value[0] if isinstance(value, list) else value).split())


_SMALL = frozenset({"the", "a", "an", "of", "in", "on", "at", "is", "are", "it", "its", "to", "and", "with", "from"})


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold())) - _SMALL
