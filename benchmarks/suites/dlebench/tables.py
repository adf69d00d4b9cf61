"""What DLEBench makes of labels: means by instruction type, unweighted over the types, and how often each label is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ....reward.dlebench.labels import CONSISTENCY, FOLLOWING, Scale
from ..figures import Figure, Numbers
from ..results import Results, Row
from ..tables import Table
from .reading import TYPES

IF, VC = "dlebench-if", "dlebench-vc"
SCALES: Mapping[str, Scale] = {IF: FOLLOWING, VC: CONSISTENCY}
SHORT: Mapping[str, str] = {IF: "IF", VC: "VC"}
AVERAGE = "Average"


def average(*types: Numbers) -> Numbers:
    """Over instruction types, unweighted (section 5.2, tables 1 and 4)."""
    found: Numbers = np.mean(types, axis=0)
    return found


def both(following: Numbers, consistency: Numbers) -> Numbers:
    """The mean of IF and VC (table 1)."""
    found: Numbers = (following + consistency) / 2
    return found


def tables(results: Results, notes: Sequence[str] = ()) -> list[Table]:
    """Table 1 (mean of IF and VC), table 4 (each), and the labels given, by type and in all."""
    said = [
        "means are over the judgements that gave a label; those that did not stand beside them",
        "the average is over the types, unweighted",
        *notes,
    ]
    single = {name: _by_type(results, name) for name in SCALES}
    joint = {
        kind: Figure.of(both, single[IF][kind], single[VC][kind])
        for kind in single[IF]
        if kind in single[VC]
    }  # fmt: skip
    columns = [*joint]
    return [
        Table("leaderboard", "DLEBench, mean of IF and VC", columns, {"IF and VC": joint}, 100.0, "of 100", 2, said,
              headline=AVERAGE),
        Table("criteria", "DLEBench by criterion", columns, {SHORT[name]: row for name, row in single.items()}, 100.0,
              "of 100", 2, said, headline=AVERAGE),
        *(_labels(results, name) for name in SCALES),
    ]  # fmt: skip


def types_of(results: Results) -> list[str]:
    """Those that there are, in the paper's order."""
    there = {row.labels.get("type") for row in results.rows}
    return [kind for kind in TYPES if kind in there]


def _by_type(results: Results, metric: str) -> dict[str, Figure]:
    found = {kind: results.mean(results.where(type=kind), _value(metric)) for kind in types_of(results)}
    return {**found, AVERAGE: Figure.of(average, *found.values())} if found else {}


def _value(metric: str) -> Callable[[Row], float | None]:
    return lambda row: row.value(metric)


def _labels(results: Results, metric: str) -> Table:
    """Shares of the labels among the judgements that gave one."""
    scale, short = SCALES[metric], SHORT[metric]
    rows = {kind: _shares(results, results.where(type=kind), metric) for kind in types_of(results)}
    rows["all"] = _shares(results, results.rows, metric)
    return Table(f"labels-{short.lower()}", f"DLEBench, labels for {short}", scale.labels, rows, 100.0, "percent", 1,
                 headline=scale.labels[0], lower=scale.labels[1:])  # fmt: skip


def _shares(results: Results, rows: Iterable[Row], metric: str) -> dict[str, Figure]:
    rows = list(rows)
    return {label: results.mean(rows, _is(metric, label)) for label in SCALES[metric].labels}


def _is(metric: str, label: str) -> Callable[[Row], float | None]:
    def found(row: Row) -> float | None:
        said = label_of(row, metric)
        return None if said is None else float(said == label)

    return found


def label_of(row: Row, metric: str) -> str | None:
    """The label that a row's score is the worth of; None where there is none."""
    share = row.value(metric)
    labels = SCALES[metric].labels
    return None if share is None else labels[len(labels) - 1 - round(share * (len(labels) - 1))]


def histogram(results: Results, metric: str) -> dict[str, int]:
    """How often each label was given, the best first, and behind them `no label`: failed, or not judged."""
    said = [label_of(row, metric) for row in results.rows]
    found = {label: said.count(label) for label in SCALES[metric].labels}
    return {**found, "no label": said.count(None)}
