"""Effect of other experts: two sets of results of the same images, scored with different tools.

EdiVal (ICLR 2026), section 3.7 and table 6: Pearson's and Spearman's correlation over the rates of (model, turn).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..common.errors import InputError
from ..suites.bootstrap import Numbers, Statistic
from ..suites.results import ResultRow, Results
from ..suites.tables import Table
from . import weighted_statistics
from .label_matching import LabelMetric
from .weighted_statistics import PairedObservations

STATISTIC_DESCRIPTIONS: Mapping[str, str] = {
    "Pearson": "over points (an editor and an item label each): correlation of the two sets of rates",
    "Spearman": "the same by ranks",
    "rank kept": "1 if the order of editors by their mean over all items is the same, else 0",
    "before": "mean of the metric with the first experts",
    "after": "mean of the metric with the second experts",
    "after - before": "the difference of the two means, paired over items",
    "same": "share of items with the same decision (at the metric's threshold)",
    "kappa": "Cohen's kappa of the two decisions",
    "PLCC": "Pearson's correlation of the two values, over items",
}


def swap_tables(
    before: Sequence[Results], after: Sequence[Results], metric: LabelMetric, group_by: Sequence[str] = ("turn",)
) -> list[Table]:
    """Tables of one metric under both sets of experts, over the items with a value in both. group_by: item labels; a
    point is an editor and a value of a label. Editors are matched by name; a single editor on each side matches under
    any name. Raises `InputError` if editors or items do not match."""
    pairs = _match_rows(before, after)
    names = dict.fromkeys(case for results, _ in pairs for case in results.cases)
    cases = {case: number for number, case in enumerate(names)}
    row_pairs = {results.editor: _both_values(results, others, metric) for results, others in pairs}
    if not any(row_pairs.values()):
        raise InputError(f"no item has a value of {metric.name!r} in both results")
    points: dict[str, tuple[Statistic, Statistic]] = {}
    for editor, rows in row_pairs.items():
        for name, pairs_of_point in _points(rows, group_by).items():
            points[f"{editor}, {name}"] = _means(pairs_of_point, metric, cases)
    xs, ys = ([point[side] for point in points.values()] for side in (0, 1))
    correlations = {
        "Pearson": weighted_statistics.pearson_over(xs, ys),
        "Spearman": weighted_statistics.spearman_over(xs, ys),
    }
    if len(row_pairs) > 1:
        correlations["rank kept"] = _order_kept([_means(rows, metric, cases) for rows in row_pairs.values()])
    editors = f"{len(row_pairs)} editors" if len(row_pairs) > 1 else next(iter(row_pairs))
    notes = [f"{len(points)} points" + (f": one per editor and value of {', '.join(group_by)}" if group_by else "")]
    title = f"{metric.name}: rates under two sets of experts, {editors}"
    by_point = {name: _both(*point) for name, point in points.items()}
    by_item = {name: _items(rows, metric, cases) for name, rows in row_pairs.items()}
    columns = [list(next(iter(rows.values()))) for rows in (by_point, by_item)]
    return [
        Table("swap", title, list(correlations), {"all": correlations}, digits=4, notes=notes),
        Table("swap-points", f"{metric.name}: each point", columns[0], by_point, digits=4),
        Table("swap-items", f"{metric.name}: item by item", columns[1], by_item, digits=4),
    ]


def _match_rows(before: Sequence[Results], after: Sequence[Results]) -> list[tuple[Results, Results]]:
    if len(before) == len(after) == 1:
        return [(before[0], after[0])]
    after_by_editor = {results.editor: results for results in after}
    first, second = (sorted(results.editor for results in side) for side in (before, after))
    if first != second or len(after_by_editor) != len(after):
        raise InputError(f"the editors of the two sides differ: {', '.join(first)}, and {', '.join(second)}")
    return [(results, after_by_editor[results.editor]) for results in before]


RowPair = tuple[ResultRow, ResultRow]


def _both_values(first: Results, second: Results, metric: LabelMetric) -> list[RowPair]:
    rows = {row.id: row for row in second.rows if metric.raw(row) is not None}
    return [(row, rows[row.id]) for row in first.rows if row.id in rows and metric.raw(row) is not None]


def _points(rows: Sequence[RowPair], group_by: Sequence[str]) -> dict[str, list[RowPair]]:
    points: dict[str, list[RowPair]] = {}
    for pair in rows:
        for label in group_by or ("",):
            value = pair[0].labels.get(label) if label else "all"
            if value is not None:
                points.setdefault(f"{label} {value}".strip(), []).append(pair)
    return points


def _observed(rows: Sequence[RowPair], metric: LabelMetric, cases: Mapping[str, int]) -> PairedObservations:
    return PairedObservations.of([(cases[a.case], metric.raw(a), metric.raw(b)) for a, b in rows], len(cases))


def _means(rows: Sequence[RowPair], metric: LabelMetric, cases: Mapping[str, int]) -> tuple[Statistic, Statistic]:
    observations = _observed(rows, metric, cases)
    return observations.mean(lambda x, _: x), observations.mean(lambda _, y: y)


def _both(before: Statistic, after: Statistic) -> dict[str, Statistic]:
    return {"before": before, "after": after, "after - before": Statistic.combine(lambda a, b: b - a, before, after)}


def _items(rows: Sequence[RowPair], metric: LabelMetric, cases: Mapping[str, int]) -> dict[str, Statistic]:
    observations = _observed(rows, metric, cases)
    threshold = metric.low + metric.threshold * (metric.high - metric.low)
    x, y = ((side >= threshold).astype(np.float64) for side in (observations.x, observations.y))
    decisions = replace(observations, x=x, y=y)
    return {
        **_both(*_means(rows, metric, cases)),
        "same": weighted_statistics.accuracy(decisions),
        "kappa": weighted_statistics.kappa(decisions),
        "PLCC": weighted_statistics.plcc(observations),
    }


def _order_kept(means: Sequence[tuple[Statistic, Statistic]]) -> Statistic:
    def same_order(*values: Numbers) -> Numbers:
        half = len(values) // 2
        order_before, order_after = (
            np.argsort(np.stack(side), axis=0, kind="stable") for side in (values[:half], values[half:])
        )
        equal: Numbers = (order_before == order_after).all(axis=0).astype(np.float64)
        return equal

    return Statistic.combine(same_order, *(a for a, _ in means), *(b for _, b in means))
