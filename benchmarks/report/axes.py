"""Axes: lines and numbers for y, names below for x, wrapped or tilted where there is little room."""

from __future__ import annotations

from collections.abc import Sequence

from .svg import Markup, Scale, element, number

WIDTH, HEIGHT = 560.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 14.0, 12.0, 46.0
LETTER = 6.4
"""Pixels of a letter, about, at the size that charts are labelled in."""


def frame(xs: Scale, ys: Scale, x_title: str, y_title: str, x_ticks: Sequence[tuple[float, str]]) -> list[Markup]:
    """Axes: lines across for the ticks of y, words below for those of x."""
    found = []
    for tick in ys.ticks:
        y = ys(tick)
        found.append(element("line", x1=xs.start, x2=xs.end, y1=y, y2=y, class_="grid"))
        found.append(element("text", number(tick), x=xs.start - 7, y=y + 4, text_anchor="end"))
    found.append(element("line", x1=xs.start, x2=xs.end, y1=ys.start, y2=ys.start, class_="axis"))
    below, deep = _below(xs, ys.start, x_ticks)
    found += below
    across = (xs.start + xs.end) / 2
    found.append(element("text", x_title, x=across, y=ys.start + deep + 18, text_anchor="middle", class_="name"))
    middle = (ys.start + ys.end) / 2
    found.append(
        element("text", y_title, transform=f"translate(14 {middle:.1f}) rotate(-90)", text_anchor="middle",
                class_="name")
    )  # fmt: skip
    return found


def _below(xs: Scale, y: float, ticks: Sequence[tuple[float, str]]) -> tuple[list[Markup], float]:
    """Names of places along x, in lines as wide as there is room, tilted where a word has none; and their depth."""
    room = int((xs.end - xs.start) / max(1, len(ticks)) / LETTER)
    wrapped = [_wrapped(text, room) for _, text in ticks]
    longest = max((len(text) for _, text in ticks), default=0)
    tilted = any(len(line) > room + 1 for lines in wrapped for line in lines)
    found = []
    for (value, text), lines in zip(ticks, wrapped, strict=True):
        x = xs(value)
        found.append(element("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"))
        if tilted:
            turned = f"translate({x + 3:.1f} {y + 15:.1f}) rotate(-35)"
            found.append(element("text", text, transform=turned, text_anchor="end"))
        else:
            found += [
                element("text", line, x=x, y=y + 18 + 13 * n, text_anchor="middle") for n, line in enumerate(lines)
            ]
    return found, _depth(ticks, room, tilted, longest)


def _depth(ticks: Sequence[tuple[float, str]], room: int, tilted: bool, longest: int) -> float:
    if tilted:
        return 22 + 0.58 * LETTER * longest
    return 5 + 13.0 * max((len(_wrapped(text, room)) for _, text in ticks), default=1)


def room_below(ticks: Sequence[tuple[float, str]], width: float) -> float:
    """Pixels below the axis, for names of places and the name of the axis."""
    room = int((width - LEFT - RIGHT) / max(1, len(ticks)) / LETTER)
    tilted = any(len(line) > room + 1 for _, text in ticks for line in _wrapped(text, room))
    return 28 + _depth(ticks, room, tilted, max((len(text) for _, text in ticks), default=0))


def _wrapped(text: str, room: int) -> list[str]:
    """In lines of about so many letters, broken between words."""
    found = [""]
    for word in text.split():
        if found[-1] and len(found[-1]) + 1 + len(word) > room:
            found.append(word)
        else:
            found[-1] = f"{found[-1]} {word}".strip()
    return found
