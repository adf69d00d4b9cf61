"""Tables as in the papers, with intervals and denominators; as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...reward.atomic_files import write_atomically
from ..common.markdown import table_lines
from .bootstrap import Numbers, Statistic


@dataclass(frozen=True)
class Table:
    """name: of its files, e.g. `leaderboard`. columns: in order. rows: name -> column -> statistic; absent columns are
    empty. scale, unit: factor and name of the unit, e.g. 100 and "percent". digits: decimals. notes: e.g. options and
    left-out items. lower_is_better: columns in which less is better. ranking_column: the column that ranks editors; the
    last one by default.
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
    """An evaluated statistic. low, high: 95 % interval or None. count, num_missing: see `Statistic`."""

    value: float | None
    low: float | None
    high: float | None
    count: int
    num_missing: int

    @staticmethod
    def of(figure: Statistic, weights: Numbers | None, scale: float = 1.0) -> TableCell:
        """Evaluate a statistic; the interval needs weights."""
        value = figure.value
        interval = None if weights is None or value is None else figure.interval(weights)
        low, high = (None, None) if interval is None else (scale * interval[0], scale * interval[1])
        return TableCell(None if value is None else scale * value, low, high, figure.count, figure.num_missing)

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "count": self.count,
            "num_missing": self.num_missing,
        }


@dataclass(frozen=True)
class ComputedTable:
    """A table with evaluated statistics."""

    table: Table
    cells: Mapping[str, Mapping[str, TableCell]]

    @staticmethod
    def compute(table: Table, weights: Numbers | None) -> ComputedTable:
        return ComputedTable(
            table,
            {
                name: {column: TableCell.of(figure, weights, table.scale) for column, figure in row.items()}
                for name, row in table.rows.items()
            },
        )

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
        """GitHub Markdown; cells: value (low to high), number of missing values."""
        lines = [f"**{self.table.title}**" + (f", {self.table.unit}" if self.table.unit else ""), ""]
        columns = self.table.columns
        rows = ([name, *(self._shown(row.get(column)) for column in columns)] for name, row in self.cells.items())
        lines += table_lines(["", *columns], rows)
        return "\n".join([*lines, "", *(f"- {note}" for note in self.table.notes)]).rstrip() + "\n"

    def csv(self) -> str:
        """One line per cell: row, column, value, low, high, count, num_missing; numbers in full precision."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["row", "column", "value", "low", "high", "count", "num_missing"])
        for name, row in self.cells.items():
            for column, cell in row.items():
                writer.writerow([name, column, cell.value, cell.low, cell.high, cell.count, cell.num_missing])
        return out.getvalue()

    def latex(self) -> str:
        """A booktabs tabular, values only."""
        columns = self.table.columns
        lines = [
            f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
            "\\toprule",
            " & ".join(["", *map(_tex, columns)]) + r" \\",
            "\\midrule",
        ]
        for name, row in self.cells.items():
            values = (self._number(row[column].value) if column in row else "" for column in columns)
            lines.append(" & ".join([_tex(name), *values]) + r" \\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"

    def _shown(self, cell: TableCell | None) -> str:
        if cell is None:
            return ""
        if cell.value is None:
            return f"none of {cell.num_missing}" if cell.num_missing else ""
        shown = self._number(cell.value)
        if cell.low is not None:
            shown += f" ({self._number(cell.low)} to {self._number(cell.high)})"
        return shown + (f", {cell.num_missing} missing" if cell.num_missing else "")

    def _number(self, value: float | None) -> str:
        return "" if value is None else f"{value:.{self.table.digits}f}"


_TEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, "\\textbackslash{}" if letter == "\\" else letter) for letter in text)


def write_tables(tables: Iterable[ComputedTable], folder: Path) -> None:
    """Write each table into the folder, as `NAME.md`, `NAME.csv` and `NAME.tex`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for computed in tables:
        name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in computed.table.name)
        stem = name.strip(".") or "table"
        write_atomically(folder / f"{stem}.md", computed.markdown())
        write_atomically(folder / f"{stem}.csv", computed.csv())
        write_atomically(folder / f"{stem}.tex", computed.latex())
