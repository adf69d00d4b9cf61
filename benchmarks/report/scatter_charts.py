"""Scatter charts of editors with the Pareto front, and radar charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .axes import BOTTOM, HEIGHT, LEFT, LETTER_WIDTH, RIGHT, TOP, WIDTH, axes_frame
from .charts import Chart, Series, TableView, step_table
from .svg import AxisScale, Markup, drawing, element, escape, format_number, join_markup, marker, polyline_path


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
