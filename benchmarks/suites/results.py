"""What a run has found: a row an item, in a file that tables, reports and comparisons are made of.

A folder of results holds `scores.jsonl` (a `Row` a line, in the order of the suite's items), `result.json` (where it
comes from: `provenance`; and the tables), the tables as Markdown, CSV and LaTeX, and in `run.json` what differs from
run to run: time stamps, timings, counts of batches. Equal runs have equal files, `run.json` apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...reward import Score
from ..inputs import InputError
from .figures import Figure

SCHEMA = 1
SCORES, RESULT, RUN = "scores.jsonl", "result.json", "run.json"


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one item.

    scores: by the names of `Suite.metrics`; empty where the item was not judged, and `missing` says why ("" otherwise).
    edited: digest of the picture that was judged. instruction: for people who look at it.
    """

    id: str
    case: str
    labels: Mapping[str, str | int]
    scores: Mapping[str, Score] = field(default_factory=dict)
    missing: str = ""
    edited: str = ""
    instruction: str = ""

    def score(self, metric: str, *parts: str) -> Score | None:
        """Of a metric, or of a part of it, or of a part of that; None where there is none."""
        found = self.scores.get(metric)
        for part in parts:
            found = None if found is None else found.parts.get(part)
        return found

    def value(self, metric: str, *parts: str) -> float | None:
        """As `score`; None also where there is no value."""
        found = self.score(metric, *parts)
        return None if found is None else found.value

    def to_json(self) -> dict[str, Any]:
        """A line of `scores.jsonl`."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "case": self.case,
            "labels": dict(self.labels),
            "instruction": self.instruction,
            "edited": self.edited,
            "missing": self.missing,
            "scores": {name: score.to_json() for name, score in self.scores.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Row:
        """Raises ValueError for another schema, LookupError or TypeError for what is no row."""
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']} is not {SCHEMA}: written by another version")
        scores = {name: Score.from_json(score) for name, score in data["scores"].items()}
        return Row(
            data["id"], data["case"], data["labels"], scores, data["missing"], data["edited"], data["instruction"]
        )


@dataclass(frozen=True)
class Results:
    """Of one editor. editor: its name in tables. provenance: see `provenance.py`."""

    editor: str
    rows: Sequence[Row]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """In the order of rows, each once."""
        return tuple(dict.fromkeys(row.case for row in self.rows))

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {case: number for number, case in enumerate(self.cases)}

    def where(self, **labels: str | int) -> list[Row]:
        """Rows with these labels."""
        return [row for row in self.rows if all(row.labels.get(name) == value for name, value in labels.items())]

    def mean(self, rows: Iterable[Row], value: Callable[[Row], float | None]) -> Figure:
        """Mean over rows of what a function finds in each; rows where it finds None are left out, and counted."""
        sums, counts, without = np.zeros(len(self.cases)), np.zeros(len(self.cases)), 0
        for row in rows:
            found = value(row)
            if found is None:
                without += 1
            else:
                sums[self._numbers[row.case]] += found
                counts[self._numbers[row.case]] += 1
        return Figure.ratio(sums, counts, without=without)

    def correlation(
        self, rows: Iterable[Row], one: Callable[[Row], float | None], other: Callable[[Row], float | None]
    ) -> Figure:
        """Pearson's r over rows of what two functions find in each; rows where either finds None are left out."""
        pairs = [(self._numbers[row.case], one(row), other(row)) for row in rows]
        found = [(case, x, y) for case, x, y in pairs if x is not None and y is not None]
        cases, xs, ys = (np.array([pair[part] for pair in found]) for part in range(3))
        return Figure.correlation(xs, ys, cases.astype(np.int64), len(self.cases), without=len(pairs) - len(found))

    @staticmethod
    def load(folder: Path) -> Results:
        """Raises `InputError` naming the file and line that cannot be read."""
        try:
            head = json.loads((folder / RESULT).read_text(encoding="utf-8"))
            rows = list(read_rows(folder / SCORES))
            return Results(head["editor"], rows, head["provenance"])
        except OSError as error:
            raise InputError(f"{folder} is no folder of results: {error.strerror} ({error.filename})") from None
        except (ValueError, LookupError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{folder / RESULT} cannot be read: {error}") from None


def read_rows(path: Path) -> Iterator[Row]:
    """The lines of a `scores.jsonl`. Raises `InputError` naming the line that is none, OSError."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield Row.from_json(json.loads(line))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise InputError(f"{path}:{number} is no row of results: {error}") from None
