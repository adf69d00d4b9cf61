"""Sections over numbered steps: turns of a chain, levels of complexity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..suites.bootstrap import Statistic
from ..suites.suite import LabelValue
from ..suites.tables import Table, TableCell
from .charts import Chart, Series, TableView, line_chart
from .report_data import ReportData, ReportSection, display_name, metric_value, natural_order, point

_STEP_NAME = re.compile(r"(?P<what>.*?)[\s,:]*\b(?P<kind>turn|level|[TtCc])?\s*(?P<number>\d+)")
_KINDS = {"turn": {"turn", "t", ""}, "level": {"level", "c", ""}}

Curves = dict[str, dict[str, dict[str, TableCell]]]
"""Curve name -> editor -> step -> value."""


def turn_section(report: ReportData) -> ReportSection | None:
    """The suite's numbers, else the metrics, over the turns of a chain."""
    introduction = "Scores as an editor's own outputs are edited again."
    return _section(report, "turn", "turns", "Turns", introduction)


def level_section(report: ReportData) -> ReportSection | None:
    """The suite's numbers, else the metrics, over levels of complexity."""
    introduction = "Scores as the number of operations per instruction grows."
    return _section(report, "level", "levels", "Complexity", introduction)


def _section(report: ReportData, label: str, name: str, title: str, introduction: str) -> ReportSection | None:
    values = report.groups(label)
    if not values:
        return None
    steps = [str(value) for value in values]
    curves = _curves_of_tables(report, label, values) or _curves_of_metrics(report, label, values)
    blocks: list[Chart | TableView] = [
        _line_chart(curve_name, curve, steps, label, report) for curve_name, curve in curves.items()
    ]
    return ReportSection(name, title, introduction, blocks) if blocks else None


def _line_chart(
    name: str, curve: Mapping[str, Mapping[str, TableCell]], steps: Sequence[str], label: str, report: ReportData
) -> Chart:
    style_indices = {editor: number for number, editor in enumerate(report.editors)}
    series = [
        Series(
            editor,
            [point(float(steps.index(step)), cell, f"{label} {step}") for step, cell in cells.items()],
            style_indices[editor],
        )
        for editor, cells in curve.items()
    ]
    return line_chart(display_name(name), series, display_name(label), display_name(name), steps=steps)


def _curves_of_tables(report: ReportData, label: str, values: Sequence[LabelValue]) -> Curves:
    """Curves of the first suite table with a row or column per step."""
    number = {re.findall(r"\d+", str(value))[-1]: str(value) for value in values if re.search(r"\d", str(value))}
    if len(number) < len(values):
        return {}
    names = dict.fromkeys(table.name for tables in report.comparison.by_editor.values() for table in tables)
    for name in names:
        curves: Curves = {}
        for editor, tables in report.comparison.by_editor.items():
            for table in tables:
                if table.name == name:
                    for curve_name, step, statistic in _steps(table, label, number):
                        cell = TableCell.of(statistic, report.comparison.weights, table.scale)
                        unit = f"{curve_name}, {table.unit}" if table.unit else curve_name
                        curves.setdefault(unit, {}).setdefault(editor, {})[step] = cell
        if curves:
            return curves
    return {}


def _steps(table: Table, label: str, number: Mapping[str, str]) -> Iterator[tuple[str, str, Statistic]]:
    """(curve, step, statistic) of a table whose rows or columns are named by steps."""
    rows = [_step(line, label, number) for line in table.rows]
    steps = [(row[1], cells) for row, cells in zip(rows, table.rows.values(), strict=True) if row and not row[0]]
    if len(steps) >= 2:
        for name, cells in steps:
            yield from ((column, name, cells[column]) for column in table.columns if column in cells)
        return
    columns = {column: _step(column, label, number) for column in table.columns}
    curves = [step[0] for step in columns.values() if step is not None]
    repeated = {curve for curve in curves if curve and curves.count(curve) >= 2}
    for line, cells in table.rows.items():
        for column, step in columns.items():
            if step is not None and step[0] in repeated and column in cells:
                curve = step[0] if len(table.rows) == 1 else f"{step[0]}, {display_name(line)}"
                yield curve, step[1], cells[column]


def _step(text: str, label: str, number: Mapping[str, str]) -> tuple[str, str] | None:
    match = _STEP_NAME.fullmatch(text.strip())
    if match is None or match["number"] not in number:
        return None
    kind = (match["kind"] or "").lower()
    return (match["what"], number[match["number"]]) if kind in _KINDS.get(label, {label, ""}) else None


def _curves_of_metrics(report: ReportData, label: str, values: Sequence[LabelValue]) -> Curves:
    """The mean of each metric, separately for each mode if there are several."""
    curves: Curves = {}
    modes: Sequence[LabelValue | None] = report.groups("mode") or (None,)
    for name in report.metrics:
        for mode in modes:
            curve = name if mode is None else f"{name}, {display_name(mode)}"
            for results in report.results:
                for value in natural_order(values):
                    rows = results.filter(**{label: value}, **({} if mode is None else {"mode": mode}))
                    cell = report.mean(results, rows, metric_value(name))
                    if cell.value is not None:
                        curves.setdefault(curve, {}).setdefault(results.editor, {})[str(value)] = cell
    return curves
