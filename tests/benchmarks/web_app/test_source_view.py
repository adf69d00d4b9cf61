"""What the tab "Score and rank" shows of what is dropped: pictures, the plan while one types, boxes by mouse or key."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PillowImage
from playwright.sync_api import Browser, Page, expect

from editcritic.benchmarks.demo.candidate_edits import candidates
from editcritic.benchmarks.web_app.settings import AppSettings

from ..chromium import needed
from .browser import SCENE, TIMEOUT_MS, Visit, app, slow_uploads

pytestmark = needed

expect.set_options(timeout=TIMEOUT_MS)


def test_edits_without_a_rank_stand_apart_with_their_bounds_and_uploads_are_waited_for(
    browser: Browser, tmp_path: Path
) -> None:
    pictures = {"source": SCENE.pixels, "good": candidates(SCENE)["good"], "black": np.zeros_like(SCENE.pixels)}
    for name, pixels in pictures.items():
        PillowImage.fromarray(pixels).save(tmp_path / f"{name}.png")
    settings = AppSettings()
    with app(settings, browser) as visit:
        page = visit.page
        slow_uploads(page)
        page.locator("#rank-instruction textarea").fill("Remove the purple patch")
        page.locator("#rank-source input[type=file]").set_input_files(tmp_path / "source.png")
        page.locator("#rank-edits input[type=file]").set_input_files([tmp_path / "black.png", tmp_path / "good.png"])
        page.locator("#rank-score").click()
        expect(page.locator("#rank-status")).to_contain_text("2 edits by any-edit with cpu")
        expect(page.locator("#rank-dropped .caption-label")).to_have_text(["black.png", "good.png"])
        captions = page.locator("#rank-unranked .caption-label")
        expect(captions).to_have_text([re.compile("good: abstained, cannot exceed 0.5"), "black: 0.000, rejected"])
        expect(page.locator("#rank-gallery")).to_have_count(0)
        expect(page.locator("#rank-chosen input")).to_have_value("good")
    settings.scorers.close()


@pytest.fixture(scope="module")
def drawing(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    """A page on which a source was dropped that a camera turned, on a phone."""
    path = tmp_path_factory.mktemp("source") / "turned.jpg"
    turned = PillowImage.fromarray(SCENE.pixels).rotate(90, expand=True)
    exif = PillowImage.Exif()
    exif[0x0112] = 6
    turned.save(path, exif=exif, quality=95)
    settings = AppSettings()
    with app(settings, browser, width=390) as visit:
        visit.page.locator("#rank-source input[type=file]").set_input_files(path)
        visit.page.locator("#rank-instruction textarea").fill("Remove the purple patch next to the helmet")
        expect(visit.page.locator("#rank-plan")).to_contain_text("subject_remove: purple patch")
        expect(visit.page.locator("#rank-source-view img")).to_be_visible()
        yield visit
    settings.scorers.close()


def drag(page: Page, x0: float, y0: float, x1: float, y1: float) -> None:
    """With the mouse, between pixels of the upright source."""
    frame = page.locator("#rank-source-view .frame")
    frame.scroll_into_view_if_needed()
    area = frame.bounding_box()
    assert area is not None
    scale = area["width"] / SCENE.pixels.shape[1]
    page.mouse.move(area["x"] + x0 * scale, area["y"] + y0 * scale)
    page.mouse.down()
    page.mouse.move(area["x"] + x1 * scale, area["y"] + y1 * scale, steps=3)
    page.mouse.up()


def boxes(page: Page) -> dict[str, list[list[float]]]:
    found: dict[str, list[list[float]]] = json.loads(page.locator("#rank-boxes textarea").input_value() or "{}")
    return found


def test_boxes_of_the_plans_objects_are_drawn_in_pixels_of_the_upright_source(drawing: Visit) -> None:
    page = drawing.page
    drag(page, 133, 347, 209, 424)
    assert boxes(page) == {"purple patch": [[pytest.approx(value, abs=2) for value in (133, 347, 209, 424)]]}
    page.locator("#rank-plan [data-name=helmet]").click()
    drag(page, 500, 400, 300, 340)
    assert boxes(page)["helmet"] == [[pytest.approx(value, abs=2) for value in (300, 340, 500, 400)]]
    page.get_by_role("button", name="remove the box of helmet").click()
    assert list(boxes(page)) == ["purple patch"]
    page.get_by_role("button", name="Remove the last box").click()
    assert boxes(page) == {}


def test_boxes_are_drawn_by_key(drawing: Visit) -> None:
    page = drawing.page
    page.locator("#rank-source-view .frame").focus()
    for key in ("ArrowRight", "ArrowDown", "Shift+ArrowLeft", "Enter"):
        page.keyboard.press(key)
    (name,) = boxes(page)
    ((x0, y0, x1, y1),) = boxes(page)[name]
    height, width = SCENE.pixels.shape[:2]
    assert (x0, y0) == pytest.approx((0.41 * width, 0.41 * height), abs=2)
    assert (x1, y1) == pytest.approx((0.60 * width, 0.61 * height), abs=2)
    page.locator("#rank-source-view .frame").focus()
    page.keyboard.press("Backspace")
    assert boxes(page) == {}
