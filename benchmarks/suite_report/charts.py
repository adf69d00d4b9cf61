"""Charts: lines over steps or numbers, points with intervals, bars, radar; each with its numbers as a table.

Drawn without scripts. Editors keep their number in all charts, and with it colour and shape of their mark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .svg import Markup, Scale, drawing, element, escape, joined, mark, number, path

_WIDTH, _HEIGHT = 560.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 14.0, 12.0, 46.0
_LETTER = 6.4
"""Pixels of a letter, about, at the size that charts are labelled in."""


@dataclass(frozen=True, slots=True)
class Point:
    """A number with its interval over a place. name: of what is shown, for people."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None
    name: str = ""

    @property
    def says(self) -> str:
        """In words."""
        within = "" if self.low is None else f" ({number(self.low)} to {number(self.high)})"
        return f"{self.name}: {number(self.y)}{within}" if self.name else f"{number(self.y)}{within}"


@dataclass(frozen=True, slots=True)
class Series:
    """What belongs together. kind: which editor, for colour and shape."""

    name: str
    points: Sequence[Point]
    kind: int = 0


Shown = str | tuple[str, str, float | None]
"""A cell: a text; or a number, what is below it, and the share of its ground that is coloured."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as it is shown. A row of one cell is a heading."""

    head: Sequence[str]
    rows: Sequence[Sequence[Shown]]
    title: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing, what it shows in words, its legend (name, kind), and the numbers behind it."""

    title: str
    svg: Markup
    caption: str = ""
    legend: Sequence[tuple[str, int]] = ()
    grid: Grid | None = None
    wide: bool = False


def swatch(kind: int) -> Markup:
    """A mark for a legend."""
    return element("svg", mark(8, 8, kind), viewBox="0 0 16 16", class_="swatch", aria_hidden="true")


def _frame(xs: Scale, ys: Scale, x_title: str, y_title: str, x_ticks: Sequence[tuple[float, str]]) -> list[Markup]:
    """Axes: lines across for the ticks of y, words below for those of x."""
    found = []
    for tick in ys.ticks:
        y = ys(tick)
        found.append(element("line", x1=xs.start, x2=xs.end, y1=y, y2=y, class_="grid"))
        found.append(element("text", number(tick), x=xs.start - 7, y=y + 4, text_anchor="end"))
    found.append(element("line", x1=xs.start, x2=xs.end, y1=ys.start, y2=ys.start, class_="axis"))
    room = (xs.end - xs.start) / max(1, len(x_ticks))
    tilted = any(len(text) * _LETTER > room + 4 for _, text in x_ticks)
    for value, text in x_ticks:
        x = xs(value)
        found.append(element("line", x1=x, x2=x, y1=ys.start, y2=ys.start + 4, class_="axis"))
        place: dict[str, object] = {"x": x, "y": ys.start + 18, "text_anchor": "middle"}
        if tilted:
            place = {"transform": f"translate({x:.1f} {ys.start + 15:.1f}) rotate(-32)", "text_anchor": "end"}
        found.append(element("text", text, **place))
    low = ys.start + (18 + 0.53 * _LETTER * max((len(text) for _, text in x_ticks), default=0) if tilted else 0)
    found.append(element("text", x_title, x=(xs.start + xs.end) / 2, y=low + 38, text_anchor="middle", class_="name"))
    middle = (ys.start + ys.end) / 2
    found.append(
        element("text", y_title, transform=f"translate(14 {middle:.1f}) rotate(-90)", text_anchor="middle",
                class_="name")
    )  # fmt: skip
    return found


def _whisker(x: float, low: float, high: float, kind: int) -> Markup:
    ends = [element("line", x1=x - 3, x2=x + 3, y1=y, y2=y, class_=f"whisker c{kind % 8}") for y in (low, high)]
    return joined([element("line", x1=x, x2=x, y1=low, y2=high, class_=f"whisker c{kind % 8}"), *ends])


def _heights(series: Sequence[Series]) -> list[float]:
    each = (value for one in series for point in one.points for value in (point.y, point.low, point.high))
    return [value for value in each if value is not None]


def lines(
    title: str, series: Sequence[Series], x_title: str, y_title: str, *, steps: Sequence[str] = (), log: bool = False,
    marks: bool = True, caption: str = "", share: bool = False, zero: bool = False,
) -> Chart:  # fmt: skip
    """Numbers over steps (`steps` names those at 0, 1, …) or over numbers. share: y is from 0 to 1 at the most."""
    bottom = _HEIGHT - _BOTTOM - (14 if any(len(step) > 9 for step in steps) else 0)
    places = [point.x for one in series for point in one.points]
    if steps:
        xs = Scale(-0.35, len(steps) - 0.65, _LEFT, _WIDTH - _RIGHT)
        ticks = [(float(place), step) for place, step in enumerate(steps)]
    else:
        xs = Scale.over(places, _LEFT, _WIDTH - _RIGHT, log=log)
        ticks = [(tick, number(tick)) for tick in xs.ticks]
    ys = Scale.over(_heights(series), bottom, _TOP, zero=zero)
    if share:
        ys = Scale(max(0.0, ys.low), min(1.0, ys.high) if ys.high < 1.1 else ys.high, bottom, _TOP)
    found = _frame(xs, ys, x_title, y_title, ticks)
    for place, one in enumerate(series):
        aside = (place - (len(series) - 1) / 2) * min(5.0, 40 / max(1, len(series))) if steps else 0.0
        found += _line(one, xs, ys, aside, marks)
    grid = _step_grid(series, steps) if steps else None
    legend = [(one.name, one.kind) for one in series]
    says = f"{y_title} over {x_title}, a line for each of {', '.join(one.name for one in series)}."
    return Chart(title, drawing(title, says, _WIDTH, _HEIGHT, found), caption, legend, grid)


def _line(one: Series, xs: Scale, ys: Scale, aside: float, marks: bool) -> list[Markup]:
    having = [(xs(point.x) + aside, ys(point.y), point) for point in one.points if point.y is not None]
    kind = one.kind % 8
    found = [element("path", d=path([(x, y) for x, y, _ in having]), class_=f"line c{kind} d{one.kind // 8 % 3}")]
    if not marks:
        return found
    for x, y, point in having:
        if point.low is not None and point.high is not None:
            found.append(_whisker(x, ys(point.low), ys(point.high), one.kind))
        found.append(mark(x, y, one.kind, f"{one.name}, {point.says}"))
    return found


def _step_grid(series: Sequence[Series], steps: Sequence[str]) -> Grid:
    rows: list[list[Shown]] = []
    for one in series:
        at = {point.x: point for point in one.points}
        cells = [_cell(at.get(float(step))) for step in range(len(steps))]
        rows.append([one.name, *cells])
    return Grid(["", *steps], rows)


def _cell(point: Point | None) -> Shown:
    if point is None or point.y is None:
        return ("–", "", None)
    within = "" if point.low is None else f"{number(point.low)} to {number(point.high)}"
    return (number(point.y), within, None)


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
    bottom = _HEIGHT - _BOTTOM
    across = [v for s in spots for v in (s.x, s.x_low, s.x_high) if v is not None]
    upward = [v for s in spots for v in (s.y, s.y_low, s.y_high) if v is not None]
    xs, ys = Scale.over(across, _LEFT, _WIDTH - _RIGHT), Scale.over(upward, bottom, _TOP)
    found = _frame(xs, ys, x_title, y_title, [(tick, number(tick)) for tick in xs.ticks])
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
    return Chart(title, drawing(title, says, _WIDTH, _HEIGHT, found), caption, legend, grid)


def _to(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"


def _names(spots: Sequence[tuple[float, float, str]], bottom: float) -> list[Markup]:
    """Names beside points, where there is room; the legend has those that are left out."""
    taken = [(x - 7, y - 7, x + 7, y + 7) for x, y, _ in spots]
    found = []
    for x, y, name in spots:
        wide = _LETTER * len(name)
        around = [(x + 9, y + 4), (x - 9 - wide, y + 4), (x - wide / 2, y - 11), (x - wide / 2, y + 19)]
        for left, base in around:
            box = (left, base - 11, left + wide, base + 3)
            inside = left >= _LEFT and left + wide <= _WIDTH - 2 and box[1] >= 0 and box[3] <= bottom
            if inside and all(box[2] <= t[0] or box[0] >= t[2] or box[3] <= t[1] or box[1] >= t[3] for t in taken):
                taken.append(box)
                found.append(element("text", name, x=left, y=base, class_="label"))
                break
    return found


def bars(
    title: str, series: Sequence[Series], groups: Sequence[str], x_title: str, y_title: str, *, caption: str = ""
) -> Chart:
    """A bar for each series in each group (the points' x), from 0 on."""
    longest = max((len(group) for group in groups), default=0)
    width = max(_WIDTH, _LEFT + _RIGHT + len(groups) * (len(series) * 9.0 + 16))
    room = (width - _LEFT - _RIGHT) / max(1, len(groups))
    tilted = longest * _LETTER > room + 4
    height = _HEIGHT + (0.55 * _LETTER * longest if tilted else 0)
    bottom = height - _BOTTOM - (14 + 0.53 * _LETTER * longest if tilted else 0)
    xs = Scale(-0.5, len(groups) - 0.5, _LEFT, width - _RIGHT)
    ys = Scale.over(_heights(series), bottom, _TOP, zero=True)
    found = _frame(xs, ys, x_title, y_title, [(float(at), group) for at, group in enumerate(groups)])
    thick = 0.8 * room / max(1, len(series))
    for place, one in enumerate(series):
        for point in one.points:
            if point.y is None:
                continue
            x = xs(point.x) - 0.4 * room + place * thick
            top, end = sorted((ys(point.y), ys(0.0)))
            says = element("title", f"{one.name}, {point.says}")
            shape = {"x": x + 0.5, "y": top, "width": max(1.0, thick - 1), "height": max(0.5, end - top)}
            found.append(element("rect", says, **shape, class_=f"bar c{one.kind % 8}"))
            if point.low is not None and point.high is not None:
                found.append(element("line", x1=x + thick / 2, x2=x + thick / 2, y1=ys(point.low), y2=ys(point.high),
                                     class_="whisker"))  # fmt: skip
    legend = [(one.name, one.kind) for one in series]
    says = f"{y_title} for {', '.join(groups)}, a bar for each of {', '.join(one.name for one in series)}."
    picture = drawing(title, says, width, height, found)
    return Chart(title, picture, caption, legend, _step_grid(series, groups), wide=width > 1.4 * _WIDTH)


def ranges(title: str, points: Sequence[tuple[Point, int]], x_title: str, *, caption: str = "") -> Chart:
    """A line of its own for each point (its `name` before it), with the interval along it; the first on top."""
    left = min(240.0, 24 + _LETTER * max((len(point.name) for point, _ in points), default=0))
    height = 24.0 * len(points) + 52
    values = [v for point, _ in points for v in (point.y, point.low, point.high) if v is not None]
    xs = Scale.over(values, left, _WIDTH - _RIGHT)
    found = []
    for tick in xs.ticks:
        found.append(element("line", x1=xs(tick), x2=xs(tick), y1=6, y2=height - 40, class_="grid"))
        found.append(element("text", number(tick), x=xs(tick), y=height - 24, text_anchor="middle"))
    found.append(element("text", x_title, x=(left + _WIDTH) / 2, y=height - 6, text_anchor="middle", class_="name"))
    if xs.low < 0 < xs.high:
        found.append(element("line", x1=xs(0), x2=xs(0), y1=6, y2=height - 40, class_="axis"))
    for place, (point, kind) in enumerate(points):
        y = 20 + 24.0 * place
        most = int((left - 14) / _LETTER)
        called = point.name if len(point.name) <= most else f"{point.name[: most - 1]}…"
        found.append(element("text", called, x=left - 12, y=y + 4, text_anchor="end"))
        if point.y is None:
            found.append(element("text", "no number", x=left + 4, y=y + 4, class_="soft"))
            continue
        if point.low is not None and point.high is not None:
            found.append(element("line", x1=xs(point.low), x2=xs(point.high), y1=y, y2=y,
                                 class_=f"range c{kind % 8}"))  # fmt: skip
        found.append(mark(xs(point.y), y, kind, point.says))
    says = "; ".join(point.says for point, _ in points)
    return Chart(title, drawing(title, says, _WIDTH, height, found), caption)


def radar(title: str, series: Sequence[Series], axes: Sequence[str], *, top: float, caption: str = "") -> Chart:
    """A ring of axes from 0 in the middle to `top`, a polygon a series; at least three axes."""
    side, middle, reach = 470.0, 235.0, 150.0
    angles = [2 * math.pi * number / len(axes) - math.pi / 2 for number in range(len(axes))]

    def at(angle: float, share: float) -> tuple[float, float]:
        return (middle + reach * share * math.cos(angle), middle + reach * share * math.sin(angle))

    found = []
    for ring in (0.25, 0.5, 0.75, 1.0):
        found.append(element("path", d=path([at(angle, ring) for angle in angles]) + "Z", class_="grid ring"))
        x, y = at(-math.pi / 2, ring)
        found.append(element("text", number(ring * top), x=x + 4, y=y - 3, class_="soft"))
    for angle, name in zip(angles, axes, strict=True):
        x, y = at(angle, 1)
        found.append(element("line", x1=middle, y1=middle, x2=x, y2=y, class_="grid"))
        x, y = at(angle, 1.1)
        anchor = "middle" if abs(math.cos(angle)) < 0.2 else "start" if math.cos(angle) > 0 else "end"
        shown = name if len(name) <= 14 else f"{name[:13]}…"
        lowered = y + 4 + 6 * math.sin(angle)
        found.append(element("text", joined([element("title", name), Markup(escape(shown))]), x=x, y=lowered,
                             text_anchor=anchor))  # fmt: skip
    for one in series:
        corners = [(at(angles[int(point.x)], max(0.0, (point.y or 0.0) / top)), point) for point in one.points]
        found.append(element("path", d=path([place for place, _ in corners]) + "Z", class_=f"area c{one.kind % 8}"))
        found += [
            mark(*place, one.kind, f"{one.name}, {point.says}", size=3)
            for place, point in corners
            if point.y is not None
        ]
    legend = [(one.name, one.kind) for one in series]
    says = f"{', '.join(one.name for one in series)} on {len(axes)} axes: {', '.join(axes)}."
    return Chart(title, drawing(title, says, side, side, found), caption, legend, _step_grid(series, axes))
