"""The tab "Compare" in a browser: result folders of a real run, score files, and what cannot be compared."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image as PillowImage
from playwright.sync_api import Browser, Page, expect

from editcritic.benchmarks.run.editor_outputs import MissingOutput
from editcritic.benchmarks.web_app.comparison_results import open_inputs
from editcritic.benchmarks.web_app.open_files import OpenFiles
from editcritic.benchmarks.web_app.settings import AppSettings
from editcritic.reward import Evidence, Score
from editcritic.reward.score import score_line

from ..chromium import needed
from .browser import TIMEOUT_MS, Visit, app, choose, cut_tables, narrow, open_tab, run_scene_edit, slow_uploads

pytestmark = needed
expect.set_options(timeout=TIMEOUT_MS)

PROMPTS = 6
EXPERTS = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
HOSTILE = '<img src=x onerror=alert(1)> & "quoted" | [a](javascript:alert(1))'


def write_scores(path: Path, reward: str, values: dict[str, float], reason: str = "") -> None:
    signature, evidence = reward.partition("#")[0], (Evidence("judge", text=f"{HOSTILE} said the judge"),)
    lines = (
        score_line(name, Score.of(value, reason, evidence=evidence).with_signature(signature), reward)
        for name, value in values.items()
    )
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`runs` of a good and a lazy editor; `edits` with pictures, two score files by one reward and one by another."""
    folder = tmp_path_factory.mktemp("compared")
    for editor, done in (("good", PROMPTS), ("lazy", 2)):
        run_scene_edit(PROMPTS, folder, editor, done, "--experts", EXPERTS)
    edits = folder / "edits"
    edits.mkdir()
    rows = []
    for number, name in enumerate(("one", "two", "three")):
        PillowImage.new("RGB", (64, 64), (40 * number, 90, 120)).save(edits / f"{name}.png")
        rows.append({"id": name, "source": "one.png", "edited": f"{name}.png", "instruction": f"Make it {HOSTILE}"})
    (edits / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    write_scores(edits / "before.jsonl", "any-edit@1#01", {"one": 0.9, "two": 0.5, "three": 0.2})
    write_scores(edits / "after.jsonl", "any-edit@1#01", {"one": 0.3, "two": 0.9, "three": 0.2}, HOSTILE)
    write_scores(edits / "strict.jsonl", "any-edit@1#02", {"one": 0.1, "two": 0.2})
    write_scores(edits / "other.jsonl", "imgedit@1#03", {"one": 3.0, "two": 4.0})
    write_scores(edits / "elsewhere.jsonl", "any-edit@1#01", {"four": 0.1})
    return folder


@pytest.fixture(scope="module")
def visit(browser: Browser, folder: Path) -> Iterator[Visit]:
    settings = AppSettings(OpenFiles((folder / "runs", folder / "made", folder / "edits")))
    with app(settings, browser, tab="Compare") as visit:
        visit.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        yield visit
    settings.scorers.close()


def compare(page: Page, first: str, second: str) -> None:
    choose(page, "compare-a", first)
    choose(page, "compare-b", second)
    page.locator("#compare-start").click()


def items(page: Page) -> list[str]:
    """Ids of the items that are shown."""
    return page.locator("#compare-items article header b").all_inner_texts()


def test_two_runs_are_compared_with_what_differs_most(visit: Visit) -> None:
    page = visit.page
    compare(page, "runs/good", "runs/lazy")
    expect(page.locator("#compare-status")).to_contain_text(f"{PROMPTS} items in both, 2 of them with the same image")
    expect(page.locator("#compare-status")).not_to_contain_text("measured differently")
    row = page.locator("#compare-metrics tr", has_text="truth-followed")
    cells = row.locator("td").all_inner_texts()
    assert cells[:5] == ["truth-followed", "6", "1.000", "0.333", "-0.667"]
    choose(page, "compare-metric", "truth-followed")
    choose(page, "compare-order", "largest change")
    expect(page.locator("#compare-items .cmp-count")).to_have_text("4 of 4, largest change of truth-followed first")
    item = page.locator("#compare-items article").first
    expect(item.locator("img")).to_have_count(3)
    expect(item).to_contain_text("good is above lazy by 1.000")
    choose(page, "compare-order", "largest gain")
    expect(page.locator("#compare-items")).to_contain_text("No item has a gain in truth-followed")


def test_the_comparison_can_be_downloaded(visit: Visit, tmp_path: Path) -> None:
    compare(visit.page, "runs/good", "runs/lazy")
    expect(visit.page.locator("#compare-status")).to_contain_text("A: good, B: lazy")
    with visit.page.expect_download() as download:
        visit.page.locator("#compare-file").click()
    download.value.save_as(tmp_path / "comparison.json")
    document = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert (document["a"], document["b"], document["items"]["both"]) == ("good", "lazy", PROMPTS)
    assert {"editor", "outputs_digest"} == document["provenance"].keys()


def test_score_files_are_compared_with_the_pictures_beside_them(visit: Visit) -> None:
    page = visit.page
    compare(page, "edits/before.jsonl", "edits/after.jsonl")
    choose(page, "compare-order", "largest change")
    expect(page.locator("#compare-items .cmp-count")).to_contain_text("2 of 2")
    assert items(page) == ["one", "two"]
    one = page.locator("#compare-items article").first
    expect(one.locator(".cmp-pictures img")).to_have_count(3)
    expect(one).to_contain_text("edits/before.jsonl is above edits/after.jsonl by 0.600")
    expect(one).to_contain_text(f"B: {HOSTILE}")
    one.locator("summary").click()
    expect(one.locator(".cmp-words").first).to_contain_text(f"{HOSTILE} said the judge")
    assert page.locator("#compare-items img:not([src^='data:'])").count() == 0
    choose(page, "compare-order", "largest gain")
    expect(page.locator("#compare-items .cmp-count")).to_contain_text("1 of 1")
    assert items(page) == ["two"]


def test_what_was_measured_differently_is_said(visit: Visit) -> None:
    compare(visit.page, "edits/before.jsonl", "edits/strict.jsonl")
    expect(visit.page.locator("#compare-status")).to_contain_text("The two were measured differently: rewards")
    visit.page.get_by_role("button", name="Settings that differ").click()
    expect(visit.page.locator("#compare-settings tr", has_text="any-edit@1#01")).to_contain_text("any-edit@1#02")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("edits/before.jsonl", "edits/other.jsonl", "no metric in common: A has any-edit; B has imgedit"),
        ("edits/before.jsonl", "edits/elsewhere.jsonl", "no common items"),
        ("runs/good", "edits/before.jsonl", "one is a result folder, the other a score file"),
        ("runs/good", "runs/good", "A and B are the same results"),
    ],
)
def test_what_cannot_be_compared_is_a_message(visit: Visit, first: str, second: str, message: str) -> None:
    compare(visit.page, first, second)
    expect(visit.page.locator("#compare-status")).to_contain_text(message)
    expect(visit.page.locator("#compare-results")).to_be_hidden()


def test_uploaded_score_files_are_compared(browser: Browser, folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"schema": 1, "id": "one", "status": "scored", "value": "<b>high</b>"}\n', encoding="utf-8")
    with app(AppSettings(), browser, tab="Compare") as visit:
        page = visit.page
        expect(page.locator("#compare-status")).to_contain_text("Drop two score files")
        for chooser in ("compare-a", "compare-b", "compare-pictures"):  # which would be empty
            expect(page.locator(f"#{chooser}")).to_have_count(0)
        slow_uploads(page)
        first, second = (page.locator(f"#compare-upload-{side} input[type=file]") for side in "ab")
        first.set_input_files(folder / "edits" / "before.jsonl")
        page.locator("#compare-start").click()
        expect(page.locator("#compare-status")).to_contain_text("B is not chosen")
        second.set_input_files(folder / "edits" / "after.jsonl")
        page.locator("#compare-start").click()
        expect(page.locator("#compare-metrics tbody tr")).to_contain_text("any-edit")
        expect(page.locator("#compare-items article").first).to_contain_text("its picture is not known")
        assert items(page) == ["one", "two"]
        page.locator("#compare-upload-b").get_by_label("Clear").first.click()
        page.locator("#compare-upload-b input[type=file]").set_input_files(broken)
        expect(page.locator("#compare-upload-b")).to_contain_text("broken")
        page.locator("#compare-start").click()
        expect(page.locator("#compare-status")).to_contain_text("broken.jsonl:1 is not a line of a scores file")


def test_outputs_outside_of_what_was_named_are_not_shown(folder: Path) -> None:
    """`runs` records outputs in `made`: without that folder, the page opens no picture of it."""
    inputs = open_inputs(OpenFiles((folder / "runs",)), ("runs/good", "runs/lazy"), (None, None), None)
    assert len(inputs.notes) == 2
    assert all("start the app with that folder, too" in note for note in inputs.notes)
    with pytest.raises(MissingOutput):
        inputs.sample(0, inputs.first.rows[0].id)


def test_the_page_fits_a_phone(visit: Visit) -> None:
    with narrow(visit.page) as page:
        page.reload()
        open_tab(page, "Compare")
        compare(page, "runs/good", "runs/lazy")
        expect(page.locator("#compare-status")).to_contain_text("A: good, B: lazy")
        page.get_by_role("button", name="Settings that differ").click()
        expect(page.locator("#compare-settings table")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert cut_tables(page) == []
