"""SVG charts: lines, bars, points with intervals, scatter and radar; each with its numbers as a table.

No scripts. An editor has the same index in all charts, and so the same colour and marker shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec

from .svg import (
    BOTTOM,
    BROAD,
    HEIGHT,
    LEFT,
    LETTER_WIDTH,
    PALETTE_SIZE,
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
    line,
    marker,
    polyline_path,
    room_below,
)


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval at x. name: label of the point. text: both in words, in place of plain numbers."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None
    name: str = ""
    text: str = ""

    @property
    def description(self) -> str:
        """The value and its interval as text, after the name."""
        interval = "" if self.low is None else f" ({interval_text(self.low, self.high)})"
        text = self.text or f"{format_number(self.y)}{interval}"
        return f"{self.name}: {text}" if self.name else text


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one editor. style_index: index of the editor, for colour and shape."""

    name: str
    points: Sequence[Point]
    style_index: int = 0


CellContent = str | tuple[str, str, float | None]
"""A cell: a text; or a number, the text below it, and the coloured share of its background."""

ColumnHead = str | tuple[str, str]  # a column's name, or its name and the text above it


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
    """A drawing with its caption, its legend (name, style index), and its numbers as a table. broad: draws it for the
    whole width of a page, where no other chart is beside it."""

    title: str
    svg: Markup
    caption: str = ""
    legend: Sequence[tuple[str, int]] = ()
    grid: TableView | None = None
    wide: bool = False
    broad: Callable[[], Markup] | None = None


_P = ParamSpec("_P")


def _for_any_width(draw: Callable[_P, Chart]) -> Callable[_P, Chart]:
    """A chart that can be drawn broad, unless its width is given."""

    @wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> Chart:
        chart = draw(*args, **kwargs)
        if "width" in kwargs:
            return chart
        return replace(chart, broad=lambda: draw(*args, **{**kwargs, "width": BROAD}).svg)  # type: ignore[arg-type]

    return drawn


def legend_mark(style_index: int) -> Markup:
    """A marker for a legend."""
    return element("svg", marker(8, 8, style_index), viewBox="0 0 16 16", class_="swatch", aria_hidden="true")


def interval_text(low: float | None, high: float | None) -> str:
    """Both ends; empty without them."""
    return "" if low is None or high is None else f"{format_number(low)} to {format_number(high)}"


def _all_numbers(points: Iterable[Point]) -> list[float]:
    return [value for point in points for value in (point.y, point.low, point.high) if value is not None]


def _legend(series: Sequence[Series]) -> list[tuple[str, int]]:
    return [(item.name, item.style_index) for item in series]


def _names(series: Sequence[Series]) -> str:
    return ", ".join(item.name for item in series)


def _colour(name: str, kind: int) -> str:
    return f"{name} c{kind % PALETTE_SIZE}"


def _cut(text: str, max_letters: int) -> str:
    return text if len(text) <= max_letters else f"{text[: max_letters - 1]}…"


@_for_any_width
def line_chart(
    title: str, series: Sequence[Series], x_title: str, y_title: str, *, steps: Sequence[str] = (), log: bool = False,
    marks: bool = True, share: bool = False, zero: bool = False, width: float = WIDTH,
) -> Chart:  # fmt: skip
    """Lines over steps (`steps` names x = 0, 1, …) or over numbers. share: y lies within 0 to 1."""
    points = [point for item in series for point in item.points]
    if steps:
        xs = AxisScale(-0.35, len(steps) - 0.65, LEFT, width - RIGHT)
        ticks = [(float(index), step) for index, step in enumerate(steps)]
    else:
        xs = AxisScale.over([point.x for point in points], LEFT, width - RIGHT, log=log)
        ticks = [(tick, format_number(tick)) for tick in xs.ticks]
    bottom = HEIGHT - room_below(ticks if steps else (), width)
    ys = AxisScale.over(_all_numbers(points), bottom, TOP, zero=zero)
    if share:
        ys = AxisScale(max(0.0, ys.low), min(1.0, ys.high) if ys.high < 1.1 else ys.high, bottom, TOP)
    parts = axes_frame(xs, ys, x_title, y_title, ticks)
    for index, item in enumerate(series):
        offset = (index - (len(series) - 1) / 2) * min(5.0, 40 / max(1, len(series))) if steps else 0.0
        drawn = [(xs(point.x) + offset, ys(point.y), point) for point in item.points if point.y is not None]
        path = polyline_path([(x, y) for x, y, _ in drawn])
        dashes = f"d{item.style_index // PALETTE_SIZE % 3}"
        parts.append(element("path", d=path, class_=f"{_colour('line', item.style_index)} {dashes}"))
        for x, y, point in drawn if marks else ():
            if point.low is not None and point.high is not None:
                low, high, colour = ys(point.low), ys(point.high), _colour("whisker", item.style_index)
                parts.append(line(x, low, x, high, colour))
                parts += [line(x - 3, end, x + 3, end, colour) for end in (low, high)]
            parts.append(marker(x, y, item.style_index, f"{item.name}, {point.description}"))
    description = f"{y_title} over {x_title}, one line per editor: {_names(series)}."
    svg = drawing(title, description, width, HEIGHT, parts)
    return Chart(title, svg, "", _legend(series), step_table(series, steps) if steps else None)


def step_table(series: Sequence[Series], steps: Sequence[str]) -> TableView:
    """Series over steps as a table: one row per series, with intervals."""
    rows: list[list[CellContent]] = []
    for item in series:
        by_step = {point.x: point for point in item.points}
        points = [by_step.get(float(step)) for step in range(len(steps))]
        cells: list[CellContent] = [
            ("–", "", None)
            if point is None or point.y is None
            else (format_number(point.y), interval_text(point.low, point.high), None)
            for point in points
        ]
        rows.append([item.name, *cells])
    return TableView(["", *steps], rows)


@_for_any_width
def bar_chart(
    title: str, series: Sequence[Series], groups: Sequence[str], x_title: str, y_title: str, *, width: float = WIDTH
) -> Chart:
    """One bar per series and group (the points' x), starting at 0. width: at least."""
    width = max(width, LEFT + RIGHT + len(groups) * (len(series) * 9.0 + 16))
    room = (width - LEFT - RIGHT) / max(1, len(groups))
    names = [(float(index), group) for index, group in enumerate(groups)]
    bottom = HEIGHT - BOTTOM
    height = bottom + room_below(names, width)
    xs = AxisScale(-0.5, len(groups) - 0.5, LEFT, width - RIGHT)
    ys = AxisScale.over(_all_numbers(point for item in series for point in item.points), bottom, TOP, zero=True)
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
            parts.append(element("rect", hint, **shape, class_=_colour("bar", item.style_index)))
            if point.low is not None and point.high is not None:
                middle = x + bar_width / 2
                parts.append(line(middle, ys(point.low), middle, ys(point.high), "whisker"))
    description = f"{y_title} for {', '.join(groups)}, one bar per editor: {_names(series)}."
    svg = drawing(title, description, width, height, parts)
    return Chart(title, svg, "", _legend(series), step_table(series, groups), wide=width > 1.4 * WIDTH)


Rows = Sequence[tuple[Point, int]]  # points with the indices of their styles


@_for_any_width
def grouped_interval_chart(
    title: str, groups: Sequence[tuple[str, Rows]], x_title: str, *, caption: str = "", width: float = WIDTH,
    row_height: float = 24.0, scale: AxisScale | None = None, missing: str = "no value",
    tick_text: Callable[[float], str] = format_number,
) -> Chart:  # fmt: skip
    """Rows of points with intervals below the heading of their group. scale: whose ends x has; by default around the
    points. missing: what stands for a point without a value."""
    points = [point for _, rows in groups for point, _ in rows]
    left = min(0.43 * width, 24 + LETTER_WIDTH * max((len(point.name) for point in points), default=0))
    around = scale or AxisScale.over(_all_numbers(points), 0.0, 1.0)
    xs = AxisScale(around.low, around.high, left, width - RIGHT - 8)  # 8: half of the last tick's label
    bottom = 8 + sum(row_height * (len(rows) + bool(heading)) for heading, rows in groups)
    parts = []
    for tick in xs.ticks:
        parts.append(line(xs(tick), 6, xs(tick), bottom, "axis" if tick == 0 else "grid"))
        parts.append(element("text", tick_text(tick), x=xs(tick), y=bottom + 16, text_anchor="middle"))
    parts.append(element("text", x_title, x=(left + width) / 2, y=bottom + 34, text_anchor="middle", class_="name"))
    y = 8 + row_height / 2
    for heading, rows in groups:
        if heading:
            parts.append(element("text", heading, x=4.0, y=y + 6, class_="label"))
            y += row_height
        for point, kind in rows:
            name = _cut(point.name, int((left - 14) / LETTER_WIDTH))
            parts.append(element("text", name, x=left - 12, y=y + 4, text_anchor="end", class_="name"))
            if point.y is None:
                parts.append(element("text", missing, x=left + 4, y=y + 4, class_="soft"))
            else:
                if point.low is not None and point.high is not None:
                    parts.append(line(xs(point.low), y, xs(point.high), y, _colour("range", kind)))
                parts.append(marker(xs(point.y), y, kind, point.description, size=min(4.5, row_height / 4)))
            y += row_height
    description = "; ".join(point.description for point in points)
    return Chart(title, drawing(title, description, width, bottom + 40, parts), caption)


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

    def dominates(other: ScatterPoint, one: ScatterPoint) -> bool:
        is_as_good = sign * other.x >= sign * one.x and other.y >= one.y
        return is_as_good and (other.x, other.y) != (one.x, one.y)

    front = [one for one in points if not any(dominates(other, one) for other in points)]
    return sorted(front, key=lambda one: one.x)


@_for_any_width
def scatter_chart(
    title: str, points: Sequence[ScatterPoint], x_title: str, y_title: str, *, minimize_x: bool = False,
    width: float = WIDTH,
) -> Chart:  # fmt: skip
    """Editors as points, with their Pareto front."""
    bottom = HEIGHT - BOTTOM
    x_values = [v for item in points for v in (item.x, item.x_low, item.x_high) if v is not None]
    y_values = [v for item in points for v in (item.y, item.y_low, item.y_high) if v is not None]
    xs, ys = AxisScale.over(x_values, LEFT, width - RIGHT), AxisScale.over(y_values, bottom, TOP)
    parts = axes_frame(xs, ys, x_title, y_title, [(tick, format_number(tick)) for tick in xs.ticks])
    front = pareto_front(points, minimize_x=minimize_x)
    parts.append(element("path", d=polyline_path([(xs(item.x), ys(item.y)) for item in front]), class_="front"))
    rows: list[list[CellContent]] = []
    for item in points:
        x, y, colour = xs(item.x), ys(item.y), _colour("whisker", item.kind)
        if item.x_low is not None and item.x_high is not None:
            parts.append(line(xs(item.x_low), y, xs(item.x_high), y, colour))
        if item.y_low is not None and item.y_high is not None:
            parts.append(line(x, ys(item.y_low), x, ys(item.y_high), colour))
        x_text, y_text = format_number(item.x), format_number(item.y)
        parts.append(marker(x, y, item.kind, f"{item.name}: {x_text}, {y_text}", size=5.5))
        of_x, of_y = interval_text(item.x_low, item.x_high), interval_text(item.y_low, item.y_high)
        rows.append([item.name, (x_text, of_x, None), (y_text, of_y, None), "yes" if item in front else ""])
    parts += _labels([(xs(item.x), ys(item.y), item.name) for item in points], width, bottom)
    description = f"{y_title} against {x_title}. On the front: {', '.join(item.name for item in front)}."
    grid = TableView(["", x_title, y_title, "on the front"], rows)
    legend = [(item.name, item.kind) for item in points]
    return Chart(title, drawing(title, description, width, HEIGHT, parts), "", legend, grid)


def _labels(points: Sequence[tuple[float, float, str]], within: float, bottom: float) -> list[Markup]:
    """Names beside points if there is space; the legend has all names."""
    occupied = [(x - 7, y - 7, x + 7, y + 7) for x, y, _ in points]
    labels = []
    for x, y, name in points:
        width = LETTER_WIDTH * len(name)
        for left, baseline in (
            (x + 9, y + 4),
            (x - 9 - width, y + 4),
            (x - width / 2, y - 11),
            (x - width / 2, y + 19),
        ):
            box = (left, baseline - 11, left + width, baseline + 3)
            is_inside = left >= LEFT and box[2] <= within - 2 and box[1] >= 0 and box[3] <= bottom
            if is_inside and all(
                box[2] <= other[0] or box[0] >= other[2] or box[3] <= other[1] or box[1] >= other[3]
                for other in occupied
            ):
                occupied.append(box)
                labels.append(element("text", name, x=left, y=baseline, class_="label"))
                break
    return labels


def radar_chart(title: str, series: Sequence[Series], axes: Sequence[str], *, top: float) -> Chart:
    """A radar chart of at least three axes from 0 at the centre to `top`, one polygon per series. A polygon skips the
    axes without a value."""
    center_x, center_y, radius = WIDTH / 2, 190.0, 150.0
    angles = [2 * math.pi * number / len(axes) - math.pi / 2 for number in range(len(axes))]

    def position(angle: float, share: float) -> tuple[float, float]:
        return (center_x + radius * share * math.cos(angle), center_y + radius * share * math.sin(angle))

    parts = []
    for ring in (0.25, 0.5, 0.75, 1.0):
        path = polyline_path([position(angle, ring) for angle in angles]) + "Z"
        parts.append(element("path", d=path, class_="grid ring"))
        x, y = position(-math.pi / 2, ring)
        parts.append(element("text", format_number(ring * top), x=x + 5, y=y + 11, class_="soft"))
    for angle, name in zip(angles, axes, strict=True):
        parts.append(line(center_x, center_y, *position(angle, 1), "grid"))
        x, y = position(angle, 1.09)
        anchor = "middle" if abs(math.cos(angle)) < 0.2 else "start" if math.cos(angle) > 0 else "end"
        label = Markup(element("title", name) + escape(_cut(name, 30 if anchor == "middle" else 17)))
        parts.append(element("text", label, x=x, y=y + 4 + 6 * math.sin(angle), text_anchor=anchor))
    for item in series:
        corners = [
            (position(angles[int(point.x)], max(0.0, point.y / top)), point)
            for point in item.points
            if point.y is not None
        ]
        path = polyline_path([corner for corner, _ in corners]) + "Z"
        parts.append(element("path", d=path, class_=_colour("area", item.style_index)))
        parts += [
            marker(*corner, item.style_index, f"{item.name}, {point.description}", size=3) for corner, point in corners
        ]
    description = f"{_names(series)} on {len(axes)} axes: {', '.join(axes)}."
    svg = drawing(title, description, WIDTH, 380.0, parts)
    return Chart(title, svg, "", _legend(series), step_table(series, axes))
