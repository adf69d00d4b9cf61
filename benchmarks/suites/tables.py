"""Tables as papers print them, with intervals and denominators; as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .figures import Figure, Numbers


@dataclass(frozen=True)
class Table:
    """name: of its files, as in `leaderboard`. columns: in order. rows: name -> column -> figure; a column that a row
    has not is empty. unit: factor and words, as in (100, "percent"). digits: behind the point. notes: what a reader has
    to know: options, what was left out. lower: columns where less is better. headline: the column that editors are
    ranked by; the last one, where it is not said.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Mapping[str, Mapping[str, Figure]]
    scale: float = 1.0
    unit: str = ""
    digits: int = 2
    notes: Sequence[str] = field(default=())
    lower: Sequence[str] = field(default=())
    headline: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, computed. low, high: 95 % interval, None where there is none. count, without: see `Figure`."""

    value: float | None
    low: float | None
    high: float | None
    count: int
    without: int

    @staticmethod
    def of(figure: Figure, weights: Numbers | None, scale: float = 1.0) -> Cell:
        """Without weights, without an interval."""
        value = figure.value
        found = None if weights is None or value is None else figure.interval(weights)
        low, high = (None, None) if found is None else (scale * found[0], scale * found[1])
        return Cell(None if value is None else scale * value, low, high, figure.count, figure.without)

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "count": self.count,
            "without": self.without,
        }


@dataclass(frozen=True)
class Computed:
    """A table with its numbers: what is written, shown and put side by side with those of other editors."""

    table: Table
    cells: Mapping[str, Mapping[str, Cell]]

    @staticmethod
    def of(table: Table, weights: Numbers | None) -> Computed:
        return Computed(
            table,
            {
                name: {column: Cell.of(figure, weights, table.scale) for column, figure in row.items()}
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
        """A table of GitHub's Markdown: value (low to high), and what has no value behind it."""
        lines = [f"**{self.table.title}**" + (f", {self.table.unit}" if self.table.unit else ""), ""]
        lines += [f"| | {' | '.join(self.table.columns)} |", "|---|" + "---|" * len(self.table.columns)]
        for name, row in self.cells.items():
            shown = (self._shown(row.get(column)) for column in self.table.columns)
            lines.append(f"| {name} | {' | '.join(shown)} |")
        return "\n".join([*lines, "", *(f"- {note}" for note in self.table.notes)]).rstrip() + "\n"

    def csv(self) -> str:
        """A line a cell: row, column, value, low, high, count, without; numbers in full."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["row", "column", "value", "low", "high", "count", "without"])
        for name, row in self.cells.items():
            for column, cell in row.items():
                writer.writerow([name, column, cell.value, cell.low, cell.high, cell.count, cell.without])
        return out.getvalue()

    def latex(self) -> str:
        """A booktabs tabular, values alone."""
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

    def _shown(self, cell: Cell | None) -> str:
        if cell is None:
            return ""
        if cell.value is None:
            return f"none of {cell.without}" if cell.without else ""
        shown = self._number(cell.value)
        if cell.low is not None:
            shown += f" ({self._number(cell.low)} to {self._number(cell.high)})"
        return shown + (f", {cell.without} without" if cell.without else "")

    def _number(self, value: float | None) -> str:
        return "" if value is None else f"{value:.{self.table.digits}f}"


_TEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, "\\textbackslash{}" if letter == "\\" else letter) for letter in text)
