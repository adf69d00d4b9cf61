"""The tab "Audit" in a browser: an audit that runs, one that is stopped, two at a time, figures of a file."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.web_app import audit_jobs
from editcritic.benchmarks.web_app.audit_jobs import STOPPED, AuditChoice, AuditJobs
from editcritic.benchmarks.web_app.open_files import OpenFiles
from editcritic.benchmarks.web_app.server import serving
from editcritic.benchmarks.web_app.settings import AppSettings, Scorers

from ..chromium import needed
from .browser import (
    SCENE,
    TIMEOUT_MS,
    Visit,
    app,
    choose,
    narrow,
    open_tab,
    slow_uploads,
    visited,
    write_edits,
)

pytestmark = needed

REWARD = "edival-if"  # quick, and blind to damage: `border` is a violation
HOSTILE = "<img src=x onerror=alert(1)>"
NEW = "#audit-report iframe:not([data-old])"
"""A report that was not there when the last audit began."""
AUDIT_MS = 3 * TIMEOUT_MS  # of a short audit, on a busy machine
expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples, a picture and its good edit, and JSON that is no audit."""
    folder = write_edits(tmp_path_factory.mktemp("edits"), "good", boxes=SCENE.boxes)
    good = (folder / "samples.jsonl").read_text(encoding="utf-8")
    gone = json.dumps({**json.loads(good), "id": "gone", "edited": "gone.png"})
    (folder / "samples.jsonl").write_text(f"{good}\n{gone}", encoding="utf-8")
    (folder / "other.json").write_text('{"reward": "any-edit"}', encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def visit(browser: Browser, folder: Path) -> Iterator[Visit]:
    settings = AppSettings(OpenFiles((folder,)), reward=REWARD)
    with app(settings, browser, tab="Audit") as visit:
        yield visit
    settings.scorers.close()


def begin(page: Page, *families: str, edits: str = "Photographs of the demo", limit: int = 1, **drop: Path) -> None:
    """Choose, drop files on uploads by their names, and start."""
    page.locator("#audit-edits").get_by_role("radio", name=edits, exact=True).check()
    page.locator("#audit-limit input").fill(str(limit))
    while page.locator("#audit-families .token-remove:not(.remove-all)").count():
        page.locator("#audit-families .token-remove:not(.remove-all)").first.click()
    for name in families:
        choose(page, "audit-families", name)
    page.keyboard.press("Escape")
    page.evaluate("document.querySelectorAll('#audit-report iframe').forEach(frame => { frame.dataset.old = 1 })")
    for name, path in drop.items():
        page.locator(f"#audit-{name} input[type=file]").set_input_files(path)
    page.locator("#audit-start").click()


def report(page: Page) -> FrameLocator:
    return page.frame_locator(NEW)


def expect_report(page: Page) -> FrameLocator:
    expect(page.locator(NEW)).to_be_visible(timeout=AUDIT_MS)
    expect(page.locator("#audit-status")).to_contain_text("Done.")
    expect(page.locator("#audit-start")).to_be_enabled()
    expect(page.locator("#audit-stop")).to_be_hidden()
    return report(page)


def downloaded(page: Page, element: str) -> str:
    with page.expect_download() as download:
        page.locator(f"#{element}").click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_an_audit_of_the_demos_photographs(visit: Visit) -> None:
    page = visit.page
    begin(page, "border", "unchanged-source", limit=2)
    expect(page.locator("#audit-stop")).to_be_in_viewport()
    expect(page.locator("#audit-status progress")).to_have_attribute("max", "2")
    shown = expect_report(page)
    expect(shown.locator(".verdict")).to_contain_text("4 of 12 comparisons are violations: 33")
    expect(shown.locator(".verdict")).to_contain_text("A policy would gain")
    expect(shown.locator(".families tbody tr").nth(1)).to_contain_text("border")
    expect(shown.locator(".families tbody tr").nth(1)).to_contain_text("4 of 6")
    expect(shown.locator("#worst article").first).to_contain_text("edit 1.000")
    expect(shown.locator("#worst article").first).to_contain_text("variant 1.000")
    expect(shown.locator("#costs")).to_contain_text("annotated")
    expect(shown.locator(".facts")).to_contain_text("2 of 2 sources")
    height = page.locator("#audit-report iframe").evaluate("frame => frame.clientHeight")
    assert height == shown.locator("html").evaluate("html => Math.ceil(html.getBoundingClientRect().height)")


def test_its_page_and_its_figures_can_be_downloaded(visit: Visit) -> None:
    page = downloaded(visit.page, "audit-page-file")
    assert page.startswith("<!doctype html>")
    assert "editcritic audit demo --reward edival-if --experts cpu --limit 2 --family border" in page
    figures = json.loads(downloaded(visit.page, "audit-figures-file"))
    assert (figures["reward"], figures["overall"]["violations"], figures["edits"]) == (REWARD, 4, 2)


def test_a_link_to_a_section_stays_on_the_page(visit: Visit) -> None:
    report(visit.page).get_by_role("link", name="Costs", exact=True).click()
    expect(report(visit.page).locator("#costs")).to_be_in_viewport()
    expect(report(visit.page).locator(".verdict")).to_contain_text("comparisons")


def test_samples_of_a_file_are_audited_and_the_others_named(visit: Visit) -> None:
    begin(visit.page, "border", edits="Samples", limit=2)
    expect(expect_report(visit.page).locator(".verdict")).to_contain_text("3 of 3 comparisons")
    expect(visit.page.locator("#audit-status")).to_contain_text("Left out: ")
    expect(visit.page.locator("#audit-status")).to_contain_text("gone.png")


def test_an_uploaded_edit_is_waited_for_and_audited(visit: Visit, folder: Path) -> None:
    page = visit.page
    slow_uploads(page)
    page.locator("#audit-edits").get_by_role("radio", name="One of mine").check()
    page.locator("#audit-instruction textarea").fill(SCENE.instruction)
    page.locator("#tab-audit").get_by_role("button", name="Boxes of objects").click()
    page.locator("#audit-boxes textarea").fill(json.dumps(SCENE.boxes))
    begin(page, "border", edits="One of mine", source=folder / "source.png", edit=folder / "good.png")
    expect(expect_report(page).locator(".verdict")).to_contain_text("3 of 3 comparisons")


def test_the_page_fits_a_phone(visit: Visit) -> None:
    with narrow(visit.page) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert report(page).locator("html").evaluate("html => html.scrollWidth - html.clientWidth") <= 0


def test_mistakes_are_messages(visit: Visit) -> None:
    from editcritic.benchmarks.web_app.audit_tab import MAX_EDITS

    page = visit.page
    page.locator("#audit-edits").get_by_role("radio", name="One of mine").check()
    page.locator("#audit-instruction textarea").fill(" ")
    page.locator("#audit-start").click()
    expect(page.get_by_text(re.compile("there is no (source|instruction):"))).to_be_visible()
    begin(page, "border", limit=MAX_EDITS + 1)
    expect(page.get_by_text(f"the number of edits is from 1 to {MAX_EDITS}")).to_be_visible()
    expect(page.locator("#audit-start")).to_be_enabled()
    page.locator(".toast-close").evaluate_all("buttons => buttons.forEach(button => button.click())")
    expect(page.locator(".toast-close")).to_have_count(0)


def test_an_audit_that_is_stopped_has_a_report(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits after the first batch until it is stopped, so that there is a rest which is not scored."""
    page = visit.page
    reason = audit_jobs.AuditJob._stop_reason

    def waits(job: audit_jobs.AuditJob) -> str:
        if job.progress().variants:
            assert job._is_stopped.wait(AUDIT_MS / 1000)
        return reason(job)

    monkeypatch.setattr(audit_jobs.AuditJob, "_stop_reason", waits)
    begin(page, "border", "unchanged-source", limit=2)
    expect(page.locator("#audit-status")).to_contain_text("6 variants scored", timeout=AUDIT_MS)
    page.locator("#audit-stop").click()
    shown = expect_report(page)
    expect(shown.locator(".facts")).to_contain_text(f"{STOPPED}; what was scored by then is reported")
    expect(shown.locator(".verdict")).to_contain_text("1 of 6 comparisons")
    assert json.loads(downloaded(page, "audit-figures-file"))["stopped"] == STOPPED


def test_figures_of_a_file_are_shown_and_words_in_them_are_words(browser, visit, tmp_path):
    figures = json.loads(downloaded(visit.page, "audit-figures-file"))
    (tmp_path / "audit.json").write_text(json.dumps(hostile(figures)), encoding="utf-8")
    (tmp_path / "other.json").write_text('{"reward": "any-edit", "unscored_edits": 0}', encoding="utf-8")
    with app(AppSettings(OpenFiles((tmp_path,))), browser, tab="Audit") as other:
        page = other.page
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.get_by_role("button", name="Open figures").click()
        show(page, f"{tmp_path.name}/audit.json")
        expect(report(page).locator(".verdict")).to_contain_text("1 of 6 comparisons")
        expect(report(page).locator(".families")).to_contain_text(HOSTILE)
        expect(report(page).locator("img")).to_have_count(0)
        expect(report(page).locator("#worst")).to_have_count(0)
        show(page, f"{tmp_path.name}/other.json")
        expect(page.get_by_text("other.json has no figures of an audit")).to_be_visible()


def show(page: Page, name: str) -> None:
    choose(page, "audit-stored", name)
    page.locator("#audit-show").click()


def hostile(figures: dict[str, Any]) -> dict[str, Any]:
    """The same with a name that is markup."""
    figures["families"][0]["family"] = figures["reward"] = figures["identity"] = figures["command"] = HOSTILE
    return figures


def test_a_window_that_closes_ends_its_audit_and_no_other(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both wait before their variants are scored, for their window to close or to say stop."""
    reason = audit_jobs.AuditJob._stop_reason
    waiting: SimpleQueue[audit_jobs.AuditJob] = SimpleQueue()

    def waits(job: audit_jobs.AuditJob) -> str:
        waiting.put(job)
        assert job._is_stopped.wait(AUDIT_MS / 1000)
        return reason(job)

    monkeypatch.setattr(audit_jobs.AuditJob, "_stop_reason", waits)
    settings = AppSettings(reward=REWARD)
    with serving(settings) as url, visited(browser, url) as stays:
        with visited(browser, url) as closes:
            jobs = [started(visit, waiting) for visit in (stays, closes)]
        assert jobs[1]._is_stopped.wait(AUDIT_MS / 1000)
        assert jobs[0].is_running
        with visited(browser, url) as third:
            started(third, waiting)
            for page in (third.page, stays.page):
                page.locator("#audit-stop").click()
                expect(expect_report(page).locator(".facts")).to_contain_text(STOPPED)
    settings.scorers.close()


def started(visit: Visit, waiting: "SimpleQueue[audit_jobs.AuditJob]") -> audit_jobs.AuditJob:
    """The audit that was begun in a window."""
    open_tab(visit.page, "Audit")
    begin(visit.page, "border")
    expect(visit.page.locator("#audit-status")).to_contain_text("Edits done: 0 of 1", timeout=AUDIT_MS)
    return waiting.get(timeout=AUDIT_MS / 1000)


def test_more_audits_at_a_time_are_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_jobs, "MAX_RUNNING", 0)
    with pytest.raises(InputError, match="wait until one has ended"):
        AuditJobs(Scorers(), None).start(AuditChoice([], REWARD, "cpu", [], 1))
