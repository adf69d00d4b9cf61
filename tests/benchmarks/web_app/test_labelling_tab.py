"""The tab "Label" in a browser: by mouse and by key, restart, two annotators, boxes, files, agreement."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as PillowImage
from playwright.sync_api import Browser, Locator, Page, expect

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.demo.candidate_edits import candidates
from editcritic.benchmarks.human_eval.annotation_schedule import QuestionType, known_answers
from editcritic.benchmarks.human_eval.annotation_session import AnnotationSession
from editcritic.benchmarks.human_eval.question_pools import SamplePool, SuitePool
from editcritic.benchmarks.suites.human_labels import Label, read_labels
from editcritic.benchmarks.suites.results import RUN_FILE
from editcritic.benchmarks.web_app.label_sessions import NEW_FILE, LabelSessions, SessionChoice
from editcritic.benchmarks.web_app.open_files import OpenFiles
from editcritic.benchmarks.web_app.server import serving
from editcritic.benchmarks.web_app.settings import AppSettings
from editcritic.reward import Score
from editcritic.reward.score import score_line

from ..chromium import needed
from ..human_eval.label_files import labels_file, make_label, results, row, write
from ..suites.tiny_suite import Toy, outputs
from .browser import SCENE, TIMEOUT_MS, Visit, choose, cut_tables, faint_texts, visited, write_edits

pytestmark = needed

STEP_MS = 20_000  # of every step of this tab, all of which are short
AGAIN_MS = 4_000

NAMES = ("good", "damaged_background", "unchanged")


@pytest.fixture(scope="module", autouse=True)
def short_waits() -> Iterator[None]:
    """What is wrong is seen early."""
    expect.set_options(timeout=STEP_MS)
    yield
    expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three edits of a photograph, and their scores."""
    folder = write_edits(tmp_path_factory.mktemp("own_edits"), *NAMES)
    scores = zip(NAMES, (0.9, 0.5, 0.1), strict=True)
    lines = "".join(score_line(name, Score.of(value).with_signature("any-edit@1")) for name, value in scores)
    (folder.parent / "scores.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two edits each of a square, a wide and a tall picture; one edit has another number of pixels."""
    folder = tmp_path_factory.mktemp("shapes")
    rows = []
    for width, height in ((512, 512), (768, 512), (512, 768)):
        for name, scale in (("source", 1), ("good", 0.5), ("unchanged", 1)):
            pixels = SCENE.pixels if name == "source" else candidates(SCENE)[name]
            size = (round(scale * width), round(scale * height))
            PillowImage.fromarray(pixels).resize(size).save(folder / f"{width}x{height}_{name}.png")
        for name in ("good", "unchanged"):
            row = {"source": f"{width}x{height}_source.png", "edited": f"{width}x{height}_{name}.png"}
            text = "Remove the embroidered purple patch from the front of the orange suit, and leave the rest as it is"
            rows.append({"id": f"{width}x{height}_{name}", "instruction": text, **row})
    (folder / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def session(folder: Path, labels: Path, *types: str, **options: object) -> AnnotationSession:
    pool = SamplePool.open(folder)
    questions = pool.questions([QuestionType.parse(text) for text in types])
    settings = {"practice_questions": 0, "recheck_share": 0, **options}
    return AnnotationSession(pool, questions, labels, **settings)  # type: ignore[arg-type]


@contextmanager
def labelling(begun: AnnotationSession | None, *paths: Path) -> Iterator[str]:
    settings = AppSettings(OpenFiles(paths), session=begun)
    with serving(settings) as url:
        yield url
    settings.scorers.close()


@contextmanager
def window(browser: Browser, url: str, **options: Any) -> Iterator[Visit]:
    with visited(browser, url, **options) as visit:
        visit.page.set_default_timeout(STEP_MS)
        yield visit


def begin(page: Page, name: str) -> None:
    page.locator("#label-name").locator("input, textarea").fill(name)
    page.locator("#label-begin").click()


def at(page: Page, text: str) -> Locator:
    """Where among the questions the window is."""
    return page.locator(".label-position", has_text=text)


def position(page: Page, text: str) -> None:
    expect(page.locator(".label-position")).to_have_text(text)


def press(page: Page, key: str, then: Locator) -> None:
    """A key, again if nothing happens: gradio takes none while it still shows what the last one led to."""
    for _ in range(STEP_MS // AGAIN_MS):
        page.keyboard.press(key)
        with suppress(AssertionError):
            expect(then).to_be_visible(timeout=AGAIN_MS)
            return
    expect(then).to_be_visible()


def answers(path: Path, annotator: str = "ann") -> list[Label]:
    return [label for label in read_labels([path]) if label.annotator == annotator]


def test_pairs_are_labelled_by_mouse_and_by_key_and_a_restart_goes_on(browser, folder, tmp_path):
    labels = tmp_path / "labels.jsonl"
    with labelling(session(folder, labels, "pair:overall")) as url, window(browser, url) as visit:
        page = visit.page
        begin(page, "ann")
        position(page, "1 of 3")
        page.locator("#label-left").click()
        position(page, "2 of 3")
        assert len(answers(labels)) == 1
        press(page, "ArrowDown", at(page, "3 of 3"))
        assert [label.label for label in answers(labels)][1] == "tie"
    with labelling(session(folder, labels, "pair:overall")) as url, window(browser, url) as visit:
        page = visit.page
        begin(page, "ann")
        position(page, "3 of 3")
        press(page, "3", page.locator("#label-done"))
        expect(page.locator("#label-done")).to_contain_text("All questions are answered")
    chosen = answers(labels)
    left, right = ("B" if chosen[0].swapped else "A"), ("A" if chosen[2].swapped else "B")
    assert [label.label for label in chosen] == [left, "tie", right]


def test_an_answer_is_changed_and_a_note_is_typed_without_answering(browser, folder, tmp_path):
    labels = tmp_path / "labels.jsonl"
    with labelling(session(folder, labels, "yes-no:following")) as url, window(browser, url) as visit:
        page = visit.page
        begin(page, "ann")
        position(page, "1 of 3")
        note = page.locator("#label-note").locator("input, textarea")
        note.click()
        page.keyboard.type("yes, and nearly 100 % of it")
        page.keyboard.press("Escape")
        press(page, "y", at(page, "2 of 3"))
        expect(note).to_have_value("")
        press(page, "u", at(page, "1 of 3"))
        expect(note).to_have_value("yes, and nearly 100 % of it")
        expect(page.locator("#label-yes")).to_have_class(re.compile(r"\bprimary\b"))
        press(page, "f", at(page, "2 of 3"))
        press(page, "u", at(page, "1 of 3"))
        press(page, "2", at(page, "2 of 3"))
    assert [(label.label, label.note) for label in answers(labels)] == [
        ("yes", "yes, and nearly 100 % of it"),
        ("no", "yes, and nearly 100 % of it"),
    ]


def test_two_annotators_label_at_once_and_two_windows_of_one_do_not_label_twice(browser, folder, tmp_path):
    labels = tmp_path / "labels.jsonl"
    with (
        labelling(session(folder, labels, "four-level:quality")) as url,
        window(browser, url) as first,
        window(browser, url) as second,
        window(browser, url) as third,
    ):
        begin(first.page, "ann")
        begin(second.page, "ann")
        begin(third.page, "bob")
        for visit in (first, second, third):
            position(visit.page, "1 of 3")
        first.page.locator("#label-4").dblclick()
        press(third.page, "1", at(third.page, "2 of 3"))
        position(first.page, "2 of 3")
        second.page.locator("#label-2").click()
        expect(second.page.get_by_text("answered already").first).to_be_visible()
        position(second.page, "2 of 3")
    assert [label.label for label in answers(labels)] == [4]
    assert [label.label for label in answers(labels, "bob")] == [1]


def test_boxes_are_drawn_undone_and_saved(browser: Browser, folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    height, width = SCENE.pixels.shape[:2]
    with labelling(session(folder, labels, "boxes:target")) as url, window(browser, url) as visit:
        page = visit.page
        begin(page, "ann")
        page.locator("#label-save").click()
        expect(page.get_by_text("there is no box").first).to_be_visible()
        area = page.locator(".drawing").bounding_box()
        assert area is not None

        def drag(x0: float, y0: float, x1: float, y1: float) -> None:
            page.mouse.move(area["x"] + x0 * area["width"], area["y"] + y0 * area["height"])
            page.mouse.down()
            page.mouse.move(area["x"] + x1 * area["width"], area["y"] + y1 * area["height"], steps=3)
            page.mouse.up()

        for corners in ((0.5, 0.5, 0.25, 0.25), (0.1, 0.1, 0.2, 0.2), (0.6, 0.6, 0.9, 0.8)):
            drag(*corners)
        expect(page.locator(".box")).to_have_count(3)
        page.get_by_role("button", name="remove box 2").click()
        page.keyboard.press("Backspace")
        expect(page.locator(".box")).to_have_count(1)
        press(page, "Enter", page.locator("#label-done"))
    (label,) = answers(labels)
    assert isinstance(label.label, tuple)
    expected = (0.25 * width, 0.25 * height, 0.5 * width, 0.5 * height)
    assert label.label[0] == pytest.approx(expected, abs=3)


def test_practice_is_commented_and_a_dimension_with_errors_is_repeated(browser, folder, tmp_path):
    labels = tmp_path / "labels.jsonl"
    known = known_answers([make_label("no", NAMES[0])])
    options = {"practice_questions": 1, "recheck_share": 1.0, "known_answers": known}
    begun = session(folder, labels, "yes-no:following", **options)
    with labelling(begun) as url, window(browser, url) as visit:
        page = visit.page
        begin(page, "ann")
        expect(page.locator(".label-phase")).to_have_text("Practice")
        page.locator("#label-yes").click()
        expect(page.locator("#label-feedback")).to_contain_text("The known answer is: No")
        press(page, "Enter", at(page, "1 of 4"))
        press(page, "y", at(page, "2 of 4"))
        press(page, "y", at(page, "3 of 4"))
        press(page, "n", at(page, "4 of 4"))
        press(page, "n", page.locator("#label-done"))
        expect(page.locator("#label-checks")).to_contain_text("repeat the dimension")
        page.locator("#label-repeat").click()
        position(page, "1 of 4")
        press(page, "u", at(page, "4 of 4"))
    assert {label.round for label in answers(labels)} == {1}


def test_neither_names_of_editors_nor_of_files_are_in_the_page(browser: Browser, tmp_path: Path) -> None:
    suite = Toy(count=2)
    editors = {name: outputs(tmp_path / name, suite) for name in ("secret-editor-a", "secret-editor-b")}
    pool = SuitePool(suite, editors)
    questions = pool.questions([QuestionType.parse("pair:overall")])
    begun = AnnotationSession(pool, questions, tmp_path / "labels.jsonl", practice_questions=0, recheck_share=0)
    addresses: list[str] = []
    with labelling(begun) as url, window(browser, url) as visit:
        page = visit.page
        page.on("request", lambda request: addresses.append(f"{request.url} {request.post_data or ''}"))
        begin(page, "ann")
        position(page, "1 of 4")
        page.wait_for_function("[...document.querySelectorAll('.frame img')].every((image) => image.naturalWidth > 0)")
        content = page.content()
        config = page.request.get(f"{url}config").text()
        assert len([one for one in addresses if ".png" in one]) >= 2
        for text in (content, config, *addresses):
            assert "secret-editor" not in text
            assert "turn_" not in text
        assert visit.console == []


def test_zoom_and_source_are_keys(browser: Browser, folder: Path, tmp_path: Path) -> None:
    with labelling(session(folder, tmp_path / "l.jsonl", "pair:overall")) as url, window(browser, url) as visit:
        page = visit.page
        begin(page, "ann")
        position(page, "1 of 3")
        page.keyboard.press("s")
        expect(page.locator(".under").first).to_be_visible()
        page.keyboard.press("s")
        expect(page.locator(".under").first).not_to_be_visible()
        before = page.locator(".frame img").first.bounding_box()
        page.keyboard.press("z")
        after = page.locator(".frame img").first.bounding_box()
        assert before is not None
        assert after is not None
        assert after["width"] == pytest.approx(3 * before["width"], rel=0.01)
        page.locator(".frame").nth(1).click()
        expect(page.locator(".zoomed")).to_have_count(0)


def test_labels_go_out_and_in_and_agreement_is_shown(browser: Browser, folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    begun = session(folder, labels, "yes-no:following", score_sources=(str(folder.parent / "scores.jsonl"),))
    with labelling(begun) as url, window(browser, url) as visit:
        page = visit.page
        begin(page, "ann")
        position(page, "1 of 3")
        for then in (at(page, "2 of 3"), at(page, "3 of 3"), page.locator("#label-done")):
            press(page, "y", then)
        page.locator("#label-files button").first.click()
        page.locator("#label-export").click()
        expect(page.locator("#label-exported a")).to_have_count(2)
        with page.expect_download() as download:
            page.locator("#label-exported a").first.click()
        sheet = tmp_path / "labels.csv"
        download.value.save_as(sheet)
        text = sheet.read_text(encoding="utf-8")
        assert text.count(",ann,") == 3
        sheet.write_text("a,b\n1,2\n", encoding="utf-8")
        page.locator("#label-import input[type=file]").set_input_files(sheet)
        expect(page.locator("#label-imported")).to_contain_text("neither a question sheet")
        sheet.write_text(text.replace(",ann,", ",bob,") + "yes-no,following,,good,,,maybe,eve\n", encoding="utf-8")
        page.locator("#label-import input[type=file]").set_input_files(sheet)
        expect(page.locator("#label-imported")).to_contain_text("3 labels were added")
        expect(page.locator("#label-imported")).to_contain_text("1 rows were left out")
        assert len(answers(labels, "bob")) == 3
        page.locator("#label-agreement button").first.click()
        panel = page.locator("#label-agreement-text")
        expect(panel).to_contain_text("following (yes-no): between annotators")
        expect(panel).to_contain_text("human labels and any-edit")
        expect(panel).to_contain_text("6 judgements of 3 items by 2 annotators")


def test_files_of_results_are_not_offered_as_samples(tmp_path: Path) -> None:
    journal = write(tmp_path / "results" / "one", results("one", [row("a", following=1.0)])) / "journal"
    journal.mkdir()
    (journal / "rows-0.jsonl").write_text('{"id": "a"}\n', encoding="utf-8")
    (tmp_path / "results" / "mine.jsonl").write_text('{"id": "a", "source": "a.png"}\n', encoding="utf-8")
    sources = LabelSessions(OpenFiles((tmp_path / "results",))).sources()
    assert sources == ["results/one", "results/mine.jsonl"]


def test_results_lead_to_no_folder_that_was_not_named_at_the_start(tmp_path: Path) -> None:
    folder = write(tmp_path / "results" / "one", results("one", [row("a", following=1.0)]))
    outside = tmp_path / "private"
    outside.mkdir()
    invocation = {"suite": "sceneedit?prompts=9", "data": None, "outputs": "../../private"}
    (folder / RUN_FILE).write_text(json.dumps({"invocation": invocation}), encoding="utf-8")
    labels = f"results/{NEW_FILE}"
    sessions = LabelSessions(OpenFiles((tmp_path / "results",)))
    with pytest.raises(InputError, match=r"lead to .*private: start the app with that folder, too"):
        sessions.open(SessionChoice(("results/one",), labels))
    named = LabelSessions(OpenFiles((tmp_path / "results", outside)))
    with pytest.raises(InputError, match="nothing to ask about"):  # the folder is read now, and is empty
        named.open(SessionChoice(("results/one",), labels))


def test_a_session_is_begun_on_the_page(browser: Browser, shapes: Path, tmp_path: Path) -> None:
    labels = tmp_path / "new" / NEW_FILE
    labels.parent.mkdir()
    pair = [("", f"512x768_{name}") for name in ("good", "unchanged")]
    gold = labels_file(tmp_path / "gold.jsonl", [make_label("A", pair, "pair", dimension="overall", phase="answer")])
    none = "There is no practice: it needs known answers."
    with labelling(None, labels.parent, shapes, gold) as url:
        for known, practice in (("", none), (gold.name, "1 practice questions come first")):
            with window(browser, url, tab="Label") as visit:
                page = visit.page
                expect(page.locator("#label-status")).to_contain_text("Practice needs known answers")
                page.locator("#label-start").click()
                expect(page.get_by_text("nothing is chosen to label").first).to_be_visible()
                choose(page, "label-sources", shapes.name)
                page.get_by_role("button", name="More").click()
                if known:
                    choose(page, "label-gold", known)
                else:
                    for number in ("1", ""):  # an emptied field means all, as an untouched one does
                        page.locator("#label-items input").fill(number)
                page.locator("#label-start").click()
                expect(page.locator("#label-title")).to_contain_text("3 questions")
                expect(page.locator("#label-title")).to_contain_text(practice)
                if not known:
                    continue
                begin(page, "ann")
                position(page, "1 of 1")
                press(page, "ArrowLeft", page.locator("#label-feedback"))
                press(page, "Enter", at(page, "1 of 2"))
    assert len(read_labels([labels])) == 1


@pytest.mark.parametrize(("width", "height", "theme"), [(390, 844, "light"), (1440, 900, "dark")])
def test_all_of_a_question_is_in_the_window_at_once(browser, shapes, tmp_path, width, height, theme):
    """Instruction, source, edits and answers, which cover no picture; edits are as large as the source."""
    begun = session(shapes, tmp_path / "l.jsonl", "pair:overall", "yes-no:following")
    with labelling(begun) as url, window(browser, url, width=width, height=height, theme=theme) as visit:
        page = visit.page
        begin(page, "ann")
        for kind, count in (("yes-no", 6), ("pair", 3)):
            for number in range(1, count + 1):
                expect(at(page, f"{number} of {count}")).to_be_visible()
                expect(page.locator(".frame")).to_have_count(3 if kind == "pair" else 2)
                assert faint_texts(page) == []
                instruction, *frames, answers = page.evaluate(
                    "[...document.querySelectorAll('.label-instruction, .frame, .label-answers')]"
                    ".map((node) => node.getBoundingClientRect().toJSON()).filter((box) => box.width)"
                )
                assert instruction["top"] >= 0
                assert answers["bottom"] <= height
                assert max(frame["bottom"] for frame in frames) <= answers["top"]
                assert len({(frame["width"], frame["height"]) for frame in frames}) == 1
                assert frames[0]["width"] >= 120
                if kind == "pair":
                    assert frames[1]["top"] == frames[2]["top"]
                page.locator("#label-left:visible, #label-yes:visible").click()


def test_a_phone_has_the_answers_below_the_thumb(browser: Browser, folder: Path, tmp_path: Path) -> None:
    with (
        labelling(session(folder, tmp_path / "l.jsonl", "pair:overall")) as url,
        window(browser, url, width=390) as visit,
    ):
        page = visit.page
        begin(page, "ann")
        position(page, "1 of 3")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.set_viewport_size({"width": 390, "height": 600})
        page.evaluate("window.scrollTo(0, 0)")
        expect(page.locator("#label-left")).to_be_in_viewport()
        page.locator("#label-right").click()
        position(page, "2 of 3")
        page.locator("#label-agreement button").first.click()
        expect(page.locator("#label-agreement-text table")).to_be_visible()
        assert cut_tables(page) == []
