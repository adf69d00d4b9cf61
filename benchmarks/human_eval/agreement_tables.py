"""Tables of agreement: human labels with a metric, and annotators with each other, by dimension and by item label.

Yes and no: accuracy, PLCC, Cohen's kappa and F1 per task type (EdiVal, section 2.5 and table 13). Four levels:
Spearman, Pearson and MAE (DLEBench, section 5.3). Between annotators: Krippendorff's alpha (DLEBench, table 2) and the
share of equal labels (EdiVal's 85.5 %).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.table import Table as RichTable
from rich.text import Text

from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.errors import InputError
from ..common.terminal import echo, print_json, render
from ..suites.bootstrap import Statistic, bootstrap_weights
from ..suites.human_labels import (
    ANSWERS,
    LABEL_KINDS,
    LEVEL_KINDS,
    OVERALL,
    Label,
    LabelKind,
    effective_labels,
    nearest_level,
)
from ..suites.results import ResultRow
from ..suites.tables import ComputedTable, Table, TableCell, write_tables
from . import weighted_statistics
from .annotation_schedule import MATCH_IOU, box_table
from .label_matching import JudgedItem, LabelMetric, Pooling, ScoreLookup, case_indices, group_by_label
from .question_pools import QuestionPool
from .weighted_statistics import LEVELS, PairedObservations, alpha, mean_by_case

STATISTIC_DESCRIPTIONS: Mapping[str, str] = {
    "accuracy": "share of judgements whose label equals the metric's label",
    "PLCC": "Pearson's correlation of the metric's value with the label; for pairs, of the difference of two values",
    "SRCC": "Spearman's rank correlation of the same values",
    "MAE": "mean absolute difference of value and label, both from 0 (worst) to 1 (best)",
    "kappa": "Cohen's kappa of the metric's labels and the human labels: 0 is chance, 1 is perfect",
    "F1": "harmonic mean of precision and recall of the metric for the label yes",
    "decided": "share of judgements without ties whose preferred edit has the higher score; equal scores count half",
    "same": "share of pairs of annotators with equal labels of the same item",
    "yes": "share of judgements with the label yes or accept",
    **{f"alpha {level}": f"Krippendorff's alpha between annotators, {level}" for level in LEVELS},
    **{
        f"alpha {level}, metric too": f"the same with the metric as an additional annotator, {level}"
        for level in LEVELS
    },
    "arithmetic": "PLCC of the overall preference with the difference of the arithmetic means",
    "geometric": "PLCC of the overall preference with the difference of the geometric means",
    "arithmetic - geometric": "paired difference of the two: above 0 the arithmetic mean fits the preferences better",
    "win ratio": "a win counts 1, a tie 0.5, a loss 0, over the judgements of the editor",
    "Pearson": "over editors: correlation of the metric's mean over the compared images with the win ratio",
    "IoU": "mean overlap of two annotators' boxes, matched greedily; unmatched boxes count 0",
    "match": f"share of pairs of annotators whose boxes overlap by {MATCH_IOU} or more",
}
"""Column name -> what it measures."""

_BETWEEN, _WITH_SCORES = "annotators-", "agreement-"
"""Beginnings of the names of tables. Others tell how the editors do, which annotators must not know."""


def agreement_tables(
    labels: Sequence[Label],
    lookup: ScoreLookup,
    *,
    metrics: Mapping[str, LabelMetric] | None = None,
    group_by: Sequence[str] = ("type",),
    pool: Pooling = "each",
    min_raters: int = 1,
    average_metrics: Sequence[tuple[str, ...]] = (),
) -> list[Table]:
    """Every table that these labels allow, without intervals (see `ComputedTable.compute`). metrics: dimension ->
    metric; other dimensions use the metric of their name. group_by: item labels. pool: one value per judgement, or one
    per item. min_raters: items with fewer annotators are skipped. average_metrics: parts whose arithmetic and geometric
    means are compared with the overall preference. Raises `InputError` if no label matches an item, or if a metric is
    missing."""
    counted = [label for label in effective_labels(labels) if label.phase == "main"]
    if not counted:
        raise InputError(f"none of the {len(labels)} labels is of the main phase: nothing to compare")
    tables: list[Table] = []
    correlations: dict[str, Statistic] = {}
    num_unmatched_total = 0
    for kind in LABEL_KINDS:
        for dimension in dict.fromkeys(label.dimension for label in counted if label.kind == kind):
            dimension_labels = [label for label in counted if label.kind == kind and label.dimension == dimension]
            if kind == "boxes":
                tables.append(box_table(dimension, dimension_labels))
                continue
            judged, num_unmatched = lookup.judged_items(dimension_labels)
            num_unmatched_total += num_unmatched
            skipped = [item for item in judged if len(item.ratings) < min_raters]
            judged = [item for item in judged if len(item.ratings) >= min_raters]
            if not judged:
                continue
            counts = [len(item.ratings) for item in judged]
            annotators = {name for item in judged for name in item.ratings}
            notes = [
                f"{sum(counts)} judgements of {len(judged)} items by {len(annotators)} annotators",
                f"{counts.count(1)} items have one judgement only",
                _POOLING_NOTES[pool],
            ]
            if skipped:
                notes.append(f"{len(skipped)} items with fewer than {min_raters} judgements are left out")
            if num_unmatched:
                notes.append(f"{num_unmatched} labels match no row of the results")
            metric = lookup.metric_for(dimension, metrics or {})
            tables += _agreement_table(kind, dimension, judged, metric, group_by, pool, notes)
            if kind == "stars":
                tables.append(mean_stars(dimension, judged))
            if kind == "pair":
                wins, correlation = win_ratios(dimension, judged, metric)
                tables += [] if wins is None else [wins]
                correlations |= {} if correlation is None else {dimension: correlation}
                if dimension == OVERALL and average_metrics:
                    tables.append(compare_averages(judged, average_metrics, group_by, pool, notes))
    if correlations:
        tables.append(win_correlations(correlations))
    if not tables:
        reason = f"{num_unmatched_total} match no row of the results" if num_unmatched_total else "too few annotators"
        raise InputError(f"no label can be compared: {reason}; ids and editors must match the results")
    return tables


_POOLING_NOTES: Mapping[Pooling, str] = {
    "each": "one value per judgement",
    "item": "one value per item: the mean; the majority of yes and no",
}


def _agreement_table(
    kind: LabelKind,
    dimension: str,
    judged: Sequence[JudgedItem],
    metric: LabelMetric | None,
    group_by: Sequence[str],
    pool: Pooling,
    notes: Sequence[str],
) -> list[Table]:
    cases = case_indices(judged)
    rows: dict[str, dict[str, Statistic]] = {}
    annotator_rows: dict[str, dict[str, Statistic]] = {}
    for name, items in group_by_label(judged, group_by):
        if metric is not None:
            rows[name] = _columns(kind, items, metric, pool, cases)
        annotator_rows[name] = _inter_annotator(kind, items, metric, cases)
    slug = f"{kind}-{dimension}"
    tables = [_table(f"{_BETWEEN}{slug}", f"{dimension} ({kind}): between annotators", annotator_rows, notes)]
    if metric is not None:
        title = f"{dimension} ({kind}): human labels and {metric.name}"
        tables.insert(0, _table(f"{_WITH_SCORES}{slug}", title, rows, [*notes, *_table_notes(kind, metric)]))
    return tables


def _table(name: str, title: str, rows: Mapping[str, Mapping[str, Statistic]], notes: Sequence[str] = ()) -> Table:
    return Table(name.replace("/", "-"), title, list(next(iter(rows.values()))), rows, digits=3, notes=notes)


def _table_notes(kind: LabelKind, metric: LabelMetric) -> list[str]:
    match kind:
        case "pair":
            tie_note = f"score differences up to {metric.tie_width:g} are ties of the metric"
            return [tie_note, "differences are first editor by name minus second, whichever was shown as A"]
        case "four-level" | "stars":
            number = {"four-level": "four", "stars": "five"}[kind]
            return [f"the metric's level is the nearest of {number} levels from {metric.low:g} to {metric.high:g}"]
        case _:
            threshold = metric.low + metric.threshold * (metric.high - metric.low)
            return [f"the metric's label is yes from {threshold:g}"]


def _columns(
    kind: LabelKind, judged: Sequence[JudgedItem], metric: LabelMetric, pool: Pooling, cases: Mapping[str, int]
) -> dict[str, Statistic]:
    if kind == "pair":
        return preference_columns(judged, metric, pool, cases)
    votes = [(item, vote) for item in judged for vote in item.votes(pool, kind)]
    values = _observed([(item.case, metric.normalized(item.rows[0]), vote) for item, vote in votes], cases)
    metric_label = _label(kind, metric)
    is_level = kind in LEVEL_KINDS
    labels = [vote if vote is None or not is_level else nearest_level(kind, vote) for _, vote in votes]
    pairs = [(item.case, metric_label(item), label) for (item, _), label in zip(votes, labels, strict=True)]
    decisions = _observed(pairs, cases)
    columns = {
        "accuracy": weighted_statistics.accuracy(decisions),
        "PLCC": weighted_statistics.plcc(values),
        "SRCC": weighted_statistics.srcc(values),
        "MAE": weighted_statistics.mae(values),
        "kappa": weighted_statistics.kappa(decisions),
    }
    return columns if is_level else {**columns, "F1": weighted_statistics.f1(decisions)}


def _label(kind: LabelKind, metric: LabelMetric) -> Callable[[JudgedItem], float | None]:
    def label_of(item: JudgedItem) -> float | None:
        if kind == "pair":
            values = [metric.raw(row) for row in item.rows]
            if values[0] is None or values[1] is None:
                return None
            return float(np.sign(values[0] - values[1])) if abs(values[0] - values[1]) > metric.tie_width else 0.0
        share = metric.normalized(item.rows[0])
        if share is None:
            return None
        return nearest_level(kind, share) if kind in LEVEL_KINDS else float(share >= metric.threshold)

    return label_of


def _observed(rows: Sequence[tuple[str, float | None, float | None]], cases: Mapping[str, int]) -> PairedObservations:
    return PairedObservations.of([(cases[case], x, y) for case, x, y in rows], len(cases))


def _inter_annotator(
    kind: LabelKind, judged: Sequence[JudgedItem], metric: LabelMetric | None, cases: Mapping[str, int]
) -> dict[str, Statistic]:
    ratings_by_item = [(cases[item.case], list(item.ratings.values())) for item in judged]
    columns = {"same": weighted_statistics.equal_pairs(ratings_by_item, len(cases))}
    if kind in ("yes-no", "reference"):
        ratings = [(case, rating) for case, values in ratings_by_item for rating in values]
        columns["yes"] = mean_by_case(ratings, len(cases))
    levels = LEVELS if len(ANSWERS[kind]) > 2 else LEVELS[:1]  # with two answers all three are equal
    columns |= {f"alpha {level}": alpha(ratings_by_item, level, len(cases)) for level in levels}
    if metric is not None:
        metric_label = _label(kind, metric)
        units_with_metric = [
            (case, values if (label := metric_label(item)) is None else [*values, label])
            for item, (case, values) in zip(judged, ratings_by_item, strict=True)
        ]
        columns |= {f"alpha {level}, metric too": alpha(units_with_metric, level, len(cases)) for level in levels}
    return columns


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
    no row has, or a value below 0, which has no geometric mean."""
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
    return _table("averaging", f"{OVERALL} (pair): means of {names}", rows, notes)


def mean_stars(dimension: str, judged: Sequence[JudgedItem]) -> Table:
    """Each editor's mean stars over its judgements, as in table 3 of Complex-Edit, which has one judgement of each."""
    cases = case_indices(judged)
    rows: dict[str, dict[str, Statistic]] = {}
    for editor in sorted({editor for item in judged for editor, _ in item.item_keys}):
        own = [item for item in judged if item.item_keys[0][0] == editor]
        stars = [(cases[item.case], 1 + 4 * share) for item in own for share in item.ratings.values()]
        rows[editor or "all"] = {"stars": mean_by_case(stars, len(cases))}
    slug = dimension.replace("/", "-")
    return Table(f"stars-{slug}", f"{dimension}: mean stars, 1 to 5", ["stars"], rows, digits=2)


def win_ratios(
    dimension: str, judged: Sequence[JudgedItem], metric: LabelMetric | None
) -> tuple[Table | None, Statistic | None]:
    """Each editor's win ratio over its judgements; and over editors, the correlation of the win ratio with the mean of
    the metric over the compared images. None if the pairs are not of two editors, and without a third one."""
    editors = sorted({editor for item in judged for editor, _ in item.item_keys})
    if len(editors) < 2:
        return None, None
    cases = case_indices(judged)
    rows: dict[str, dict[str, Statistic]] = {}
    for editor in editors:
        signs = [(item, [name == editor for name, _ in item.item_keys]) for item in judged]
        wins = [
            (cases[item.case], (1 + (value if is_first else -value)) / 2)
            for item, (is_first, is_second) in signs
            if is_first != is_second
            for value in item.ratings.values()
        ]
        rows[editor] = {"win ratio": mean_by_case(wins, len(cases))}
        if metric is not None:
            keyed = (pair for item in judged for pair in zip(item.item_keys, item.rows, strict=True))
            images = {key: (cases[row.case], metric.raw(row)) for key, row in keyed if key[0] == editor}
            rows[editor][metric.name] = mean_by_case(list(images.values()), len(cases))
    table = _table(f"wins-{dimension}", f"{dimension}: win ratios", rows, ["a win counts 1, a tie 0.5"])
    if metric is None or len(editors) < 3:
        return table, None
    sides = ([row[column] for row in rows.values()] for column in reversed(table.columns))
    return table, weighted_statistics.pearson_over(*sides)


def win_correlations(by_dimension: Mapping[str, Statistic]) -> Table:
    """The correlations of `win_ratios`, and their plain mean over all dimensions but `overall` (I2I-Bench, table 3)."""
    rows = {dimension: {"Pearson": statistic} for dimension, statistic in by_dimension.items()}
    of_dimensions = [statistic for dimension, statistic in by_dimension.items() if dimension != OVERALL]
    if len(of_dimensions) > 1:
        rows["mean"] = {"Pearson": Statistic.combine(lambda *values: sum(values) / len(values), *of_dimensions)}
    return _table("wins-pearson", "win ratios and metrics, over editors", rows)


def _mean(
    parts: Sequence[tuple[str, ...]], average: Callable[[Sequence[float]], float], row: ResultRow
) -> float | None:
    values = [value for path in parts if (value := row.value(*path)) is not None]
    return average(values) if len(values) == len(parts) else None


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


def agreement_between(labels: Sequence[Label], pool: QuestionPool) -> list[ComputedTable]:
    """Between annotators, by kind and dimension. Raises `InputError` as long as there is nothing to compare."""
    lookup = ScoreLookup(pool.unscored_results())
    return _computed(agreement_tables(labels, lookup, group_by=()), _BETWEEN)


def agreement_with(labels: Sequence[Label], lookup: ScoreLookup, metric: str | None = None) -> list[ComputedTable]:
    """With the scores of a metric, or a part of one as in `name/part`; None: of the dimension's name. Raises
    `InputError` as long as there is nothing to compare, and for values outside 0 to 1."""
    metrics = {}
    if metric is not None:
        metrics = {label.dimension: LabelMetric(tuple(metric.split("/"))) for label in labels}
    tables = _computed(agreement_tables(labels, lookup, metrics=metrics, group_by=()), _WITH_SCORES)
    if not tables:
        raise InputError("no score has the name of a dimension of the labels: choose the scores to compare with")
    return tables


def _computed(tables: Sequence[Table], beginning: str) -> list[ComputedTable]:
    return [ComputedTable.compute(table, None) for table in tables if table.name.startswith(beginning)]


def compute_tables(tables: Iterable[Table], count: int = BOOTSTRAP_SAMPLES) -> list[ComputedTable]:
    """Tables with intervals; without intervals if a table has only one case."""
    computed = []
    for table in tables:
        cases = next(figure.cases for row in table.rows.values() for figure in row.values())
        computed.append(ComputedTable.compute(table, bootstrap_weights(cases, count) if cases > 1 else None))
    return computed


def render_table(computed: ComputedTable) -> RichTable:
    """One line per value."""
    table = RichTable(title=Text(computed.table.title, style="bold"), title_justify="left")
    for name in ("of", "statistic", "value", "95 % interval", "n", "without"):
        table.add_column(name, justify="left" if name in ("of", "statistic") else "right")
    for row, cells in computed.cells.items():
        for number, (column, cell) in enumerate(cells.items()):
            words = ["" if number else row, column, *_numbers(cell, computed.table.digits)]
            table.add_row(*(Text(word) for word in words))
        table.add_section()
    return table


def statistic_notes(all_computed: Sequence[ComputedTable], descriptions: Mapping[str, str]) -> Iterator[str]:
    """A description of each statistic, and of the intervals."""
    for name in dict.fromkeys(column for table in all_computed for column in table.table.columns):
        if name in descriptions:
            yield f"{name}: {descriptions[name]}"
    yield "95 % intervals: bootstrap percentiles over cases (source images of items), sampled with replacement"


def report_tables(
    tables: Sequence[ComputedTable], descriptions: Mapping[str, str], out: Path | None, as_json: bool, **more: object
) -> None:
    """Print the tables, or one JSON document; write them to the folder `out` if given. Raises OSError."""
    notes = list(statistic_notes(tables, descriptions))
    if out is not None:
        write_tables(tables, out)
    if as_json:
        documents = [table.to_json() for table in tables]
        print_json({"schema": 2, **more, "tables": documents, "statistic_descriptions": notes})
        return
    for table in tables:
        render(render_table(table))
        for note in table.table.notes:
            echo(f"  {note}", stderr=False)
    for line in notes:
        echo(line, stderr=False)
    if out is not None:
        echo(f"written to {out}", stderr=False)


def _numbers(cell: TableCell, digits: int) -> list[str]:
    if cell.value is None:
        return ["none", "", str(cell.count), str(cell.num_missing)]
    interval = "" if cell.low is None or cell.high is None else f"{cell.low:.{digits}f} to {cell.high:.{digits}f}"
    return [f"{cell.value:.{digits}f}", interval, str(cell.count), str(cell.num_missing)]
