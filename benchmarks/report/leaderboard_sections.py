"""Sections of tables: the leaderboard, differences between editors, the suite's other tables, radar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..suites.bootstrap import PairedDifference
from ..suites.tables import ComputedTable, Table, TableCell, bounds_text
from .charts import CellContent, Chart, ColumnHead, Point, Series, TableView, interval_chart, radar_chart
from .report_data import ReportData, ReportSection, display_name

_RADAR_AXES = (3, 20)
_MANY_COLUMNS = 8
"""From this number on columns count as dimensions, not as different kinds of numbers."""
_MAX_RADARS, _MAX_RADARS_TOTAL = 6, 12
_MAX_COLUMNS_SIDE_BY_SIDE = 12
"""Maximum number of columns of a table with editors side by side."""


def leaderboard_section(report: ReportData) -> ReportSection:
    """One row per editor, the best first, with ranks; and a chart of the ranking column."""
    comparison = report.comparison
    board = ComputedTable.compute(comparison.leaderboard, comparison.weights)
    column = comparison.headline
    order = _ordered(board, column)
    style_indices = {editor: number for number, editor in enumerate(report.editors)}
    head = ["", *board.table.columns]
    rows: list[list[CellContent]] = []
    is_ranked = len(order) > 1
    if is_ranked:
        head = ["", "rank", "first in", *board.table.columns]
    for editor in order:
        cells = [format_cell(board.cells[editor].get(name), board.table) for name in board.table.columns]
        rank_cells = []
        if is_ranked:
            rank, first_share = (
                comparison.ranks.cells[editor].get(column),
                comparison.first_place_shares.cells[editor].get(column),
            )
            rank_cells = [
                _place(rank),
                "–" if first_share is None or first_share.value is None else f"{first_share.value:.0f} %",
            ]
        rows.append([editor, *rank_cells, *cells])
    notes = [*_table_caption(board.table), *board.table.notes]
    if is_ranked:
        notes.append(f"rank, first in: by {column}, over the bootstrap samples of the intervals")
    blocks: list[Chart | TableView] = [TableView(head, rows, notes=notes)]
    points = [(_point(0.0, board.cells[editor].get(column), editor), style_indices[editor]) for editor in order]
    unit = f", {board.table.unit}" if board.table.unit else ""
    blocks.append(interval_chart(column, points, f"{column}{unit}", caption="With 95 % intervals."))
    num_editors = "one editor" if not is_ranked else f"{len(order)} editors"
    introduction = (
        f"{num_editors}, {len(comparison.cases)} cases, {max(len(results.rows) for results in report.results)} items."
    )
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


def _point(x: float, cell: TableCell | None, name: str) -> Point:
    return Point(x, None, name=name) if cell is None else Point(x, cell.value, cell.low, cell.high, name)


def format_cell(cell: TableCell | None, table: Table) -> tuple[str, str, float | None]:
    """A cell: its number, the interval below it, and the coloured share of its background."""
    if cell is None:
        return ("", "", None)
    digits = table.digits
    if cell.value is None:
        return ("–", (f"none of {cell.num_missing}" if cell.num_missing else "") + bounds_text(cell, digits), None)
    interval = "" if cell.low is None else f"{cell.low:.{digits}f} to {cell.high:.{digits}f}"
    if cell.num_missing:
        interval += f"{'; ' if interval else ''}{cell.num_missing} without"
    interval += bounds_text(cell, digits)
    share = cell.value / table.scale
    return (f"{cell.value:.{digits}f}", interval, share if 0 <= share <= 1 else None)


def _table_caption(table: Table) -> Iterator[str]:
    if table.unit:
        yield table.unit
    if table.lower_is_better:
        yield f"lower is better: {', '.join(table.lower_is_better)}"


# -- differences ------------------------------------------------------------------------------------------------------


def difference_section(report: ReportData) -> ReportSection | None:
    """Differences of all pairs of editors in the ranking column and the other columns."""
    comparison = report.comparison
    if len(report.editors) < 2:
        return None
    unit = f", {comparison.leaderboard.unit}" if comparison.leaderboard.unit else ""
    headline = [difference for difference in comparison.differences if difference.column == comparison.headline]
    points = []
    for difference in sorted(headline, key=lambda difference: -abs(difference.value or 0.0)):
        name = f"{difference.first} − {difference.second}"
        points.append(
            (
                Point(0.0, difference.value, difference.simultaneous_low, difference.simultaneous_high, name),
                0 if difference.is_significant else 7,
            )
        )
    title = f"Differences in {comparison.headline}"
    caption = "Simultaneous 95 % intervals for all pairs. Coloured: intervals that exclude zero."
    blocks: list[Chart | TableView] = [
        interval_chart(title, points[:40], f"{comparison.headline}{unit}", caption=caption)
    ]
    digits = comparison.leaderboard.digits
    other_rows: list[list[CellContent]] = []
    for column in comparison.leaderboard.columns:
        column_differences = [
            difference
            for difference in comparison.differences
            if difference.column == column and difference.value is not None
        ]
        if column_differences and column != comparison.headline:
            other_rows += [[column], *(_row(difference, digits) for difference in column_differences)]
    head = ["", f"difference{unit}", "95 % interval", "simultaneous", "p, adjusted", "significant", "cases"]
    notes = [
        "Paired: the same bootstrap samples over the cases of both.",
        (
            f"Simultaneous, p: adjusted for the {len(headline)} pairs of a column (single-step max-t, "
            f"{comparison.bootstrap_samples} bootstrap samples)."
        ),
    ]
    headline_rows = [_row(difference, digits) for difference in headline if difference.value is not None]
    blocks.append(TableView(head, headline_rows, title=comparison.headline, notes=notes))
    if other_rows:
        blocks.append(TableView(head, other_rows, title="other columns", collapsed=True))
    introduction = "Differences between editors that exceed the sampling error of the cases."
    return ReportSection("differences", "Differences", introduction, blocks)


def _row(difference: PairedDifference, digits: int) -> list[CellContent]:
    return [
        f"{difference.first} − {difference.second}",
        _number(difference.value, digits),
        _interval(difference.low, difference.high, digits),
        _interval(difference.simultaneous_low, difference.simultaneous_high, digits),
        "–" if difference.adjusted_p is None else f"{difference.adjusted_p:.3f}",
        "yes" if difference.is_significant else "no",
        str(difference.cases),
    ]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:+.{digits}f}"


def _interval(low: float | None, high: float | None, digits: int) -> str:
    return "–" if low is None or high is None else f"{low:+.{digits}f} to {high:+.{digits}f}"


# -- the suite's other tables -----------------------------------------------------------------------------------------


def table_sections(report: ReportData) -> ReportSection | None:
    """The suite's other tables, editors side by side or below each other."""
    names = dict.fromkeys(table.name for tables in report.comparison.by_editor.values() for table in tables[1:])
    blocks: list[Chart | TableView] = []
    for name in names:
        tables = _by_editor(report, name)
        first_table = next(iter(tables.values())).table
        columns = list(dict.fromkeys(column for table in tables.values() for column in table.table.columns))
        side_by_side = (
            1 < len(tables) <= _MAX_COLUMNS_SIDE_BY_SIDE and len(tables) * len(columns) <= _MAX_COLUMNS_SIDE_BY_SIDE
        )
        head, rows = (_editors_as_columns if side_by_side else _editors_as_rows)(tables, columns)
        notes = dict.fromkeys(
            note for table in tables.values() for note in (*_table_caption(table.table), *table.table.notes)
        )
        blocks.append(TableView(head, rows, title=first_table.title, notes=list(notes)))
    return ReportSection("tables", "Tables", "By type and the suite's other groupings.", blocks) if blocks else None


def _editors_as_rows(
    tables: Mapping[str, ComputedTable], columns: Sequence[str]
) -> tuple[list[ColumnHead], list[list[CellContent]]]:
    """Editors as rows below each row of the table."""
    rows: list[list[CellContent]] = []
    lines = list(dict.fromkeys(line for table in tables.values() for line in table.cells))
    for line in lines:
        if len(tables) > 1 and len(lines) > 1:
            rows.append([display_name(line)])
        for editor, table in tables.items():
            if line in table.cells:
                cells = [format_cell(table.cells[line].get(column), table.table) for column in columns]
                rows.append([editor if len(tables) > 1 else display_name(line), *cells])
    return ["", *columns], rows


def _editors_as_columns(
    tables: Mapping[str, ComputedTable], columns: Sequence[str]
) -> tuple[list[ColumnHead], list[list[CellContent]]]:
    """Editors side by side in each column."""
    rows: list[list[CellContent]] = []
    for line in dict.fromkeys(line for table in tables.values() for line in table.cells):
        cells = [
            format_cell(table.cells.get(line, {}).get(column), table.table)
            for column in columns
            for table in tables.values()
        ]
        rows.append([display_name(line), *cells])
    return ["", *((editor, column) for column in columns for editor in tables)], rows


def _by_editor(report: ReportData, name: str) -> dict[str, ComputedTable]:
    tables = {
        editor: table
        for editor, editor_tables in report.comparison.by_editor.items()
        for table in editor_tables
        if table.name == name
    }
    return {editor: ComputedTable.compute(table, report.comparison.weights) for editor, table in tables.items()}


# -- radar ------------------------------------------------------------------------------------------------------------


def radar_section(report: ReportData) -> ReportSection | None:
    """Editors over the types that are rows or columns of a table, or over its columns if there are many."""
    blocks: list[Chart | TableView] = []
    style_indices = {editor: number for number, editor in enumerate(report.editors)}
    values = {_plain(value) for name in report.labels for value in report.groups(name)}
    for name in dict.fromkeys(table.name for tables in report.comparison.by_editor.values() for table in tables):
        tables = _by_editor(report, name)
        table = next(iter(tables.values())).table
        columns = [column for column in table.columns if column not in table.lower_is_better]
        lines = list(dict.fromkeys(line for computed in tables.values() for line in computed.cells))
        types = [line for line in lines if _plain(line) in values and not _is_step_name(line)]
        type_columns = [column for column in columns if _plain(column) in values and not _is_step_name(column)]
        if _RADAR_AXES[0] <= len(types) <= _RADAR_AXES[1] and len(types) >= len(lines) - 1:
            for column in columns[:_MAX_RADARS]:
                rows = {
                    editor: {line: computed.cells.get(line, {}).get(column) for line in types}
                    for editor, computed in tables.items()
                }
                blocks += _drawn(f"{table.title}: {column}", rows, types, style_indices, table.scale)
            continue
        axes = type_columns if len(type_columns) >= _RADAR_AXES[0] else columns if len(columns) >= _MANY_COLUMNS else []
        for line in lines[:_MAX_RADARS] if len(axes) <= _RADAR_AXES[1] else ():
            title = f"{table.title}: {display_name(line)}" if len(lines) > 1 else table.title
            cells = {editor: dict(computed.cells.get(line, {})) for editor, computed in tables.items()}
            blocks += _drawn(title, cells, axes, style_indices, table.scale)
    introduction = "0 is at the centre. Points show their values on hover; intervals are in the tables."
    return ReportSection("radar", "Radar", introduction, blocks[:_MAX_RADARS_TOTAL]) if blocks else None


def _drawn(
    title: str,
    cells: Mapping[str, Mapping[str, TableCell | None]],
    axes: Sequence[str],
    style_indices: Mapping[str, int],
    scale: float,
) -> Iterator[Chart]:
    axes = [axis for axis in axes if any((cell := row.get(axis)) and cell.value is not None for row in cells.values())]
    series = []
    values = []
    for editor, row in cells.items():
        points = [_point(float(index), row.get(axis), display_name(axis)) for index, axis in enumerate(axes)]
        values += [point_.y for point_ in points if point_.y is not None]
        series.append(Series(editor, points, style_indices[editor]))
    if len(axes) >= _RADAR_AXES[0] and min(values) >= 0 and max(values) > 0:
        top = scale if max(values) <= scale else max(values)
        yield radar_chart(title, series, [display_name(axis) for axis in axes], top=top)


def _plain(name: object) -> str:
    return re.sub(r"[\W_]+", "", str(name)).lower()


def _is_step_name(line: str) -> bool:
    return re.fullmatch(r"(turn|t|level|c)?\s*\d+", line.strip().lower()) is not None
