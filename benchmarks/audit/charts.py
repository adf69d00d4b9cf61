"""Drawings of an audit: rates and gains by family, and what damage costs."""

from __future__ import annotations

from collections.abc import Sequence

from ...reward.audit import FamilyFinding
from ...reward.audit.family import RELATIONS
from ...reward.audit.findings import Mean
from ..report.charts import Chart, Point, grouped_interval_chart
from ..report.svg import AxisScale
from .report_text import AuditFigures, mean_text, percent, rate_text, sensitivity_rows

_WIDTH = 440.0
"""Pixels: readable on a phone, where it is drawn at 366."""
_ROW = 17.0


def rate_chart(report: AuditFigures) -> Chart:
    """The rate of violations of each family with its interval, grouped by what is demanded."""
    groups = []
    for number, (relation, demand) in enumerate(RELATIONS.items()):
        findings = ordered([finding for finding in report.findings if finding.family.relation == relation])
        points = []
        for name, rate in ((one.family.name, one.rate) for one in findings):
            low, high = (rate.low, rate.high) if rate.trials else (None, None)
            points.append((Point(0.0, rate.value, low, high, name, rate_text(rate)), number))
        if points:
            groups.append((demand, points))
    return grouped_interval_chart(
        "Violations by family",
        groups,
        "rate of violations",
        caption="A point is a rate, its bar the 95 % interval over sources.",
        width=_WIDTH,
        row_height=_ROW,
        scale=AxisScale(0.0, 1.0, 0.0, 1.0),
        missing="nothing to compare",
        tick_text=percent,
    )


def gain_chart(report: AuditFigures) -> Chart | None:
    """The mean gain of each family that must score lower, with its interval; None without any."""
    worse = (one for one in report.findings if one.family.relation == "lower")
    gains = [(one.family.name, one.gain) for one in worse if one.gain is not None]
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
    points = [(Point(0.0, mean.value, mean.low, mean.high, name, mean_text(mean)), kind) for name, mean in means]
    values = [value for _, mean in means for value in (mean.value, mean.low, mean.high) if value is not None]
    return grouped_interval_chart(
        title,
        [(heading, points)],
        x_title,
        caption=caption,
        width=_WIDTH,
        row_height=_ROW,
        scale=AxisScale.over([*values, 0.0], 0.0, 1.0),
        tick_text=lambda value: f"{value:+.3g}".replace("-", "−") if abs(value) > 1e-9 else "0",
    )


def ordered(findings: Sequence[FamilyFinding]) -> list[FamilyFinding]:
    """Those with the highest rate of violations first; those with nothing to compare last."""
    return sorted(findings, key=lambda one: -1.0 if one.rate.value is None else one.rate.value, reverse=True)
