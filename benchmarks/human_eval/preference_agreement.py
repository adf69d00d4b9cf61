"""Pairwise preferences compared with differences of scores, and win ratios.

Complex-Edit (arXiv 2504.13143), section 4.1: annotators compare two images on a metric, and the preference is
correlated with the difference of the two scores; the overall preference shows how to average metrics. I2I-Bench,
section 3.3 and 4.2: an editor's win ratio per dimension, and its Pearson correlation with the metric over editors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

import numpy as np

from ..common.errors import InputError
from ..suites.bootstrap import Numbers, Statistic
from ..suites.human_labels import OVERALL
from ..suites.results import ResultRow
from ..suites.tables import Table
from . import weighted_statistics
from .label_matching import JudgedItem, LabelMetric, Pooling, case_indices, group_by_label
from .weighted_statistics import PairedObservations


def preference_columns(
    judged: Sequence[JudgedItem], metric: LabelMetric, pool: Pooling, cases: Mapping[str, int]
) -> dict[str, Statistic]:
    """Statistics of preferences (1, 0, -1) and score differences, one per pair."""
    differences = _differences(judged, metric.raw, pool, cases)
    sign = np.where(np.abs(differences.x) > metric.tie_width, np.sign(differences.x), 0.0)
    decisions = replace(differences, x=sign, y=np.sign(differences.y))
    has_preference = differences.y != 0
    decided = PairedObservations(
        np.sign(differences.x[has_preference]),
        np.sign(differences.y[has_preference]),
        differences.case_index[has_preference],
        differences.cases,
        differences.num_missing,
    )
    return {
        "accuracy": weighted_statistics.accuracy(decisions),
        "decided": decided.mean(lambda x, y: np.where(x == 0, 0.5, x == y)),
        "PLCC": weighted_statistics.plcc(differences),
        "SRCC": weighted_statistics.srcc(differences),
        "kappa": weighted_statistics.kappa(decisions),
    }


def compare_averages(
    judged: Sequence[JudgedItem],
    parts: Sequence[tuple[str, ...]],
    group_by: Sequence[str],
    pool: Pooling,
    notes: Sequence[str] = (),
) -> Table:
    """PLCC of the overall preference with the arithmetic and geometric means of parts, and their paired difference.

    parts: paths of scores, as in `LabelMetric`. Pairs without a part are left out. Raises `InputError` for a part that
    no row has, or a value below 0, which has no geometric mean.
    """
    cases = case_indices(judged)
    rows = {}
    for path in parts:
        if not any(row.score(*path) is not None for item in judged for row in item.rows):
            raise InputError(f"no row has a score {'/'.join(path)!r} to average")
    for name, items in group_by_label(judged, group_by):
        arithmetic, geometric = (
            weighted_statistics.plcc(_differences(items, partial(_mean, parts, average), pool, cases))
            for average in (fmean, _geometric)
        )
        difference = Statistic.difference(arithmetic, geometric)
        rows[name] = {"arithmetic": arithmetic, "geometric": geometric, "arithmetic - geometric": difference}
    names = ", ".join("/".join(path) for path in parts)
    return Table(
        "averaging", f"{OVERALL} (pair): means of {names}", list(next(iter(rows.values()))), rows, digits=3, notes=notes
    )


def mean_stars(dimension: str, judged: Sequence[JudgedItem]) -> Table:
    """Each editor's mean stars over its judgements, as in table 3 of Complex-Edit, which has one judgement of each."""
    cases = case_indices(judged)
    rows: dict[str, dict[str, Statistic]] = {}
    for editor in sorted({editor for item in judged for editor, _ in item.item_keys}):
        ratings = [
            (cases[item.case], 1 + 4 * share, 0.0)
            for item in judged
            if item.item_keys[0][0] == editor
            for share in item.ratings.values()
        ]
        rows[editor or "all"] = {"stars": PairedObservations.of(ratings, len(cases)).mean(lambda x, _: x)}
    slug = dimension.replace("/", "-")
    return Table(f"stars-{slug}", f"{dimension}: mean stars, 1 to 5", ["stars"], rows, digits=2)


def win_ratios(
    dimension: str, judged: Sequence[JudgedItem], metric: LabelMetric | None
) -> tuple[Table | None, Statistic | None]:
    """Each editor's win ratio over its judgements; and over editors, the correlation of the win ratio with the mean of
    the metric over the compared images. None if the pairs are not of two editors, and without a third one.
    """
    editors = sorted({editor for item in judged for editor, _ in item.item_keys})
    if len(editors) < 2:
        return None, None
    cases = case_indices(judged)
    rows: dict[str, dict[str, Statistic]] = {}
    for editor in editors:
        wins = [
            (cases[item.case], (1 + (value if item.item_keys[0][0] == editor else -value)) / 2, 0.0)
            for item in judged
            if (item.item_keys[0][0] == editor) != (item.item_keys[1][0] == editor)
            for value in item.ratings.values()
        ]
        rows[editor] = {"win ratio": PairedObservations.of(wins, len(cases)).mean(lambda x, _: x)}
        if metric is not None:
            images = {
                key: (cases[row.case], metric.raw(row), 0.0)
                for item in judged
                for key, row in zip(item.item_keys, item.rows, strict=True)
                if key[0] == editor
            }
            rows[editor][metric.name] = PairedObservations.of(list(images.values()), len(cases)).mean(lambda x, _: x)
    columns = list(rows[editors[0]])
    slug = dimension.replace("/", "-")
    notes = ["a win counts 1, a tie 0.5"]
    table = Table(f"wins-{slug}", f"{dimension}: win ratios", columns, rows, digits=3, notes=notes)
    if metric is None or len(editors) < 3:
        return table, None
    sides = ([row[column] for row in rows.values()] for column in reversed(columns))
    return table, weighted_statistics.pearson_over(*sides)


def win_correlations(by_dimension: Mapping[str, Statistic]) -> Table:
    """The correlations of `win_ratios`, and their plain mean over all dimensions but `overall` (I2I-Bench, table 3)."""
    rows = {dimension: {"Pearson": statistic} for dimension, statistic in by_dimension.items()}
    of_dimensions = [statistic for dimension, statistic in by_dimension.items() if dimension != OVERALL]
    if len(of_dimensions) > 1:
        rows["mean"] = {"Pearson": Statistic.combine(_plain_mean, *of_dimensions)}
    return Table("wins-pearson", "win ratios and metrics, over editors", ["Pearson"], rows, digits=3)


def _plain_mean(*values: Numbers) -> Numbers:
    mean: Numbers = np.mean(values, axis=0)
    return mean


def _mean(
    parts: Sequence[tuple[str, ...]], average: Callable[[Sequence[float]], float], row: ResultRow
) -> float | None:
    values = [row.value(*path) for path in parts]
    return None if None in values else average([value for value in values if value is not None])


def _geometric(values: Sequence[float]) -> float:
    if min(values) < 0:
        raise InputError(f"a geometric mean needs numbers of at least 0, got {min(values):g}")
    return float(math.prod(values) ** (1 / len(values)))


def _differences(
    judged: Sequence[JudgedItem], value_of: Callable[[ResultRow], float | None], pool: Pooling, cases: Mapping[str, int]
) -> PairedObservations:
    rows = []
    for item in judged:
        first, second = (value_of(row) for row in item.rows)
        difference = None if first is None or second is None else first - second
        rows += [(cases[item.case], difference, vote) for vote in item.votes(pool, "pair")]
    return PairedObservations.of(rows, len(cases))
