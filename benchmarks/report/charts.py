"""SVG charts: lines over steps or numbers, points with intervals, bars; each with its numbers as a table.

No scripts. An editor has the same index in all charts, and so the same colour and marker shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LETTER_WIDTH,
    RIGHT,
    TOP,
    WIDTH,
    AxisScale,
    Markup,
    axes_frame,
    drawing,
    element,
    escape,
    format_number,
    join_markup,
    marker,
    polyline_path,
    room_below,
)


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


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """An editor as a point with intervals in x and y."""

    name: str
    kind: int
    x: float
    y: float
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None


def pareto_front(points: Sequence[ScatterPoint], *, minimize_x: bool = False) -> list[ScatterPoint]:
    """The points that no other point dominates, sorted by x. minimize_x: lower x is better."""
    sign = -1 if minimize_x else 1
    front = [
        candidate
        for candidate in points
        if not any(
            sign * other.x >= sign * candidate.x
            and other.y >= candidate.y
            and (other.x != candidate.x or other.y != candidate.y)
            for other in points
        )
    ]
    return sorted(front, key=lambda candidate: candidate.x)


def scatter_chart(
    title: str,
    points: Sequence[ScatterPoint],
    x_title: str,
    y_title: str,
    *,
    caption: str = "",
    minimize_x: bool = False,
) -> Chart:
    """Editors as points, with their Pareto front."""
    bottom = HEIGHT - BOTTOM
    x_values = [v for candidate in points for v in (candidate.x, candidate.x_low, candidate.x_high) if v is not None]
    y_values = [v for candidate in points for v in (candidate.y, candidate.y_low, candidate.y_high) if v is not None]
    xs, ys = AxisScale.over(x_values, LEFT, WIDTH - RIGHT), AxisScale.over(y_values, bottom, TOP)
    parts = axes_frame(xs, ys, x_title, y_title, [(tick, format_number(tick)) for tick in xs.ticks])
    front = pareto_front(points, minimize_x=minimize_x)
    parts.append(
        element("path", d=polyline_path([(xs(candidate.x), ys(candidate.y)) for candidate in front]), class_="front")
    )
    for item in points:
        x, y = xs(item.x), ys(item.y)
        colour = f"whisker c{item.kind % 8}"
        if item.x_low is not None and item.x_high is not None:
            parts.append(element("line", x1=xs(item.x_low), x2=xs(item.x_high), y1=y, y2=y, class_=colour))
        if item.y_low is not None and item.y_high is not None:
            parts.append(element("line", x1=x, x2=x, y1=ys(item.y_low), y2=ys(item.y_high), class_=colour))
        parts.append(
            marker(x, y, item.kind, f"{item.name}: {format_number(item.x)}, {format_number(item.y)}", size=5.5)
        )
    parts += _names([(xs(item.x), ys(item.y), item.name) for item in points], bottom)
    rows = [
        [
            item.name,
            (format_number(item.x), _interval(item.x_low, item.x_high), None),
            (format_number(item.y), _interval(item.y_low, item.y_high), None),
            "yes" if item in front else "",
        ]
        for item in points
    ]
    description = f"{y_title} against {x_title}. On the front: {', '.join(item.name for item in front)}."
    legend = [(item.name, item.kind) for item in points]
    grid = TableView(["", x_title, y_title, "on the front"], rows)
    return Chart(title, drawing(title, description, WIDTH, HEIGHT, parts), caption, legend, grid)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{format_number(low)} to {format_number(high)}"


def _names(points: Sequence[tuple[float, float, str]], bottom: float) -> list[Markup]:
    """Names beside points if there is space; the legend has all names."""
    occupied = [(x - 7, y - 7, x + 7, y + 7) for x, y, _ in points]
    labels = []
    for x, y, name in points:
        width = LETTER_WIDTH * len(name)
        positions = [(x + 9, y + 4), (x - 9 - width, y + 4), (x - width / 2, y - 11), (x - width / 2, y + 19)]
        for left, baseline in positions:
            box = (left, baseline - 11, left + width, baseline + 3)
            inside = left >= LEFT and left + width <= WIDTH - 2 and box[1] >= 0 and box[3] <= bottom
            if inside and all(
                box[2] <= other[0] or box[0] >= other[2] or box[3] <= other[1] or box[1] >= other[3]
                for other in occupied
            ):
                occupied.append(box)
                labels.append(element("text", name, x=left, y=baseline, class_="label"))
                break
    return labels


def radar_chart(title: str, series: Sequence[Series], axes: Sequence[str], *, top: float, caption: str = "") -> Chart:
    """A radar chart of at least three axes from 0 at the centre to `top`, one polygon per series.

    A polygon skips the axes without a value.
    """
    center_x, center_y, radius = WIDTH / 2, 190.0, 150.0
    angles = [2 * math.pi * number / len(axes) - math.pi / 2 for number in range(len(axes))]

    def position_at(angle: float, share: float) -> tuple[float, float]:
        return (center_x + radius * share * math.cos(angle), center_y + radius * share * math.sin(angle))

    parts = []
    for ring in (0.25, 0.5, 0.75, 1.0):
        parts.append(
            element("path", d=polyline_path([position_at(angle, ring) for angle in angles]) + "Z", class_="grid ring")
        )
        x, y = position_at(-math.pi / 2, ring)
        parts.append(element("text", format_number(ring * top), x=x + 5, y=y + 11, class_="soft"))
    for angle, name in zip(angles, axes, strict=True):
        x, y = position_at(angle, 1)
        parts.append(element("line", x1=center_x, y1=center_y, x2=x, y2=y, class_="grid"))
        x, y = position_at(angle, 1.09)
        anchor = "middle" if abs(math.cos(angle)) < 0.2 else "start" if math.cos(angle) > 0 else "end"
        max_letters = 30 if anchor == "middle" else 17
        label = name if len(name) <= max_letters else f"{name[: max_letters - 1]}…"
        text_y = y + 4 + 6 * math.sin(angle)
        parts.append(element("text", join_markup([element("title", name), Markup(escape(label))]), x=x, y=text_y,
                             text_anchor=anchor))  # fmt: skip
    for item in series:
        drawn_points = [(point, point.y) for point in item.points if point.y is not None]
        corners = [(position_at(angles[int(point.x)], max(0.0, y / top)), point) for point, y in drawn_points]
        parts.append(
            element(
                "path",
                d=polyline_path([position for position, _ in corners]) + "Z",
                class_=f"area c{item.style_index % 8}",
            )
        )
        parts += [
            marker(*position, item.style_index, f"{item.name}, {point.description}", size=3)
            for position, point in corners
        ]
    legend = [(item.name, item.style_index) for item in series]
    description = f"{', '.join(item.name for item in series)} on {len(axes)} axes: {', '.join(axes)}."
    return Chart(title, drawing(title, description, WIDTH, 380.0, parts), caption, legend, step_table(series, axes))
