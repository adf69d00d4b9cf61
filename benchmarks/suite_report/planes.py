"""Charts without an order along x: editors in a plane with the front of the best, and on a ring of axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .axes import BOTTOM, HEIGHT, LEFT, LETTER, RIGHT, TOP, WIDTH, frame
from .charts import Chart, Grid, Series, step_grid
from .svg import Markup, Scale, drawing, element, escape, joined, mark, number, path


@dataclass(frozen=True, slots=True)
class Spot:
    """An editor in a plane, with an interval each way."""

    name: str
    kind: int
    x: float
    y: float
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None


def front(spots: Sequence[Spot], *, less_x: bool = False) -> list[Spot]:
    """Those that no other is better than in one way without being worse in the other, by x. less_x: low x is good."""
    sign = -1 if less_x else 1
    better = [
        spot
        for spot in spots
        if not any(
            sign * other.x >= sign * spot.x and other.y >= spot.y and (other.x != spot.x or other.y != spot.y)
            for other in spots
        )
    ]
    return sorted(better, key=lambda spot: spot.x)


def scatter(
    title: str, spots: Sequence[Spot], x_title: str, y_title: str, *, caption: str = "", less_x: bool = False
) -> Chart:
    """Editors in a plane, with the front of those that nobody is better than in both ways."""
    bottom = HEIGHT - BOTTOM
    across = [v for s in spots for v in (s.x, s.x_low, s.x_high) if v is not None]
    upward = [v for s in spots for v in (s.y, s.y_low, s.y_high) if v is not None]
    xs, ys = Scale.over(across, LEFT, WIDTH - RIGHT), Scale.over(upward, bottom, TOP)
    found = frame(xs, ys, x_title, y_title, [(tick, number(tick)) for tick in xs.ticks])
    best = front(spots, less_x=less_x)
    found.append(element("path", d=path([(xs(s.x), ys(s.y)) for s in best]), class_="front"))
    for spot in spots:
        x, y = xs(spot.x), ys(spot.y)
        colour = f"whisker c{spot.kind % 8}"
        if spot.x_low is not None and spot.x_high is not None:
            found.append(element("line", x1=xs(spot.x_low), x2=xs(spot.x_high), y1=y, y2=y, class_=colour))
        if spot.y_low is not None and spot.y_high is not None:
            found.append(element("line", x1=x, x2=x, y1=ys(spot.y_low), y2=ys(spot.y_high), class_=colour))
        found.append(mark(x, y, spot.kind, f"{spot.name}: {number(spot.x)}, {number(spot.y)}", size=5.5))
    found += _names([(xs(s.x), ys(s.y), s.name) for s in spots], bottom)
    rows = [
        [s.name, (number(s.x), _to(s.x_low, s.x_high), None), (number(s.y), _to(s.y_low, s.y_high), None),
         "yes" if s in best else ""]
        for s in spots
    ]  # fmt: skip
    says = f"{y_title} against {x_title}. On the front: {', '.join(spot.name for spot in best)}."
    legend = [(spot.name, spot.kind) for spot in spots]
    grid = Grid(["", x_title, y_title, "on the front"], rows)
    return Chart(title, drawing(title, says, WIDTH, HEIGHT, found), caption, legend, grid)


def _to(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"


def _names(spots: Sequence[tuple[float, float, str]], bottom: float) -> list[Markup]:
    """Names beside points, where there is room; the legend has those that are left out."""
    taken = [(x - 7, y - 7, x + 7, y + 7) for x, y, _ in spots]
    found = []
    for x, y, name in spots:
        wide = LETTER * len(name)
        around = [(x + 9, y + 4), (x - 9 - wide, y + 4), (x - wide / 2, y - 11), (x - wide / 2, y + 19)]
        for left, base in around:
            box = (left, base - 11, left + wide, base + 3)
            inside = left >= LEFT and left + wide <= WIDTH - 2 and box[1] >= 0 and box[3] <= bottom
            if inside and all(box[2] <= t[0] or box[0] >= t[2] or box[3] <= t[1] or box[1] >= t[3] for t in taken):
                taken.append(box)
                found.append(element("text", name, x=left, y=base, class_="label"))
                break
    return found


def radar(title: str, series: Sequence[Series], axes: Sequence[str], *, top: float, caption: str = "") -> Chart:
    """A ring of axes from 0 in the middle to `top`, a polygon a series; at least three axes.

    A polygon leaves out the axes that its series has no number on.
    """
    middle, centre, reach = WIDTH / 2, 190.0, 150.0
    angles = [2 * math.pi * number / len(axes) - math.pi / 2 for number in range(len(axes))]

    def at(angle: float, share: float) -> tuple[float, float]:
        return (middle + reach * share * math.cos(angle), centre + reach * share * math.sin(angle))

    found = []
    for ring in (0.25, 0.5, 0.75, 1.0):
        found.append(element("path", d=path([at(angle, ring) for angle in angles]) + "Z", class_="grid ring"))
        x, y = at(-math.pi / 2, ring)
        found.append(element("text", number(ring * top), x=x + 5, y=y + 11, class_="soft"))
    for angle, name in zip(angles, axes, strict=True):
        x, y = at(angle, 1)
        found.append(element("line", x1=middle, y1=centre, x2=x, y2=y, class_="grid"))
        x, y = at(angle, 1.09)
        anchor = "middle" if abs(math.cos(angle)) < 0.2 else "start" if math.cos(angle) > 0 else "end"
        most = 30 if anchor == "middle" else 17
        shown = name if len(name) <= most else f"{name[: most - 1]}…"
        lowered = y + 4 + 6 * math.sin(angle)
        found.append(element("text", joined([element("title", name), Markup(escape(shown))]), x=x, y=lowered,
                             text_anchor=anchor))  # fmt: skip
    for one in series:
        having = [(point, point.y) for point in one.points if point.y is not None]
        corners = [(at(angles[int(point.x)], max(0.0, y / top)), point) for point, y in having]
        found.append(element("path", d=path([place for place, _ in corners]) + "Z", class_=f"area c{one.kind % 8}"))
        found += [mark(*place, one.kind, f"{one.name}, {point.says}", size=3) for place, point in corners]
    legend = [(one.name, one.kind) for one in series]
    says = f"{', '.join(one.name for one in series)} on {len(axes)} axes: {', '.join(axes)}."
    return Chart(title, drawing(title, says, WIDTH, 380.0, found), caption, legend, step_grid(series, axes))
