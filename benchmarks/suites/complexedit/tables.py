"""Complex-Edit's tables for one editor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..figures import Figure
from ..results import Results, Row
from ..tables import Table
from .scaling import METRICS, PARTS, Mean, curve, drop, level_mean

_UNIT = "grade 0-10"


def tables_of(results: Results, mean: Mean, operations: Mapping[str, Sequence[str]]) -> list[Table]:
    """The leaderboard, the levels and, of the mode `numeric`, the operations and what scores are means of.

    operations: item -> the names of its operations, in order.
    """
    if not results.rows:
        return []
    curves = {metric.upper(): curve(results, metric, mean=mean) for metric in METRICS}
    notes = [f"O: {mean} mean of IF, IP and PQ of each picture."]
    found = [leaderboard(curves, notes), levels(curves, notes)]
    by_name = credited(results, operations)
    if by_name:
        rows = {name: {"IF": results.mean(some, lambda row: row.value("if"))} for name, some in by_name.items()}
        notes = ["Grades of single operations, over pictures and levels; they need not have the mean that IF is."]
        found.append(Table("operations", "Complex-Edit by operation", ["IF"], rows, unit=_UNIT, notes=notes))
    if any(_measured(part, "n")(row) is not None for row in results.rows for part in PARTS):
        found.append(measurements(results))
    return found


def credited(results: Results, operations: Mapping[str, Sequence[str]]) -> dict[str, list[Row]]:
    """Name of an atomic operation -> a row each time that it was graded, with its own grade as `if`; by name."""
    found: dict[str, list[Row]] = {}
    for row in results.rows:
        score, names = row.score("if"), operations.get(row.id, ())
        credits = [] if score is None else list(score.credits.values())
        for name, credit in zip(names, credits, strict=False):  # a score that failed has no credits
            found.setdefault(name or "(not named)", []).append(replace(row, scores={"if": credit}))
    return dict(sorted(found.items()))


def leaderboard(curves: Mapping[str, Mapping[int, Figure]], notes: list[str]) -> Table:
    """Table 3: the three scores and O, over all levels asked for, each of which counts alike."""
    there = list(next(iter(curves.values())))
    said = f"level C{there[0]}" if len(there) == 1 else f"mean over the levels {', '.join(f'C{one}' for one in there)}"
    row = {name: level_mean(figures) for name, figures in curves.items()}
    return Table("leaderboard", f"Complex-Edit, {said}", list(curves), {"all": row}, unit=_UNIT, notes=notes)


def levels(curves: Mapping[str, Mapping[int, Figure]], notes: list[str]) -> Table:
    """Tables 4 and 5: the same by level, their mean, and what the highest level costs against the lowest."""
    there = list(next(iter(curves.values())))
    rows = {f"C{level}": {name: figures[level] for name, figures in curves.items()} for level in there}
    if len(there) > 1:
        rows["mean"] = {name: level_mean(figures) for name, figures in curves.items()}
        rows[f"C{there[-1]} - C{there[0]}"] = {name: drop(figures) for name, figures in curves.items()}
    return Table("levels", "Complex-Edit by level", list(curves), rows, unit=_UNIT, notes=notes)


def measurements(results: Results) -> Table:
    """How many grades a score is the mean of, how far they spread, and how many failed and were asked for anew."""
    columns: Mapping[str, str] = {"measurements": "n", "standard deviation": "std", "replaced": "measurements"}
    rows = {
        part.upper(): {
            column: results.mean([row for row in results.rows if row.value(part) is not None], _measured(part, name))
            for column, name in columns.items()
        }
        for part in PARTS
    }
    notes = ["Means over pictures and levels. Standard deviation: of the grades of one picture, over all of them."]
    return Table("measurements", "Measurements a score", list(columns), rows, notes=notes)


def _measured(part: str, name: str) -> Callable[[Row], float | None]:
    """A number of a score's evidence; none replaced where nothing is said of it."""

    def value(row: Row) -> float | None:
        score = row.score(part)
        said = {} if score is None else {one.what: one.numbers for one in score.evidence}
        if "measurements" not in said:
            return None
        return (
            said.get("replaced", {"measurements": 0.0})[name] if name == "measurements" else said["measurements"][name]
        )

    return value
