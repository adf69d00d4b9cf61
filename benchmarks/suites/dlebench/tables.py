"""DLEBench's tables: means by instruction type, unweighted over the types, and frequencies of the labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ....reward.metrics.dlebench.replies import CONSISTENCY, FOLLOWING, LabelScale
from ..bootstrap import Numbers, Statistic
from ..results import ResultRow, Results
from ..tables import Table
from .reader import TYPES

IF, VC = "dlebench-if", "dlebench-vc"
SCALES: Mapping[str, LabelScale] = {IF: FOLLOWING, VC: CONSISTENCY}
SHORT: Mapping[str, str] = {IF: "IF", VC: "VC"}
AVERAGE = "Average"


def type_average(*types: Numbers) -> Numbers:
    """Unweighted mean over instruction types (section 5.2, tables 1 and 4)."""
    average: Numbers = np.mean(types, axis=0)
    return average


def mean_of_metrics(following: Numbers, consistency: Numbers) -> Numbers:
    """The mean of IF and VC (table 1)."""
    mean: Numbers = (following + consistency) / 2
    return mean


def dlebench_tables(results: Results, notes: Sequence[str] = ()) -> list[Table]:
    """Table 1 (mean of IF and VC), table 4 (each), and the frequencies of labels, by type and overall."""
    all_notes = [
        "means are over the judgements with a label; the others are counted as missing",
        "the average is over the types, unweighted",
        *notes,
    ]
    single = {name: _by_type(results, name) for name in SCALES}
    mean_row = {
        kind: Statistic.combine(mean_of_metrics, single[IF][kind], single[VC][kind])
        for kind in single[IF]
        if kind in single[VC]
    }  # fmt: skip
    columns = [*mean_row]
    return [
        Table("leaderboard", "DLEBench, mean of IF and VC", columns, {"IF and VC": mean_row}, 100.0, "of 100", 2,
              all_notes, ranking_column=AVERAGE),
        Table("criteria", "DLEBench by criterion", columns, {SHORT[name]: row for name, row in single.items()}, 100.0,
              "of 100", 2, all_notes, ranking_column=AVERAGE),
        *(_labels(results, name) for name in SCALES),
    ]  # fmt: skip


def types_of(results: Results) -> list[str]:
    """The types of the results, in the paper's order."""
    present = {row.labels.get("type") for row in results.rows}
    return [kind for kind in TYPES if kind in present]


def _by_type(results: Results, metric: str) -> dict[str, Statistic]:
    means = {kind: results.mean(results.filter(type=kind), _value(metric)) for kind in types_of(results)}
    return {**means, AVERAGE: Statistic.combine(type_average, *means.values())} if means else {}


def _value(metric: str) -> Callable[[ResultRow], float | None]:
    return lambda row: row.value(metric)


def _labels(results: Results, metric: str) -> Table:
    """Shares of the labels among the judgements with a label."""
    scale, short = SCALES[metric], SHORT[metric]
    rows = {kind: _shares(results, results.filter(type=kind), metric) for kind in types_of(results)}
    rows["all"] = _shares(results, results.rows, metric)
    return Table(f"labels-{short.lower()}", f"DLEBench, labels for {short}", scale.labels, rows, 100.0, "percent", 1,
                 ranking_column=scale.labels[0], lower_is_better=scale.labels[1:])  # fmt: skip


def _shares(results: Results, rows: Iterable[ResultRow], metric: str) -> dict[str, Statistic]:
    rows = list(rows)
    shares = {label: results.mean(rows, _has_label(metric, label)) for label in SCALES[metric].labels}
    return {label: replace(share, monotone=False) for label, share in shares.items()}  # of one label among others


def _has_label(metric: str, label: str) -> Callable[[ResultRow], float | None]:
    def indicator(row: ResultRow) -> float | None:
        row_label = label_of(row, metric)
        return None if row_label is None else float(row_label == label)

    return indicator


def label_of(row: ResultRow, metric: str) -> str | None:
    """The label that corresponds to a row's score, or None."""
    share = row.value(metric)
    labels = SCALES[metric].labels
    return None if share is None else labels[len(labels) - 1 - round(share * (len(labels) - 1))]


def histogram(results: Results, metric: str) -> dict[str, int]:
    """Counts of the labels, the best first, and `no label`: failed, or not scored."""
    row_labels = [label_of(row, metric) for row in results.rows]
    counts = {label: row_labels.count(label) for label in SCALES[metric].labels}
    return {**counts, "no label": row_labels.count(None)}
