"""Sections of tables: the leaderboard, differences between editors, the suite's other tables, radar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..suites.bootstrap import PairedDifference
from ..suites.tables import ComputedTable, Table, TableCell, missing_text, no_mean_text
from .charts import CellContent, Chart, ColumnHead, Point, Series, TableView, grouped_interval_chart, radar_chart
from .report_data import ReportData, ReportSection, display_name, point, with_unit

_RADAR_AXES = (3, 20)
_STEP = re.compile(r"(turn|t|level|c)?\s*\d+")
_MANY_COLUMNS = 8  # from this number on columns count as dimensions, not as different kinds of numbers
_MAX_RADARS, _MAX_RADARS_TOTAL = 6, 12
_MAX_COLUMNS_SIDE_BY_SIDE = 12  # maximum number of columns of a table with editors side by side


def leaderboard_section(report: ReportData) -> ReportSection:
    """One row per editor, the best first, with ranks; and a chart of the ranking column."""
    comparison = report.comparison
    board = ComputedTable.compute(comparison.leaderboard, comparison.weights)
    column, table = comparison.headline, board.table
    order = _ordered(board, column)
    is_ranked = len(order) > 1
    rows: list[list[CellContent]] = []
    for editor in order:
        row: list[CellContent] = [editor]
        if is_ranked:
            row.append(_place(comparison.ranks.cells[editor].get(column)))
            share = comparison.first_place_shares.cells[editor].get(column)
            row.append("–" if share is None or share.value is None else f"{share.value:.0f} %")
        rows.append([*row, *(format_cell(board.cells[editor].get(name), table) for name in table.columns)])
    head = ["", *(["rank", "first in"] if is_ranked else []), *table.columns]
    notes = [*_table_caption(table), *table.notes]
    if is_ranked:
        notes.append(f"rank, first in: by {column}, over the bootstrap samples of the intervals")
    points = [(point(0.0, board.cells[editor].get(column), editor), report.styles[editor]) for editor in order]
    x_title = with_unit(column, table.unit)
    caption = "With 95 % intervals." if any(one.low is not None for one, _ in points) else ""
    blocks: list[Chart | TableView] = [TableView(head, rows, notes=notes)]
    if any(one.y is not None for one, _ in points):
        blocks.append(grouped_interval_chart(column, [("", points)], x_title, caption=caption))
    num_editors = f"{len(order)} editors" if is_ranked else "one editor"
    num_items = max(len(results.rows) for results in report.results)
    introduction = f"{num_editors}, {len(comparison.cases)} cases, {num_items} items."
    return ReportSection("leaderboard", "Leaderboard", introduction, blocks)


def _ordered(board: ComputedTable, column: str) -> list[str]:
    """The editors, best first, with missing values where they hurt most."""
    lower_is_better = column in board.table.lower_is_better

    def key(editor: str) -> tuple[bool, float]:
        cell = board.cells[editor].get(column)
        bound = None if cell is None else cell.highest if lower_is_better else cell.lowest
        value = bound if cell is None or bound is not None else cell.value
        if value is None:
            return (True, 0.0)
        return (False, value if lower_is_better else -value)

    return sorted(board.cells, key=key)


def _place(cell: TableCell | None) -> CellContent:
    if cell is None or cell.value is None or cell.low is None or cell.high is None:
        return ("–", "", None)
    interval = "" if cell.low == cell.high else f"{cell.low:.0f} to {cell.high:.0f}"
    return (f"{cell.value:.0f}", interval, None)


def format_cell(cell: TableCell | None, table: Table) -> tuple[str, str, float | None]:
    """A cell: its number, the interval below it, and the coloured share of its background."""
    if cell is None:
        return ("", "", None)
    digits = table.digits
    if cell.value is None:
        return ("–", no_mean_text(cell, digits), None)
    interval = "" if cell.low is None else f"{cell.low:.{digits}f} to {cell.high:.{digits}f}"
    below = "; ".join(filter(None, [interval, missing_text(cell, digits)]))
    share = cell.value / table.scale
    return (f"{cell.value:.{digits}f}", below, share if 0 <= share <= 1 else None)


def _table_caption(table: Table) -> Iterator[str]:
    if table.unit:
        yield table.unit
    if table.lower_is_better:
        yield f"lower is better: {', '.join(table.lower_is_better)}"


def difference_section(report: ReportData) -> ReportSection | None:
    """Differences of all pairs of editors in the ranking column and the other columns."""
    comparison, board = report.comparison, report.comparison.leaderboard
    if len(report.editors) < 2:
        return None
    by_column = {column: [one for one in comparison.differences if one.column == column] for column in board.columns}
    headline = by_column.pop(comparison.headline)
    points = [
        (
            Point(0.0, one.value, one.simultaneous_low, one.simultaneous_high, f"{one.first} − {one.second}"),
            0 if one.is_significant else 7,
        )
        for one in sorted(headline, key=lambda one: -abs(one.value or 0.0))
    ]
    caption = "Simultaneous 95 % intervals for all pairs. Coloured: intervals that exclude zero."
    x_title = with_unit(comparison.headline, board.unit)
    title = f"Differences in {comparison.headline}"
    chart = grouped_interval_chart(title, [("", points[:40])], x_title, caption=caption)
    rows_by_column = {
        column: [_row(one, board.digits) for one in differences if one.value is not None]
        for column, differences in by_column.items()
    }
    difference = with_unit("difference", board.unit)
    head = ["", difference, "95 % interval", "simultaneous", "p, adjusted", "significant", "cases"]
    notes = [
        "Paired: the same bootstrap samples over the cases of both.",
        (
            f"Simultaneous, p: adjusted for the {len(headline)} pairs of a column (single-step max-t, "
            f"{comparison.bootstrap_samples} bootstrap samples)."
        ),
    ]
    headline_rows = [_row(one, board.digits) for one in headline if one.value is not None]
    blocks: list[Chart | TableView] = [chart, TableView(head, headline_rows, title=comparison.headline, notes=notes)]
    other_rows = list[list[CellContent]]()
    for column, rows in rows_by_column.items():
        if rows:
            other_rows += [[column], *rows]
    if other_rows:
        blocks.append(TableView(head, other_rows, title="other columns", collapsed=True))
    introduction = "Differences between editors that exceed the sampling error of the cases."
    return ReportSection("differences", "Differences", introduction, blocks)


def _row(difference: PairedDifference, digits: int) -> list[CellContent]:
    return [
        f"{difference.first} − {difference.second}",
        ("–" if difference.value is None else f"{difference.value:+.{digits}f}"),
        _interval(difference.low, difference.high, digits),
        _interval(difference.simultaneous_low, difference.simultaneous_high, digits),
        "–" if difference.adjusted_p is None else f"{difference.adjusted_p:.3f}",
        "yes" if difference.is_significant else "no",
        str(difference.cases),
    ]


def _interval(low: float | None, high: float | None, digits: int) -> str:
    return "–" if low is None or high is None else f"{low:+.{digits}f} to {high:+.{digits}f}"


def table_sections(report: ReportData) -> ReportSection | None:
    """The suite's other tables, editors side by side or below each other."""
    blocks: list[Chart | TableView] = []
    for name in dict.fromkeys(table.name for tables in report.comparison.by_editor.values() for table in tables[1:]):
        tables = _computed(report, name)
        columns = list(dict.fromkeys(column for one in tables.values() for column in one.table.columns))
        lines = list(dict.fromkeys(line for one in tables.values() for line in one.cells))
        rows: list[list[CellContent]] = []
        head: list[ColumnHead] = ["", *columns]
        if len(tables) > 1 and len(tables) * max(1, len(columns)) <= _MAX_COLUMNS_SIDE_BY_SIDE:
            head = ["", *((editor, column) for column in columns for editor in tables)]
            for line in lines:
                cells = [_cell(one, line, column) for column in columns for one in tables.values()]
                rows.append([display_name(line), *cells])
        else:  # editors as rows below each row of the table
            for line in lines:
                if len(tables) > 1 and len(lines) > 1:
                    rows.append([display_name(line)])
                for editor, one in tables.items():
                    if line in one.cells:
                        title = editor if len(tables) > 1 else display_name(line)
                        rows.append([title, *(_cell(one, line, column) for column in columns)])
        both = (note for one in tables.values() for note in (*_table_caption(one.table), *one.table.notes))
        title = next(iter(tables.values())).table.title
        blocks.append(TableView(head, rows, title=title, notes=list(dict.fromkeys(both))))
    return ReportSection("tables", "Tables", "By type and the suite's other groupings.", blocks) if blocks else None


def _cell(computed: ComputedTable, line: str, column: str) -> tuple[str, str, float | None]:
    return format_cell(computed.cells.get(line, {}).get(column), computed.table)


def _computed(report: ReportData, name: str) -> dict[str, ComputedTable]:
    weights = report.comparison.weights
    return {editor: ComputedTable.compute(table, weights) for editor, table in report.tables[name].items()}


def radar_section(report: ReportData) -> ReportSection | None:
    """Editors over the types that are rows or columns of a table, or over its columns if there are many."""
    blocks: list[Chart | TableView] = []
    values = {_plain(value) for name in report.labels for value in report.groups(name)}

    def types_among(names: Iterable[str]) -> list[str]:
        return [name for name in names if _plain(name) in values and not _STEP.fullmatch(name.strip().lower())]

    for name in report.tables:
        tables = _computed(report, name)
        table = next(iter(tables.values())).table
        columns = [column for column in table.columns if column not in table.lower_is_better]
        lines = list(dict.fromkeys(line for computed in tables.values() for line in computed.cells))
        types, type_columns = types_among(lines), types_among(columns)
        if _RADAR_AXES[0] <= len(types) <= _RADAR_AXES[1] and len(types) >= len(lines) - 1:
            for column in columns[:_MAX_RADARS]:
                rows = {
                    editor: {line: computed.cells.get(line, {}).get(column) for line in types}
                    for editor, computed in tables.items()
                }
                blocks += _radar(report, f"{table.title}: {column}", rows, types, table.scale)
            continue
        axes = type_columns if len(type_columns) >= _RADAR_AXES[0] else columns if len(columns) >= _MANY_COLUMNS else []
        for line in lines[:_MAX_RADARS] if len(axes) <= _RADAR_AXES[1] else ():
            title = f"{table.title}: {display_name(line)}" if len(lines) > 1 else table.title
            cells = {editor: dict(computed.cells.get(line, {})) for editor, computed in tables.items()}
            blocks += _radar(report, title, cells, axes, table.scale)
    introduction = "0 is at the centre. Points show their values on hover; intervals are in the tables."
    return ReportSection("radar", "Radar", introduction, blocks[:_MAX_RADARS_TOTAL]) if blocks else None


def _radar(
    report: ReportData,
    title: str,
    cells: Mapping[str, Mapping[str, TableCell | None]],
    axes: Sequence[str],
    scale: float,
) -> Iterator[Chart]:
    axes = [axis for axis in axes if any((cell := row.get(axis)) and cell.value is not None for row in cells.values())]
    names = [display_name(axis) for axis in axes]
    series = [
        Series(
            editor,
            [point(float(x), row.get(axis), name) for x, (axis, name) in enumerate(zip(axes, names, strict=True))],
            report.styles[editor],
        )
        for editor, row in cells.items()
    ]
    values = [one.y for item in series for one in item.points if one.y is not None]
    if len(axes) >= _RADAR_AXES[0] and min(values) >= 0 and max(values) > 0:
        yield radar_chart(title, series, names, top=max(scale, *values))


def _plain(name: object) -> str:
    return re.sub(r"[\W_]+", "", str(name)).lower()
