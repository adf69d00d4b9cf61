"""Labels of people: a JSONL file, one judgement a line.

    {"schema": 1, "kind": "yes-no", "id": "12/multipass/2", "editor": "omnigen", "dimension": "following",
     "label": "yes", "annotator": "ann", "time": "2026-03-01T09:30:00+00:00"}
    {"schema": 1, "kind": "pair", "id": ["7/C3", "7/C3"], "editor": ["omnigen", "seededit"], "dimension": "overall",
     "label": "B", "annotator": "ann", "time": "2026-03-01T09:31:12+00:00", "swapped": true}

| field | what it is |
|---|---|
| `kind` | `pair`, `yes-no`, `four-level`, `boxes` or `reference` |
| `id` | of the suite's item; a list of two for a pair |
| `editor` | whose picture it is, as results name it; a list of two for a pair; `""` for what is no editor's |
| `dimension` | what was asked about, as in `following`; `overall` for the whole impression |
| `label` | `A`, `B` or `tie` (A is the first of the two, wherever it was shown); `yes` or `no`; 1 to 4, 4 the best; |
| | boxes as lists `x0, y0, x1, y1` in pixels of the source, or none; `accept` or `regenerate` |
| `annotator` | who said it |
| `time` | when, ISO 8601 |

Optional: `seconds` it took; `swapped`: whether A was shown on the right; `note` in the annotator's words; `phase`:
`main` (default), `trial` (for practice: in no statistic), `recheck` (asked a second time, unannounced) or `answer` (by
whoever sets the standard); `round` (1 by default): a dimension that was judged again has a higher one, and only an
annotator's last round of a dimension counts. Of two lines about the same, the later one counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..inputs import InputError

SCHEMA = 1
OVERALL = "overall"
"""The dimension of the whole impression."""

Kind = Literal["pair", "yes-no", "four-level", "boxes", "reference"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Phase = Literal["main", "trial", "recheck", "answer"]

Corners = tuple[float, float, float, float]
Answer = str | int | tuple[Corners, ...]

ANSWERS: dict[Kind, tuple[Answer, ...]] = {
    "pair": ("A", "tie", "B"),
    "yes-no": ("no", "yes"),
    "four-level": (1, 2, 3, 4),
    "boxes": (),
    "reference": ("regenerate", "accept"),
}
"""What may be said of a kind, the least first; boxes are drawn instead."""

_LONGEST = 1 << 20  # bytes of a line

Name = Annotated[str, Field(max_length=500)]


class Label(BaseModel):
    """One judgement. See the module for the fields; `on` and `value` are what statistics take."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    schema_: int = Field(default=SCHEMA, alias="schema")
    kind: Kind
    id: Name | tuple[Name, Name]
    editor: Name | tuple[Name, Name] = ""
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
            raise ValueError("a time without a zone: end it in Z or as in +00:00")
        return time

    @model_validator(mode="after")
    def _what_its_kind_allows(self) -> Label:
        if self.schema_ != SCHEMA:
            raise ValueError(f"schema {self.schema_} is not {SCHEMA}: written by another version")
        two = self.kind == "pair"
        if two != isinstance(self.id, tuple) or (two != isinstance(self.editor, tuple) and self.editor != ""):
            how = "two ids and two editors" if two else "one id and one editor"
            raise ValueError(f"a label of kind {self.kind} has {how}")
        if two and self.on[0] == self.on[1]:
            raise ValueError("a pair of one picture with itself: give two ids or two editors")
        if self.kind == "boxes":
            if not isinstance(self.label, tuple):
                raise ValueError("boxes are a list of x0, y0, x1, y1 each")
            for x0, y0, x1, y1 in self.label:
                if not (0 <= x0 < x1 and 0 <= y0 < y1):
                    raise ValueError(f"box {[x0, y0, x1, y1]} is empty or outside: give x0 < x1 and y0 < y1, in pixels")
        elif self.label not in ANSWERS[self.kind]:
            raise ValueError(f"{self.kind} is {', '.join(map(str, ANSWERS[self.kind]))}, got {self.label!r}")
        return self

    @property
    def on(self) -> tuple[tuple[str, str], ...]:
        """What was judged: (editor, id), two of them for a pair."""
        ids = self.id if isinstance(self.id, tuple) else (self.id,)
        editors = self.editor if isinstance(self.editor, tuple) else (self.editor,) * len(ids)
        return tuple(zip(editors, ids, strict=True))

    @property
    def value(self) -> float | None:
        """As a number: 1 for A, -1 for B, 0 for a tie; 1 for yes and accept, 0 for no; levels as (level - 1) / 3."""
        match self.kind:
            case "pair":
                return {"A": 1.0, "tie": 0.0, "B": -1.0}[str(self.label)]
            case "four-level":
                return (int(str(self.label)) - 1) / 3
            case "boxes":
                return None
            case _:
                return float(self.label in ("yes", "accept"))

    @property
    def about(self) -> tuple[object, ...]:
        """Equal for two labels of which the later one counts."""
        return (self.annotator, self.kind, self.dimension, frozenset(self.on), self.phase, self.round)

    def to_json(self) -> dict[str, Any]:
        """A line of the file; what is as usual is left out."""
        found = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return {"schema": SCHEMA, "editor": self.editor, **found} if self.editor else {"schema": SCHEMA, **found}


def read(paths: Iterable[Path]) -> list[Label]:
    """All labels in these files, in order. Raises `InputError` naming the line that is none; OSError.

    A last line without an end, as a crash leaves it, is no line: it is left out.
    """
    return [label for path in paths for label in _read(path)]


def _read(path: Path) -> Iterable[Label]:
    text = path.read_bytes()
    whole, _, rest = text.rpartition(b"\n")
    lines = whole.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _parsed(line, f"{path}:{number}")
    if rest.strip():
        try:
            yield _parsed(rest, f"{path}:{len(lines) + 1}")
        except InputError:
            if b"}" in rest[-2:]:  # a whole line that is wrong, not one that was cut
                raise


def _parsed(line: bytes, where: str) -> Label:
    try:
        return Label.model_validate_json(line)
    except ValidationError as error:
        raise InputError(f"{where} is no label: {plainly(error)}") from None


def plainly(error: ValidationError) -> str:
    """What is wrong, in a line."""
    found = []
    for one in error.errors():
        where = ".".join(str(part) for part in one["loc"] if part in Label.model_fields or part == "schema")
        said = one["msg"].removeprefix("Value error, ")
        found.append(f"{where}: {said}" if where else said)
    return "; ".join(dict.fromkeys(found))


def append(path: Path, label: Label) -> None:
    """Write a label behind the others, and onto the disk, before this returns. Raises OSError."""
    line = (json.dumps(label.to_json(), ensure_ascii=False, allow_nan=False) + "\n").encode()
    with path.open("ab+") as file:
        line = _ended(file) + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _ended(file: IO[bytes]) -> bytes:
    """What the last line of the file lacks; one that a crash has cut is taken away."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST))
    rest = file.read().rpartition(b"\n")[2]
    if not rest:
        return b""
    try:
        json.loads(rest)
    except ValueError:
        file.truncate(file.seek(0, os.SEEK_END) - len(rest))
        return b""
    return b"\n"


def standing(labels: Sequence[Label]) -> list[Label]:
    """The labels that count: the later of two about the same, of each annotator's last round of a dimension."""
    last: dict[tuple[object, ...], Label] = {}
    for label in labels:
        last.pop(label.about, None)
        last[label.about] = label
    rounds: dict[tuple[str, str, str], int] = {}
    for label in last.values():
        key = (label.annotator, label.kind, label.dimension)
        rounds[key] = max(rounds.get(key, 1), label.round)
    return [label for label in last.values() if label.round == rounds[label.annotator, label.kind, label.dimension]]
