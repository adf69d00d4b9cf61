"""The tab "Score and rank" in a browser: uploads, order, reasons, thresholds, downloads."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.demo.candidate_edits import candidates
from editcritic.benchmarks.web_app.open_files import OpenFiles
from editcritic.benchmarks.web_app.ranking_inputs import uploaded_entries
from editcritic.benchmarks.web_app.ranking_results import RankedEdits
from editcritic.benchmarks.web_app.settings import NOT_RECORDED, AppSettings, Scorers
from editcritic.reward import Box, EditSample, Image, Score

from ..chromium import needed
from .browser import SCENE, TIMEOUT_MS, Visit, app, choose, cut_tables, run_scene_edit, write_edits

pytestmark = needed

expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A photograph, edits of it, and a file of samples."""
    names = ("good", "damaged_background", "unchanged")
    return write_edits(tmp_path_factory.mktemp("edits"), *names, boxes=SCENE.boxes)


@pytest.fixture(scope="module")
def visit(browser: Browser, folder: Path) -> Iterator[Visit]:
    """A page on which three edits were dropped and scored."""
    settings = AppSettings(OpenFiles((folder,)))
    with app(settings, browser) as visit:
        page = visit.page
        page.locator("#rank-source input[type=file]").set_input_files(folder / "source.png")
        page.locator("#rank-edits input[type=file]").set_input_files(
            [folder / f"{name}.png" for name in ("damaged_background", "good", "unchanged")]
        )
        page.get_by_label("Boxes as JSON").check()
        page.locator("#rank-boxes textarea").fill(json.dumps(SCENE.boxes))
        expect(page.locator("#rank-source")).to_contain_text("source .png")
        expect(page.locator("#rank-edits")).to_contain_text("unchanged")
        page.locator("#rank-instruction textarea").fill(SCENE.instruction)
        page.locator("#rank-score").click()
        expect(page.locator("#rank-scores-file")).to_be_enabled()
        yield visit
    settings.scorers.close()


def rows(page: Page) -> list[list[str]]:
    """The texts of the table's rows."""
    return page.locator("#rank-table tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )


def test_uploads_are_scored_and_ranked(visit: Visit) -> None:
    page = visit.page
    expect(page.locator("#rank-status")).to_contain_text("3 edits by any-edit with cpu")
    page.locator("#rank-accept input[type=number]").fill("0.5")
    expect(page.locator("#rank-table")).to_contain_text("1 of 3 accepted")
    assert [row[:2] for row in rows(page)] == [["1", "good"], ["2", "damaged_background"], ["3", "unchanged"]]
    assert [row[2] for row in rows(page)] == ["0.587", "0.022", "0.000, rejected"]
    assert [row[4] for row in rows(page)] == ["yes", "no", "no"]
    expect(page.locator("#rank-why")).to_contain_text("good is above damaged_background by 0.56")
    expect(page.locator("#rank-parts")).to_contain_text("subject_remove")
    expect(page.locator("#rank-panels .caption-label")).to_have_text(
        ["source, target", "edit, with what experts found", "orange: unrequested change; blue: may change"]
    )


def test_what_is_accepted_moves_with_its_threshold(visit: Visit) -> None:
    page = visit.page
    page.locator("#rank-accept input[type=number]").fill("0.01")
    expect(page.locator("#rank-table")).to_contain_text("2 of 3 accepted")
    assert [row[4] for row in rows(page)] == ["yes", "yes", "no"]


def test_an_edit_is_chosen_by_its_picture(visit: Visit) -> None:
    page = visit.page
    page.locator("#rank-gallery .thumbnail-item").nth(2).click()
    expect(page.locator("#rank-parts")).to_contain_text("the edited picture is the source")


def test_another_pair_is_compared(visit: Visit) -> None:
    page = visit.page
    choose(page, "rank-first", "unchanged")
    expect(page.locator("#rank-why")).to_contain_text("unchanged was rejected by a guard")


def test_scores_and_sheet_can_be_downloaded(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    for element in ("rank-scores-file", "rank-sheet-file"):
        with page.expect_download() as download:
            page.locator(f"#{element}").click()
        download.value.save_as(tmp_path / element)
    lines = [json.loads(line) for line in (tmp_path / "rank-scores-file").read_text(encoding="utf-8").splitlines()]
    assert {line["id"]: line["value"] for line in lines}["good"] == pytest.approx(0.587, abs=5e-4)
    assert all(line["reward"].startswith("any-edit") for line in lines)
    assert "<html" in (tmp_path / "rank-sheet-file").read_text(encoding="utf-8")


def test_a_threshold_moves_scores_of_a_file_at_once(browser: Browser, folder: Path) -> None:
    settings = AppSettings(OpenFiles((folder,)))
    with app(settings, browser) as visit:
        page = visit.page
        page.get_by_role("tab", name="Open", exact=True).click()
        choose(page, "rank-open", folder.name)
        page.locator("#rank-limit input").fill("2")
        choose(page, "rank-reward", "guard-not-blank")
        page.locator("#rank-score-file").click()
        expect(page.locator("#rank-status")).to_contain_text("These are the first 2; there are more.")
        assert [row[2] for row in rows(page)] == ["1.000", "1.000"]
        page.get_by_role("button", name="Thresholds of the reward").click()
        expect(page.locator("#rank-no-thresholds")).to_contain_text("no expert is asked again")
        slider = page.locator("#rank-threshold-1")
        expect(slider).to_contain_text("min_contrast_ratio")
        slider.locator("input[type=number]").fill("0.99")
        expect(page.locator("#rank-table")).to_contain_text("1 of 2 accepted")
        assert [row[1:3] for row in rows(page)] == [["good", "1.000"], ["damaged_background", "0.000"]]
    settings.scorers.close()


def test_what_a_choice_shows_is_not_queued(visit: Visit) -> None:
    """An event that is queued just when another one ends may never be answered: see `QUICK`."""
    page = visit.page
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url.rpartition("/gradio_api/")[2]))
    choose(page, "rank-reward", "guard-not-blank")
    expect(page.locator("#rank-meaning")).to_contain_text("guard-not-blank")
    page.locator("#rank-gallery .thumbnail-item").nth(1).click()
    expect(page.locator("#rank-parts")).to_contain_text("damaged_background")
    choose(page, "rank-first", "unchanged")
    expect(page.locator("#rank-why")).to_contain_text("unchanged was rejected by a guard")
    page.wait_for_function(
        "[...document.querySelectorAll('#rank-panels img')].filter(img => img.complete && img.naturalWidth).length >= 3"
    )
    assert sum(request.startswith("run/") for request in requests) >= 3
    assert not [request for request in requests if request.startswith("queue/")]


def test_an_uploaded_folder_is_scored_by_its_own_file(browser: Browser, folder: Path) -> None:
    with app(AppSettings(), browser) as visit:
        page = visit.page
        page.get_by_role("button", name="A folder instead of single edits").click()
        page.locator("#rank-folder input[type=file]").set_input_files(folder)
        expect(page.locator("#rank-folder")).to_contain_text("samples")
        page.locator("#rank-score").click()
        expect(page.locator("#rank-status")).to_contain_text("3 edits by any-edit")
        assert [row[1] for row in rows(page)] == ["good", "damaged_background", "unchanged"]


def test_results_are_ranked_by_item(browser: Browser, tmp_path: Path) -> None:
    """The outputs of two editors for the items of a suite, as their runs recorded them."""
    run_scene_edit(2, tmp_path, "right", 2, "--metric", "truth-followed")
    suite = run_scene_edit(2, tmp_path, "copy", 0, "--metric", "truth-followed")
    with app(AppSettings(OpenFiles((tmp_path,)), reward="guards"), browser) as visit:
        page = visit.page
        page.get_by_role("tab", name="Open", exact=True).click()
        for editor in ("right", "copy"):
            choose(page, "rank-open", f"{tmp_path.name}/runs/{editor}")
        page.locator("#rank-score-file").click()
        expect(page.locator("#rank-status")).to_contain_text("4 edits by guards")
        first = suite.items[0].id
        assert [row[1] for row in rows(page)] == [f"{first} by right", f"{first} by copy"]
        choose(page, "rank-group", f"2. {suite.items[1].sample.instruction}")
        expect(page.locator("#rank-table")).to_contain_text(f"{suite.items[1].id} by copy")


def test_a_mistake_is_a_message(visit: Visit) -> None:
    page = visit.page
    page.locator("#rank-instruction textarea").fill(" ")
    page.locator("#rank-score").click()
    expect(page.get_by_text("type what was asked for").first).to_be_visible()


def test_the_page_fits_a_phone(browser: Browser) -> None:
    with app(AppSettings(), browser, width=390) as visit:
        page = visit.page
        page.get_by_role("tab", name="Example", exact=True).click()
        page.locator("#rank-score-example").click()
        expect(page.locator("#rank-why")).to_contain_text("above")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert cut_tables(page) == []


def test_no_file_is_read_by_a_name_that_is_typed(folder: Path) -> None:
    """On the command line, the boxes may be a file; on the page they are text."""
    (folder / "boxes.json").write_text(json.dumps(SCENE.boxes), encoding="utf-8")
    edits = [str(folder / "good.png")]
    for typed in (str(folder / "boxes.json"), "/etc/passwd"):
        with pytest.raises(InputError, match="boxes are JSON like"):
            uploaded_entries(str(folder / "source.png"), edits, SCENE.instruction, typed)


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
    moved = scorers.rescored("edival-if", "cpu", [sample], max_box_size=0.9)
    assert first.values == moved.values
    assert first.stats["unique"] == moved.stats["queries"] == moved.stats["cache_hits"] > 0
    assert (moved.stats["unique"], moved.stats["experts"]) == (0, {})
    unknown = scorers.rescored("edival-if", "cpu", [other])
    assert unknown.values == [None]
    assert NOT_RECORDED in unknown[0].reason
    scorers.close()


def test_an_edit_that_is_not_in_the_list_is_a_message() -> None:
    source = Image.of(SCENE.pixels)
    sample = EditSample("good", SCENE.instruction, (source,), source)
    ranked = RankedEdits([sample], [Score.of(1.0)], (0.0, 1.0), "any-edit", "cpu", {})
    assert ranked.candidate("good").rank == 1
    with pytest.raises(InputError, match="no edit is called 'other'"):
        ranked.candidate("other")


@pytest.mark.parametrize(
    ("range_of_card", "limits"),
    [((0.0, 1.0), (0.0, 1.0)), ((1.0, 5.0), (1.0, 5.0)), ((0.0, None), (0.0, 4.0)), ((None, None), (2.0, 4.0))],
)
def test_the_threshold_of_acceptance_is_on_the_scale_of_the_reward(range_of_card, limits):
    source = Image.of(SCENE.pixels)
    samples = [EditSample(name, SCENE.instruction, (source,), source) for name in ("a", "b", "c")]
    scores = [Score.of(2.0), Score.of(4.0), Score.failed("the judge was down")]
    assert RankedEdits(samples, scores, range_of_card, "imgedit", "cpu", {}).limits == limits
