"""SVG elements with escaped text, axis scales with round ticks, and markers of different shapes."""

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


def join_markup(parts: Sequence[Markup]) -> Markup:
    """Concatenated markup."""
    return Markup("".join(parts))


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
            return self._log_ticks()
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next((times for times in (1, 2, 2.5, 5) if (self.high - self.low) / (times * step) <= 6), 10)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _log_ticks(self) -> list[float]:
        tens = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        ticks: list[float] = []
        for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
            ticks = [digit * 10.0**ten for ten in tens for digit in digits]
            ticks = [value for value in ticks if self.low <= value <= self.high]
            if len(ticks) >= 3:
                return ticks
        return ticks if len(ticks) >= 2 else [self.low, self.high]


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
    return element("svg", join_markup([*head, *inside]), viewBox=view_box, role="img", style=style)


WIDTH, HEIGHT = 560.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 66.0, 14.0, 12.0, 46.0
LETTER_WIDTH = 6.4
"""Approximate width of a letter in chart labels, in pixels."""


def axes_frame(
    xs: AxisScale, ys: AxisScale, x_title: str, y_title: str, x_ticks: Sequence[tuple[float, str]]
) -> list[Markup]:
    """Grid lines and labels of the y ticks, labels of the x ticks, and the titles of both axes."""
    parts = []
    for tick in ys.ticks:
        y = ys(tick)
        parts.append(element("line", x1=xs.start, x2=xs.end, y1=y, y2=y, class_="grid"))
        parts.append(element("text", format_number(tick), x=xs.start - 7, y=y + 4, text_anchor="end"))
    parts.append(element("line", x1=xs.start, x2=xs.end, y1=ys.start, y2=ys.start, class_="axis"))
    labels, depth = _x_labels(xs, ys.start, x_ticks)
    parts += labels
    center_x = (xs.start + xs.end) / 2
    parts.append(element("text", x_title, x=center_x, y=ys.start + depth + 18, text_anchor="middle", class_="name"))
    center_y = (ys.start + ys.end) / 2
    parts.append(
        element("text", y_title, transform=f"translate(14 {center_y:.1f}) rotate(-90)", text_anchor="middle",
                class_="name")
    )  # fmt: skip
    return parts


def _x_labels(xs: AxisScale, y: float, ticks: Sequence[tuple[float, str]]) -> tuple[list[Markup], float]:
    """Labels along x, wrapped to the available width, tilted if a word does not fit; and their height."""
    room = int((xs.end - xs.start) / max(1, len(ticks)) / LETTER_WIDTH)
    wrapped = [_wrapped(text, room) for _, text in ticks]
    longest = max((len(text) for _, text in ticks), default=0)
    tilted = any(len(line) > room + 1 for lines in wrapped for line in lines)
    parts = []
    for (value, text), lines in zip(ticks, wrapped, strict=True):
        x = xs(value)
        parts.append(element("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"))
        if tilted:
            transform = f"translate({x + 3:.1f} {y + 15:.1f}) rotate(-35)"
            parts.append(element("text", text, transform=transform, text_anchor="end"))
        else:
            parts += [
                element("text", line, x=x, y=y + 18 + 13 * n, text_anchor="middle") for n, line in enumerate(lines)
            ]
    return parts, _depth(ticks, room, tilted, longest)


def _depth(ticks: Sequence[tuple[float, str]], room: int, tilted: bool, longest: int) -> float:
    if tilted:
        return 22 + 0.58 * LETTER_WIDTH * longest
    return 5 + 13.0 * max((len(_wrapped(text, room)) for _, text in ticks), default=1)


def room_below(ticks: Sequence[tuple[float, str]], width: float) -> float:
    """Pixels below the axis for its tick labels and title."""
    room = int((width - LEFT - RIGHT) / max(1, len(ticks)) / LETTER_WIDTH)
    tilted = any(len(line) > room + 1 for _, text in ticks for line in _wrapped(text, room))
    return 28 + _depth(ticks, room, tilted, max((len(text) for _, text in ticks), default=0))


def _wrapped(text: str, room: int) -> list[str]:
    """The text in lines of about `room` letters, broken between words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
