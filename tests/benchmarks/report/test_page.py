"""The page in a browser: its sections, filters and sorting, and hostile texts."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.report.page import thumbnail_folder, write_page
from editcritic.benchmarks.report.report_data import ReportData
from editcritic.benchmarks.suites.leaderboards import EditorComparison

from ..chromium import FOUND, needed, opened
from .synthetic_results import HOSTILE, Drawn, outputs, scored

SKILLS = {"good": 0.9, "bad": 0.3}
WITHOUT = ("3/2", "3/3")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    suite = Drawn()
    folder = tmp_path_factory.mktemp("outputs")
    results = [scored(suite, name, skill, without=WITHOUT if name == "bad" else ()) for name, skill in SKILLS.items()]
    pictures = {
        name: outputs(folder / name, suite, skill, without=WITHOUT if name == "bad" else ())
        for name, skill in SKILLS.items()
    }
    return ReportData(EditorComparison.of(suite, results, count=100), pictures)


@pytest.fixture(scope="module")
def page(report: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert write_page(path, report, "editcritic bench report <here>") is None
    return path


def test_a_page_names_nothing_outside_of_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', text) == []
    assert "@import" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text
    assert list(page.parent.iterdir()) == [page]


def test_every_chart_has_a_title_a_description_and_its_numbers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    drawings = re.findall(r'<svg viewBox="[^"]*" role="img".*?</svg>', text, re.DOTALL)
    assert len(drawings) > 15
    assert all(re.search(r"<title>[^<]+</title><desc>[^<]+</desc>", drawing) for drawing in drawings)


def test_a_later_page_takes_the_place_of_an_earlier_ones_folder_but_not_of_other_files(report, tmp_path):
    path = tmp_path / "report.html"
    folder = thumbnail_folder(path)
    assert write_page(path, report, single_file=False) == folder
    assert write_page(path, report, single_file=False) == folder
    (folder / "mine.txt").write_text("kept")
    with pytest.raises(InputError, match="holds other files"):
        write_page(path, report, single_file=False)
    assert (folder / "mine.txt").read_text() == "kept"


@needed
def test_it_shows_every_section_and_the_console_stays_silent(page: Path) -> None:
    shown = opened(page)
    assert (shown.console, shown.title) == ([], "Drawn edits: 2 editors")
    tables = ["leaderboard", "differences", "tables", "radar", "categories", "sources", "statuses"]
    sections = [*tables, "turns", "levels", "pareto", "latency", "scale", "labels", "luminance", "shapes"]
    assert [name for name in sections if not shown.text(name)] == []
    assert (shown.text("count"), len(shown.articles())) == ("72 of 72 edits, page 1 of 3", 24)
    assert HOSTILE.split(">", 1)[1] not in shown.text("data")


@needed
@pytest.mark.parametrize("width", [1440, 390])
def test_pictures_and_charts_use_the_width_and_what_is_long_is_folded(page: Path, width: int) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=FOUND, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": width, "height": 900})
        shown.goto(page.as_uri())
        sides = shown.evaluate(
            """() => {
              const all = (selector, of) => [...document.querySelectorAll(selector)].map(of);
              const width = (one) => one.getBoundingClientRect().width;
              return {
                page: document.documentElement.scrollWidth,
                shots: all(".shot .on", width),
                cut: all("figure:not(.broad) > .wide", (one) => Math.max(0, one.scrollWidth - one.clientWidth)),
                alone: all("figure.alone svg[role]", width),
                row: document.querySelector("#leaderboard .charts").clientWidth,
                faded: all(".wide", (one) => {
                  const seen = one.checkVisibility({ contentVisibilityAuto: true });
                  return [seen && one.scrollWidth > one.clientWidth, getComputedStyle(one).maskImage !== "none"];
                }),
              };
            }"""
        )
        configurations = shown.locator("#provenance details", has_text="configuration of")
        folded = [configurations.nth(at).get_attribute("open") for at in range(configurations.count())]
        controls = shown.locator("#filters").is_visible()
        browser.close()
    assert sides["page"] == width
    assert min(sides["shots"]) >= 320
    assert not any(sides["cut"])
    drawn = [side for side in sides["alone"] if side]
    assert len(drawn) == len(sides["alone"]) / 2 >= 2  # of each pair, one is shown
    assert min(drawn) > 0.99 * sides["row"]
    assert folded == [None, None]  # of both editors
    assert all(more == fades for more, fades in sides["faded"])
    assert any(more for more, _ in sides["faded"]) == (width == 390)
    assert controls == (width > 620)  # a phone has the edits first


@needed
def test_what_is_in_the_address_is_what_is_shown(page: Path) -> None:
    query = "metric=consistency&editor=good&label.type=color_alter&min=0.5&max=0.99&sort=highest&q=number"
    shown = opened(page, f"#browser?{query}")
    rows = shown.articles()
    assert shown.console == []
    assert rows
    assert all(row.startswith("good ") and "type color alter" in row for row in rows)
    values = [float(re.search(r"consistency (\d\.\d+)", row)[1]) for row in rows]  # type: ignore[index]
    assert (values, shown.text("count")) == (sorted(values, reverse=True), f"{len(rows)} of 72 edits")


@needed
def test_statuses_can_be_asked_for_and_hostile_words_are_words(page: Path) -> None:
    missing = opened(page, "#browser?status=missing&sort=order")
    assert [row.split()[:2] for row in missing.articles()] == [["bad", "3/2"], ["bad", "3/3"]]
    assert "there is no picture" in missing.articles()[0]
    hostile = opened(page, "#browser?item=0%2F1&metric=following")
    assert (hostile.title, hostile.console) == ("Drawn edits: 2 editors", [])
    assert len(hostile.articles()) == 2
    assert "&lt;img src=x onerror=alert(1)&gt;" in hostile.articles()[0]
    assert hostile.dom.count('class="box') == 2 * 3  # of the detector two, and the target


@needed
def test_one_item_is_shown_with_all_that_its_scores_rest_on(page: Path) -> None:
    shown = opened(page, "#browser?item=0%2F2&metric=following&sort=order")
    assert (shown.title, shown.console) == ("Drawn edits: 2 editors", [])
    first = shown.articles()[0]
    assert "following: found: " in first
    assert "judge followed &lt;/script&gt;&lt;script&gt;" in first
    assert "Verdict: " in first
    assert "detect in source (2 boxes)" in first
    assert "objects: 0." in first


@needed
def test_thousands_of_edits_are_paged_and_lie_beside_the_page(tmp_path: Path) -> None:
    suite = Drawn(count=700, turns=3, size=8)
    path = tmp_path / "report.html"
    folder = write_page(path, ReportData(EditorComparison.of(suite, [scored(suite, "one", 0.6)], count=100)))
    assert folder is not None
    assert path.stat().st_size < 1.3e6
    shown = opened(path, "#browser?metric=consistency&sort=highest&page=80")
    assert (shown.console, shown.text("count")) == ([], "2100 of 2100 edits, page 80 of 88")
    assert len(shown.articles()) == 24
    assert len(re.findall(r'<img [^>]*src="report_files/\d+\.webp"', shown.dom)) >= 24


@needed
def test_a_page_that_lost_its_folder_says_so(report: ReportData, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    folder = write_page(path, report, single_file=False)
    assert folder is not None
    folder.rename(tmp_path / "elsewhere")
    assert "the folder report_files must lie beside this page" in opened(path).text("count")


def test_a_table_without_rows_is_a_sentence(report: ReportData, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    results = [replace(one, rows=[replace(row, scores={}) for row in one.rows]) for one in report.results]
    write_page(path, ReportData(EditorComparison.of(report.suite, results, count=100)))
    text = path.read_text(encoding="utf-8")
    assert "There is nothing to show in this table." in text
    assert not re.search(r"<tbody>\s*</tbody>", text)


def data_of(page: Path, name: str) -> Any:
    text = page.read_text(encoding="utf-8")
    (data,) = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.DOTALL)
    return json.loads(data)


def test_pictures_are_kept_once_and_rows_name_them(page: Path) -> None:
    pictures, chunk = data_of(page, "images"), data_of(page, "chunk0")
    assert len(pictures) == 12 + 2 + 36 + 34  # sources, second ones, and what each editor made
    roles = [[shot["role"] for shot in row["p"]] for row in chunk[:6]]
    assert (roles[0], roles[4]) == (["source", "edited"], ["input", "turn 1", "turn 2", "edited"])
    assert all(value.startswith("data:image/webp;base64,") for value in pictures.values())


def test_a_picture_that_was_not_judged_and_one_that_is_not_there_are_said(report: ReportData, tmp_path: Path) -> None:
    comparison = EditorComparison.of(Drawn(), report.results[:1], count=100)
    other = outputs(tmp_path / "other", Drawn(), 0.5, without=["5/1", "5/2", "5/3"])
    path = tmp_path / "report.html"
    write_page(path, ReportData(comparison, {"good": other}))
    chunk = data_of(path, "chunk0")
    assert chunk[0]["p"][-1]["note"] == "differs from the scored image"
    assert chunk[15]["p"][-1] == {"role": "edited", "note": "there is no image 5_turn_1"}
    write_page(path, ReportData(comparison))  # without outputs there are sources alone
    assert [shot["role"] for shot in data_of(path, "chunk0")[0]["p"]] == ["source"]


def test_outputs_of_nobody_are_refused(report: ReportData) -> None:
    with pytest.raises(InputError, match="--outputs names ugly: the editors are good, bad"):
        ReportData(report.comparison, {"ugly": Path()})
