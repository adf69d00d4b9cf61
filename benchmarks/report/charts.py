"""Charts: lines over steps or numbers, points with intervals, bars, radar; each with its numbers as a table.

Drawn without scripts. Editors keep their number in all charts, and with it colour and shape of their mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .axes import BOTTOM, HEIGHT, LEFT, LETTER, RIGHT, TOP, WIDTH, frame, room_below
from .svg import Markup, Scale, drawing, element, joined, mark, number, path


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


Head = str | tuple[str, str]
"""A column's name, and what is above it."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as it is shown. A row of one cell is a heading. folded: shown when asked for."""

    head: Sequence[Head]
    rows: Sequence[Sequence[Shown]]
    title: str = ""
    notes: Sequence[str] = ()
    folded: bool = False


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
    names = [(float(place), step) for place, step in enumerate(steps)]
    bottom = HEIGHT - room_below(names, WIDTH)
    places = [point.x for one in series for point in one.points]
    if steps:
        xs = Scale(-0.35, len(steps) - 0.65, LEFT, WIDTH - RIGHT)
        ticks = names
    else:
        xs = Scale.over(places, LEFT, WIDTH - RIGHT, log=log)
        ticks = [(tick, number(tick)) for tick in xs.ticks]
    ys = Scale.over(_heights(series), bottom, TOP, zero=zero)
    if share:
        ys = Scale(max(0.0, ys.low), min(1.0, ys.high) if ys.high < 1.1 else ys.high, bottom, TOP)
    found = frame(xs, ys, x_title, y_title, ticks)
    for place, one in enumerate(series):
        aside = (place - (len(series) - 1) / 2) * min(5.0, 40 / max(1, len(series))) if steps else 0.0
        found += _line(one, xs, ys, aside, marks)
    grid = step_grid(series, steps) if steps else None
    legend = [(one.name, one.kind) for one in series]
    says = f"{y_title} over {x_title}, a line for each of {', '.join(one.name for one in series)}."
    return Chart(title, drawing(title, says, WIDTH, HEIGHT, found), caption, legend, grid)


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


def step_grid(series: Sequence[Series], steps: Sequence[str]) -> Grid:
    """The numbers of series whose x is the number of a step: a row each, with intervals."""
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


def bars(
    title: str, series: Sequence[Series], groups: Sequence[str], x_title: str, y_title: str, *, caption: str = ""
) -> Chart:
    """A bar for each series in each group (the points' x), from 0 on."""
    width = max(WIDTH, LEFT + RIGHT + len(groups) * (len(series) * 9.0 + 16))
    room = (width - LEFT - RIGHT) / max(1, len(groups))
    names = [(float(at), group) for at, group in enumerate(groups)]
    below = room_below(names, width)
    height = HEIGHT - BOTTOM + below
    bottom = height - below
    xs = Scale(-0.5, len(groups) - 0.5, LEFT, width - RIGHT)
    ys = Scale.over(_heights(series), bottom, TOP, zero=True)
    found = frame(xs, ys, x_title, y_title, names)
    thick = 0.8 * room / max(1, len(series))
    for place, one in enumerate(series):
        for point in one.points:
            if point.y is None:
                continue
            x = xs(point.x) - 0.4 * room + place * thick
            top, end = sorted((ys(point.y), ys(0.0)))
            hint = element("title", f"{one.name}, {point.says}")
            shape = {"x": x + 0.5, "y": top, "width": max(1.0, thick - 1), "height": max(0.5, end - top)}
            found.append(element("rect", hint, **shape, class_=f"bar c{one.kind % 8}"))
            if point.low is not None and point.high is not None:
                found.append(element("line", x1=x + thick / 2, x2=x + thick / 2, y1=ys(point.low), y2=ys(point.high),
                                     class_="whisker"))  # fmt: skip
    legend = [(one.name, one.kind) for one in series]
    says = f"{y_title} for {', '.join(groups)}, a bar for each of {', '.join(one.name for one in series)}."
    picture = drawing(title, says, width, height, found)
    return Chart(title, picture, caption, legend, step_grid(series, groups), wide=width > 1.4 * WIDTH)


def ranges(title: str, points: Sequence[tuple[Point, int]], x_title: str, *, caption: str = "") -> Chart:
    """A line of its own for each point (its `name` before it), with the interval along it; the first on top."""
    left = min(240.0, 24 + LETTER * max((len(point.name) for point, _ in points), default=0))
    height = 24.0 * len(points) + 52
    values = [v for point, _ in points for v in (point.y, point.low, point.high) if v is not None]
    xs = Scale.over(values, left, WIDTH - RIGHT)
    found = []
    for tick in xs.ticks:
        found.append(element("line", x1=xs(tick), x2=xs(tick), y1=6, y2=height - 40, class_="grid"))
        found.append(element("text", number(tick), x=xs(tick), y=height - 24, text_anchor="middle"))
    found.append(element("text", x_title, x=(left + WIDTH) / 2, y=height - 6, text_anchor="middle", class_="name"))
    if xs.low < 0 < xs.high:
        found.append(element("line", x1=xs(0), x2=xs(0), y1=6, y2=height - 40, class_="axis"))
    for place, (point, kind) in enumerate(points):
        y = 20 + 24.0 * place
        most = int((left - 14) / LETTER)
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
    return Chart(title, drawing(title, says, WIDTH, height, found), caption)
