"""Sections of tables: the leaderboard, differences between editors, the suite's other tables, radar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..suites.paired import Difference
from ..suites.tables import Cell, Computed, Table
from .charts import Chart, Grid, Head, Point, Series, Shown, ranges
from .material import Material, Section, words
from .planes import radar

_AXES = (3, 20)
_MANY = 8
"""Columns that are dimensions, rather than a few numbers of different kinds."""
_MOST_RADARS, _ALL_RADARS = 6, 12
_BESIDE = 12
"""Columns that stand beside each other before they are too many."""


def leaderboard(material: Material) -> Section:
    """An editor a row, the best first, with places; and the column that they are ranked by, drawn."""
    side = material.side
    board = Computed.of(side.leaderboard, side.weights)
    column = side.headline
    order = _ordered(board, column)
    kinds = {editor: number for number, editor in enumerate(material.editors)}
    head = ["", *board.table.columns]
    rows: list[list[Shown]] = []
    several = len(order) > 1
    if several:
        head = ["", "place", "first in", *board.table.columns]
    for editor in order:
        cells = [shown(board.cells[editor].get(name), board.table) for name in board.table.columns]
        places = []
        if several:
            place, first = side.ranks.cells[editor].get(column), side.firsts.cells[editor].get(column)
            places = [_place(place), "–" if first is None or first.value is None else f"{first.value:.0f} %"]
        rows.append([editor, *places, *cells])
    notes = [*_how(board.table), *board.table.notes]
    if several:
        notes.append(f"place, first in: by {column}; over the draws of cases that intervals are made of")
    blocks: list[Chart | Grid] = [Grid(head, rows, notes=notes)]
    points = [(_point(0.0, board.cells[editor].get(column), editor), kinds[editor]) for editor in order]
    unit = f", {board.table.unit}" if board.table.unit else ""
    blocks.append(ranges(column, points, f"{column}{unit}", caption="With 95 % intervals."))
    counts = "one editor" if not several else f"{len(order)} editors"
    lead = f"{counts}, {len(side.cases)} cases, {max(len(one.rows) for one in material.results)} items."
    return Section("leaderboard", "Leaderboard", lead, blocks)


def _ordered(board: Computed, column: str) -> list[str]:
    def key(editor: str) -> tuple[bool, float]:
        cell = board.cells[editor].get(column)
        value = None if cell is None else cell.value
        if value is None:
            return (True, 0.0)
        return (False, value if column in board.table.lower else -value)

    return sorted(board.cells, key=key)


def _place(cell: Cell | None) -> Shown:
    if cell is None or cell.value is None or cell.low is None or cell.high is None:
        return ("–", "", None)
    within = "" if cell.low == cell.high else f"{cell.low:.0f} to {cell.high:.0f}"
    return (f"{cell.value:.0f}", within, None)


def _point(x: float, cell: Cell | None, name: str) -> Point:
    return Point(x, None, name=name) if cell is None else Point(x, cell.value, cell.low, cell.high, name)


def shown(cell: Cell | None, table: Table) -> Shown:
    """A cell: its number, the interval below it, and how much of its ground is coloured."""
    if cell is None:
        return ("", "", None)
    if cell.value is None:
        return ("–", f"none of {cell.without}" if cell.without else "", None)
    digits = table.digits
    below = "" if cell.low is None else f"{cell.low:.{digits}f} to {cell.high:.{digits}f}"
    if cell.without:
        below += f"{'; ' if below else ''}{cell.without} without"
    share = cell.value / table.scale
    return (f"{cell.value:.{digits}f}", below, share if 0 <= share <= 1 else None)


def _how(table: Table) -> Iterator[str]:
    if table.unit:
        yield table.unit
    if table.lower:
        yield f"less is better: {', '.join(table.lower)}"


# -- differences ------------------------------------------------------------------------------------------------------


def differences(material: Material) -> Section | None:
    """Every two editors in the column they are ranked by, and in the others."""
    side = material.side
    if len(material.editors) < 2:
        return None
    unit = f", {side.leaderboard.unit}" if side.leaderboard.unit else ""
    headline = [one for one in side.differences if one.column == side.headline]
    points = []
    for one in sorted(headline, key=lambda one: -abs(one.value or 0.0)):
        name = f"{one.first} − {one.second}"
        points.append((Point(0.0, one.value, one.all_low, one.all_high, name), 0 if one.matters else 7))
    title = f"Differences in {side.headline}"
    says = "95 % intervals that hold for all pairs together. In colour: those that leave out zero."
    blocks: list[Chart | Grid] = [ranges(title, points[:40], f"{side.headline}{unit}", caption=says)]
    digits = side.leaderboard.digits
    rest: list[list[Shown]] = []
    for column in side.leaderboard.columns:
        these = [one for one in side.differences if one.column == column and one.value is not None]
        if these and column != side.headline:
            rest += [[column], *(_row(one, digits) for one in these)]
    head = ["", f"difference{unit}", "95 % interval", "for all pairs", "p, adjusted", "beyond chance", "cases"]
    notes = [
        "Paired: of the same draws of the cases that both have.",
        f"For all pairs, p: account for the {len(headline)} pairs of a column (single-step max-t, {side.count} draws).",
    ]
    first = [_row(one, digits) for one in headline if one.value is not None]
    blocks.append(Grid(head, first, title=side.headline, notes=notes))
    if rest:
        blocks.append(Grid(head, rest, title="the other columns", folded=True))
    lead = "Which differences between editors are more than the choice of cases would make."
    return Section("differences", "Differences", lead, blocks)


def _row(one: Difference, digits: int) -> list[Shown]:
    return [
        f"{one.first} − {one.second}",
        _number(one.value, digits),
        _interval(one.low, one.high, digits),
        _interval(one.all_low, one.all_high, digits),
        "–" if one.all_p is None else f"{one.all_p:.3f}",
        "yes" if one.matters else "no",
        str(one.cases),
    ]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:+.{digits}f}"


def _interval(low: float | None, high: float | None, digits: int) -> str:
    return "–" if low is None or high is None else f"{low:+.{digits}f} to {high:+.{digits}f}"


# -- the suite's other tables -----------------------------------------------------------------------------------------


def others(material: Material) -> Section | None:
    """The suite's tables beside the first, the editors below one another in each row."""
    names = dict.fromkeys(table.name for tables in material.side.by_editor.values() for table in tables[1:])
    blocks: list[Chart | Grid] = []
    for name in names:
        found = _by_editor(material, name)
        first = next(iter(found.values())).table
        columns = list(dict.fromkeys(column for one in found.values() for column in one.table.columns))
        beside = 1 < len(found) <= _BESIDE and len(found) * len(columns) <= _BESIDE
        head, rows = (_beside if beside else _below)(found, columns)
        notes = dict.fromkeys(note for one in found.values() for note in (*_how(one.table), *one.table.notes))
        blocks.append(Grid(head, rows, title=first.title, notes=list(notes)))
    return Section("tables", "Tables", "By type, and whatever else the suite tells apart.", blocks) if blocks else None


def _below(found: Mapping[str, Computed], columns: Sequence[str]) -> tuple[list[Head], list[list[Shown]]]:
    """The editors below one another in each row."""
    rows: list[list[Shown]] = []
    lines = list(dict.fromkeys(line for one in found.values() for line in one.cells))
    for line in lines:
        if len(found) > 1 and len(lines) > 1:
            rows.append([words(line)])
        for editor, one in found.items():
            if line in one.cells:
                cells = [shown(one.cells[line].get(column), one.table) for column in columns]
                rows.append([editor if len(found) > 1 else words(line), *cells])
    return ["", *columns], rows


def _beside(found: Mapping[str, Computed], columns: Sequence[str]) -> tuple[list[Head], list[list[Shown]]]:
    """The editors beside one another in each column."""
    rows: list[list[Shown]] = []
    for line in dict.fromkeys(line for one in found.values() for line in one.cells):
        cells = [shown(one.cells.get(line, {}).get(column), one.table) for column in columns for one in found.values()]
        rows.append([words(line), *cells])
    return ["", *((editor, column) for column in columns for editor in found)], rows


def _by_editor(material: Material, name: str) -> dict[str, Computed]:
    tables = {
        editor: table for editor, found in material.side.by_editor.items() for table in found if table.name == name
    }
    return {editor: Computed.of(table, material.side.weights) for editor, table in tables.items()}


# -- radar ------------------------------------------------------------------------------------------------------------


def radars(material: Material) -> Section | None:
    """Editors over the types that are rows or columns of a table, and over its columns where there are many."""
    blocks: list[Chart | Grid] = []
    kinds = {editor: number for number, editor in enumerate(material.editors)}
    values = {_plain(value) for name in material.labels for value in material.groups(name)}
    for name in dict.fromkeys(table.name for tables in material.side.by_editor.values() for table in tables):
        found = _by_editor(material, name)
        table = next(iter(found.values())).table
        columns = [column for column in table.columns if column not in table.lower]
        lines = list(dict.fromkeys(line for one in found.values() for line in one.cells))
        types = [line for line in lines if _plain(line) in values and not _is_step(line)]
        kinds_of = [column for column in columns if _plain(column) in values and not _is_step(column)]
        if _AXES[0] <= len(types) <= _AXES[1] and len(types) >= len(lines) - 1:
            for column in columns[:_MOST_RADARS]:
                rows = {e: {line: one.cells.get(line, {}).get(column) for line in types} for e, one in found.items()}
                blocks += _drawn(f"{table.title}: {column}", rows, types, kinds, table.scale)
            continue
        axes = kinds_of if len(kinds_of) >= _AXES[0] else columns if len(columns) >= _MANY else []
        for line in lines[:_MOST_RADARS] if len(axes) <= _AXES[1] else ():
            title = f"{table.title}: {words(line)}" if len(lines) > 1 else table.title
            blocks += _drawn(title, {e: dict(one.cells.get(line, {})) for e, one in found.items()}, axes, kinds,
                             table.scale)  # fmt: skip
    lead = "0 in the middle. Points show their numbers; intervals are in the tables."
    return Section("radar", "Radar", lead, blocks[:_ALL_RADARS]) if blocks else None


def _drawn(
    title: str, cells: Mapping[str, Mapping[str, Cell | None]], axes: Sequence[str], kinds: Mapping[str, int],
    scale: float,
) -> Iterator[Chart]:  # fmt: skip
    axes = [axis for axis in axes if any((cell := row.get(axis)) and cell.value is not None for row in cells.values())]
    series = []
    values = []
    for editor, row in cells.items():
        points = [_point(float(place), row.get(axis), words(axis)) for place, axis in enumerate(axes)]
        values += [one.y for one in points if one.y is not None]
        series.append(Series(editor, points, kinds[editor]))
    if len(axes) >= _AXES[0] and min(values) >= 0 and max(values) > 0:
        top = scale if max(values) <= scale else max(values)
        yield radar(title, series, [words(axis) for axis in axes], top=top)


def _plain(name: object) -> str:
    return re.sub(r"[\W_]+", "", str(name)).lower()


def _is_step(line: str) -> bool:
    return re.fullmatch(r"(turn|t|level|c)?\s*\d+", line.strip().lower()) is not None
