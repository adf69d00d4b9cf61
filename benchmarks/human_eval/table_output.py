"""Printed and written tables: each statistic with its value, interval and n."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table as RichTable
from rich.text import Text

from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.terminal import echo, print_json, render
from ..suites.bootstrap import bootstrap_weights
from ..suites.tables import ComputedTable, Table, TableCell, write_tables


def compute_tables(tables: Iterable[Table], count: int = BOOTSTRAP_SAMPLES, seed: int = 0) -> list[ComputedTable]:
    """Tables with intervals; without intervals if a table has only one case."""
    computed = []
    for table in tables:
        cases = next(figure.cases for row in table.rows.values() for figure in row.values())
        computed.append(ComputedTable.compute(table, bootstrap_weights(cases, count, seed=seed) if cases > 1 else None))
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
        print_json(
            {"schema": 2, **more, "tables": [table.to_json() for table in tables], "statistic_descriptions": notes}
        )
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
