"""The page of an audit, in a browser: the report's figures, bounded pictures, and hostile words that are words."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.audit.page import Album, part_rows, write_audit_page
from editcritic.benchmarks.audit.report_text import interval_text, mean_text, percent, signed, verdict
from editcritic.reward import EditSample, Score
from editcritic.reward.audit import AuditReport, AuditRun, all_families, select_families

from ...reward.audit.audit_cases import photographs
from ..chromium import needed, opened

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
    table = re.search(r'<table class="families">.*?</table>', text_of(page), re.DOTALL)
    assert table is not None
    rows = re.findall(r"<tr><th.*?<summary>(.*?)</summary>.*?</th>(.*?)</tr>", table[0], re.DOTALL)
    return {name: [_words(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for name, row in rows}


def _words(markup: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", markup).split()))


def test_it_names_nothing_outside_of_it_and_has_no_scripts(made: tuple[AuditReport, Path]) -> None:
    text = text_of(made[1])
    assert re.findall(r'(?:src|href)="(?!data:image/|#)[^"]*"', text) == []
    assert [word for word in ("<script", "<img", "@import", "url(") if word in text] == []
    assert HOSTILE not in text
    assert html.escape(HOSTILE)[:40].split("&#")[0] in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
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
    assert len(re.findall(r'<image id="(p\d+)"', text)) == len(shown)


def test_the_worst_examples_are_those_of_the_report(made: tuple[AuditReport, Path]) -> None:
    report, page = made
    for family in ("over-saturated", "border"):
        section = text_of(page).partition(f'id="worst-{family}"')[2].partition("<h3 id=")[0].partition("</section>")[0]
        captions = re.findall(r"(edit|variant) ([\d.]+)</li>", section)
        expected = [
            row
            for trial in report.worst(family, 2)
            for row in (("edit", f"{trial.edit.value:.3f}"), ("variant", f"{trial.variant.value:.3f}"))
        ]
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


def test_an_album_keeps_a_picture_once() -> None:
    album = Album()
    sample = photographs()[0]
    first, again = album.shot("source", sample.source), album.shot("the same", sample.source)
    assert (first.key, again.key, again.caption) == ("0", "0", "the same")
    assert (len(album.thumbnails), album.num_bytes) == (1, len(album.thumbnails[0][2]))


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
    assert len(shown.articles()) == 1 + len(FAMILIES) + _examples(report)


def _examples(report: AuditReport) -> int:
    return sum(len(report.worst(family.name, 2)) for family in report.families)


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
