"""What a report is made of: editors side by side, their labels and metrics, and where their pictures are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...reward import Card, SpecError, build
from ..inputs import InputError
from ..suites.figures import Figure
from ..suites.leaderboards import SideBySide
from ..suites.results import Results, Row
from ..suites.suite import Item, Label, Suite
from ..suites.tables import Cell
from .charts import Chart, Grid, Point

MOST_GROUPS = 40
"""A label with more values than this is no grouping."""

_NAMES = {
    "following": re.compile(r"\bif\b|follow|\bip_if\b", re.IGNORECASE),
    "consistency": re.compile(r"\b(cc|ip|vc)\b|consisten|preserv|fidelity|unchanged|identity", re.IGNORECASE),
    "quality": re.compile(r"\b(vq|pq)\b|quality|aesthetic", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page, in order: charts and tables. name: its address in the page."""

    name: str
    title: str
    lead: str
    blocks: Sequence[Chart | Grid]


@dataclass(frozen=True)
class Material:
    """outputs: editor -> the folder of its pictures, of those that are known."""

    side: SideBySide
    outputs: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := self.outputs.keys() - set(self.side.editors):
            raise InputError(
                f"--outputs names {', '.join(sorted(unknown))}: the editors are {', '.join(self.side.editors)}"
            )

    @property
    def suite(self) -> Suite:
        return self.side.suite

    @property
    def results(self) -> tuple[Results, ...]:
        return self.side.results

    @property
    def editors(self) -> tuple[str, ...]:
        return self.side.editors

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Of all rows, in the order in which they were asked."""
        return tuple(dict.fromkeys(name for one in self.results for row in one.rows for name in row.scores))

    @cached_property
    def labels(self) -> Mapping[str, tuple[Label, ...]]:
        """Label -> its values: numbers in order, words in the order of the rows."""
        found: dict[str, dict[Label, None]] = {}
        for one in self.results:
            for row in one.rows:
                for name, value in row.labels.items():
                    found.setdefault(name, {})[value] = None
        return {name: tuple(in_order(values)) for name, values in found.items()}

    def groups(self, name: str) -> tuple[Label, ...]:
        """Values of a label that groups: two at least, and not too many."""
        values = self.labels.get(name, ())
        return values if 2 <= len(values) <= MOST_GROUPS else ()

    @cached_property
    def subjects(self) -> Mapping[str, str]:
        """Metric -> what it is about: `following`, `consistency`, `quality`, … or "" where nobody says."""
        protocol = self.results[0].provenance.get("protocol")
        try:
            specs = self.suite.metrics(protocol if isinstance(protocol, str) else None)
        except InputError:
            specs = {}
        return {name: _about(name, specs.get(name)) for name in self.metrics}

    @cached_property
    def shares(self) -> frozenset[str]:
        """Metrics whose values all lie in [0, 1]."""
        out = {
            name
            for one in self.results
            for row in one.rows
            for name, score in row.scores.items()
            if score.value is not None and not 0 <= score.value <= 1
        }
        return frozenset(name for name in self.metrics if name not in out)

    def cell(self, results: Results, figure: Figure, scale: float = 1.0) -> Cell:
        """A figure over the cases of these results, with its interval."""
        return Cell.of(self.side.lifted(results, figure), self.side.weights, scale)

    def mean(self, results: Results, rows: Iterable[Row], value: Callable[[Row], float | None]) -> Cell:
        """Mean over rows of what a function finds, with its interval."""
        return self.cell(results, results.mean(rows, value))

    @cached_property
    def items(self) -> Mapping[str, Item]:
        """Items of the suite by id."""
        return self.suite.by_id


def of_metric(name: str) -> Callable[[Row], float | None]:
    """The value of a metric in a row."""
    return lambda row: row.value(name)


def point(x: float, cell: Cell, name: str) -> Point:
    """A cell at a place."""
    return Point(x, cell.value, cell.low, cell.high, name)


def subject_of(name: str) -> str:
    """What a name says that it is about; "" where it says nothing."""
    return next((subject for subject, pattern in _NAMES.items() if pattern.search(name)), "")


def in_order(values: Iterable[Label]) -> list[Label]:
    """Numbers, and words that differ in one number (C1 to C10), by it; other words as they are."""
    given = list(values)
    keys = [re.fullmatch(r"(\D*)(\d+)", str(value)) for value in given]
    if given and all(keys) and len({key[1] for key in keys if key}) == 1:
        return sorted(given, key=lambda value: int(re.findall(r"\d+", str(value))[0]))
    return given


def words(name: Label) -> str:
    """A label as people read it."""
    return str(name).replace("_", " ")


def _about(name: str, spec: Any) -> str:
    try:
        card = getattr(build(spec), "card", None) if spec is not None else None
    except (SpecError, ImportError, ValueError):
        card = None
    return (card.about if isinstance(card, Card) else "") or subject_of(name)
