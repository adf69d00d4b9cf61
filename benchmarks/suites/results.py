"""Results of a run, one row per item: the input of tables, reports and comparisons.

A result folder contains `scores.jsonl` (one `ResultRow` per line, in the order of the suite's items), `result.json`
(provenance and tables), the tables as Markdown, CSV and LaTeX, and `run.json` with everything that differs between
equal runs: time stamps, timings, batch counts. Apart from `run.json`, and the settings
in `run.toml`, equal runs have equal files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from ...reward import Score
from ...reward.plain_text import check_name, one_line
from ...reward.strict_json import json_lines, read_json
from ..common.errors import InputError
from .bootstrap import Statistic, pooled_mean

T = TypeVar("T")

SCHEMA, RUN_SCHEMA = 2, 1
RANGES_ENTRY = "metric_ranges"
"""Entry of the provenance: metric -> lowest and highest value by its card, null where it has none."""

OUTPUTS_ENTRY = "outputs"
"""Entry of the provenance: what the suite says of the outputs, see `Suite.output_facts`."""

MissingAs = Literal["", "lowest", "highest"]
"""What a missing value counts as: nothing, or an end of its range."""

SCORES_FILE, RESULT_FILE, RUN_FILE = "scores.jsonl", "result.json", "run.json"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The result of one item.

    Args:
        scores: By the names of `Suite.metrics`; empty if the item was not scored, then `missing_reason` is not "".
        edited: Digest of the scored image.
        instruction: For display.
        missing_as: What a missing value counts as in `value`, see `Results.counting_missing`.
        ranges: See `missing_as`.
    """

    id: str
    case: str
    labels: Mapping[str, str | int]
    scores: Mapping[str, Score] = field(default_factory=dict)
    missing_reason: str = ""
    edited: str = ""
    instruction: str = ""
    missing_as: MissingAs = field(default="", repr=False, compare=False)
    ranges: ValueRanges | None = field(default=None, repr=False, compare=False)

    @property
    def sequence(self) -> str:
        """The chain of turns, or the levels, that the item is one of: its id up to a slash."""
        return self.id.partition("/")[0]

    def score(self, metric: str, *parts: str) -> Score | None:
        """The score of a metric, of one of its parts, or of a part of that; None if absent."""
        score = self.scores.get(metric)
        for part in parts:
            score = None if score is None else score.parts.get(part)
        return score

    def value(self, metric: str, *parts: str) -> float | None:
        """The value of `score`, or what a missing one counts as; None if it is not applicable, or absent in a score
        that has a value."""
        score = self.scores.get(metric)
        for part in parts:
            inner = None if score is None else score.parts.get(part)
            if inner is None and score is not None and score.value is not None:
                return None
            score = inner or score
        if score is not None and (score.value is not None or score.status == "not_applicable"):
            return score.value
        if (score is None and self.scores) or self.ranges is None:
            return None
        by_edit = score is not None and score.status == "abstained" and score.cause == "edit"
        extremes = self.ranges.of(metric, *parts) if self.missing_as or by_edit else None
        if extremes is None:
            return None
        return extremes[1] if self.missing_as == "highest" and not by_edit else extremes[0]

    def counting_missing(self, missing_as: MissingAs, ranges: ValueRanges) -> ResultRow:
        """See `Results.counting_missing`."""
        reason = "" if missing_as else self.missing_reason
        return replace(self, missing_as=missing_as, ranges=ranges, missing_reason=reason)

    def to_json(self) -> dict[str, Any]:
        """A line of `scores.jsonl`."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "case": self.case,
            "labels": dict(self.labels),
            "instruction": self.instruction,
            "edited_digest": self.edited,
            "missing_reason": self.missing_reason,
            "scores": {name: score.to_json() for name, score in self.scores.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ResultRow:
        """Raises ValueError for another schema, LookupError or TypeError for an invalid row."""
        require_schema(data, SCHEMA)
        scores = {name: Score.from_json(score) for name, score in data["scores"].items()}
        names = ("id", "case", "missing_reason", "edited_digest", "instruction")
        name, case, missing_reason, edited, instruction = (text_field(data[field]) for field in names)
        check_name(name)
        labels = data["labels"]
        if not isinstance(labels, Mapping) or not all(isinstance(label, str | int) for label in labels.values()):
            raise TypeError(f"labels are texts or integers by name, got {labels!r:.80}")
        return ResultRow(name, case, labels, scores, missing_reason, edited, instruction)


@dataclass(frozen=True)
class Results:
    """Results of one editor.

    Args:
        editor: Its name in tables.
        provenance: See `run/provenance.py`.
    """

    editor: str
    rows: Sequence[ResultRow]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """Cases without repetition, in the order of rows."""
        return tuple(dict.fromkeys(row.case for row in self.rows))

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {case: number for number, case in enumerate(self.cases)}

    def counting_missing(self, missing_as: MissingAs, ranges: ValueRanges) -> Results:
        """The same results with every missing value as the lowest or highest of its range, or missing (""). In each
        case, a score that abstained because of the edit counts as the lowest, and what is not applicable is left out.
        """
        return replace(self, rows=[row.counting_missing(missing_as, ranges) for row in self.rows])

    def filter(self, **labels: str | int) -> list[ResultRow]:
        """Rows with these label values."""
        return [row for row in self.rows if all(row.labels.get(name) == value for name, value in labels.items())]

    def mean(self, rows: Iterable[ResultRow], value: Callable[[ResultRow], float | None]) -> Statistic:
        """Mean of a function over rows; rows where it is None are left out and counted as missing."""
        numbers = [(self._numbers[row.case], value(row)) for row in rows]
        present = [(case, number) for case, number in numbers if number is not None]
        return Statistic.mean(
            [number for _, number in present],
            [case for case, _ in present],
            len(self.cases),
            num_missing=len(numbers) - len(present),
        )

    def metric_mean(self, rows: Iterable[ResultRow], *path: str) -> Statistic:
        """Mean of a metric, or of a part of it."""
        return self.mean(rows, lambda row: row.value(*path))

    def pooled_mean(
        self, groups: Iterable[tuple[Sequence[ResultRow], Callable[[ResultRow], float | None]]]
    ) -> Statistic:
        """Mean over all values of several groups, each rows and the value of a row."""
        means, counts, cases = [], [], set()
        for rows, value in groups:
            means.append(self.mean(rows, value))
            counts.append(self._count([row for row in rows if value(row) is not None]))
            cases |= {row.case for row in rows}
        pooled = Statistic.combine(
            lambda *parts: pooled_mean(parts[: len(means)], parts[len(means) :]), *means, *counts
        )
        return replace(pooled, count=sum(mean.count for mean in means), support=len(cases))

    def _count(self, rows: Iterable[ResultRow]) -> Statistic:
        numbers = [self._numbers[row.case] for row in rows]
        counts = np.bincount(np.asarray(numbers, np.int64), minlength=len(self.cases)).astype(np.float64)
        return Statistic(lambda weights: weights @ counts, len(counts), len(numbers))

    def correlation(
        self,
        rows: Iterable[ResultRow],
        first: Callable[[ResultRow], float | None],
        second: Callable[[ResultRow], float | None],
    ) -> Statistic:
        """Pearson's r of two functions over rows; rows where either is None are left out."""
        pairs = [(self._numbers[row.case], first(row), second(row)) for row in rows]
        present = [(case, x, y) for case, x, y in pairs if x is not None and y is not None]
        cases, xs, ys = (np.array([pair[part] for pair in present]) for part in range(3))
        return Statistic.correlation(
            xs, ys, cases.astype(np.int64), len(self.cases), num_missing=len(pairs) - len(present)
        )


class ValueRanges:
    """Lowest and highest value of each metric and part in some results. Those of the metric's card, which the
    provenance has, and of the results: a metric may have no bounds, and a part may have wider ones than its metric.
    unknown: the range of a metric without bounds of which no row has a value."""

    def __init__(self, results: Sequence[Results], unknown: tuple[float, float] | None = None) -> None:
        self._results, self._unknown = results, unknown
        self._by_card: dict[str, Sequence[float | None]] = {}
        for editor_results in results:
            self._by_card |= editor_results.provenance.get(RANGES_ENTRY, {})
        self._ranges: dict[tuple[str, ...], tuple[float, float] | None] = {}

    def of(self, *path: str) -> tuple[float, float] | None:
        """path: of a metric, or a part of it. Where a bound is not known and no row has a value: `unknown`, or None if
        the metric was not computed."""
        if path not in self._ranges:
            self._ranges[path] = self._range_of(*path)
        return self._ranges[path]

    def _range_of(self, *path: str) -> tuple[float, float] | None:
        low, high = self._by_card.get(path[0], (None, None))
        scores = [row.score(*path) for results in self._results for row in results.rows]
        values = [score.value for score in scores if score is not None and score.value is not None]
        lows, highs = [*values, *([] if low is None else [low])], [*values, *([] if high is None else [high])]
        if lows and highs:
            return min(lows), max(highs)
        return self._unknown if path[0] in self._by_card else None


def load_results(folder: str | Path) -> Results:
    """Load a result folder. Raises `InputError` naming the file and line that cannot be read."""
    folder = Path(folder)
    try:
        result = read_json(folder / RESULT_FILE)
        require_schema(result, SCHEMA)
        editor, provenance = text_field(result["editor"]), result["provenance"]
        check_name(editor)
        _check_ranges(provenance.get(RANGES_ENTRY, {}))
        return Results(editor, list(read_rows(folder / SCORES_FILE)), provenance)
    except OSError as error:
        raise InputError(
            f"{folder} is not a result folder: {error.strerror} ({error.filename}): give one that `bench run -o` wrote"
        ) from None
    except InputError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(one_line(f"{folder / RESULT_FILE} cannot be read: {error!r}")) from None


def read_rows(path: Path) -> Iterator[ResultRow]:
    """Read the rows of a `scores.jsonl`. Raises `InputError` naming an invalid line, OSError."""
    return parsed_lines(path, "a result row", ResultRow.from_json)


def parsed_lines(path: Path, kind: str, parse: Callable[[Any], T]) -> Iterator[T]:
    """The lines of a JSONL file of scores, as `parse` reads their values. kind: what each should be, for messages.
    Raises `InputError` naming an invalid line, OSError."""
    for number, values in json_lines(path, max_values=_MAX_ROW_VALUES):
        try:
            if isinstance(values, ValueError):
                raise values
            yield parse(values)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(one_line(f"{path}:{number} is not {kind}: {error}")) from None


_MAX_ROW_VALUES = 200_000
"""Values of the scores of one item: of many metrics, with many parts."""


def require_schema(values: Mapping[str, Any], schema: int) -> None:
    """Raise ValueError for values that another version has written."""
    if values["schema"] != schema:
        raise ValueError(f"schema {values['schema']!r:.40} is not {schema}: written by another version")


def text_field(value: object) -> str:
    """A field that is text. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {value!r:.80}")
    return value


def _check_ranges(ranges: Mapping[str, Any]) -> None:
    for name, (low, high) in ranges.items():
        for bound in (low, high):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | float)):
                raise TypeError(f"{RANGES_ENTRY} of {name!r:.80}: expected a number, got {bound!r:.80}")
