"""Missing values in tables: the bounds of statistics over them, their number and their reasons.

An editor must not gain by edits that cannot be judged. So each statistic is computed three times: over the values that
there are, with every missing value at the lowest of its range, and at the highest. Editors are ranked by the lower
bound, and a difference of two editors counts only if it holds for the bounds.

A value is missing if a score abstained or failed, or if the item has no output. It is not missing, but left out, if it
is not applicable, which source and instruction alone decide; and it counts as the lowest if the edit made it
undecidable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..common.reasons import most_common_reason
from .bootstrap import Statistic
from .results import Results, ValueRanges
from .suite import Suite
from .tables import Table

BOUNDS_NOTE = "after a number of missing values: the bounds, with these at the lowest and at the highest of their range"


def suite_tables(suite: Suite, results: Results, ranges: ValueRanges | None = None) -> list[Table]:
    """A suite's tables with bounds, and notes about missing values on the first table.

    ranges: of the values of all editors of a comparison; by default of these results.
    """
    ranges = ranges or ValueRanges([results])
    tables = suite.tables(results.counting_missing("", ranges))
    if not tables:
        return []
    lowest = {table.name: table for table in suite.tables(results.counting_missing("lowest", ranges))}
    highest = {table.name: table for table in suite.tables(results.counting_missing("highest", ranges))}
    tables = [
        _with_bounds(table, lowest[table.name].rows, highest[table.name].rows)
        if table.name in lowest and table.name in highest
        else table
        for table in tables
    ]
    notes = missing_notes(results)
    if any(figure.lowest is not None for table in tables for row in table.rows.values() for figure in row.values()):
        notes.insert(0, BOUNDS_NOTE)
    return [replace(tables[0], notes=[*tables[0].notes, *notes]), *tables[1:]]


def _with_bounds(
    table: Table, lowest: Mapping[str, Mapping[str, Statistic]], highest: Mapping[str, Mapping[str, Statistic]]
) -> Table:
    rows: dict[str, dict[str, Statistic]] = {}
    for name, row in table.rows.items():
        low_row, high_row = lowest.get(name, {}), highest.get(name, {})
        rows[name] = {
            column: figure.bounded(low_row[column], high_row[column])
            if column in low_row and column in high_row
            else figure
            for column, figure in row.items()
        }
    return replace(table, rows=rows)


def missing_notes(results: Results) -> list[str]:
    """How many values are missing, and why: a note on items without a score, and one per metric."""
    missing = [row.missing_reason for row in results.rows if row.missing_reason]
    notes = []
    if missing:
        notes.append(f"{len(missing)} of {len(results.rows)} items were not scored: {most_common_reason(missing)}")
    for metric in dict.fromkeys(name for row in results.rows for name in row.scores):
        scores = [row.scores[metric] for row in results.rows if metric in row.scores]
        applicable = [score for score in scores if score.status != "not_applicable"]
        unscored = [score for score in applicable if score.value is None]
        if unscored:
            kinds = Counter("undecidable because of the edit" if score.cause == "edit" else score.status
                            for score in unscored)  # fmt: skip
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
            reason = most_common_reason([score.reason for score in unscored])
            notes.append(f"{metric}: {len(unscored)} of {len(applicable)} without a value ({counts}): {reason}")
    return notes
