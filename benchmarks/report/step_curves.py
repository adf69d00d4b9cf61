"""Sections over what edits are numbered by: turns of a chain, levels of complexity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..suites.figures import Figure
from ..suites.suite import Label
from ..suites.tables import Cell, Table
from .charts import Chart, Grid, Series, lines
from .material import Material, Section, in_order, of_metric, point, words

_STEP = re.compile(r"(?P<what>.*?)[\s,:]*\b(?P<kind>turn|level|[TtCc])?\s*(?P<number>\d+)")
_KINDS = {"turn": {"turn", "t", ""}, "level": {"level", "c", ""}}

Curves = dict[str, dict[str, dict[str, Cell]]]
"""What is drawn -> editor -> step -> number."""


def turns(material: Material) -> Section | None:
    """The suite's numbers, or else the metrics, over the turns of a chain."""
    lead = "What is left of an editor as its own pictures are edited again."
    return _section(material, "turn", "turns", "Turns", lead)


def levels(material: Material) -> Section | None:
    """The suite's numbers, or else the metrics, over levels of complexity."""
    lead = "What is left of an editor as more is asked for at once."
    return _section(material, "level", "levels", "Complexity", lead)


def _section(material: Material, label: str, name: str, title: str, lead: str) -> Section | None:
    values = material.groups(label)
    if not values:
        return None
    steps = [str(value) for value in values]
    found = _of_tables(material, label, values) or _of_metrics(material, label, values)
    blocks: list[Chart | Grid] = [_drawn(what, curve, steps, label, material) for what, curve in found.items()]
    return Section(name, title, lead, blocks) if blocks else None


def _drawn(what: str, curve: Mapping[str, Mapping[str, Cell]], steps: Sequence[str], label: str, material: Material
           ) -> Chart:  # fmt: skip
    kinds = {editor: number for number, editor in enumerate(material.editors)}
    series = [
        Series(
            editor,
            [point(float(steps.index(step)), cell, f"{label} {step}") for step, cell in cells.items()],
            kinds[editor],
        )
        for editor, cells in curve.items()
    ]
    return lines(words(what), series, words(label), words(what), steps=steps)


def _of_tables(material: Material, label: str, values: Sequence[Label]) -> Curves:
    """Of the first of the suite's tables that has a row or a column for each step."""
    number = {re.findall(r"\d+", str(value))[-1]: str(value) for value in values if re.search(r"\d", str(value))}
    if len(number) < len(values):
        return {}
    names = dict.fromkeys(table.name for tables in material.side.by_editor.values() for table in tables)
    for name in names:
        found: Curves = {}
        for editor, tables in material.side.by_editor.items():
            for table in tables:
                if table.name == name:
                    for what, step, figure in _steps(table, label, number):
                        cell = Cell.of(figure, material.side.weights, table.scale)
                        unit = f"{what}, {table.unit}" if table.unit else what
                        found.setdefault(unit, {}).setdefault(editor, {})[step] = cell
        if found:
            return found
    return {}


def _steps(table: Table, label: str, number: Mapping[str, str]) -> Iterator[tuple[str, str, Figure]]:
    """(what, step, figure) of a table that has rows that are named by steps, or such columns."""
    rows = [_step(line, label, number) for line in table.rows]
    steps = [(row[1], cells) for row, cells in zip(rows, table.rows.values(), strict=True) if row and not row[0]]
    if len(steps) >= 2:
        for name, cells in steps:
            yield from ((column, name, cells[column]) for column in table.columns if column in cells)
        return
    columns = {column: _step(column, label, number) for column in table.columns}
    whats = [step[0] for step in columns.values() if step is not None]
    several = {what for what in whats if what and whats.count(what) >= 2}
    for line, cells in table.rows.items():
        for column, step in columns.items():
            if step is not None and step[0] in several and column in cells:
                what = step[0] if len(table.rows) == 1 else f"{step[0]}, {words(line)}"
                yield what, step[1], cells[column]


def _step(text: str, label: str, number: Mapping[str, str]) -> tuple[str, str] | None:
    found = _STEP.fullmatch(text.strip())
    if found is None or found["number"] not in number:
        return None
    kind = (found["kind"] or "").lower()
    return (found["what"], number[found["number"]]) if kind in _KINDS.get(label, {label, ""}) else None


def _of_metrics(material: Material, label: str, values: Sequence[Label]) -> Curves:
    """The mean of each metric, apart for each mode where there are several."""
    found: Curves = {}
    modes: Sequence[Label | None] = material.groups("mode") or (None,)
    for name in material.metrics:
        for mode in modes:
            what = name if mode is None else f"{name}, {words(mode)}"
            for one in material.results:
                for value in in_order(values):
                    rows = one.where(**{label: value}, **({} if mode is None else {"mode": mode}))
                    cell = material.mean(one, rows, of_metric(name))
                    if cell.value is not None:
                        found.setdefault(what, {}).setdefault(one.editor, {})[str(value)] = cell
    return found
