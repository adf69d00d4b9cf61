"""SVG charts: lines over steps or numbers, points with intervals, bars; each with its numbers as a table.

No scripts. An editor has the same index in all charts, and so the same colour and marker shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .axes import BOTTOM, HEIGHT, LEFT, LETTER_WIDTH, RIGHT, TOP, WIDTH, axes_frame, room_below
from .svg import AxisScale, Markup, drawing, element, format_number, join_markup, marker, polyline_path


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval at x. name: label of the point."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None
    name: str = ""

    @property
    def description(self) -> str:
        """The value and its interval as text."""
        interval = "" if self.low is None else f" ({format_number(self.low)} to {format_number(self.high)})"
        return f"{self.name}: {format_number(self.y)}{interval}" if self.name else f"{format_number(self.y)}{interval}"


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one editor. style_index: index of the editor, for colour and shape."""

    name: str
    points: Sequence[Point]
    style_index: int = 0


CellContent = str | tuple[str, str, float | None]
"""A cell: a text; or a number, the text below it, and the coloured share of its background."""


ColumnHead = str | tuple[str, str]
"""A column's name, or its name and the text above it."""


@dataclass(frozen=True, slots=True)
class TableView:
    """A table of the page. A row of one cell is a heading. collapsed: initially folded."""

    head: Sequence[ColumnHead]
    rows: Sequence[Sequence[CellContent]]
    title: str = ""
    notes: Sequence[str] = ()
    collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its caption, its legend (name, style index), and its numbers as a table."""

    title: str
    svg: Markup
    caption: str = ""
    legend: Sequence[tuple[str, int]] = ()
    grid: TableView | None = None
    wide: bool = False


def legend_mark(style_index: int) -> Markup:
    """A marker for a legend."""
    return element("svg", marker(8, 8, style_index), viewBox="0 0 16 16", class_="swatch", aria_hidden="true")


def _error_bar(x: float, low: float, high: float, kind: int) -> Markup:
    ends = [element("line", x1=x - 3, x2=x + 3, y1=y, y2=y, class_=f"whisker c{kind % 8}") for y in (low, high)]
    return join_markup([element("line", x1=x, x2=x, y1=low, y2=high, class_=f"whisker c{kind % 8}"), *ends])


def _heights(series: Sequence[Series]) -> list[float]:
    values = (value for item in series for point in item.points for value in (point.y, point.low, point.high))
    return [value for value in values if value is not None]


def line_chart(
    title: str, series: Sequence[Series], x_title: str, y_title: str, *, steps: Sequence[str] = (), log: bool = False,
    marks: bool = True, caption: str = "", share: bool = False, zero: bool = False,
) -> Chart:  # fmt: skip
    """Lines over steps (`steps` names x = 0, 1, …) or over numbers. share: y lies within 0 to 1."""
    names = [(float(index), step) for index, step in enumerate(steps)]
    bottom = HEIGHT - room_below(names, WIDTH)
    xs_of_points = [point.x for item in series for point in item.points]
    if steps:
        xs = AxisScale(-0.35, len(steps) - 0.65, LEFT, WIDTH - RIGHT)
        ticks = names
    else:
        xs = AxisScale.over(xs_of_points, LEFT, WIDTH - RIGHT, log=log)
        ticks = [(tick, format_number(tick)) for tick in xs.ticks]
    ys = AxisScale.over(_heights(series), bottom, TOP, zero=zero)
    if share:
        ys = AxisScale(max(0.0, ys.low), min(1.0, ys.high) if ys.high < 1.1 else ys.high, bottom, TOP)
    parts = axes_frame(xs, ys, x_title, y_title, ticks)
    for index, item in enumerate(series):
        offset = (index - (len(series) - 1) / 2) * min(5.0, 40 / max(1, len(series))) if steps else 0.0
        parts += _line(item, xs, ys, offset, marks)
    grid = step_table(series, steps) if steps else None
    legend = [(item.name, item.style_index) for item in series]
    description = f"{y_title} over {x_title}, one line per editor: {', '.join(item.name for item in series)}."
    return Chart(title, drawing(title, description, WIDTH, HEIGHT, parts), caption, legend, grid)


def _line(series: Series, xs: AxisScale, ys: AxisScale, offset: float, marks: bool) -> list[Markup]:
    drawn_points = [(xs(point.x) + offset, ys(point.y), point) for point in series.points if point.y is not None]
    kind = series.style_index % 8
    parts = [
        element(
            "path",
            d=polyline_path([(x, y) for x, y, _ in drawn_points]),
            class_=f"line c{kind} d{series.style_index // 8 % 3}",
        )
    ]
    if not marks:
        return parts
    for x, y, point in drawn_points:
        if point.low is not None and point.high is not None:
            parts.append(_error_bar(x, ys(point.low), ys(point.high), series.style_index))
        parts.append(marker(x, y, series.style_index, f"{series.name}, {point.description}"))
    return parts


def step_table(series: Sequence[Series], steps: Sequence[str]) -> TableView:
    """Series over steps as a table: one row per series, with intervals."""
    rows: list[list[CellContent]] = []
    for item in series:
        by_step = {point.x: point for point in item.points}
        cells = [_cell(by_step.get(float(step))) for step in range(len(steps))]
        rows.append([item.name, *cells])
    return TableView(["", *steps], rows)


def _cell(point: Point | None) -> CellContent:
    if point is None or point.y is None:
        return ("–", "", None)
    interval = "" if point.low is None else f"{format_number(point.low)} to {format_number(point.high)}"
    return (format_number(point.y), interval, None)


def bar_chart(
    title: str, series: Sequence[Series], groups: Sequence[str], x_title: str, y_title: str, *, caption: str = ""
) -> Chart:
    """One bar per series and group (the points' x), starting at 0."""
    width = max(WIDTH, LEFT + RIGHT + len(groups) * (len(series) * 9.0 + 16))
    room = (width - LEFT - RIGHT) / max(1, len(groups))
    names = [(float(index_of_group), group) for index_of_group, group in enumerate(groups)]
    below = room_below(names, width)
    height = HEIGHT - BOTTOM + below
    bottom = height - below
    xs = AxisScale(-0.5, len(groups) - 0.5, LEFT, width - RIGHT)
    ys = AxisScale.over(_heights(series), bottom, TOP, zero=True)
    parts = axes_frame(xs, ys, x_title, y_title, names)
    bar_width = 0.8 * room / max(1, len(series))
    for index, item in enumerate(series):
        for point in item.points:
            if point.y is None:
                continue
            x = xs(point.x) - 0.4 * room + index * bar_width
            top, end = sorted((ys(point.y), ys(0.0)))
            hint = element("title", f"{item.name}, {point.description}")
            shape = {"x": x + 0.5, "y": top, "width": max(1.0, bar_width - 1), "height": max(0.5, end - top)}
            parts.append(element("rect", hint, **shape, class_=f"bar c{item.style_index % 8}"))
            if point.low is not None and point.high is not None:
                middle = x + bar_width / 2
                parts.append(element("line", x1=middle, x2=middle, y1=ys(point.low), y2=ys(point.high),
                                     class_="whisker"))  # fmt: skip
    legend = [(item.name, item.style_index) for item in series]
    description = f"{y_title} for {', '.join(groups)}, one bar per editor: {', '.join(item.name for item in series)}."
    svg = drawing(title, description, width, height, parts)
    return Chart(title, svg, caption, legend, step_table(series, groups), wide=width > 1.4 * WIDTH)


def interval_chart(title: str, points: Sequence[tuple[Point, int]], x_title: str, *, caption: str = "") -> Chart:
    """One row per point with its name and interval, the first on top."""
    left = min(240.0, 24 + LETTER_WIDTH * max((len(point.name) for point, _ in points), default=0))
    height = 24.0 * len(points) + 52
    values = [v for point, _ in points for v in (point.y, point.low, point.high) if v is not None]
    xs = AxisScale.over(values, left, WIDTH - RIGHT)
    parts = []
    for tick in xs.ticks:
        parts.append(element("line", x1=xs(tick), x2=xs(tick), y1=6, y2=height - 40, class_="grid"))
        parts.append(element("text", format_number(tick), x=xs(tick), y=height - 24, text_anchor="middle"))
    parts.append(element("text", x_title, x=(left + WIDTH) / 2, y=height - 6, text_anchor="middle", class_="name"))
    if xs.low < 0 < xs.high:
        parts.append(element("line", x1=xs(0), x2=xs(0), y1=6, y2=height - 40, class_="axis"))
    for index, (point, kind) in enumerate(points):
        y = 20 + 24.0 * index
        max_letters = int((left - 14) / LETTER_WIDTH)
        label = point.name if len(point.name) <= max_letters else f"{point.name[: max_letters - 1]}…"
        parts.append(element("text", label, x=left - 12, y=y + 4, text_anchor="end"))
        if point.y is None:
            parts.append(element("text", "no value", x=left + 4, y=y + 4, class_="soft"))
            continue
        if point.low is not None and point.high is not None:
            parts.append(element("line", x1=xs(point.low), x2=xs(point.high), y1=y, y2=y,
                                 class_=f"range c{kind % 8}"))  # fmt: skip
        parts.append(marker(xs(point.y), y, kind, point.description))
    description = "; ".join(point.description for point, _ in points)
    return Chart(title, drawing(title, description, WIDTH, height, parts), caption)
