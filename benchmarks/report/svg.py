"""Pieces of drawings: elements with their text escaped, scales with round ticks, marks that differ in shape as well."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

SHAPES = 6
COLOURS = 8


class Markup(str):
    """Text that is HTML or SVG already, so that nobody escapes it again."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def escape(value: object) -> str:
    """As text of an element or of an attribute; markup as it is."""
    return str(value) if isinstance(value, Markup) else html.escape(str(value))


def element(name: str, inside: str | Markup = "", **attributes: object) -> Markup:
    """An element of SVG. `_` in a name stands for `-`, a last one for nothing; numbers are written in short."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(short(value) if isinstance(value, float) else value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{escape(inside)}</{name}>")


def joined(parts: Sequence[Markup]) -> Markup:
    """One behind the other."""
    return Markup("".join(parts))


def short(value: float) -> str:
    """A coordinate: two digits behind the point are a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def number(value: float | None, digits: int = 3) -> str:
    """For people: so many digits that count, a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    behind = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{min(behind, 6)}f}".rstrip("0").rstrip(".") if behind else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers from `low` to `high` on pixels from `start` to `end`; on a logarithmic scale with `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @staticmethod
    def over(values: Sequence[float], start: float, end: float, *, log: bool = False, zero: bool = False) -> Scale:
        """Around the values, with a margin. zero: from 0 on, or up to it. log: of positive numbers."""
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        if log:
            return Scale(low / 1.15, high * 1.15, start, end, log=True)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        margin = 0.06 * (high - low) or 0.1 * abs(high) or 0.5
        return Scale(low if zero and low == 0 else low - margin, high + margin, start, end)

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round numbers within it, about five."""
        if self.log:
            return self._log_ticks()
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next((times for times in (1, 2, 2.5, 5) if (self.high - self.low) / (times * step) <= 6), 10)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _log_ticks(self) -> list[float]:
        tens = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
            found = [digit * 10.0**ten for ten in tens for digit in digits]
            found = [value for value in found if self.low <= value <= self.high]
            if len(found) >= 3:
                return found
        return found if len(found) >= 2 else [self.low, self.high]


def mark(x: float, y: float, kind: int, says: str = "", *, size: float = 4.5) -> Markup:
    """A mark of its own shape and colour for each kind; what it says is shown to a pointer and read aloud."""
    title = element("title", says) if says else Markup("")
    style = {"class_": f"mark c{kind % COLOURS}"}
    if kind % SHAPES == 0:
        return element("circle", title, cx=x, cy=y, r=size, **style)
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.25), (1.15, 0.85), (-1.15, 0.85)),
        3: ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
        4: ((0, 1.25), (1.15, -0.85), (-1.15, -0.85)),
        5: ((-0.45, -1.3), (0.45, -1.3), (0.45, -0.45), (1.3, -0.45), (1.3, 0.45), (0.45, 0.45), (0.45, 1.3),
            (-0.45, 1.3), (-0.45, 0.45), (-1.3, 0.45), (-1.3, -0.45), (-0.45, -0.45)),
    }[kind % SHAPES]  # fmt: skip
    points = " ".join(f"{short(x + 0.9 * size * dx)},{short(y + 0.9 * size * dy)}" for dx, dy in corners)
    return element("polygon", title, points=points, **style)


def path(points: Sequence[tuple[float, float]]) -> str:
    """Through the points, in straight lines."""
    return "M" + "L".join(f"{short(x)} {short(y)}" for x, y in points) if points else ""


def drawing(title: str, says: str, width: float, height: float, inside: Sequence[Markup]) -> Markup:
    """A whole drawing, named for people who do not see it."""
    head = [element("title", title), element("desc", says)]
    return element(
        "svg", joined([*head, *inside]), viewBox=f"0 0 {short(width)} {short(height)}", role="img",
        style=f"max-width: {short(1.25 * width)}px",
    )  # fmt: skip
