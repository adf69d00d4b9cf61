"""Complex-Edit's tables for one editor, and its scores by level of complexity (section 5.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import fmean
from typing import Literal, get_args

import numpy as np

from ..bootstrap import Statistic, plain_mean
from ..results import ResultRow, Results
from ..tables import Table

Mean = Literal["arithmetic", "geometric"]
MEANS: tuple[Mean, ...] = get_args(Mean)

BASE_METRICS = ("if", "ip", "pq")
OVERALL = "o"
METRICS = (*BASE_METRICS, OVERALL)


def overall(following: float, preservation: float, quality: float, *, mean: Mean = "arithmetic") -> float:
    """Complex-Edit's O: the arithmetic mean of the three (section 3.1.3), or the geometric one (section 4.1.5)."""
    values = (following, preservation, quality)
    return fmean(values) if mean == "arithmetic" else math.prod(values) ** (1 / len(values))


def value_of(metric: str, mean: Mean = "arithmetic") -> Callable[[ResultRow], float | None]:
    """A row's value of `if`, `ip`, `pq` or `o`; `o` needs the other three."""

    def value(row: ResultRow) -> float | None:
        if metric != OVERALL:
            return row.value(metric)
        following, preservation, quality = (row.value(part) for part in BASE_METRICS)
        if following is None or preservation is None or quality is None:
            return None
        return overall(following, preservation, quality, mean=mean)

    return value


def level_curve(results: Results, metric: str = OVERALL, *, mean: Mean = "arithmetic") -> dict[int, Statistic]:
    """Level -> mean of a metric (`if`, `ip`, `pq` or `o`) over its images, from the lowest level on."""
    levels = sorted({int(row.labels["level"]) for row in results.rows})
    return {
        level: results.mean([row for row in results.rows if row.labels["level"] == level], value_of(metric, mean))
        for level in levels
    }


def level_mean(figures: Mapping[int, Statistic]) -> Statistic:
    """The unweighted mean over levels; undefined if a level is."""
    return Statistic.combine(plain_mean, *figures.values())


def complexity_drop(figures: Mapping[int, Statistic]) -> Statistic:
    """Highest minus lowest level, as in tables 4 and 5: negative if scores drop with complexity."""
    return Statistic.combine(np.subtract, figures[max(figures)], figures[min(figures)], monotone=False)


_UNIT = "grade 0-10"


def tables_of(results: Results, mean: Mean, operations: Mapping[str, Sequence[str]]) -> list[Table]:
    """The leaderboard, the levels and, in mode `numeric`, the operations and the measurements.

    operations: item -> the names of its operations, in order.
    """
    if not results.rows:
        return []
    curves = {metric.upper(): level_curve(results, metric, mean=mean) for metric in METRICS}
    notes = [f"O: {mean} mean of IF, IP and PQ of each image."]
    tables = [leaderboard(curves, notes), levels(curves, notes)]
    by_name = operation_rows(results, operations)
    if by_name:
        rows = {
            name: {"IF": results.metric_mean(operation_results, "if")} for name, operation_results in by_name.items()
        }
        notes = ["Grades of single operations, over images and levels; their mean may differ from IF."]
        tables.append(Table("operations", "Complex-Edit by operation", ["IF"], rows, unit=_UNIT, notes=notes))
    if any(_evidence_number(part, "n")(row) is not None for row in results.rows for part in BASE_METRICS):
        tables.append(measurements(results))
    return tables


def operation_rows(results: Results, operations: Mapping[str, Sequence[str]]) -> dict[str, list[ResultRow]]:
    """Name of an atomic operation -> a row per edit with it, with its grade as `if`; sorted by name. Empty where
    operations have no grades.
    """
    rows_by_name: dict[str, list[ResultRow]] = {}
    graded = False
    for row in results.rows:
        score, names = row.score("if"), operations.get(row.id, ())
        credits = [] if score is None else list(score.credits.values())
        graded |= bool(credits)
        for name, credit in zip_longest(names, credits[: len(names)]):  # a score without a value has no credits
            scores = {} if credit is None else {"if": credit}
            rows_by_name.setdefault(name or "(not named)", []).append(replace(row, scores=scores))
    return dict(sorted(rows_by_name.items())) if graded else {}


def leaderboard(curves: Mapping[str, Mapping[int, Statistic]], notes: list[str]) -> Table:
    """Table 3: the three scores and O, unweighted mean over the levels."""
    level_numbers = list(next(iter(curves.values())))
    levels_text = (
        f"level C{level_numbers[0]}"
        if len(level_numbers) == 1
        else f"mean over the levels {', '.join(f'C{level}' for level in level_numbers)}"
    )
    row = {name: level_mean(figures) for name, figures in curves.items()}
    return Table("leaderboard", f"Complex-Edit, {levels_text}", list(curves), {"all": row}, unit=_UNIT, notes=notes)


def levels(curves: Mapping[str, Mapping[int, Statistic]], notes: list[str]) -> Table:
    """Tables 4 and 5: the same by level, their mean, and the difference of highest and lowest level."""
    level_numbers = list(next(iter(curves.values())))
    rows = {f"C{level}": {name: figures[level] for name, figures in curves.items()} for level in level_numbers}
    if len(level_numbers) > 1:
        rows["mean"] = {name: level_mean(figures) for name, figures in curves.items()}
        rows[f"C{level_numbers[-1]} - C{level_numbers[0]}"] = {
            name: complexity_drop(figures) for name, figures in curves.items()
        }
    return Table("levels", "Complex-Edit by level", list(curves), rows, unit=_UNIT, notes=notes)


def measurements(results: Results) -> Table:
    """Number of grades per score, their standard deviation, and the number of replaced failures."""
    columns: Mapping[str, str] = {"measurements": "n", "standard deviation": "std", "replaced": "measurements"}
    rows = {
        part.upper(): {
            column: results.mean(
                [row for row in results.rows if row.value(part) is not None], _evidence_number(part, name)
            )
            for column, name in columns.items()
        }
        for part in BASE_METRICS
    }
    notes = ["Means over images and levels. Standard deviation: of the grades of one image, over all of them."]
    return Table("measurements", "Measurements per score", list(columns), rows, notes=notes)


def _evidence_number(part: str, name: str) -> Callable[[ResultRow], float | None]:
    """A number of a score's evidence; 0 replaced if there is no such entry."""

    def value(row: ResultRow) -> float | None:
        score = row.score(part)
        evidence = {} if score is None else {item.what: item.numbers for item in score.evidence}
        if "measurements" not in evidence:
            return None
        return (
            evidence.get("replaced", {"measurements": 0.0})[name]
            if name == "measurements"
            else evidence["measurements"][name]
        )

    return value
