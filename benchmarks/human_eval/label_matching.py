"""Where labels and scores meet: what people and a metric say of the same pictures, item by item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Literal

from ..inputs import InputError
from ..suites.results import Results, Row
from .labels import Kind, Label

On = tuple[tuple[str, str], ...]
"""What was judged: (editor, id), two of them for a pair."""

Pool = Literal["each", "item"]
ALL = "all"
EDITOR = "editor"


@dataclass(frozen=True, slots=True)
class Measure:
    """How a metric speaks about a dimension.

    path: the metric's name in results, and parts of it, as in ("complex-edit-o", "following"). low, high: the values
    that are no and yes, or the worst and best level. cut: from where on it says yes, in [0, 1] between the two. tie:
    two values that are no further apart are a tie, in the metric's own unit.
    """

    path: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    cut: float = 0.5
    tie: float = 0.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InputError(f"a range goes up, got {self.low:g} to {self.high:g}")

    @property
    def name(self) -> str:
        return "/".join(self.path)

    def raw(self, row: Row) -> float | None:
        """The value as it is; None where there is none."""
        return row.value(*self.path)

    def share(self, row: Row) -> float | None:
        """From 0 for the worst to 1 for the best. Raises `InputError` for a value beyond them."""
        found = self.raw(row)
        if found is None:
            return None
        share = (found - self.low) / (self.high - self.low)
        if not -1e-9 <= share <= 1 + 1e-9:
            raise InputError(
                f"{self.name} of {row.id} is {found:g}, beyond {self.low:g} to {self.high:g}: give its range, as in "
                "--range DIMENSION=0,10"
            )
        return share


@dataclass(frozen=True)
class Judged:
    """One thing that people judged. on: in an order of its own, whoever was shown first. said: annotator -> value, as
    `Label.value`; of a pair, as it is about the first of `on`.
    """

    on: On
    rows: tuple[Row, ...]
    said: Mapping[str, float] = field(default_factory=dict)

    @property
    def case(self) -> str:
        return self.rows[0].case

    def voices(self, pool: Pool, kind: Kind) -> list[float | None]:
        """One a judgement, or one an item: the mean; of yes and no the majority, and None where there is none."""
        found: list[float] = list(self.said.values())
        if pool == "each":
            return list(found)
        mean = fmean(found)
        return [mean if kind in ("pair", "four-level") else None if mean == 0.5 else float(mean > 0.5)]


@dataclass(frozen=True)
class Meeting:
    """Scores of editors, looked up by what labels are about."""

    results: Sequence[Results]

    @cached_property
    def rows(self) -> Mapping[tuple[str, str], Row]:
        """(editor, id) -> row. Raises `InputError` where two folders hold the same picture."""
        found: dict[tuple[str, str], Row] = {}
        for results in self.results:
            for row in results.rows:
                if found.setdefault((results.editor, row.id), row) is not row:
                    raise InputError(f"two folders of results hold {row.id} of {results.editor!r}: give one of them")
        return found

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of metrics in any row."""
        return tuple(dict.fromkeys(name for row in self.rows.values() for name in row.scores))

    def row(self, editor: str, name: str) -> Row | None:
        """An editor that a label does not name is the only one there is, if there is one."""
        if not editor and len(self.results) == 1:
            editor = self.results[0].editor
        return self.rows.get((editor, name))

    def judged(self, labels: Iterable[Label]) -> tuple[list[Judged], int]:
        """What these labels are about, with all that was said of it; and how many are about nothing there is."""
        found: dict[On, Judged] = {}
        said: dict[On, dict[str, float]] = {}
        lost = 0
        for label in labels:
            value = label.value
            on = tuple(sorted(label.on))
            rows = tuple(row for editor, name in on if (row := self.row(editor, name)) is not None)
            if len(rows) < len(on) or value is None:
                lost += len(rows) < len(on)
                continue
            found.setdefault(on, Judged(on, rows, said.setdefault(on, {})))
            said[on][label.annotator] = value if on == label.on else -value
        return list(found.values()), lost

    def measure(self, dimension: str, given: Mapping[str, Measure]) -> Measure | None:
        """How that dimension is measured: as given, or by what has its name in results; None where nothing does.

        Raises `InputError` where what is given is in no row.
        """
        measure = given.get(dimension) or Measure(tuple(dimension.split("/")))
        if any(row.score(*measure.path) is not None for row in self.rows.values()):
            return measure
        if dimension in given:
            raise InputError(
                f"no row has a score {measure.name!r}, which {dimension} is to be compared with: there are "
                f"{', '.join(self.metrics) or 'none'}, and parts of them, as in {next(iter(self.metrics), 'name')}/part"
            )
        return None


def groups(judged: Sequence[Judged], by: Sequence[str]) -> Iterator[tuple[str, list[Judged]]]:
    """All of them, then those of each value of each label of items, in the order they come; `editor` is a label too."""
    yield ALL, list(judged)
    for label in by:
        parts: dict[str, list[Judged]] = {}
        for one in judged:
            value = " and ".join(name for name, _ in one.on) if label == EDITOR else one.rows[0].labels.get(label)
            if value is not None:
                parts.setdefault(f"{label} {value}", []).append(one)
        yield from parts.items()


def numbered(judged: Sequence[Judged]) -> dict[str, int]:
    """Case -> its number, of all the cases that these belong to."""
    return {case: number for number, case in enumerate(dict.fromkeys(one.case for one in judged))}
