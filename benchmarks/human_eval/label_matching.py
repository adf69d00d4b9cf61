"""Human labels matched with scores of the same images, item by item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Literal

from ..common.errors import InputError
from ..suites.human_labels import LEVEL_KINDS, Label, LabelKind
from ..suites.results import ResultRow, Results

ItemKeys = tuple[tuple[str, str], ...]  # the labelled items: (editor, id), two of them for a pair
Pooling = Literal["each", "item"]
ALL = "all"
EDITOR = "editor"


@dataclass(frozen=True, slots=True)
class LabelMetric:
    """The metric of a dimension. path: the metric's name in results, and parts of it, as in ("complex-edit-o",
    "following"). low, high: the values of no and yes, or of the worst and best level. threshold: share of that range,
    in [0, 1], from which the label is yes. tie_width: differences up to this are ties, in the metric's unit."""

    path: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    threshold: float = 0.5
    tie_width: float = 0.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InputError(f"a range needs low < high, got {self.low:g} to {self.high:g}")

    @property
    def name(self) -> str:
        return "/".join(self.path)

    def raw(self, row: ResultRow) -> float | None:
        """The value; None without one."""
        return row.value(*self.path)

    def normalized(self, row: ResultRow) -> float | None:
        """The value from 0 (worst) to 1 (best). Raises `InputError` for a value out of range."""
        value = self.raw(row)
        if value is None:
            return None
        share = (value - self.low) / (self.high - self.low)
        if not -1e-9 <= share <= 1 + 1e-9:
            raise InputError(
                f"{self.name} of {row.id} is {value:g}, outside {self.low:g} to {self.high:g}: give its range in a "
                "--config file, as in ranges = {DIMENSION = [0, 10]}"
            )
        return share


@dataclass(frozen=True)
class JudgedItem:
    """One labelled item or pair. item_keys: sorted, whichever was shown first. ratings: annotator -> `Label.value`; for
    a pair, with respect to the first of `item_keys`."""

    item_keys: ItemKeys
    rows: tuple[ResultRow, ...]
    ratings: Mapping[str, float] = field(default_factory=dict)

    @property
    def case(self) -> str:
        return self.rows[0].case

    def votes(self, pool: Pooling, kind: LabelKind) -> list[float | None]:
        """One value per judgement, or one per item: the mean; for yes and no the majority, None without one."""
        values: list[float] = list(self.ratings.values())
        if pool == "each":
            return list(values)
        mean = fmean(values)
        return [mean if kind in ("pair", *LEVEL_KINDS) else None if mean == 0.5 else float(mean > 0.5)]


@dataclass(frozen=True)
class ScoreLookup:
    """Scores of editors, looked up by the items of labels."""

    results: Sequence[Results]

    @cached_property
    def rows(self) -> Mapping[tuple[str, str], ResultRow]:
        """(editor, id) -> row. Raises `InputError` if two folders hold the same item."""
        rows: dict[tuple[str, str], ResultRow] = {}
        for results in self.results:
            for row in results.rows:
                if rows.setdefault((results.editor, row.id), row) is not row:
                    raise InputError(f"two result folders hold {row.id} of {results.editor!r}: give one of them")
        return rows

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of metrics in any row."""
        return tuple(dict.fromkeys(name for row in self.rows.values() for name in row.scores))

    def row(self, editor: str, name: str) -> ResultRow | None:
        """The row of an item. A label without an editor refers to the only editor, if there is only one."""
        if not editor and len(self.results) == 1:
            editor = self.results[0].editor
        return self.rows.get((editor, name))

    def judged_items(self, labels: Iterable[Label]) -> tuple[list[JudgedItem], int]:
        """The labelled items with all their ratings, and the number of labels that match no row."""
        items: dict[ItemKeys, JudgedItem] = {}
        ratings: dict[ItemKeys, dict[str, float]] = {}
        num_unmatched = 0
        for label in labels:
            value = label.value
            item_keys = tuple(sorted(label.item_keys))
            rows = tuple(row for editor, name in item_keys if (row := self.row(editor, name)) is not None)
            if len(rows) < len(item_keys) or value is None:
                num_unmatched += len(rows) < len(item_keys)
                continue
            items.setdefault(item_keys, JudgedItem(item_keys, rows, ratings.setdefault(item_keys, {})))
            ratings[item_keys][label.annotator] = value if item_keys == label.item_keys else -value
        return list(items.values()), num_unmatched

    def metric_for(self, dimension: str, metrics: Mapping[str, LabelMetric]) -> LabelMetric | None:
        """The metric of a dimension: from `metrics`, else the one of its name in results; None without one. Raises
        `InputError` if no row has the given metric."""
        metric = metrics.get(dimension) or LabelMetric(tuple(dimension.split("/")))
        if any(row.score(*metric.path) is not None for row in self.rows.values()):
            return metric
        if dimension in metrics:
            raise InputError(
                f"no row has a score {metric.name!r} to compare {dimension} with: there are "
                f"{', '.join(self.metrics) or 'none'}, and parts of them, as in {next(iter(self.metrics), 'name')}/part"
            )
        return None


def group_by_label(judged: Sequence[JudgedItem], labels: Sequence[str]) -> Iterator[tuple[str, list[JudgedItem]]]:
    """All items, then the items of each value of each label, in order of appearance; `editor` is a label too."""
    yield ALL, list(judged)
    for label in labels:
        groups: dict[str, list[JudgedItem]] = {}
        for item in judged:
            value = (
                " and ".join(name for name, _ in item.item_keys) if label == EDITOR else item.rows[0].labels.get(label)
            )
            if value is not None:
                groups.setdefault(f"{label} {value}", []).append(item)
        yield from groups.items()


def case_indices(judged: Sequence[JudgedItem]) -> dict[str, int]:
    """Case -> its index, for all cases of these items."""
    return {case: number for number, case in enumerate(dict.fromkeys(item.case for item in judged))}
