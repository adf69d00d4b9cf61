"""The page of an audit, in a browser: the report's figures, bounded pictures, and hostile words that are words."""

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from editcritic.benchmarks.audit.page import (
    gain_chart,
    part_rows,
    rate_chart,
    sensitivity_chart,
    write_audit_page,
)
from editcritic.benchmarks.audit.report_text import interval_text, mean_text, percent, signed, verdict
from editcritic.benchmarks.report.charts import Chart
from editcritic.reward import EditSample, Score
from editcritic.reward.audit import AuditReport, AuditRun, FamilyFinding, all_families, select_families
from tests.benchmarks.chromium import needed, opened
from tests.reward.audit.audit_cases import darker, photographs, scripted_report

HOSTILE = "</title><img src=x onerror=alert(1)><script>alert(1)</script>\"'&"
LONG = "x" * 300
FAMILIES = ("blurred", "over-saturated", "border", "reencoded", "sample-id", "broken-file", "extreme-size")


def spread(samples: Sequence[EditSample]) -> list[Score]:
    """Pays contrast: some families fool it. Its parts are a guard's and two more, one of them hostile."""
    scores = []
    for sample in samples:
        value = float(sample.edited.pixels.std()) / 128
        parts = {"guard": Score.of(1.0), "reward": Score.of(value, HOSTILE, parts={HOSTILE: Score.of(0.25)})}
        scores.append(Score.of(value, HOSTILE + 100 * LONG, parts=parts))
    return scores


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditReport, Path]:
    """A report of edits whose texts are hostile, and its page."""
    path = tmp_path_factory.mktemp("audit") / "audit.html"
    samples = [
        replace(sample, id=f"{LONG}{HOSTILE}/{sample.id}", instruction=f"{sample.instruction} {HOSTILE}")
        for sample in photographs()[:4]
    ]
    with AuditRun(spread, samples, families=select_families(FAMILIES)) as run:
        run.run()
        report = run.report()
        write_audit_page(path, report, run.maker, f"editcritic audit {HOSTILE}", worst=2)
    return report, path


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def cells(page: Path) -> dict[str, list[str]]:
    """The cells of each family's row."""
    (table,) = re.findall(r'<table class="families">.*?</table>', text_of(page), re.DOTALL)
    rows = re.findall(r"<tr><th.*?<summary>(.*?)</summary>.*?</th>(.*?)</tr>", table, re.DOTALL)
    return {name: [_words(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for name, row in rows}


def _words(markup: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", markup).split()))


def test_it_names_nothing_outside_of_it_and_has_no_scripts(made: tuple[AuditReport, Path]) -> None:
    text = text_of(made[1])
    assert re.findall(r'(?:src|href)="(?!data:image/|#)[^"]*"', text) == []
    assert [word for word in ("<script", "<img", "@import", "url(") if word in text] == []
    assert HOSTILE not in text
    assert html.escape(HOSTILE)[:40].split("&#")[0] in text
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    assert re.findall(r'Content-Security-Policy" content="([^"]*)"', text) == [policy]
    assert "x" * 500 not in text  # a reason of 30,000 characters
    assert list(made[1].parent.glob("*.html")) == [made[1]]


def test_its_figures_are_those_of_the_report(made: tuple[AuditReport, Path]) -> None:
    report, page = made
    rows = cells(page)
    assert set(rows) == set(FAMILIES)
    document: dict[str, Any] = report.to_json()
    for finding, figures in zip(report.findings, document["families"], strict=True):
        row = rows[figures["family"]]
        counts = f"{figures['violations']} of {figures['trials']}"
        assert row[0] == " ".join(f"{percent(figures['rate'])} {interval_text(finding.rate)} {counts}".split())
        for cell, severity in zip(row[1:4], figures["severities"], strict=True):
            assert cell == f"{severity['violations']}/{severity['trials']} {severity['label']}"
        assert row[4].startswith(mean_text(finding.gain))
        assert row[5:] == [signed(figures["worst"]), str(figures["unscored"]), str(figures["incomparable"])]
    assert _words(verdict(report)) in _words(text_of(page))


def test_every_drawing_has_a_title_a_description_and_every_picture_a_name(made: tuple[AuditReport, Path]) -> None:
    text = text_of(made[1])
    drawings = re.findall(r'<svg viewBox="[^"]*" role="img"( aria-label="[^"]+")?[^>]*>(.*?)</svg>', text, re.DOTALL)
    titled = [inside for label, inside in drawings if not label]
    assert len(titled) == 3  # rates, gains, sensitivity
    assert all(re.match(r"<title>[^<]+</title><desc>[^<]+</desc>", inside) for inside in titled)
    shown = {key for label, inside in drawings if label for key in re.findall(r'href="#(p\d+)"', inside)}
    assert shown == set(re.findall(r'<image id="(p\d+)"', text))
    assert len(re.findall(r'<image id="', text)) == len(shown)


def test_the_worst_examples_are_those_of_the_report(made: tuple[AuditReport, Path]) -> None:
    report, page = made
    for family in ("over-saturated", "border"):
        section = text_of(page).partition(f'id="worst-{family}"')[2].partition("<h3 id=")[0].partition("</section>")[0]
        captions = re.findall(r"(edit|variant) ([\d.]+)</li>", section)
        worst = [(trial.edit.value, trial.variant.value) for trial in report.worst(family, 2)]
        expected = [row for edit, variant in worst for row in (("edit", f"{edit:.3f}"), ("variant", f"{variant:.3f}"))]
        assert (captions, len(expected)) == (expected, 4)


def test_what_cannot_be_shown_is_said(made: tuple[AuditReport, Path]) -> None:
    words = _words(text_of(made[1]).partition('<section id="gallery">')[2])
    assert "the picture cannot be read" in words  # a broken file
    assert "too large to show" in words  # 60,000 x 60,000
    assert "the picture is the edit's" in words  # another id


def test_pictures_take_a_bounded_part_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    with AuditRun(spread, photographs()[:2], families=select_families(FAMILIES)) as run:
        run.run()
        write_audit_page(path, run.report(), run.maker, worst=3, max_picture_bytes=30_000)
    pictures = re.findall(r'href="(data:image/webp[^"]*)"', text_of(path))
    assert 30_000 <= sum(map(len, pictures)) < 60_000  # the last one may exceed it
    assert "left out: the page has no room for more pictures" in text_of(path)
    assert re.search(r"\d+ more had no room", text_of(path))


def test_a_page_of_every_family_and_of_no_violation(tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    with AuditRun(lambda samples: [None] * len(samples), photographs()[:2]) as run:
        run.run()
        write_audit_page(path, run.report(), run.maker)
    words = _words(text_of(path))
    assert "Nothing could be compared: no edit has a score." in words
    assert "There are no violations." in words
    assert "Nothing was compared that tells." in words
    assert set(cells(path)) == {family.name for family in all_families()}


def test_parts_of_both_scores_stand_side_by_side() -> None:
    deep = Score.of(0.5, parts={"b": Score.of(0.25, parts={"c": Score.of(1.0, parts={"d": Score.of(0.0)})})})
    other = Score.of(0.1, parts={"b": Score.abstained("nobody knows"), "e": Score.of(0.1)})
    rows = [(row.name, row.depth, row.edit, row.variant, row.differs) for row in part_rows(deep, other)]
    assert rows == [
        ("b", 0, "0.250", "abstained", True),
        ("c", 1, "1.000", "–", True),
        ("d", 2, "0.000", "–", True),
        ("e", 0, "–", "0.100", True),
    ]
    assert len(list(part_rows(Score.of(1.0, parts={str(n): Score.of(1.0) for n in range(99)}), Score.of(0.0)))) == 14


@needed
def test_it_shows_every_section_and_the_console_stays_silent(made: tuple[AuditReport, Path]) -> None:
    report, page = made
    shown = opened(page)
    assert (shown.console, shown.title) == ([], "Audit of spread")
    sections = ("summary", "families", "worst", "sensitivity", "gallery", "reading")
    assert [name for name in sections if not shown.text(name)] == []
    assert "<img" not in shown.dom
    assert "<script" not in shown.dom
    assert "onerror=alert(1)" in shown.text("worst")  # as words
    examples = sum(len(report.worst(family.name, 2)) for family in report.families)
    assert len(shown.articles()) == 1 + len(FAMILIES) + examples


@needed
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_window(made: tuple[AuditReport, Path], tmp_path: Path, width: int) -> None:
    """Measured from outside: a frame of this width holds the page as it is, without scripts."""
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<!doctype html><p id="width"></p><iframe id="page" style="border:0;width:{width}px;height:900px" '
        f'srcdoc="{html.escape(text_of(made[1]))}"></iframe><script>'
        'document.getElementById("page").onload = event => { const inner = event.target.contentDocument; '
        "const root = inner.documentElement, pictures = inner.querySelectorAll('.shots svg').length; "
        "const right = Math.max(...[...inner.querySelectorAll('tr.group span')].map("
        "one => Math.ceil(one.getBoundingClientRect().right))); "
        'document.getElementById("width").textContent = '
        "`${root.scrollWidth} ${root.clientWidth} ${pictures} ${right}`; }</script>",
        encoding="utf-8",
    )
    wide, inside, pictures, headings = map(int, opened(frame).text("width").split())
    assert wide == inside
    assert width - 20 < inside <= width  # beside a scroll bar
    assert pictures > 20
    assert 0 < headings <= inside  # of a table that is scrolled


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


def drawn(chart: Chart | None) -> ElementTree.Element:
    assert chart is not None
    return ElementTree.fromstring(str(chart.svg))


def names(chart: Chart | None) -> list[str | None]:
    """Of the rows, from above."""
    return [one.text for one in drawn(chart).iter("text") if one.get("text-anchor") == "end"]


def intervals(chart: Chart | None) -> list[tuple[float, float]]:
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


def titles(chart: Chart | None) -> list[str | None]:
    """Of the points."""
    return [title.text for mark in drawn(chart) if mark.tag != "title" for title in mark.iter("title")]


def ends(interval: Any) -> tuple[Any, Any]:
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
    assert names(chart) == ["rarely", "often"]
    assert intervals(chart) == [ends(finding(report, name).gain) for name in ("rarely", "often")]
    assert titles(chart) == ["rarely: −0.090", "often: −0.100"]


def test_the_loss_of_what_is_damaged_is_drawn_beside_its_name(report: AuditReport) -> None:
    chart = sensitivity_chart(report)
    assert names(chart) == ["following", "preservation"]
    assert titles(chart) == ["following: +0.100", "preservation: +0.090"]
    assert intervals(chart) == [ends(report.sensitivity(name)) for name in ("following", "preservation")]


def test_without_worse_variants_there_are_rates_alone() -> None:
    report = scripted_report([0.5] * 2, {"near": [[0.5, 0.5, 0.9]] * 2}, [NEAR])
    assert names(rate_chart(report)) == ["near"]
    assert gain_chart(report) is None
    assert sensitivity_chart(report) is None
