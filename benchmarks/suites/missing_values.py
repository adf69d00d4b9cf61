"""Missing values in tables: the bounds of statistics over them, their number and their reasons.

So that no editor gains by edits that cannot be judged, each statistic is computed over the values that there are, with
every missing value at the lowest of its range, and at the highest. A value is missing if a score abstained or failed,
or the item has no output; it is left out if it is not applicable, which source and instruction alone decide; and it
counts as the lowest if the edit made it undecidable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..common.reasons import most_common_reason
from .bootstrap import Statistic
from .results import RANGES_ENTRY, Results, ValueRanges
from .suite import Suite
from .tables import Table

BOUNDS_NOTE = "after a number of missing values: the bounds, with these at the lowest and at the highest of their range"


def suite_tables(suite: Suite, results: Results, ranges: ValueRanges | None = None) -> list[Table]:
    """A suite's tables with bounds, and notes about missing values on the first table. ranges: of the values of all
    editors of a comparison; by default of these results. Columns that need a metric that was not computed are left out,
    with a note; nothing is missing there."""
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
    tables, notes = _without_uncomputed(suite, results, tables)
    notes += missing_notes(results)
    if any(figure.lowest is not None for table in tables for row in table.rows.values() for figure in row.values()):
        notes.insert(0, BOUNDS_NOTE)
    return [replace(tables[0], notes=[*tables[0].notes, *notes]), *tables[1:]]


def _without_uncomputed(suite: Suite, results: Results, tables: list[Table]) -> tuple[list[Table], list[str]]:
    computed = results.provenance.get(RANGES_ENTRY)  # one entry for each metric of the run
    if not isinstance(computed, Mapping):
        return tables, []
    protocol = results.provenance.get("protocol")
    metrics = suite.metrics(protocol if isinstance(protocol, str) else None)
    if not (absent := [name for name in metrics if name not in computed]):
        return tables, []
    reasons = results.provenance.get("skipped_metrics")
    reasons = reasons if isinstance(reasons, Mapping) else {}
    # With a value for everything that was computed, the rest is what nothing was computed for.
    whole = results.counting_missing("lowest", ValueRanges([results], unknown=(0.0, 0.0)))
    filled = {table.name: table for table in suite.tables(whole)}
    left_out: dict[str, None] = {}
    kept = []
    for table in tables:
        empty = [column for column in table.columns if _is_empty(filled.get(table.name, table), column)]
        left_out |= dict.fromkeys(empty)
        columns = [column for column in table.columns if column not in empty]
        ranking = "" if table.ranking_column in empty else table.ranking_column
        if columns or not empty:
            kept.append(replace(table, columns=columns, rows=_rows_of(table, columns), ranking_column=ranking))
    names_by_reason: dict[str, list[str]] = {}
    for name in absent:
        names_by_reason.setdefault(str(reasons.get(name, "not asked for")), []).append(name)
    whys = [f"{', '.join(names)} ({reason})" for reason, names in names_by_reason.items()]
    note = f"Not computed: {'; '.join(whys)}."
    if left_out:
        note += f" Left out, since they need it: {', '.join(left_out)}."
    return (kept or tables[:1]), [note]


def _is_empty(table: Table, column: str) -> bool:
    figures = [row[column] for row in table.rows.values() if column in row]
    return any(figure.num_missing for figure in figures) and all(figure.value is None for figure in figures)


def _rows_of(table: Table, columns: Sequence[str]) -> dict[str, dict[str, Statistic]]:
    return {
        name: {column: figure for column, figure in row.items() if column in columns}
        for name, row in table.rows.items()
    }


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
        why = f"{': ' if len({*missing}) == 1 else ', e.g. '}{most_common_reason(missing)}"
        notes.append(f"{len(missing)} of {len(results.rows)} items were not scored{why}")
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
