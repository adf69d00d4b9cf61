"""Axes: grid lines and tick labels; x labels are wrapped or tilted if space is short."""

from __future__ import annotations

from collections.abc import Sequence

from .svg import AxisScale, Markup, element, format_number

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
