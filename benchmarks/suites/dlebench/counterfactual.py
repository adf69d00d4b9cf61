"""DLEBench, step 1: a question about a small object becomes an edit that makes a wrong answer true. Questions are read
as V*-Bench and MME-RealWorld publish them, or as JSONL. Paper: section 3.1 (counterfactual synthesis), table 15."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ....reward import Box, Program
from ....reward.queries.parsing import shorten
from ....reward.queries.prompts import Prompts
from ....reward.regular_files import read_text
from ....reward.strict_json import parse_json
from ...common.errors import InputError
from ..construction.reply_rules import object_schema, parse_fields, parse_sentence
from ..construction.workspace import PROMPTS, ConstructionRejected, RejectionLog, ask_until_valid, open_image
from ..human_labels import read_labels
from ..rows import Aliases, field, lacking
from .reader import parse_boxes

VSTAR_FOLDERS = ("direct_attributes", "relative_position")
_NONE_OF_THEM = re.compile(r"image (?:does not|doesn't) feature|above answers? (?:is|are) wrong", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """where: file and line. name: its default id. folder: that pictures are in. read: its fields; raises ValueError."""

    where: str
    name: str
    folder: Path
    read: Callable[[], Any]


def question_rows(path: Path) -> Iterator[QuestionRow]:
    """The questions of a JSONL or JSON file, of `questions.jsonl` in a folder, or of a folder of V*-Bench. Raises
    `InputError`."""
    if path.is_dir() and any((path / name).is_dir() for name in VSTAR_FOLDERS):
        for name in VSTAR_FOLDERS:
            for file in sorted((path / name).glob("*.json")):
                yield QuestionRow(f"{name}/{file.name}", f"{name}_{file.stem}", path, partial(_vstar_row, file))
        return
    path = path / "questions.jsonl" if path.is_dir() else path
    try:
        text = read_text(path, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}): give a JSONL file of questions, or a folder with it"
        ) from None
    if path.suffix.lower() == ".json":
        try:
            rows = parse_json(text)
        except ValueError as error:
            raise InputError(f"{path} is not JSON: {error}") from None
        if not isinstance(rows, list) or not rows:
            raise InputError(f"{path} is a JSON file without a list of questions")
        for number, row in enumerate(rows):
            yield QuestionRow(
                f"{path.name}, entry {number + 1}", f"{number:04}", path.parent, partial(_listed_row, row)
            )
        return
    lines = text.split("\n")
    if not any(line.strip() for line in lines):
        raise InputError(f"{path} contains no questions: one JSON object per line is expected")
    for number, line in enumerate(lines):
        if line.strip():
            yield QuestionRow(f"{path.name}:{number + 1}", f"{number:04}", path.parent, partial(parse_json, line))


def _vstar_row(file: Path) -> dict[str, Any]:
    row = parse_json(read_text(file, encoding="utf-8-sig"))
    pictures = [other for other in sorted(file.parent.glob(f"{file.stem}.*")) if other.suffix.lower() != ".json"]
    if not pictures:
        raise ValueError("no picture of this name lies beside it")
    if not isinstance(row, Mapping) or not isinstance(row.get("options"), list) or not row["options"]:
        raise ValueError("a question with its options is expected")
    boxes = [[x, y, x + width, y + height] for x, y, width, height in row.get("bbox", ())]
    image = f"{file.parent.name}/{pictures[0].name}"
    return {**row, "bbox": boxes, "image": image, "answer": str(row["options"][0])}


def _listed_row(row: Any) -> Any:
    """Without the option that no edit makes true: that the picture has no answer."""
    if not isinstance(row, Mapping) or not isinstance(row.get("Answer choices"), list):
        return row
    return {**row, "Answer choices": [one for one in row["Answer choices"] if not _NONE_OF_THEM.search(str(one))]}


STAGE = "dlebench/counterfactual"
TEMPERATURE = 0.7
"""Not specified in the paper."""

TYPES: Mapping[str, tuple[str, str]] = {
    "location": ("remove_object", "Removal Object"),
    "color": ("alter_color", "Change Color"),
    "material": ("alter_material", "Change Material"),
    "count": ("add_object", "Change Count"),
    "shape": ("alter_shape", "Change Shape"),
    "object": ("replace_object", "Replace Object"),
    "ocr": ("alter_text", "Change OCR"),
}
"""Type of a question -> operation, and what the data set calls its edits."""

_TYPE_ALIASES = {"text_flip": "alter_text"}  # table 15 has both
_FIELDS = ("q_type", "prompt_clean", "prompt_adv", "edit_ops", "edit_instruction", "modified_object")
_TEXT = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1}]}
_SCHEMA = object_schema(**dict.fromkeys(_FIELDS, _TEXT))
_FIELD_ALIASES: Aliases = {
    "id": ("id", "sample_id", "question_id", "index", "Question_id"),
    "image": ("image", "image_path", "input_image", "Image"),
    "question": ("question", "query", "text", "Text"),
    "options": ("options", "choices", "answer_options", "Answer choices"),
    "answer": ("answer", "ground_truth", "correct_answer", "Ground truth"),
    "boxes": ("boxes", "bbox", "bboxes", "box", "target_boxes"),
}


@dataclass(frozen=True, slots=True)
class VisualQuestion:
    """A visual question with boxes of its targets. options: all options, including the correct one."""

    id: str
    image: Path
    text: str
    options: tuple[str, ...]
    answer: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class CounterfactualEdit:
    """An edit, with captions before and after it. type: of the published data."""

    type: str
    clean: str
    adverse: str
    operation: str
    instruction: str
    object: str
    wrong: str


def read_questions(
    path: Path, boxes: Mapping[str, Sequence[Sequence[float]]] | None = None
) -> Iterator[VisualQuestion | tuple[str, str]]:
    """The questions of a file or folder, see `question_rows`; id and problem of an invalid one.

    boxes: of questions without their own, by id, in pixels: see `labelled_boxes`. Fields: `image` (a path beside
    the file), `question`, `options` (a list, or letter -> text), `answer` (a text or a letter), `boxes` (pixel corners
    of each target) and `id`; common aliases are accepted. Raises `InputError`.
    """
    ids: set[str] = set()
    for question in question_rows(path):
        name = question.name
        try:
            row = question.read()
            if not isinstance(row, dict):
                raise ValueError("one JSON object per question is expected")
            name = re.sub(r"[^\w.-]", "_", str(field(row, "id", _FIELD_ALIASES) or name))
            if name in ids:
                raise ValueError(f"another line has the same id {name}")
            ids.add(name)
            yield _question(row, name, question.folder, boxes or {})
        except (ValueError, TypeError, OSError, InputError) as error:
            yield name, f"{question.where}: {error}"


def labelled_boxes(labels: Sequence[Path]) -> dict[str, Sequence[Sequence[float]]]:
    """Boxes that people have drawn (`judge label`, kind `boxes`), by id; of several labels the last one. Raises
    `InputError`."""
    found: dict[str, Sequence[Sequence[float]]] = {}
    for label in read_labels(labels):
        if label.kind == "boxes" and label.phase != "trial" and isinstance(label.id, str):
            assert isinstance(label.label, tuple)
            found[label.id] = label.label
    return found


def _question(
    row: Mapping[str, Any], name: str, folder: Path, drawn: Mapping[str, Sequence[Sequence[float]]]
) -> VisualQuestion:
    if not field(row, "boxes", _FIELD_ALIASES) and drawn.get(name):
        row = {**row, "boxes": [list(corners) for corners in drawn[name]]}
    required = ("image", "question", "options", "answer", "boxes")
    if missing := [name for name in required if not field(row, name, _FIELD_ALIASES)]:
        hint = ": draw them with `editcritic judge label` and give its file as --labels" if "boxes" in missing else ""
        raise ValueError(f"{lacking(missing, _FIELD_ALIASES)}{hint}")
    image = folder / str(field(row, "image", _FIELD_ALIASES))
    raw_options = field(row, "options", _FIELD_ALIASES)
    option_by_letter = dict(raw_options) if isinstance(raw_options, Mapping) else _lettered_options(raw_options)
    answer = str(field(row, "answer", _FIELD_ALIASES)).strip()
    options = {key: _strip_option_letter(str(text)) for key, text in option_by_letter.items()}
    letter = re.fullmatch(r"\(?([A-Za-z])\)?[.:]?", answer)
    right = options.get(letter[1].upper()) if letter else None
    right = right or next(
        (text for text in options.values() if text.casefold() == _strip_option_letter(answer).casefold()), None
    )
    if right is None:
        raise ValueError(f"the answer {answer!r} is none of its options {list(options.values())}")
    boxes = parse_boxes(field(row, "boxes", _FIELD_ALIASES), open_image(image, inside=folder).size)
    return VisualQuestion(
        name, image, str(field(row, "question", _FIELD_ALIASES)).strip(), tuple(options.values()), right, boxes
    )


def _lettered_options(options: Any) -> dict[str, str]:
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise ValueError(f"options are a list of texts or letter -> text, got {options!r}")
    return {chr(ord("A") + number): str(option) for number, option in enumerate(options)}


def _strip_option_letter(option: str) -> str:
    """An option without its letter, as in `(A) red` or `A. red`, and without a final full stop."""
    return re.sub(r"\A\s*(?:\([A-Za-z]\)|[A-Za-z][.):])\s+", "", option).strip().rstrip(".")


def counterfactual_program(
    question: VisualQuestion, prompts: Prompts = PROMPTS, seed: int = 0
) -> Callable[[RejectionLog], Program[CounterfactualEdit]]:
    """The program for the metadata of an edit: sample a wrong option; the judge writes the edit that makes it true."""

    def run(notes: RejectionLog) -> Program[CounterfactualEdit]:
        others = [option for option in question.options if option.casefold() != question.answer.casefold()]
        if not others:
            raise ConstructionRejected("there is no wrong option")
        wrong = Random(f"{seed} {question.id} {question.text}").choice(others)
        slots = {"question": question.text, "answer": question.answer, "wrong": wrong}
        prompt = prompts.render("dlebench_counterfactual", **slots, options="; ".join(question.options))
        parse = partial(parse_counterfactual, wrong=wrong)
        options: dict[str, Any] = {"temperature": TEMPERATURE, "max_tokens": 512, "slots": slots}
        # The paper's prompt has no image.
        return (yield from ask_until_valid(notes, STAGE, prompt, None, parse, **options))

    return run


def parse_counterfactual(reply: str, wrong: str) -> CounterfactualEdit:
    """Parse a judge's reply. Raises ValueError if it violates a rule of table 15."""
    row = {key: _plain(value) for key, value in parse_fields(_SCHEMA, reply).items() if key in _FIELDS}
    question_type = row["q_type"].casefold()
    if question_type not in TYPES:
        raise ValueError(f"the type {row['q_type']!r} is none of {', '.join(TYPES)}")
    operation, type_ = TYPES[question_type]
    reply_operation = _TYPE_ALIASES.get(row["edit_ops"], row["edit_ops"])
    if reply_operation != operation:
        raise ValueError(f"a question of type {question_type} requires {operation}, got {row['edit_ops']!r}")
    clean, adverse, instruction = (
        parse_sentence(row[key]) for key in ("prompt_clean", "prompt_adv", "edit_instruction")
    )
    modified_object = row["modified_object"]
    if not modified_object:
        raise ValueError("it names no object")
    for caption in (clean, adverse):
        if modified_object.casefold() not in caption.casefold():
            raise ValueError(f"the caption {shorten(caption)} lacks the words for the object, {modified_object!r}")
    if clean.casefold() == adverse.casefold():
        raise ValueError("both captions are equal")
    if not _content_words(modified_object) & _content_words(instruction):
        raise ValueError(f"the instruction does not name {modified_object!r}: {shorten(instruction)}")
    removes = bool(re.match(r"remov|delet|eras", instruction, re.IGNORECASE))
    if removes != (question_type == "location"):
        raise ValueError(
            f"only questions of location remove the object, and this is one of {question_type}: {shorten(instruction)}"
        )
    if question_type == "location":
        if not re.search(r"\b(?:no|not|absent|without|none|missing)\b|n't\b", adverse, re.IGNORECASE):
            raise ValueError(f"the second caption does not say that the object is gone: {shorten(adverse)}")
    else:
        if clean.split()[0].casefold() != adverse.split()[0].casefold():
            raise ValueError(f"the captions differ in structure: {shorten(clean)} and {shorten(adverse)}")
        if _content_words(wrong) and not _content_words(wrong) & _content_words(instruction):
            raise ValueError(f"the instruction does not say what changes to {wrong!r}: {shorten(instruction)}")
    return CounterfactualEdit(type_, clean, adverse, operation, instruction, modified_object, wrong)


def _plain(value: str | list[str]) -> str:
    return " ".join((value[0] if isinstance(value, list) else value).split())


_STOP_WORDS = frozenset(
    {"the", "a", "an", "of", "in", "on", "at", "is", "are", "it", "its", "to", "and", "with", "from"}
)


def _content_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold())) - _STOP_WORDS
