"""Files of visual questions: our JSONL, and two of the paper's sources (section 3.1) in the layout of their release.

V*-Bench: `direct_attributes/` and `relative_position/` with a `.json` beside each picture; the first option is right,
and boxes are corner and size. MME-RealWorld: a JSON list, beside the folders of its pictures; it has no boxes.
Pixel-Reasoner's is a Parquet file with question, answer and pictures; where its wrong options are is documented
nowhere: write its questions as JSONL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .....reward.regular_files import read_text
from .....reward.strict_json import parse_json
from ....common.errors import InputError

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
    """The questions of a JSONL or JSON file, of `questions.jsonl` in a folder, or of a folder of V*-Bench.

    Raises `InputError`.
    """
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
