"""Labels as CSV, for spreadsheets, and read back: one row a label, all fields of the label file.

Columns: kind, dimension, editor, id, editor_2, id_2 (of a pair), label, annotator, time, seconds, swapped, note, phase,
round. Boxes are JSON in one cell.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...reward.plain_text import one_line
from ...reward.regular_files import read_regular
from ...reward.strict_json import parse_json
from ..common.csv_text import csv_text, plain
from ..common.errors import InputError
from ..common.problems import Problems
from ..suites.human_labels import Label, validation_message

COLUMNS = (
    *("kind", "dimension", "editor", "id", "editor_2", "id_2", "label", "annotator", "time", "seconds", "swapped"),
    *("note", "phase", "round"),
)

MAX_SHEET_BYTES = 32 * 2**20
"""Of a sheet that is read: some 100,000 rows."""
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
    `InputError` for what is no such file.
    """
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
    """The fields of a label. Raises ValueError."""
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
