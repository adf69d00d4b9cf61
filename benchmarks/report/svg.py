"""SVG elements with escaped text, axis scales with round ticks, axes, and markers of different shapes."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

MARKER_SHAPES = 6
PALETTE_SIZE = 8


class Markup(str):
    """HTML or SVG text that must not be escaped again."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def escape(value: object) -> str:
    """Escape the text of an element or attribute; `Markup` is unchanged."""
    return str(value) if isinstance(value, Markup) else html.escape(str(value))


def element(name: str, inside: str | Markup = "", **attributes: object) -> Markup:
    """An SVG element. `_` in an attribute name becomes `-`, a trailing one is removed; floats are shortened."""
    texts = {
        key.rstrip("_").replace("_", "-"): escape(format_coordinate(value) if isinstance(value, float) else value)
        for key, value in attributes.items()
        if value is not None
    }
    attribute_text = "".join(f' {key}="{text}"' for key, text in texts.items())
    return Markup(f"<{name}{attribute_text}>{escape(inside)}</{name}>")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=float(x1), x2=float(x2), y1=float(y1), y2=float(y2), class_=class_)


def format_coordinate(value: float) -> str:
    """A coordinate with two decimals (a hundredth of a pixel)."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def format_number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits; a dash for None."""
    if value is None or not math.isfinite(value):
        return "–"
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{min(decimals, 6)}f}".rstrip("0").rstrip(".") if decimals else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class AxisScale:
    """Maps numbers from `low` to `high` to pixels from `start` to `end`; logarithmic with `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @staticmethod
    def over(values: Sequence[float], start: float, end: float, *, log: bool = False, zero: bool = False) -> AxisScale:
        """A scale around the values with a margin. zero: include 0. log: for positive numbers."""
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        if log:
            return AxisScale(low / 1.15, high * 1.15, start, end, log=True)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        margin = 0.06 * (high - low) or 0.1 * abs(high) or 0.5
        return AxisScale(low if zero and low == 0 else low - margin, high + margin, start, end)

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """About five round numbers within the scale."""
        if self.log:
            tens = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            ticks: list[float] = []
            for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
                ticks = [digit * 10.0**ten for ten in tens for digit in digits]
                ticks = [value for value in ticks if self.low <= value <= self.high]
                if len(ticks) >= 3:
                    return ticks
            return ticks if len(ticks) >= 2 else [self.low, self.high]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next((times for times in (1, 2, 2.5, 5) if (self.high - self.low) / (times * step) <= 6), 10)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def marker(x: float, y: float, kind: int, description: str = "", *, size: float = 4.5) -> Markup:
    """A marker with shape and colour of its kind; the description is its tooltip and accessible name."""
    title = element("title", description) if description else Markup("")
    style = {"class_": f"mark c{kind % PALETTE_SIZE}"}
    if kind % MARKER_SHAPES == 0:
        return element("circle", title, cx=x, cy=y, r=size, **style)
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.25), (1.15, 0.85), (-1.15, 0.85)),
        3: ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
        4: ((0, 1.25), (1.15, -0.85), (-1.15, -0.85)),
        5: ((-0.45, -1.3), (0.45, -1.3), (0.45, -0.45), (1.3, -0.45), (1.3, 0.45), (0.45, 0.45), (0.45, 1.3),
            (-0.45, 1.3), (-0.45, 0.45), (-1.3, 0.45), (-1.3, -0.45), (-0.45, -0.45)),
    }[kind % MARKER_SHAPES]  # fmt: skip
    points = " ".join(
        f"{format_coordinate(x + 0.9 * size * dx)},{format_coordinate(y + 0.9 * size * dy)}" for dx, dy in corners
    )
    return element("polygon", title, points=points, **style)


def polyline_path(points: Sequence[tuple[float, float]]) -> str:
    """SVG path of straight lines through the points."""
    return "M" + "L".join(f"{format_coordinate(x)} {format_coordinate(y)}" for x, y in points) if points else ""


def drawing(title: str, description: str, width: float, height: float, inside: Sequence[Markup]) -> Markup:
    """An SVG drawing with an accessible title and description."""
    head = [element("title", title), element("desc", description)]
    view_box = f"0 0 {format_coordinate(width)} {format_coordinate(height)}"
    style = f"max-width: {format_coordinate(1.25 * width)}px"
    return element("svg", Markup("".join([*head, *inside])), viewBox=view_box, role="img", style=style)


WIDTH, HEIGHT = 560.0, 320.0
BROAD = 1120.0  # width of a chart without another one beside it, in a wide window
LEFT, RIGHT, TOP, BOTTOM = 66.0, 14.0, 12.0, 46.0
LETTER_WIDTH = 6.4  # approximate width of a letter in chart labels, in pixels


def axes_frame(
    xs: AxisScale, ys: AxisScale, x_title: str, y_title: str, x_ticks: Sequence[tuple[float, str]]
) -> list[Markup]:
    """Grid lines and labels of the y ticks, labels of the x ticks, and the titles of both axes."""
    parts = []
    for tick in ys.ticks:
        y = ys(tick)
        parts.append(line(xs.start, y, xs.end, y, "grid"))
        parts.append(element("text", format_number(tick), x=xs.start - 7, y=y + 4, text_anchor="end"))
    bottom = ys.start
    parts.append(line(xs.start, bottom, xs.end, bottom, "axis"))
    wrapped, is_tilted, depth = _tick_labels(x_ticks, xs.end - xs.start)
    for (value, text), lines in zip(x_ticks, wrapped, strict=True):
        x = xs(value)
        parts.append(line(x, bottom, x, bottom + 4, "axis"))
        if is_tilted:
            transform = f"translate({x + 3:.1f} {bottom + 15:.1f}) rotate(-35)"
            parts.append(element("text", text, transform=transform, text_anchor="end"))
        else:
            heights = enumerate(lines)
            parts += [element("text", one, x=x, y=bottom + 18 + 13 * n, text_anchor="middle") for n, one in heights]
    middle = {"text_anchor": "middle", "class_": "name"}
    parts.append(element("text", x_title, x=(xs.start + xs.end) / 2, y=bottom + depth + 18, **middle))
    turned = f"translate(14 {(bottom + ys.end) / 2:.1f}) rotate(-90)"
    parts.append(element("text", y_title, transform=turned, **middle))
    return parts


def _tick_labels(ticks: Sequence[tuple[float, str]], width: float) -> tuple[list[list[str]], bool, float]:
    """Labels along x, wrapped to the available width; whether they are tilted, as a word does not fit; their height."""
    room = int(width / max(1, len(ticks)) / LETTER_WIDTH)
    wrapped = [_wrapped(text, room) for _, text in ticks]
    if any(len(one) > room + 1 for lines in wrapped for one in lines):
        return wrapped, True, 22 + 0.58 * LETTER_WIDTH * max(len(text) for _, text in ticks)
    return wrapped, False, 5 + 13.0 * max(map(len, wrapped), default=1)


def room_below(ticks: Sequence[tuple[float, str]], width: float) -> float:
    """Pixels below the axis for its tick labels and title."""
    return 28 + _tick_labels(ticks, width - LEFT - RIGHT)[2]


def _wrapped(text: str, room: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
