"""Tables of agreement: human labels with a metric, and annotators with each other, by dimension and by item label.

Yes and no: accuracy, PLCC, Cohen's kappa and F1 per task type (EdiVal, section 2.5 and table 13). Four levels:
Spearman, Pearson and MAE (DLEBench, section 5.3). Between annotators: Krippendorff's alpha (DLEBench, table 2) and the
share of equal labels (EdiVal's 85.5 %).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..common.errors import InputError
from ..suites.bootstrap import Statistic
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
from ..suites.tables import Table
from . import weighted_statistics
from .box_agreement import MATCH_IOU, box_table
from .krippendorff import LEVELS, alpha
from .label_matching import JudgedItem, LabelMetric, Pooling, ScoreLookup, case_indices, group_by_label
from .preference_agreement import compare_averages, mean_stars, preference_columns, win_correlations, win_ratios
from .weighted_statistics import PairedObservations

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
    """Every table that these labels allow, without intervals (see `ComputedTable.compute`).

    metrics: dimension -> metric; other dimensions use the metric of their name. group_by: item labels to group by.
    pool: one value per judgement, or one per item. min_raters: items with fewer annotators are skipped.
    average_metrics: parts whose arithmetic and geometric means are compared with the overall preference. Raises
    `InputError` if no label matches an item, or if a metric is missing.
    """
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
            notes = _notes(judged, num_unmatched, skipped, min_raters, pool)
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


def _notes(
    judged: Sequence[JudgedItem], num_unmatched: int, skipped: Sequence[JudgedItem], min_raters: int, pool: Pooling
) -> list[str]:
    counts = [len(item.ratings) for item in judged]
    annotators = {name for item in judged for name in item.ratings}
    notes = [
        f"{sum(counts)} judgements of {len(judged)} items by {len(annotators)} annotators",
        f"{sum(count == 1 for count in counts)} items have one judgement only",
        "one value per judgement" if pool == "each" else "one value per item: the mean; the majority of yes and no",
    ]
    if skipped:
        notes.append(f"{len(skipped)} items with fewer than {min_raters} judgements are left out")
    if num_unmatched:
        notes.append(f"{num_unmatched} labels match no row of the results")
    return notes


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
    heading = f"{dimension} ({kind})"
    slug = f"{kind}-{dimension}".replace("/", "-")
    tables = []
    if metric is not None:
        title = f"{heading}: human labels and {metric.name}"
        all_notes = [*notes, *_table_notes(kind, metric)]
        tables.append(Table(f"agreement-{slug}", title, _first(rows), rows, digits=3, notes=all_notes))
    title = f"{heading}: between annotators"
    tables.append(Table(f"annotators-{slug}", title, _first(annotator_rows), annotator_rows, digits=3, notes=notes))
    return tables


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
    decisions = _observed([(item.case, metric_label(item), _nearest_label(kind, vote)) for item, vote in votes], cases)
    columns = {
        "accuracy": weighted_statistics.accuracy(decisions),
        "PLCC": weighted_statistics.plcc(values),
        "SRCC": weighted_statistics.srcc(values),
    }
    columns |= {"MAE": weighted_statistics.mae(values), "kappa": weighted_statistics.kappa(decisions)}
    return columns if kind in LEVEL_KINDS else {**columns, "F1": weighted_statistics.f1(decisions)}


def _label(kind: LabelKind, metric: LabelMetric) -> Callable[[JudgedItem], float | None]:
    """The metric's label of an item, as `Label.value`."""

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


def _nearest_label(kind: LabelKind, vote: float | None) -> float | None:
    return vote if vote is None or kind not in LEVEL_KINDS else nearest_level(kind, vote)


def _observed(rows: Sequence[tuple[str, float | None, float | None]], cases: Mapping[str, int]) -> PairedObservations:
    return PairedObservations.of([(cases[case], x, y) for case, x, y in rows], len(cases))


def _inter_annotator(
    kind: LabelKind, judged: Sequence[JudgedItem], metric: LabelMetric | None, cases: Mapping[str, int]
) -> dict[str, Statistic]:
    ratings_by_item = [(cases[item.case], list(item.ratings.values())) for item in judged]
    columns = {"same": weighted_statistics.equal_pairs(ratings_by_item, len(cases))}
    if kind in ("yes-no", "reference"):
        ratings = [(item.case, metric_label, metric_label) for item in judged for metric_label in item.ratings.values()]
        columns["yes"] = _observed(ratings, cases).mean(lambda x, _: x)
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


def _first(rows: Mapping[str, Mapping[str, Statistic]]) -> list[str]:
    return list(next(iter(rows.values())))
