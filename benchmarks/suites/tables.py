"""Tables as in the papers, with intervals and denominators; as Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ...reward.atomic_files import write_atomically
from ...reward.plain_text import one_line
from ..common.csv_text import csv_text
from ..common.markdown import markdown_text, table_lines
from .bootstrap import MIN_CLUSTERS, Numbers, Statistic


@dataclass(frozen=True)
class Table:
    """A table of statistics, before they are evaluated.

    Args:
        name: Of its files, e.g. `leaderboard`.
        columns: In order.
        rows: Name -> column -> statistic; absent columns are empty.
        scale: Factor and name of the unit, e.g. 100 and "percent".
        unit: Factor and name of the unit, e.g. 100 and "percent".
        digits: Decimals.
        notes: E.g. options and left-out items.
        lower_is_better: Columns in which less is better.
        ranking_column: The column that ranks editors; the last one by default.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Mapping[str, Mapping[str, Statistic]]
    scale: float = 1.0
    unit: str = ""
    digits: int = 2
    notes: Sequence[str] = field(default=())
    lower_is_better: Sequence[str] = field(default=())
    ranking_column: str = ""


@dataclass(frozen=True, slots=True)
class TableCell:
    """An evaluated statistic.

    Args:
        low: 95 % interval or None.
        high: 95 % interval or None.
        count: See `Statistic`.
        num_missing: See `Statistic`.
        lowest: Its value with missing values at the ends of their range; None where that makes no difference.
        highest: See `lowest`.
    """

    value: float | None
    low: float | None
    high: float | None
    count: int
    num_missing: int
    lowest: float | None = None
    highest: float | None = None

    @staticmethod
    def of(figure: Statistic, weights: Numbers | None, scale: float = 1.0) -> TableCell:
        """Evaluate a statistic; the interval needs weights."""
        value = figure.value
        interval = None if weights is None or value is None else figure.interval(weights)
        low, high = (None, None) if interval is None else (scale * interval[0], scale * interval[1])
        lowest, highest = (
            None if bound is None or bound.value is None else scale * bound.value
            for bound in (figure.lowest, figure.highest)
        )
        scaled = None if value is None else scale * value
        return TableCell(scaled, low, high, figure.count, figure.num_missing, lowest, highest)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


CSV_COLUMNS = ("row", "column", *(field.name for field in fields(TableCell)))


@dataclass(frozen=True)
class ComputedTable:
    """A table with evaluated statistics."""

    table: Table
    cells: Mapping[str, Mapping[str, TableCell]]

    @staticmethod
    def compute(table: Table, weights: Numbers | None) -> ComputedTable:
        """Its cells; a note says why some have no interval."""
        cells = {
            name: {column: TableCell.of(figure, weights, table.scale) for column, figure in row.items()}
            for name, row in table.rows.items()
        }
        figures = [figure for row in table.rows.values() for figure in row.values() if figure.value is not None]
        if weights is not None and any(figure.num_clusters < MIN_CLUSTERS for figure in figures):
            note = f"no interval of fewer than {MIN_CLUSTERS} cases (source images): it would be too narrow"
            table = replace(table, notes=(*table.notes, note))
        return ComputedTable(table, cells)

    def to_json(self) -> dict[str, Any]:
        table = self.table
        return {
            "name": table.name,
            "title": table.title,
            "unit": table.unit,
            "digits": table.digits,
            "columns": list(table.columns),
            "rows": {
                name: {column: cell.to_json() for column, cell in row.items()} for name, row in self.cells.items()
            },
            "notes": list(table.notes),
        }

    def markdown(self) -> str:
        """GitHub Markdown; cells: value (interval), number of missing values and the bounds that they allow."""
        lines = [f"**{markdown_text(self.table.title)}**" + (f", {self.table.unit}" if self.table.unit else ""), ""]
        columns = self.table.columns
        rows = (
            [markdown_text(name), *(self._shown(row.get(column)) for column in columns)]
            for name, row in self.cells.items()
        )
        lines += table_lines(["", *map(markdown_text, columns)], rows)
        return "\n".join([*lines, "", *(f"- {markdown_text(note)}" for note in self.table.notes)]).rstrip() + "\n"

    def csv(self) -> str:
        """One line per cell: row, column and the fields of `TableCell`; numbers in full precision."""
        return csv_text([CSV_COLUMNS, *self.csv_rows()])

    def csv_rows(self) -> Iterator[list[Any]]:
        """The rows of `csv`, by `CSV_COLUMNS`."""
        for name, row in self.cells.items():
            for column, cell in row.items():
                yield [name, column, *(getattr(cell, field.name) for field in fields(TableCell))]

    def latex(self) -> str:
        """A booktabs tabular with the cells of `markdown`; the notes are comments."""
        columns = self.table.columns
        lines = [
            f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
            "\\toprule",
            " & ".join(["", *map(_tex, columns)]) + r" \\",
            "\\midrule",
        ]
        for name, row in self.cells.items():
            values = (_tex(self._shown(row.get(column))) for column in columns)
            lines.append(" & ".join([_tex(name), *values]) + r" \\")
        notes = (f"% {_tex(note)}" for note in self.table.notes)
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", *notes]) + "\n"

    def _shown(self, cell: TableCell | None) -> str:
        if cell is None:
            return ""
        if cell.value is None:
            return no_mean_text(cell, self.table.digits)
        shown = self._number(cell.value)
        if cell.low is not None:
            shown += f" ({self._number(cell.low)} to {self._number(cell.high)})"
        missing = missing_text(cell, self.table.digits)
        return f"{shown}, {missing}" if missing else shown

    def _number(self, value: float | None) -> str:
        return "" if value is None else f"{value:.{self.table.digits}f}"


def no_mean_text(cell: TableCell, digits: int) -> str:
    """What stands in place of a value: "no mean: 1 missing, between 2.33 and 5.67"; empty if nothing is missing."""
    missing = missing_text(cell, digits)
    return f"no mean: {missing}" if missing else ""


def missing_text(cell: TableCell, digits: int) -> str:
    """How many values are missing, and between which bounds the figure is with them; empty if none is."""
    parts = [f"{cell.num_missing} missing"] if cell.num_missing else []
    if cell.lowest is not None and cell.highest is not None:
        bounds = f"between {cell.lowest:.{digits}f} and {cell.highest:.{digits}f}"
        parts.append(bounds if cell.num_missing else f"{bounds} with what is missing")
    return ", ".join(parts)


_TEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def _tex(text: str) -> str:
    line = one_line(text)
    return "".join(_TEX.get(letter, "\\textbackslash{}" if letter == "\\" else letter) for letter in line)


def write_tables(tables: Iterable[ComputedTable], folder: Path) -> None:
    """Write each table into the folder, as `NAME.md`, `NAME.csv` and `NAME.tex`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for computed in tables:
        name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in computed.table.name)
        stem = name.strip(".") or "table"
        write_atomically(folder / f"{stem}.md", computed.markdown())
        write_atomically(folder / f"{stem}.csv", computed.csv())
        write_atomically(folder / f"{stem}.tex", computed.latex())
