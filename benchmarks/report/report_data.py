"""Data of a report: editors, labels, metrics and outputs folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...reward import Card, SpecError, build
from ..common.errors import InputError
from ..suites.bootstrap import Statistic
from ..suites.leaderboards import EditorComparison
from ..suites.results import ResultRow, Results
from ..suites.suite import LabelValue, Suite, SuiteItem
from ..suites.tables import Table, TableCell
from .charts import Chart, Point, Series, TableView

MAX_GROUPS = 40  # a label with more values is not used for grouping

_NAMES = {
    "following": re.compile(r"\bif\b|follow|\bip_if\b", re.IGNORECASE),
    "consistency": re.compile(r"\b(cc|ip|vc)\b|consisten|preserv|fidelity|unchanged|identity", re.IGNORECASE),
    "quality": re.compile(r"\b(vq|pq)\b|quality|aesthetic", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of the page: charts and tables in order. name: its anchor."""

    name: str
    title: str
    introduction: str
    blocks: Sequence[Chart | TableView]


@dataclass(frozen=True)
class ReportData:
    """outputs: editor -> outputs folder, if known."""

    comparison: EditorComparison
    outputs: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := self.outputs.keys() - set(self.comparison.editors):
            raise InputError(
                f"--outputs names {', '.join(sorted(unknown))}: the editors are {', '.join(self.comparison.editors)}"
            )

    @property
    def suite(self) -> Suite:
        return self.comparison.suite

    @property
    def results(self) -> tuple[Results, ...]:
        return self.comparison.results

    @property
    def editors(self) -> tuple[str, ...]:
        return self.comparison.editors

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of all rows, in order of first appearance."""
        return tuple(dict.fromkeys(name for results in self.results for row in results.rows for name in row.scores))

    @cached_property
    def labels(self) -> Mapping[str, tuple[LabelValue, ...]]:
        """Label -> its values: numbers sorted, words in order of the rows."""
        values_by_label: dict[str, dict[LabelValue, None]] = {}
        for results in self.results:
            for row in results.rows:
                for name, value in row.labels.items():
                    values_by_label.setdefault(name, {})[value] = None
        return {name: tuple(natural_order(values)) for name, values in values_by_label.items()}

    def groups(self, name: str) -> tuple[LabelValue, ...]:
        """Values of a label with 2 to `MAX_GROUPS` values, else empty."""
        values = self.labels.get(name, ())
        return values if 2 <= len(values) <= MAX_GROUPS else ()

    @cached_property
    def subjects(self) -> Mapping[str, str]:
        """Metric -> its subject: `following`, `consistency`, `quality`, … or "" if unknown."""
        protocol = self.results[0].provenance.get("protocol")
        try:
            specs = self.suite.metrics(protocol if isinstance(protocol, str) else None)
        except InputError:
            specs = {}
        return {name: _spec_subject(name, specs.get(name)) for name in self.metrics}

    @cached_property
    def shares(self) -> frozenset[str]:
        """Metrics whose values all lie in [0, 1]."""
        out_of_range = {
            name
            for results in self.results
            for row in results.rows
            for name, score in row.scores.items()
            if score.value is not None and not 0 <= score.value <= 1
        }
        return frozenset(name for name in self.metrics if name not in out_of_range)

    def cell(self, results: Results, statistic: Statistic, scale: float = 1.0) -> TableCell:
        """A statistic over the cases of these results, with its interval."""
        return TableCell.of(self.comparison.over_all_cases(results, statistic), self.comparison.weights, scale)

    def mean(
        self, results: Results, rows: Iterable[ResultRow], value: Callable[[ResultRow], float | None]
    ) -> TableCell:
        """Mean of a function over rows, with its interval. What an edit made undecidable counts as the lowest value."""
        ranges = self.comparison.ranges
        return self.cell(results, results.mean((row.counting_missing("", ranges) for row in rows), value))

    def series(self, names: Sequence[str], cells: Callable[[Results], Iterable[TableCell]]) -> list[Series]:
        """A series for each editor. cells: of an editor's results, at the points of these names."""
        return [
            Series(
                one.editor,
                [point(float(x), cell, name) for x, (cell, name) in enumerate(zip(cells(one), names, strict=True))],
                style,
            )
            for style, one in enumerate(self.results)
        ]

    @cached_property
    def items(self) -> Mapping[str, SuiteItem]:
        """Items of the suite by id."""
        return self.suite.by_id

    @property
    def styles(self) -> Mapping[str, int]:
        """Editor -> index of its colour and shape."""
        return {editor: number for number, editor in enumerate(self.editors)}

    @cached_property
    def tables(self) -> Mapping[str, Mapping[str, Table]]:
        """Name of a table -> editor -> the table."""
        named: dict[str, dict[str, Table]] = {}
        for editor, tables in self.comparison.by_editor.items():
            for table in tables:
                named.setdefault(table.name, {})[editor] = table
        return named


def metric_value(name: str) -> Callable[[ResultRow], float | None]:
    """The value of a metric in a row."""
    return lambda row: row.value(name)


def point(x: float, cell: TableCell | None, name: str) -> Point:
    """A cell as a point at x."""
    return Point(x, None, name=name) if cell is None else Point(x, cell.value, cell.low, cell.high, name)


def with_unit(name: str, unit: str) -> str:
    """The title of an axis."""
    return f"{name}, {unit}" if unit else name


def metric_subject(name: str) -> str:
    """The subject in a metric's name; "" without one."""
    return next((subject for subject, pattern in _NAMES.items() if pattern.search(name)), "")


def natural_order(values: Iterable[LabelValue]) -> list[LabelValue]:
    """Numbers, and words that differ in one number (C1 to C10), sorted by it; other words in the given order."""
    ordered = list(values)
    keys = [re.fullmatch(r"(\D*)(\d+)", str(value)) for value in ordered]
    if ordered and all(keys) and len({key[1] for key in keys if key}) == 1:
        return sorted(ordered, key=lambda value: int(re.findall(r"\d+", str(value))[0]))
    return ordered


def display_name(name: LabelValue) -> str:
    """A label for display."""
    return str(name).replace("_", " ")


def _spec_subject(name: str, spec: Any) -> str:
    try:
        card = getattr(build(spec), "card", None) if spec is not None else None
    except (SpecError, ImportError, ValueError):
        card = None
    return (card.aspect if isinstance(card, Card) else "") or metric_subject(name)
