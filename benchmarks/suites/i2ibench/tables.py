"""I2I-Bench's tables: means by dimension, Overall over all (prompt, dimension) scores, and subsets.

The paper's Overall weights a dimension by the number of its prompts (appendix D): an unweighted mean over dimensions
differs by up to 0.032 from the printed values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....reward.metrics.i2ibench.dimensions import DIMENSIONS
from ..bootstrap import Statistic
from ..results import ResultRow, Results
from ..tables import Table
from .reader import CATEGORIES

OVERALL = "Overall"
SUCCESS_THRESHOLD = 0.5
"""Minimum two-level score of a success (section 4.3)."""

HALVES: Mapping[str, bool] = {"single": False, "multi": True}


def title_of(dimension: str) -> str:
    """The column of a dimension, e.g. `Spatial-Accuracy`."""
    return "-".join(word.capitalize() for word in dimension.removeprefix("multi-").split("-"))


MetricApplies = Callable[[ResultRow, str], bool]
"""Whether a dimension applies to a row, even if its image is missing."""


def i2ibench_tables(results: Results, applies: MetricApplies) -> list[Table]:
    """Overall of each half; tables 1 and 2; success of the two-level dimensions; category by dimension; single against
    multi. Only halves, categories and dimensions with scores.
    """
    subset = _Subset(results, applies)
    halves = {half: dimensions for half in HALVES if (dimensions := subset.dimensions(half))}
    means = {half: subset.means(results.filter(half=half), dimensions) for half, dimensions in halves.items()}
    overalls = {half.capitalize(): row[OVERALL] for half, row in means.items() if OVERALL in row}
    board = Table(
        "leaderboard", "I2I-Bench, Overall", list(overalls), {"all": overalls}, 1.0, "0 to 1", 3, _OVERALL_NOTE,
        ranking_column=next(iter(overalls), ""),
    )  # fmt: skip
    return [
        board,
        *(_table(half, f"I2I-Bench, {half}-image editing", {"all": row}) for half, row in means.items()),
        *_success(subset, halves),
        *(
            _table(f"categories-{half}", f"I2I-Bench by category, {half}-image editing", subset.categories(half, names))
            for half, names in halves.items()
        ),
        *_single_vs_multi(subset, halves),
    ]


_OVERALL_NOTE = ("Overall is the mean over all (prompt, dimension) scores",)


def _table(name: str, title: str, rows: Mapping[str, Mapping[str, Statistic]]) -> Table:
    columns = [column for column in dict.fromkeys(name for row in rows.values() for name in row) if column != OVERALL]
    return Table(name, title, [*columns, OVERALL], rows, 1.0, "0 to 1", 3, _OVERALL_NOTE)


def _value_of(dimension: str) -> Callable[[ResultRow], float | None]:
    return lambda row: row.value(dimension)


@dataclass(frozen=True)
class _Subset:
    """Statistics of subsets of rows and dimensions."""

    results: Results
    applies: MetricApplies

    def dimensions(self, half: str) -> list[str]:
        """The dimensions that apply to a row and that this run measures, in the table's order.

        A dimension of which no output was made counts: its values are missing.
        """
        rows = self.results.filter(half=half)
        left_out = self.results.provenance.get("skipped_metrics", {})
        return [
            name
            for name, dimension in DIMENSIONS.items()
            if dimension.multi == HALVES[half]
            and name not in left_out
            and any(self.applies(row, name) and (name in row.scores or not row.scores) for row in rows)
        ]

    def _rows(self, rows: Iterable[ResultRow], dimension: str) -> list[ResultRow]:
        """Those that the dimension applies to."""
        return [row for row in rows if self.applies(row, dimension)]

    def mean(self, rows: Iterable[ResultRow], dimension: str) -> Statistic:
        """Mean over the rows that the dimension applies to."""
        return self.results.metric_mean(self._rows(rows, dimension), dimension)

    def success(self, rows: Iterable[ResultRow], dimension: str) -> Statistic:
        """Share of these rows that reaches `SUCCESS_THRESHOLD`."""

        def succeeded(row: ResultRow) -> float | None:
            score = row.value(dimension)
            return None if score is None else float(score >= SUCCESS_THRESHOLD)

        return self.results.mean(self._rows(rows, dimension), succeeded)

    def means(self, rows: Sequence[ResultRow], dimensions: Sequence[str]) -> dict[str, Statistic]:
        """Means by dimension, and the paper's Overall."""
        means = {name: self.mean(rows, name) for name in dimensions}
        present = {name: mean for name, mean in means.items() if mean.count or mean.num_missing}
        row = {title_of(name): mean for name, mean in present.items()}
        counted = [name for name in present if DIMENSIONS[name].in_overall]
        if counted:
            row[OVERALL] = self.results.pooled_mean((self._rows(rows, name), _value_of(name)) for name in counted)
        return row

    def categories(self, half: str, dimensions: Sequence[str]) -> dict[str, dict[str, Statistic]]:
        """The means of each category with rows."""
        rows = {category.title: self.results.filter(category=category.name) for category in CATEGORIES.values()}
        present = {
            title: category_rows
            for title, category_rows in rows.items()
            if category_rows and category_rows[0].labels.get("half") == half
        }
        return {title: self.means(category_rows, dimensions) for title, category_rows in present.items()}


def _success(subset: _Subset, halves: Mapping[str, Sequence[str]]) -> list[Table]:
    """Success rates of the two-level dimensions."""
    rows: dict[str, dict[str, Statistic]] = {}
    for half, dimensions in halves.items():
        half_rows = subset.results.filter(half=half)
        two_level = [name for name in dimensions if DIMENSIONS[name].pipeline == "two levels"]
        if two_level:
            rows[half] = {title_of(name): subset.success(half_rows, name) for name in two_level}
    if not rows:
        return []
    columns = list(dict.fromkeys(column for half_row in rows.values() for column in half_row))
    note = f"a score of at least {SUCCESS_THRESHOLD} is a success (section 4.3)"
    return [Table("success", "I2I-Bench, success by dimension", columns, rows, 100.0, "percent", 1, [note])]


def _single_vs_multi(subset: _Subset, halves: Mapping[str, Sequence[str]]) -> list[Table]:
    """Comparison of the dimensions of both halves (section 4.5 and figure 5)."""
    shared = [name for name in halves.get("single", ()) if f"multi-{name}" in halves.get("multi", ())]
    if not shared:
        return []
    single = {title_of(name): subset.mean(subset.results.filter(half="single"), name) for name in shared}
    multi = {title_of(name): subset.mean(subset.results.filter(half="multi"), f"multi-{name}") for name in shared}
    difference = {name: Statistic.combine(np.subtract, multi[name], single[name], monotone=False) for name in single}
    rows = {"single": single, "multi": multi, "multi − single": difference}
    note = "a dimension may differ between the halves: the paper's single-image fidelity is of regions"
    title = "I2I-Bench, single against multi"
    return [Table("single-multi", title, list(single), rows, 1.0, "0 to 1", 3, [note])]
