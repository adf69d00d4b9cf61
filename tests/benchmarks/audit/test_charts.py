"""The drawings of an audit show the report's figures: which family, how much, and from where to where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from editcritic.benchmarks.audit.page import gain_chart, rate_chart, sensitivity_chart
from editcritic.benchmarks.report.charts import Chart
from editcritic.reward import Score
from editcritic.reward.audit import AuditReport, FamilyFinding
from editcritic.reward.audit.findings import Mean, Rate

from ...reward.audit.audit_cases import darker, scripted_report

OFTEN, RARELY, NEAR = darker("lower", "often", "following"), darker("lower", "rarely"), darker("equal", "near")
NEVER = darker("lower", "never")
Scores = Sequence[Sequence[Score | float | None]]


@pytest.fixture(scope="module")
def report() -> AuditReport:
    """Ten sources; of each, `often` is paid more than the edit in one severity or in two."""
    often: Scores = [[0.7, 0.7, 0.1] if number % 2 else [0.7, 0.1, 0.1] for number in range(10)]
    rarely: Scores = [[0.7 if number == 3 else 0.4, 0.4, 0.4] for number in range(10)]
    variants = {"rarely": rarely, "often": often, "near": [[0.5, 0.5, 0.9]] * 10}
    return scripted_report([0.5] * 10, variants, [NEVER, RARELY, OFTEN, NEAR])


def finding(report: AuditReport, name: str) -> FamilyFinding:
    return next(one for one in report.findings if one.family.name == name)


def drawn(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(str(chart.svg))


def names(chart: Chart) -> list[str | None]:
    """Of the rows, from above."""
    return [one.text for one in drawn(chart).iter("text") if one.get("text-anchor") == "end"]


def intervals(chart: Chart) -> list[tuple[float, float]]:
    """From where to where lines are drawn, in units of the axis, which its labels tell."""
    svg = drawn(chart)
    ticks = {}
    for one in svg.iter("text"):
        label = (one.text or "").replace("−", "-")
        if one.get("text-anchor") == "middle" and re.fullmatch(r"[-+]?[\d.]+(\u00a0%)?", label):
            value = float(label.rstrip("%")) / (100 if label.endswith("%") else 1)
            ticks[value] = float(one.attrib["x"])
    low, high = min(ticks), max(ticks)

    def unit(x: str) -> float:
        return low + (float(x) - ticks[low]) / (ticks[high] - ticks[low]) * (high - low)

    lines = [one for one in svg.iter("line") if one.attrib["class"].startswith("range")]
    return [(unit(one.attrib["x1"]), unit(one.attrib["x2"])) for one in lines]


def titles(chart: Chart) -> list[str | None]:
    """Of the points."""
    return [title.text for mark in drawn(chart) if mark.tag != "title" for title in mark.iter("title")]


def ends(interval: Rate | Mean | None) -> tuple[Any, Any]:
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < interval.high
    return pytest.approx(interval.low, abs=1e-3), pytest.approx(interval.high, abs=1e-3)


def test_rates_are_drawn_with_their_intervals_the_highest_of_a_demand_first(report: AuditReport) -> None:
    chart = rate_chart(report)
    assert names(chart) == ["often", "rarely", "never", "near"]
    assert intervals(chart) == [ends(finding(report, name).rate) for name in ("often", "rarely", "near")]
    assert [text and text.replace("\u00a0", " ") for text in titles(chart)] == [
        "often: 50 % (40 % to 60 %), 15 of 30",
        "rarely: 3.3 % (0 % to 10 %), 1 of 30",
        "near: 33 % (13 % to 63 %), 10 of 30",
    ]
    assert str(chart.svg).count("nothing to compare</text>") == 1


def test_gains_are_of_worse_variants_only_those_that_pay_most_first(report: AuditReport) -> None:
    chart = gain_chart(report)
    assert chart is not None
    assert names(chart) == ["rarely", "often"]
    assert intervals(chart) == [ends(finding(report, name).gain) for name in ("rarely", "often")]
    assert titles(chart) == ["rarely: −0.090", "often: −0.100"]


def test_the_loss_of_what_is_damaged_is_drawn_beside_its_name(report: AuditReport) -> None:
    chart = sensitivity_chart(report)
    assert chart is not None
    assert names(chart) == ["following", "preservation"]
    assert titles(chart) == ["following: +0.100", "preservation: +0.090"]
    assert intervals(chart) == [ends(report.sensitivity(name)) for name in ("following", "preservation")]


def test_without_worse_variants_there_are_rates_alone() -> None:
    report = scripted_report([0.5] * 2, {"near": [[0.5, 0.5, 0.9]] * 2}, [NEAR])
    assert names(rate_chart(report)) == ["near"]
    assert gain_chart(report) is None
    assert sensitivity_chart(report) is None
