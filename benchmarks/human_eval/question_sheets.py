"""Questions as a spreadsheet with pictures, to be answered without the app, and read back.

A folder holds `questions.csv` and a picture a question: `pictures/0001.png` has source and edits side by side, in the
size that they have. Annotators write into the columns `answer` and `note`. Neither editors nor file names are in it:
the column `question` is a digest by which a row is found again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import PIL.Image
import PIL.ImageDraw

from ...reward import ImageError
from ...reward.atomic_files import atomic_replacement, write_atomically
from ..common.csv_text import csv_text
from ..common.errors import InputError
from ..common.problems import Problems
from ..run.editor_outputs import MissingOutput
from ..suites.human_labels import ANSWERS, LEVEL_KINDS, LabelAnswer, LabelKind
from .annotation_plan import ScheduledQuestion
from .annotation_session import AnnotationError, AnnotationSession, clean_annotator_name
from .label_sheets import ImportedLabels, import_csv, import_jsonl, sheet_rows
from .shown_questions import SIDES, ShownPicture

COLUMNS = (
    *("number", "picture", "instruction", "dimension", "definition", "answers", "answer", "note", "annotator"),
    "question",
)
SHEET_FILE, PICTURE_FOLDER = "questions.csv", "pictures"

_MAX_ANNOTATORS = 100
"""Of a sheet that is read: each has a schedule of all questions."""
_CAPTION_HEIGHT, _GAP = 20, 12  # pixels
_BOXES_TEXT = "x0 y0 x1 y1 of each box, in pixels of the picture; several boxes separated by /; none for no box"
_CORNER = re.compile(r"\d{1,6}(\.\d{1,3})?")


def write_question_sheet(
    session: AnnotationSession, annotator: str, folder: Path, step: Callable[[], None] = lambda: None
) -> tuple[int, Problems[str]]:
    """Write an annotator's unanswered questions; returns how many, and why others are left out.

    folder: empty or new. step: called after each question. Raises `AnnotationError`, `InputError` and OSError.
    """
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
    write_atomically(folder / SHEET_FILE, csv_text([COLUMNS, *rows]))
    return len(rows), problems


def import_labels(session: AnnotationSession, path: Path) -> ImportedLabels:
    """Labels of a label file (JSONL), of its CSV, or of a question sheet of this session; they are not saved.

    Raises `InputError` for what is none of them.
    """
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
