"""Spreadsheets: labels as CSV and read back, one row a label with all fields of the label file; sheets of questions.

Columns: kind, dimension, editor, id, editor_2, id_2 (of a pair), label, annotator, time, seconds, swapped, note, phase,
round. Boxes are JSON in one cell.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.ImageDraw
from pydantic import ValidationError

from ...reward import ImageError
from ...reward.atomic_files import atomic_replacement, write_atomically
from ...reward.plain_text import one_line
from ...reward.regular_files import read_regular
from ...reward.strict_json import parse_json
from ..common.csv_text import csv_text, plain
from ..common.errors import InputError
from ..common.problems import Problems
from ..run.editor_outputs import MissingOutput
from ..suites.human_labels import ANSWERS, LEVEL_KINDS, Label, LabelAnswer, LabelKind, validation_message
from .annotation_schedule import ScheduledQuestion
from .annotation_session import AnnotationError, AnnotationSession, clean_annotator_name
from .shown_questions import SIDES, ShownPicture

COLUMNS = (
    *("kind", "dimension", "editor", "id", "editor_2", "id_2", "label", "annotator", "time", "seconds", "swapped"),
    *("note", "phase", "round"),
)

MAX_SHEET_BYTES = 32 * 2**20  # of a sheet that is read: some 100,000 rows
MAX_ROWS = 200_000


@dataclass
class ImportedLabels:
    """What a sheet held. unanswered: rows without a label. problems: a line for each odd row."""

    labels: list[Label] = field(default_factory=list)
    unanswered: int = 0
    problems: Problems[str] = field(default_factory=Problems)

    def add_problem(self, location: str, message: str) -> None:
        """Count an odd row."""
        self.problems.append(one_line(f"{location}: {message}"))

    def add(self, location: str, fields: Callable[[], Any]) -> None:
        """Add the label of a row, or count it as odd. fields: makes them; raises ValueError."""
        try:
            self.labels.append(Label.model_validate(fields()))
        except ValidationError as error:
            self.add_problem(location, validation_message(error))
        except ValueError as error:
            self.add_problem(location, str(error))


def labels_csv(labels: Sequence[Label]) -> str:
    """Labels as CSV that holds no formulas; `import_csv` reads it back."""
    return csv_text([COLUMNS, *map(_row, labels)])


def labels_jsonl(labels: Sequence[Label]) -> str:
    """Labels as the lines of a label file."""
    return "".join(json.dumps(label.to_json(), ensure_ascii=False, allow_nan=False) + "\n" for label in labels)


def import_csv(rows: Sequence[tuple[int, Mapping[str, str]]], name: str) -> ImportedLabels:
    """The labels of rows with `COLUMNS`, as `sheet_rows` reads them; odd rows are problems."""
    imported = ImportedLabels()
    for number, row in rows:
        if row.get("label", "").strip():
            imported.add(f"{name}:{number}", partial(_fields, row))
        else:
            imported.unanswered += 1
    return imported


def import_jsonl(path: Path) -> ImportedLabels:
    """The labels of a label file; odd lines are problems. Raises `InputError`."""
    imported = ImportedLabels()
    lines = _read(path).split(b"\n")
    if len(lines) > MAX_ROWS:
        raise InputError(f"{path.name} has more than {MAX_ROWS:,} lines: import it in parts")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            imported.add(f"{path.name}:{number}", partial(parse_json, line))
    return imported


def sheet_rows(path: Path) -> list[tuple[int, Mapping[str, str]]]:
    """Rows of a CSV file as a spreadsheet saves it, by the names of the first row; with their numbers, from 1.
    Separated by commas, semicolons or tabs; cells without the apostrophe that `csv_text` puts before formulas. Raises
    `InputError` for what is no such file."""
    try:
        text = _read(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8: save it as CSV with UTF-8") from None
    return list(_rows(text, path.name))


def _rows(text: str, name: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        columns = [column.strip() for column in next(reader, [])]
        if len(set(columns)) < len(columns):
            raise InputError(f"{name} has two columns of one name in its first row, which has the names of columns")
        for count, cells in enumerate(reader, start=1):
            if count > MAX_ROWS:
                raise InputError(f"{name} has more than {MAX_ROWS:,} rows: import it in parts")
            if any(cells):
                yield count + 1, dict(zip(columns, map(plain, cells), strict=False))
    except csv.Error as error:
        raise InputError(f"{name}:{reader.line_num}: {error}; nothing was imported") from None


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_SHEET_BYTES)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path.name}: {getattr(error, 'strerror', None) or error}") from None


def _row(label: Label) -> list[object]:
    (editor, name), *second = label.item_keys
    editor_2, name_2 = second[0] if second else ("", "")
    answer = label.label
    return [
        *(label.kind, label.dimension, editor, name, editor_2, name_2),
        json.dumps(answer) if isinstance(answer, tuple) else answer,
        *(label.annotator, label.time.isoformat(), "" if label.seconds is None else label.seconds),
        *("yes" if label.swapped else "", label.note, label.phase, label.round),
    ]


def _fields(row: Mapping[str, str]) -> dict[str, Any]:
    kind, answer = row.get("kind", "").strip(), row["label"].strip()
    fields: dict[str, Any] = {
        name: row[name] for name in ("kind", "dimension", "annotator", "time", "note") if row.get(name)
    }
    fields |= {name: row[name].strip() for name in ("phase", "round", "seconds") if row.get(name, "").strip()}
    match kind:
        case "boxes":
            fields["label"] = parse_json(answer)
        case "four-level" | "stars":
            fields["label"] = int(answer) if answer.isascii() and answer.isdigit() and len(answer) < 5 else answer
        case _:
            fields["label"] = answer
    swapped = row.get("swapped", "").strip().lower()
    if swapped not in ("", "yes", "no", "true", "false"):
        raise ValueError(f"swapped is yes or empty, got {swapped!r:.100}")
    fields["swapped"] = swapped in ("yes", "true")
    editor, name = row.get("editor", ""), row.get("id", "")
    if kind == "pair":
        editors = (editor, row.get("editor_2", ""))
        fields |= {"id": (name, row.get("id_2", "")), "editor": editors if any(editors) else ""}
    else:
        fields |= {"id": name, "editor": editor}
    return fields


SHEET_COLUMNS = (
    *("number", "picture", "instruction", "dimension", "definition", "answers", "answer", "note", "annotator"),
    "question",
)
SHEET_FILE, PICTURE_FOLDER = "questions.csv", "pictures"

_MAX_ANNOTATORS = 100  # of a sheet that is read: each has a schedule of all questions
_CAPTION_HEIGHT, _GAP = 20, 12  # pixels
_BOXES_TEXT = "x0 y0 x1 y1 of each box, in pixels of the picture; several boxes separated by /; none for no box"
_CORNER = re.compile(r"\d{1,6}(\.\d{1,3})?")


def write_question_sheet(
    session: AnnotationSession, annotator: str, folder: Path, step: Callable[[], None] = lambda: None
) -> tuple[int, Problems[str]]:
    """Write an annotator's unanswered questions; returns how many, and why others are left out. folder: empty or new.
    step: called after each question. Raises `AnnotationError`, `InputError` and OSError."""
    annotator = clean_annotator_name(annotator)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already: give a new folder, or read its answers back with --import")
    pictures = folder / PICTURE_FOLDER
    pictures.mkdir(parents=True)
    rows: list[list[object]] = []
    problems: Problems[str] = Problems()
    for number, scheduled in enumerate(session.schedule(annotator)):
        try:
            shown = session.shown(annotator, number)
        except (MissingOutput, ImageError) as error:
            problems.append(str(error))
            continue
        if shown.revision == 0:
            name = f"{len(rows) + 1:04}.png"
            with atomic_replacement(pictures / name) as temporary:
                side_by_side(shown.pictures, has_captions=shown.question_type.kind != "boxes").save(temporary, "PNG")
            rows.append(
                [
                    *(len(rows) + 1, f"{PICTURE_FOLDER}/{name}", shown.instruction),
                    *(shown.question_type.dimension, shown.definition, _answers_text(shown.question_type.kind)),
                    *("", "", annotator, _digest(annotator, scheduled)),
                ]
            )
        step()
    write_atomically(folder / SHEET_FILE, csv_text([SHEET_COLUMNS, *rows]))
    return len(rows), problems


def import_labels(session: AnnotationSession, path: Path) -> ImportedLabels:
    """Labels of a label file (JSONL), of its CSV, or of a question sheet of this session; they are not saved. Raises
    `InputError` for what is none of them."""
    if path.suffix.lower() == ".jsonl":
        return import_jsonl(path)
    rows = sheet_rows(path)
    names = set(rows[0][1]) if rows else set()
    if {"question", "answer"} <= names:
        return _import_answers(session, rows, path.name)
    if {"kind", "label"} <= names:
        return import_csv(rows, path.name)
    raise InputError(
        f"{path.name} is neither a question sheet, with the columns question and answer, nor labels, with kind and "
        f"label: its first row has {', '.join(sorted(names)) or 'no names'!s:.200}"
    )


def side_by_side(pictures: Sequence[ShownPicture], *, has_captions: bool = True) -> PIL.Image.Image:
    """Pictures in a row in their own size, each below its role. Raises `ImageError`."""
    images = [picture.image.pil().convert("RGB") for picture in pictures]
    if not has_captions and len(images) == 1:
        return images[0]
    width = sum(image.width for image in images) + _GAP * (len(images) - 1)
    sheet = PIL.Image.new("RGB", (width, max(image.height for image in images) + _CAPTION_HEIGHT), "white")
    draw, left = PIL.ImageDraw.Draw(sheet), 0
    for picture, image in zip(pictures, images, strict=True):
        draw.text((left + 2, 3), picture.role, fill="black")
        sheet.paste(image, (left, _CAPTION_HEIGHT))
        left += image.width + _GAP
    return sheet


def _import_answers(
    session: AnnotationSession, rows: Sequence[tuple[int, Mapping[str, str]]], name: str
) -> ImportedLabels:
    imported = ImportedLabels()
    schedules: dict[str, Mapping[str, ScheduledQuestion]] = {}
    for number, row in rows:
        answer = row.get("answer", "").strip()
        if not answer:
            imported.unanswered += 1
            continue
        try:
            annotator = clean_annotator_name(row.get("annotator", ""))
            if annotator not in schedules:
                if len(schedules) == _MAX_ANNOTATORS:
                    raise AnnotationError(f"the sheet has more than {_MAX_ANNOTATORS} annotators: import it in parts")
                schedules[annotator] = {_digest(annotator, one): one for one in session.schedule(annotator)}
            scheduled = schedules[annotator].get(row.get("question", "").strip())
            if scheduled is None:
                raise AnnotationError(
                    "this question is not asked here: import the sheet with the outputs, questions and options that it "
                    "was written with"
                )
            value = _parsed_answer(answer, scheduled.question.question_type.kind)
            imported.labels.append(session.make_label(annotator, scheduled, value, row.get("note", "")))
        except AnnotationError as error:
            imported.add_problem(f"{name}:{number}", str(error))
    return imported


def _answers_text(kind: LabelKind) -> str:
    if kind == "boxes":
        return _BOXES_TEXT
    answers = (SIDES[0], "tie", SIDES[1]) if kind == "pair" else ANSWERS[kind][::-1]
    return ", ".join(map(str, answers))


def _parsed_answer(text: str, kind: LabelKind) -> LabelAnswer:
    """An answer as `AnnotationSession.submit` takes it. Raises `AnnotationError`."""
    word = text.lower()
    if kind == "boxes":
        return () if word == "none" else tuple(map(_corners, text.split("/")))
    if kind in LEVEL_KINDS and word.removesuffix(".0") in map(str, ANSWERS[kind]):
        return int(word[0])
    if word in (*SIDES, "tie") if kind == "pair" else word in ANSWERS[kind]:
        return word
    raise AnnotationError(f"the answer is {_answers_text(kind)}; got {text!r:.100}")


def _corners(text: str) -> tuple[float, float, float, float]:
    numbers = re.split(r"[\s,;]+", text.strip())
    if len(numbers) != 4 or not all(map(_CORNER.fullmatch, numbers)):
        raise AnnotationError(f"the answer is {_BOXES_TEXT}; got {text!r:.100}")
    x0, y0, x1, y1 = map(float, numbers)
    return x0, y0, x1, y1


def _digest(annotator: str, scheduled: ScheduledQuestion) -> str:
    """Finds a question again. A letter in front keeps spreadsheets from taking it for a number."""
    question = scheduled.question
    parts = (
        *(annotator, question.question_type.kind, question.question_type.dimension, question.item_keys),
        *(scheduled.phase, scheduled.swapped, scheduled.round),
    )
    return "q" + hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
