"""What I2I-Bench makes of scores: means by dimension, the overall over all (prompt, dimension) scores, and their cuts.

The paper's Overall weighs a dimension by how many prompts it is scored on (appendix D): a plain mean over dimensions is
off by up to 0.032 from what it prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....reward.i2ibench.table import TABLE
from ..figures import Figure, Numbers
from ..results import Results, Row
from ..tables import Table
from .categories import CATEGORIES

OVERALL = "Overall"
SUCCESS = 0.5
"""From where on a two-level score counts as a success (section 4.3)."""

HALVES: Mapping[str, bool] = {"single": False, "multi": True}


def by_quota(values: Sequence[Numbers], quotas: Sequence[Numbers]) -> Numbers:
    """The mean of dimensions' means, each weighing as much as it has scores: that of all scores. None: NaN."""
    counted = [(np.where(quota > 0, value, 0.0) * quota, quota) for value, quota in zip(values, quotas, strict=True)]
    total = np.sum([quota for _, quota in counted], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Numbers = np.where(total > 0, np.sum([part for part, _ in counted], axis=0) / total, np.nan)
    return found


def over_dimensions(*values: Numbers) -> Numbers:
    """A plain mean over dimensions: the last column of table 3, unlike Overall in tables 1 and 2."""
    found: Numbers = np.mean(values, axis=0)
    return found


def title_of(dimension: str) -> str:
    """Its column, as in `Spatial-Accuracy`."""
    return "-".join(word.capitalize() for word in dimension.removeprefix("multi-").split("-"))


Applies = Callable[[Row, str], bool]
"""Whether a dimension is asked about a row, be it that its picture is missing."""


def tables(results: Results, applies: Applies) -> list[Table]:
    """Overall of each half; tables 1 and 2; success of the two-level dimensions; category by dimension; single against
    multi. Only halves, categories and dimensions that there are scores of.
    """
    cut = _Cut(results, applies)
    halves = {half: dimensions for half in HALVES if (dimensions := cut.dimensions(half))}
    means = {half: cut.means(results.where(half=half), dimensions) for half, dimensions in halves.items()}
    overalls = {half.capitalize(): row[OVERALL] for half, row in means.items() if OVERALL in row}
    headline = next(iter(overalls), "")
    board = Table("leaderboard", "I2I-Bench, Overall", list(overalls), {"all": overalls}, 1.0, "0 to 1", 3, _POOLED,
                  headline=headline)  # fmt: skip
    return [
        board,
        *(_table(half, f"I2I-Bench, {half}-image editing", {"all": row}) for half, row in means.items()),
        *_success(cut, halves),
        *(
            _table(f"categories-{half}", f"I2I-Bench by category, {half}-image editing", cut.categories(half, names))
            for half, names in halves.items()
        ),
        *_against(cut, halves),
    ]


_POOLED = ("Overall is the mean over all (prompt, dimension) scores",)


def _table(name: str, title: str, rows: Mapping[str, Mapping[str, Figure]]) -> Table:
    columns = [column for column in dict.fromkeys(name for row in rows.values() for name in row) if column != OVERALL]
    return Table(name, title, [*columns, OVERALL], rows, 1.0, "0 to 1", 3, _POOLED)


@dataclass(frozen=True)
class _Cut:
    """Figures of some rows and dimensions."""

    results: Results
    applies: Applies

    def dimensions(self, half: str) -> list[str]:
        """Those that somebody was asked about, in the table's order."""
        there = {name for row in self.results.where(half=half) for name in row.scores}
        return [name for name, one in TABLE.items() if one.multi == HALVES[half] and name in there]

    def mean(self, rows: Iterable[Row], dimension: str, *, succeeded: bool = False) -> Figure:
        """Over the rows that it applies to; succeeded: of whether each reaches `SUCCESS`."""

        def value(row: Row) -> float | None:
            found = row.value(dimension)
            return float(found >= SUCCESS) if succeeded and found is not None else found

        return self.results.mean((row for row in rows if self.applies(row, dimension)), value)

    def means(self, rows: Sequence[Row], dimensions: Sequence[str]) -> dict[str, Figure]:
        """By dimension, and the mean of all their scores that the paper's overall is."""
        found = {name: self.mean(rows, name) for name in dimensions}
        there = {name: mean for name, mean in found.items() if mean.count or mean.without}
        row = {title_of(name): mean for name, mean in there.items()}
        paper = [name for name in there if TABLE[name].in_overall]
        return {**row, OVERALL: self._pooled(rows, {name: there[name] for name in paper})} if paper else row

    def _pooled(self, rows: Sequence[Row], means: Mapping[str, Figure]) -> Figure:
        quotas = [self._count(rows, name) for name in means]
        found = Figure.of(lambda *parts: by_quota(parts[: len(means)], parts[len(means) :]), *means.values(), *quotas)
        return replace(found, count=sum(one.count for one in means.values()))

    def _count(self, rows: Sequence[Row], dimension: str) -> Figure:
        """How many scores there are."""
        numbers = {case: number for number, case in enumerate(self.results.cases)}
        counts = np.zeros(len(numbers))
        for row in rows:
            counts[numbers[row.case]] += self.applies(row, dimension) and row.value(dimension) is not None

        def at(weights: Numbers) -> Numbers:
            found: Numbers = weights @ counts
            return found

        return Figure(at, len(counts), int(counts.sum()))

    def categories(self, half: str, dimensions: Sequence[str]) -> dict[str, dict[str, Figure]]:
        """The means of each category that there is."""
        rows = {one.title: self.results.where(category=one.name) for one in CATEGORIES.values()}
        there = {title: found for title, found in rows.items() if found and found[0].labels.get("half") == half}
        return {title: self.means(found, dimensions) for title, found in there.items()}


def _success(cut: _Cut, halves: Mapping[str, Sequence[str]]) -> list[Table]:
    """Shares of prompts on which a two-level dimension is reached."""
    found: dict[str, dict[str, Figure]] = {}
    for half, dimensions in halves.items():
        rows = cut.results.where(half=half)
        two = [name for name in dimensions if TABLE[name].pipeline == "two levels"]
        if two:
            found[half] = {title_of(name): cut.mean(rows, name, succeeded=True) for name in two}
    if not found:
        return []
    columns = list(dict.fromkeys(column for row in found.values() for column in row))
    note = f"a score of at least {SUCCESS} is a success (section 4.3)"
    return [Table("success", "I2I-Bench, success by dimension", columns, found, 100.0, "percent", 1, [note])]


def _against(cut: _Cut, halves: Mapping[str, Sequence[str]]) -> list[Table]:
    """The dimensions that both halves have, side by side (section 4.5 and figure 5)."""
    shared = [name for name in halves.get("single", ()) if f"multi-{name}" in halves.get("multi", ())]
    if not shared:
        return []
    single = {title_of(name): cut.mean(cut.results.where(half="single"), name) for name in shared}
    multi = {title_of(name): cut.mean(cut.results.where(half="multi"), f"multi-{name}") for name in shared}
    less = {name: Figure.of(lambda a, b: b - a, single[name], multi[name]) for name in single}
    rows = {"single": single, "multi": multi, "multi − single": less}
    note = "a dimension may mean another thing in the other half: the paper's single-image fidelity is of regions"
    title = "I2I-Bench, single against multi"
    return [Table("single-multi", title, list(single), rows, 1.0, "0 to 1", 3, [note])]
