"""What other experts change: two sets of results of the same pictures, judged by different tools.

EdiVal (ICLR 2026), section 3.7 and table 6: Pearson's and Spearman's correlation over the rates of (model, turn).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..inputs import InputError
from ..suites.figures import Figure, Numbers
from ..suites.results import Results, Row
from ..suites.tables import Table
from . import weighted
from .meeting import Measure
from .weighted import Observed

MEANING: Mapping[str, str] = {
    "Pearson": "over points, an editor and a label of items each: correlation of the two sets of rates",
    "Spearman": "the same by ranks",
    "rank kept": "1 where editors stand in the same order by their mean over all items, else 0",
    "before": "mean of the metric with the first experts",
    "after": "mean of the metric with the others",
    "after - before": "the difference of the two means, paired over items",
    "same": "share of items that the metric decides alike (at its cut)",
    "kappa": "Cohen's kappa of the two decisions",
    "PLCC": "Pearson's correlation of the two values, over items",
}


def swapped(
    before: Sequence[Results], after: Sequence[Results], measure: Measure, by: Sequence[str] = ("turn",)
) -> list[Table]:
    """Tables of one metric under both sets of experts, over the items that both have a value of.

    by: labels of items; an editor and a value of each label make a point. Editors are matched by name; a single one of
    each need not have the same. Raises `InputError` where editors or items do not match.
    """
    pairs = _matched(before, after)
    cases = {case: number for number, case in enumerate(dict.fromkeys(c for one, _ in pairs for c in one.cases))}
    both = {one.editor: _both(one, other, measure) for one, other in pairs}
    if not any(both.values()):
        raise InputError(f"no item has a value of {measure.name!r} in both: nothing to compare")
    points: dict[str, tuple[Figure, Figure]] = {}
    for editor, rows in both.items():
        for name, part in _points(rows, by).items():
            points[f"{editor}, {name}"] = _means(part, measure, cases)
    xs, ys = ([point[side] for point in points.values()] for side in (0, 1))
    over = {"Pearson": weighted.pearson_over(xs, ys), "Spearman": weighted.spearman_over(xs, ys)}
    if len(both) > 1:
        over["rank kept"] = _rank_kept([_means(rows, measure, cases) for rows in both.values()])
    said = f"{len(both)} editors" if len(both) > 1 else next(iter(both))
    notes = [f"{len(points)} points: an editor and a value of {', '.join(by)} each" if by else f"{len(points)} points"]
    title = f"{measure.name}: rates under two sets of experts, {said}"
    return [
        Table("swap", title, list(over), {"all": over}, digits=4, notes=notes),
        _table("swap-points", measure, {name: _apart(*point) for name, point in points.items()}),
        _table("swap-items", measure, {name: _items(rows, measure, cases) for name, rows in both.items()}),
    ]


def _table(name: str, measure: Measure, rows: Mapping[str, Mapping[str, Figure]]) -> Table:
    title = {"swap-points": "each point", "swap-items": "item by item"}[name]
    return Table(name, f"{measure.name}: {title}", list(next(iter(rows.values()))), rows, digits=4)


def _matched(before: Sequence[Results], after: Sequence[Results]) -> list[tuple[Results, Results]]:
    if len(before) == len(after) == 1:
        return [(before[0], after[0])]
    named = {one.editor: one for one in after}
    if {one.editor for one in before} != set(named) or len(named) != len(after) or len(before) != len(after):
        said = ", ".join(sorted(one.editor for one in before)), ", ".join(sorted(one.editor for one in after))
        raise InputError(f"the editors of one side are {said[0]}, those of the other {said[1]}: give the same of both")
    return [(one, named[one.editor]) for one in before]


Both = tuple[Row, Row]


def _both(one: Results, other: Results, measure: Measure) -> list[Both]:
    there = {row.id: row for row in other.rows}
    return [
        (row, there[row.id])
        for row in one.rows
        if row.id in there and measure.raw(row) is not None and measure.raw(there[row.id]) is not None
    ]


def _points(rows: Sequence[Both], by: Sequence[str]) -> dict[str, list[Both]]:
    found: dict[str, list[Both]] = {}
    for one in rows:
        for label in by or ("",):
            value = one[0].labels.get(label) if label else "all"
            if value is not None:
                found.setdefault(f"{label} {value}".strip(), []).append(one)
    return found


def _observed(rows: Sequence[Both], measure: Measure, cases: Mapping[str, int]) -> Observed:
    return Observed.of([(cases[a.case], measure.raw(a), measure.raw(b)) for a, b in rows], len(cases))


def _means(rows: Sequence[Both], measure: Measure, cases: Mapping[str, int]) -> tuple[Figure, Figure]:
    seen = _observed(rows, measure, cases)
    return seen.mean(lambda x, _: x), seen.mean(lambda _, y: y)


def _apart(before: Figure, after: Figure) -> dict[str, Figure]:
    return {"before": before, "after": after, "after - before": Figure.of(lambda a, b: b - a, before, after)}


def _items(rows: Sequence[Both], measure: Measure, cases: Mapping[str, int]) -> dict[str, Figure]:
    seen = _observed(rows, measure, cases)
    cut = measure.low + measure.cut * (measure.high - measure.low)
    told = replace(seen, x=(seen.x >= cut).astype(np.float64), y=(seen.y >= cut).astype(np.float64))
    found = _apart(*_means(rows, measure, cases))
    return {**found, "same": weighted.accuracy(told), "kappa": weighted.kappa(told), "PLCC": weighted.plcc(seen)}


def _rank_kept(means: Sequence[tuple[Figure, Figure]]) -> Figure:
    def kept(*values: Numbers) -> Numbers:
        half = len(values) // 2
        one, other = (np.argsort(np.stack(side), axis=0, kind="stable") for side in (values[:half], values[half:]))
        found: Numbers = (one == other).all(axis=0).astype(np.float64)
        return found

    return Figure.of(kept, *(a for a, _ in means), *(b for _, b in means))
