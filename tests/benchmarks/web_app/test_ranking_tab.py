"""The tab "Score and rank" in a browser: uploads, order, reasons, thresholds, downloads."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image as PillowImage
from playwright.sync_api import Browser, Page, expect

from editcritic.benchmarks.demo.candidate_edits import candidates
from editcritic.benchmarks.demo.demo_scenes import demo_tasks
from editcritic.benchmarks.web_app.open_files import OpenFiles
from editcritic.benchmarks.web_app.scorers import NOT_RECORDED, Scorers
from editcritic.benchmarks.web_app.settings import AppSettings
from editcritic.reward import Box, EditSample, Image

from ..chromium import needed
from .browser import TIMEOUT_MS, Visit, app

pytestmark = needed

SCENE = demo_tasks()[0]
expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A photograph, edits of it, and a file of samples."""
    folder = tmp_path_factory.mktemp("edits")
    PillowImage.fromarray(SCENE.pixels).save(folder / "source.png")
    rows = []
    for name in ("good", "damaged_background", "unchanged"):
        PillowImage.fromarray(candidates(SCENE)[name]).save(folder / f"{name}.png")
        row = {"id": name, "source": "source.png", "edited": f"{name}.png", "instruction": SCENE.instruction}
        rows.append(json.dumps({**row, "boxes": SCENE.boxes}))
    (folder / "samples.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def visit(browser: Browser, folder: Path) -> Iterator[Visit]:
    settings = AppSettings(OpenFiles((folder,)))
    with app(settings, browser) as visit:
        yield visit
    settings.scorers.close()


def rows(page: Page) -> list[list[str]]:
    """The texts of the table's rows."""
    found = page.locator("#rank-table tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )
    return [row for row in found if any(row)]


def choose(page: Page, element: str, text: str) -> None:
    page.locator(f"#{element} input").click()
    page.get_by_role("option", name=text, exact=True).click()


def upload(page: Page, folder: Path) -> None:
    page.get_by_role("tab", name="Drop", exact=True).click()
    page.locator("#rank-source input[type=file]").set_input_files(folder / "source.png")
    page.locator("#rank-edits input[type=file]").set_input_files(
        [folder / f"{name}.png" for name in ("damaged_background", "good", "unchanged")]
    )
    page.locator("#rank-instruction textarea").fill(SCENE.instruction)
    page.get_by_role("button", name="Boxes of objects").click()
    page.locator("#rank-boxes textarea").fill(json.dumps(SCENE.boxes))
    expect(page.locator("#rank-edits")).to_contain_text("unchanged")


def test_uploads_are_scored_and_ranked(visit: Visit, folder: Path) -> None:
    page = visit.page
    upload(page, folder)
    page.locator("#rank-score").click()
    expect(page.locator("#rank-table")).to_contain_text("unchanged")
    assert [row[:2] for row in rows(page)] == [["1", "good"], ["2", "damaged_background"], ["3", "unchanged"]]
    assert [float(row[2]) for row in rows(page)] == pytest.approx([1.0, 0.027, 0.0], abs=5e-4)
    assert [row[4] for row in rows(page)] == ["yes", "no", "no"]
    expect(page.locator("#rank-why")).to_contain_text("good is above damaged_background by 0.97")
    expect(page.locator("#rank-parts")).to_contain_text("subject_remove")
    expect(page.locator("#rank-panels img").nth(2)).to_be_visible()


def test_an_edit_is_chosen_by_its_picture(visit: Visit) -> None:
    page = visit.page
    page.locator("#rank-gallery img").nth(2).click()
    expect(page.locator("#rank-parts")).to_contain_text("the edited picture is the source")


def test_another_pair_is_compared(visit: Visit) -> None:
    choose(visit.page, "rank-first", "unchanged")
    expect(visit.page.locator("#rank-why")).to_contain_text("unchanged was rejected by a guard")


def test_scores_and_sheet_can_be_downloaded(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    for element in ("rank-scores-file", "rank-sheet-file"):
        with page.expect_download() as download:
            page.locator(f"#{element}").click()
        download.value.save_as(tmp_path / element)
    lines = [json.loads(line) for line in (tmp_path / "rank-scores-file").read_text(encoding="utf-8").splitlines()]
    assert {line["id"]: line["value"] for line in lines}["good"] == pytest.approx(1.0, abs=5e-4)
    assert all(line["reward"].startswith("any-edit") for line in lines)
    assert "<html" in (tmp_path / "rank-sheet-file").read_text(encoding="utf-8")


def test_a_file_that_was_named_at_the_start_is_opened(visit: Visit, folder: Path) -> None:
    page = visit.page
    page.get_by_role("tab", name="Open", exact=True).click()
    choose(page, "rank-open", folder.name)
    choose(page, "rank-reward", "edival-if")
    page.locator("#rank-score-file").click()
    page.get_by_role("button", name="Thresholds").click()
    expect(page.locator("#rank-threshold-0")).to_be_visible()
    expect(page.locator("#rank-no-thresholds")).to_contain_text("no expert is asked again")


def test_a_mistake_is_a_message(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("tab", name="Drop", exact=True).click()
    page.locator("#rank-instruction textarea").fill(" ")
    page.locator("#rank-score").click()
    expect(page.get_by_text("type what was asked for")).to_be_visible()


def test_what_is_no_picture_is_a_message(browser: Browser, folder: Path, tmp_path: Path) -> None:
    fake = tmp_path / "<img src=x onerror=alert(1)>.png"
    fake.write_bytes(b"<script>alert(1)</script>")
    with app(AppSettings(), browser) as visit:
        page = visit.page
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.locator("#rank-source input[type=file]").set_input_files(folder / "source.png")
        page.locator("#rank-edits input[type=file]").set_input_files([fake])
        page.locator("#rank-instruction textarea").fill("<img src=x onerror=alert(1)>")
        expect(page.locator("#rank-edits")).to_contain_text(".png")
        page.locator("#rank-score").click()
        expect(page.get_by_text("not an image").first).to_be_visible()


def test_the_page_fits_a_phone(browser: Browser) -> None:
    with app(AppSettings(), browser, width=390) as visit:
        page = visit.page
        page.get_by_role("tab", name="Example", exact=True).click()
        page.locator("#rank-score-example").click()
        expect(page.locator("#rank-why")).to_contain_text("above")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_thresholds_ask_no_expert() -> None:
    """The rewards of the sliders answer from the log alone; what is not in it fails, and is no number."""
    source = Image.of(SCENE.pixels)
    boxes = {
        name: tuple(Box.from_corners(*corners, source.size) for corners in found) for name, found in SCENE.boxes.items()
    }
    sample, other = (
        EditSample(name, SCENE.instruction, (source,), Image.of(candidates(SCENE)[name]), boxes=boxes)
        for name in ("good", "sloppy")
    )
    scorers = Scorers()
    first = scorers.reward("edival-if", "cpu")([sample])
    moved = scorers.recorded("edival-if", "cpu", max_box_size=0.9)([sample])
    assert first.values == moved.values
    assert moved.stats["expert_calls"] == 0 if "expert_calls" in moved.stats else True
    unknown = scorers.recorded("edival-if", "cpu")([other])
    assert unknown.values == [None]
    assert NOT_RECORDED in unknown[0].reason
    scorers.close()
