"""Human labels: a JSONL file, one judgement per line.

    {"schema": 1, "kind": "yes-no", "id": "12/multipass/2", "editor": "omnigen", "dimension": "following",
     "label": "yes", "annotator": "ann", "time": "2026-03-01T09:30:00+00:00"}
    {"schema": 1, "kind": "pair", "id": ["7/C3", "7/C3"], "editor": ["omnigen", "seededit"], "dimension": "overall",
     "label": "B", "annotator": "ann", "time": "2026-03-01T09:31:12+00:00", "swapped": true}

| field | content |
|---|---|
| `kind` | `pair`, `yes-no`, `four-level`, `stars`, `boxes` or `reference` |
| `id` | of the suite's item; a list of two for a pair |
| `editor` | editor of the image, as named in results; a list of two for a pair; `""` for images of no editor |
| `dimension` | the judged quality, e.g. `following`; `overall` for the overall impression |
| `label` | `A`, `B` or `tie` (A is the first of the two, wherever it was shown); `yes` or `no`; 1 (worst) to 4 or 5; |
| | boxes as lists `x0, y0, x1, y1` in pixels of the source, or none; `accept` or `regenerate` |
| `annotator` | name of the annotator |
| `time` | ISO 8601 |

Optional: `seconds` needed; `swapped`: whether A was shown on the right; `note` of the annotator; `phase`: `main`
(default), `trial` (practice: in no statistic), `recheck` (an unannounced repetition) or `answer` (a gold label);
`round` (1 by default): a repeated round of a dimension has a higher number, and only an annotator's last round of a
dimension counts. Of two lines about the same judgement, the later one counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ...reward.plain_text import one_line
from ...reward.regular_files import MAX_TEXT_BYTES, open_appended, read_regular
from ...reward.strict_json import parse_json
from ..common.errors import InputError

SCHEMA = 1
OVERALL = "overall"

LabelKind = Literal["pair", "yes-no", "four-level", "stars", "boxes", "reference"]
LABEL_KINDS: tuple[LabelKind, ...] = get_args(LabelKind)
Phase = Literal["main", "trial", "recheck", "answer"]

Corners = tuple[float, float, float, float]
LabelAnswer = str | int | tuple[Corners, ...]

ANSWERS: dict[LabelKind, tuple[LabelAnswer, ...]] = {
    "pair": ("A", "tie", "B"),
    "yes-no": ("no", "yes"),
    "four-level": (1, 2, 3, 4),
    "stars": (1, 2, 3, 4, 5),
    "boxes": (),
    "reference": ("regenerate", "accept"),
}
"""Allowed labels of each kind, the lowest first; boxes are drawn instead."""

LEVEL_KINDS: tuple[LabelKind, ...] = ("four-level", "stars")
"""Kinds whose labels are levels, from 1 on."""


def nearest_level(kind: LabelKind, share: float) -> float:
    """The level of a kind that is nearest to a share in [0, 1], as `Label.value`."""
    steps = len(ANSWERS[kind]) - 1
    return round(steps * share) / steps


_MAX_LINE_BYTES = 1 << 20  # bytes of a line

_MAX_BOXES = 256
"""Of a label. Every box is compared with every box of another annotator."""

BoundedName = Annotated[str, Field(max_length=500)]


class Label(BaseModel):
    """One judgement. See the module for the fields; statistics use `item_keys` and `value`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    schema_: int = Field(default=SCHEMA, alias="schema")
    kind: LabelKind
    id: BoundedName | tuple[BoundedName, BoundedName]
    editor: BoundedName | tuple[BoundedName, BoundedName] = ""
    dimension: Annotated[str, Field(min_length=1, max_length=200)]
    label: Annotated[int, Field(strict=True)] | Annotated[str, Field(max_length=20)] | tuple[Corners, ...]
    annotator: Annotated[str, Field(min_length=1, max_length=100)]
    time: datetime
    seconds: float | None = Field(None, ge=0)
    swapped: bool = False
    note: Annotated[str, Field(max_length=2000)] = ""
    phase: Phase = "main"
    round: int = Field(1, ge=1)

    @field_validator("time")
    @classmethod
    def _with_a_zone(cls, time: datetime) -> datetime:
        if time.tzinfo is None:
            raise ValueError("a time without a time zone: end it with Z or e.g. +00:00")
        return time

    @model_validator(mode="after")
    def _check_kind(self) -> Label:
        if self.schema_ != SCHEMA:
            raise ValueError(f"schema {self.schema_} is not {SCHEMA}: written by another version")
        is_pair = self.kind == "pair"
        if is_pair != isinstance(self.id, tuple) or (is_pair != isinstance(self.editor, tuple) and self.editor != ""):
            expected = "two ids and two editors" if is_pair else "one id and one editor"
            raise ValueError(f"a label of kind {self.kind} has {expected}")
        if is_pair and self.item_keys[0] == self.item_keys[1]:
            raise ValueError("a pair of an image with itself: give two ids or two editors")
        if self.kind == "boxes":
            if not isinstance(self.label, tuple):
                raise ValueError("boxes are a list of x0, y0, x1, y1 each")
            if len(self.label) > _MAX_BOXES:
                raise ValueError(f"a label has {len(self.label):,} boxes, more than {_MAX_BOXES:,}")
            for x0, y0, x1, y1 in self.label:
                if not (0 <= x0 < x1 and 0 <= y0 < y1):
                    raise ValueError(f"box {[x0, y0, x1, y1]} is empty or outside: give x0 < x1 and y0 < y1, in pixels")
        elif self.label not in ANSWERS[self.kind]:
            raise ValueError(f"{self.kind} is {', '.join(map(str, ANSWERS[self.kind]))}, got {self.label!r}")
        return self

    @property
    def item_keys(self) -> tuple[tuple[str, str], ...]:
        """The judged images: (editor, id), two of them for a pair."""
        ids = self.id if isinstance(self.id, tuple) else (self.id,)
        editors = self.editor if isinstance(self.editor, tuple) else (self.editor,) * len(ids)
        return tuple(zip(editors, ids, strict=True))

    @property
    def value(self) -> float | None:
        """As a number: 1 for A, -1 for B, 0 for a tie; 1 for yes and accept, 0 for no; levels from 0 to 1."""
        match self.kind:
            case "pair":
                return {"A": 1.0, "tie": 0.0, "B": -1.0}[str(self.label)]
            case "four-level" | "stars":
                return (int(str(self.label)) - 1) / (len(ANSWERS[self.kind]) - 1)
            case "boxes":
                return None
            case _:
                return float(self.label in ("yes", "accept"))

    @property
    def judgement_key(self) -> tuple[object, ...]:
        """Key of the judgement: of labels with equal keys, the last one counts."""
        return (self.annotator, self.kind, self.dimension, frozenset(self.item_keys), self.phase, self.round)

    def to_json(self) -> dict[str, Any]:
        """A line of the file, without default values."""
        fields = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return {"schema": SCHEMA, "editor": self.editor, **fields} if self.editor else {"schema": SCHEMA, **fields}


def read_labels(paths: Iterable[Path]) -> list[Label]:
    """All labels in these files, in order. Raises `InputError` naming an invalid line; OSError. An incomplete last
    line, as left by a crash, is ignored."""
    return [label for path in paths for label in _read(path)]


def _read(path: Path) -> Iterable[Label]:
    text = read_regular(path, MAX_TEXT_BYTES)
    complete, _, rest = text.rpartition(b"\n")
    lines = complete.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _parsed(line, f"{path}:{number}")
    if rest.strip():
        try:
            yield _parsed(rest, f"{path}:{len(lines) + 1}")
        except InputError:
            if b"}" in rest[-2:]:  # a complete line that is invalid, not a truncated one
                raise


def _parsed(line: bytes, location: str) -> Label:
    try:
        return Label.model_validate(parse_json(line))
    except ValidationError as error:
        raise InputError(f"{location} is not a label: {validation_message(error)}") from None
    except ValueError as error:
        raise InputError(f"{location} is not a label: {one_line(str(error))}") from None


def validation_message(error: ValidationError) -> str:
    """The errors in one line."""
    messages = []
    for detail in error.errors():
        location = ".".join(str(part) for part in detail["loc"] if part in Label.model_fields or part == "schema")
        message = detail["msg"].removeprefix("Value error, ")
        messages.append(f"{location}: {message}" if location else message)
    return one_line("; ".join(dict.fromkeys(messages)))


def append_labels(path: Path, labels: Sequence[Label]) -> None:
    """Append labels and flush them to disk; without any, make the file. Raises OSError."""
    lines = [f"{json.dumps(label.to_json(), ensure_ascii=False, allow_nan=False)}\n".encode() for label in labels]
    with open_appended(path) as file:
        if lines:
            file.write(b"".join([_repair_tail(file), *lines]))
        file.flush()
        os.fsync(file.fileno())


def _repair_tail(file: IO[bytes]) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_LINE_BYTES))
    rest = file.read().rpartition(b"\n")[2]
    if not rest:
        return b""
    try:
        json.loads(rest)
    except ValueError:
        file.truncate(file.seek(0, os.SEEK_END) - len(rest))
        return b""
    return b"\n"


def effective_labels(labels: Sequence[Label]) -> list[Label]:
    """The labels that count: the last one of each judgement, of each annotator's last round of a dimension."""
    last: dict[tuple[object, ...], Label] = {}
    for label in labels:
        last.pop(label.judgement_key, None)
        last[label.judgement_key] = label
    rounds: dict[tuple[str, str, str], int] = {}
    for label in last.values():
        key = (label.annotator, label.kind, label.dimension)
        rounds[key] = max(rounds.get(key, 1), label.round)
    return [label for label in last.values() if label.round == rounds[label.annotator, label.kind, label.dimension]]
