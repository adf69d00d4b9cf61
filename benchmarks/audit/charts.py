"""Drawings of an audit: rates and gains by family, and what damage costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...reward.audit import FamilyFinding
from ...reward.audit.family import RELATIONS
from ...reward.audit.intervals import Mean
from ..report.charts import Chart
from ..report.svg import LETTER_WIDTH, RIGHT, AxisScale, Markup, drawing, element, marker
from .report_text import AuditFigures, mean_text, percent, rate_text, sensitivity_rows

_WIDTH = 440.0
"""Pixels: readable on a phone, where it is drawn at 366."""
_ROW = 17.0
_GROUP = 24.0
_ABOVE, _BELOW = 6.0, 40.0
_LAST_LABEL = 8.0
"""Half of the width of the last tick's label, beyond the margin."""
_Row = tuple[str, float | None, float | None, float | None, str]
"""Name, value, the ends of its interval, and a description."""


def rate_chart(report: AuditFigures) -> Chart:
    """The rate of violations of each family with its interval, grouped by what is demanded."""
    groups = []
    for number, (relation, demand) in enumerate(RELATIONS.items()):
        findings = [finding for finding in report.findings if finding.family.relation == relation]
        if findings:
            groups.append((demand, number, [_rate_row(finding) for finding in ordered(findings)]))
    return _chart(
        "Violations by family",
        "rate of violations",
        groups,
        AxisScale(0.0, 1.0, 0.0, 1.0),
        percent,
        "A point is a rate, its bar the 95 % interval over sources.",
    )


def gain_chart(report: AuditFigures) -> Chart | None:
    """The mean gain of each family that must score lower, with its interval; None without any."""
    gains = [
        (one.family.name, one.gain)
        for one in report.findings
        if one.family.relation == "lower" and one.gain is not None
    ]
    gains.sort(key=lambda one: -one[1].value)
    caption = "Left of 0, the edit pays more. The families whose variants pay most come first."
    x_title = "mean gain, as a share of the scale"
    return _mean_chart("What a policy would gain", x_title, "instead of the edit, on average", 1, gains, caption)


def sensitivity_chart(report: AuditFigures) -> Chart | None:
    """What damage to the requested change, and to all the rest, costs on one scale; None where nothing tells."""
    losses = sensitivity_rows(report)
    return _mean_chart("Loss of score", "mean loss, as a share of the scale", "damage to", 2, losses, "")


def _mean_chart(
    title: str, x_title: str, heading: str, kind: int, means: Sequence[tuple[str, Mean]], caption: str
) -> Chart | None:
    if not means:
        return None
    rows = [(name, mean.value, mean.low, mean.high, mean_text(mean)) for name, mean in means]
    values = [value for _, mean in means for value in (mean.value, mean.low, mean.high) if value is not None]
    unit = AxisScale.over([*values, 0.0], 0.0, 1.0)
    return _chart(title, x_title, [(heading, kind, rows)], unit, _tick, caption)


def ordered(findings: Sequence[FamilyFinding]) -> list[FamilyFinding]:
    """Those with the highest rate of violations first; those with nothing to compare last."""
    return sorted(findings, key=lambda one: -1.0 if one.rate.value is None else one.rate.value, reverse=True)


def _rate_row(finding: FamilyFinding) -> _Row:
    rate = finding.rate
    known = bool(rate.trials)
    text = rate_text(rate)
    return finding.family.name, rate.value, rate.low if known else None, rate.high if known else None, text


def _tick(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−") if abs(value) > 1e-9 else "0"


def _chart(
    title: str,
    x_title: str,
    groups: Sequence[tuple[str, int, Sequence[_Row]]],
    unit: AxisScale,
    text_of: Callable[[float], str],
    caption: str,
) -> Chart:
    """Rows of points with intervals below the heading of their group, with its colour. unit: the scale from 0 to 1."""
    names = [name for _, _, rows in groups for name, *_ in rows]
    left = min(170.0, 18 + LETTER_WIDTH * max(map(len, names), default=0))
    xs = AxisScale(unit.low, unit.high, left, _WIDTH - RIGHT - _LAST_LABEL)
    bottom = _ABOVE + sum(_GROUP + _ROW * len(rows) for _, _, rows in groups)
    parts: list[Markup] = []
    for tick in xs.ticks:
        x = xs(tick)
        parts.append(element("line", x1=x, x2=x, y1=_ABOVE, y2=bottom, class_="axis" if tick == 0 else "grid"))
        parts.append(element("text", text_of(tick), x=x, y=bottom + 15, text_anchor="middle"))
    parts.append(element("text", x_title, x=(left + _WIDTH) / 2, y=bottom + 34, text_anchor="middle", class_="name"))
    y = _ABOVE
    for heading, kind, rows in groups:
        y += _GROUP
        parts.append(element("text", heading, x=4.0, y=y - 6, class_="label"))
        for row in rows:
            parts += _drawn(row, xs, y + _ROW / 2, kind)
            y += _ROW
    description = "; ".join(f"{name}: {text}" for _, _, rows in groups for name, *_, text in rows)
    return Chart(title, drawing(title, description, _WIDTH, bottom + _BELOW, parts), caption)


def _drawn(row: _Row, xs: AxisScale, y: float, kind: int) -> Iterator[Markup]:
    name, value, low, high, text = row
    letters = int((xs.start - 16) / LETTER_WIDTH)
    label = name if len(name) <= letters else f"{name[: letters - 1]}…"
    yield element("text", label, x=xs.start - 9, y=y + 4, text_anchor="end", class_="name")
    if value is None:
        yield element("text", "nothing to compare", x=xs.start + 6, y=y + 4)
        return
    if low is not None and high is not None:
        yield element("line", x1=xs(low), x2=xs(high), y1=y, y2=y, class_=f"range c{kind}")
    yield marker(xs(value), y, kind, f"{name}: {text}", size=3.8)
