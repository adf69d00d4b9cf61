"""ImgEdit-Bench's tables: means by type and their plain mean, criteria, and what the judge's replies were like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ....reward.metrics.imgedit.metrics import CAPPED, CRITERIA, EDIT_TYPES, GRADES, NUMBERS, OUT_OF_RANGE
from ..bootstrap import Statistic, plain_mean
from ..results import ResultRow, Results
from ..tables import Table

METRICS: Mapping[str, str] = {"basic": "imgedit", "uge": "imgedit-uge"}
"""Part -> its metric."""
OVERALL, UGE = "Overall", "UGE"
COLUMNS: Mapping[str, str] = {kind: "Hybrid" if kind == "compose" else kind.capitalize() for kind in EDIT_TYPES}
"""Type -> its column, in the published order."""

_UNIT = "grade 1-5"
_GRADES = 3
"""Criteria of a type."""


def basic_tables(results: Results, notes: Sequence[str]) -> list[Table]:
    """The published table, the criteria by type (protocol `fixed`), and the replies by type."""
    metric = METRICS["basic"]
    rows = {COLUMNS[kind]: results.filter(type=kind) for kind in EDIT_TYPES if results.filter(type=kind)}
    row = {column: results.metric_mean(of_type, metric) for column, of_type in rows.items()}
    row[OVERALL] = Statistic.combine(plain_mean, *row.values())
    overall = f"Overall is the plain mean of the means of {len(rows)} types"
    board = Table(
        "leaderboard", "ImgEdit-Bench, basic", [*row], {"all": row}, 1.0, _UNIT, 2, [overall, *notes],
        ranking_column=OVERALL,
    )  # fmt: skip
    return [board, *_criteria(results), *_replies(results, metric, rows)]


def uge_tables(results: Results, notes: Sequence[str]) -> list[Table]:
    """The mean over the hard instructions, and their replies."""
    metric = METRICS["uge"]
    mean = results.metric_mean(results.rows, metric)
    board = Table("leaderboard", "ImgEdit-Bench, hard instructions", [UGE], {"all": {UGE: mean}}, 1.0, _UNIT, 2, notes)
    return [board, *_replies(results, metric, {UGE: results.rows})]


def _criteria(results: Results) -> list[Table]:
    """The grades that count, by type: the three criteria in their order. None where no score has them."""
    columns = [f"criterion {number}" for number in range(1, _GRADES + 1)]
    rows: dict[str, dict[str, Statistic]] = {}
    names = []
    for kind in EDIT_TYPES:
        of_type = results.filter(type=kind)
        if not any((score := row.score("imgedit")) is not None and score.parts for row in of_type):
            continue
        rows[COLUMNS[kind]] = {
            column: results.metric_mean(of_type, METRICS["basic"], criterion)
            for column, criterion in zip(columns, CRITERIA[kind], strict=True)
        }
        names.append(f"{COLUMNS[kind]}: {', '.join(CRITERIA[kind])}")
    if not rows:
        return []
    return [Table("criteria", "ImgEdit-Bench, basic, by criterion", columns, rows, 1.0, _UNIT, 2, names)]


def _replies(results: Results, metric: str, rows: Mapping[str, Sequence[ResultRow]]) -> list[Table]:
    """Shares of the samples with a value whose grades were lowered (`fixed`), or that had other numbers than grades
    (`official`).
    """
    evidence = [item for row in results.rows for item in _evidence(row, metric).values()]
    if not evidence:
        return []
    expected = _GRADES if metric == METRICS["basic"] else 1
    columns: dict[str, Callable[[Mapping[str, Mapping[str, float]]], bool]]
    if any(NUMBERS in numbers for numbers in evidence):
        columns = {
            f"other than {expected} numbers": lambda found: found[GRADES][NUMBERS] != expected,
            "numbers outside of 1 to 5": lambda found: found[GRADES][OUT_OF_RANGE] > 0,
        }
        note = "such numbers count as the released code counts them; replies without any are failed scores"
    else:
        columns = {"grades lowered": lambda found: CAPPED in found}
        note = (
            "a second or third grade above the first counts as the first"
            if metric == METRICS["basic"]
            else "a grade above 3 counts as 3 where the judge says that other areas changed"
        )
    shares = {
        name: {column: _share(results, of_type, metric, holds) for column, holds in columns.items()}
        for name, of_type in rows.items()
    }
    return [Table("replies", "ImgEdit-Bench, the judge's replies", [*columns], shares, 100.0, "percent of samples", 1,
                  [note], lower_is_better=[*columns])]  # fmt: skip


def _share(
    results: Results, rows: Sequence[ResultRow], metric: str, holds: Callable[[Mapping[str, Mapping[str, float]]], bool]
) -> Statistic:
    def indicator(row: ResultRow) -> float | None:
        found = _evidence(row, metric)
        return float(holds(found)) if GRADES in found else None

    return replace(results.mean(rows, indicator), monotone=False)


def _evidence(row: ResultRow, metric: str) -> dict[str, Mapping[str, float]]:
    """Numbers of a scored row's evidence, by what it is."""
    score = row.score(metric)
    if score is None or score.value is None:
        return {}
    return {item.what: item.numbers for item in score.evidence if item.what in (GRADES, CAPPED)}
