"""The app in a browser without a screen: a server on a free port of this machine, and one Chromium for a module."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image as PillowImage
from playwright.sync_api import Browser, Page, Route, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from typer.testing import CliRunner

from editcritic.benchmarks.demo.candidate_edits import candidates, demo_tasks
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.suite import SceneEdit, prompt_of
from editcritic.benchmarks.web_app.server import serving
from editcritic.benchmarks.web_app.settings import AppSettings
from editcritic.cli.app import app as command_line

from ..chromium import FOUND

TIMEOUT_MS = 60_000  # of every step of a page; the machine may be busy


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; tests that use it are marked with `..chromium.needed`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=FOUND, args=["--no-sandbox"])
        yield browser
        browser.close()


SCENE = demo_tasks()[0]


def write_edits(folder: Path, *names: str, **fields: Any) -> Path:
    """Edits of the demo's first photograph, and a file of samples."""
    PillowImage.fromarray(SCENE.pixels).save(folder / "source.png")
    rows = []
    for name in names:
        PillowImage.fromarray(candidates(SCENE)[name]).save(folder / f"{name}.png")
        places = {"id": name, "source": "source.png", "edited": f"{name}.png", "instruction": SCENE.instruction}
        rows.append({**places, **fields})
    (folder / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def run_scene_edit(prompts: int, folder: Path, editor: str, done: int, *options: str) -> SceneEdit:
    """Results of an editor that carries out the first requests, and returns the source for the others."""
    suite, made = SceneEdit(prompts=prompts), folder / "made" / editor
    for number, item in enumerate(suite.items):
        prompt = prompt_of(item.sample)
        assert prompt is not None
        picture = render(prompt.request.apply(prompt.before)) if number < done else item.sample.source
        path = made / f"{item.output_path}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.pil().save(path)
    places = ["--outputs", str(made), "-o", str(folder / "runs" / editor)]
    result = CliRunner().invoke(command_line, ["bench", "run", f"sceneedit?prompts={prompts}", *places, *options])
    assert result.exit_code in (0, 1), result.output
    return suite


@dataclass
class Visit:
    """A page of the app. hosts: all that it sent requests to. console: errors that it wrote."""

    page: Page
    url: str
    hosts: set[str] = field(default_factory=set)
    console: list[str] = field(default_factory=list)


@contextmanager
def visited(
    browser: Browser, url: str, *, width: int = 1440, height: int = 1000, theme: str = "light", tab: str = ""
) -> Iterator[Visit]:
    """A new window at the app's address, on one of its tabs."""
    context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    visit = Visit(page, url)
    page.on("request", lambda request: visit.hosts.add(request.url.split("/")[2] if "//" in request.url else ""))
    page.on("console", lambda message: visit.console.append(message.text) if message.type == "error" else None)
    page.goto(f"{url}?__theme={theme}")
    page.wait_for_selector("#head")
    if tab:
        open_tab(page, tab)
    yield visit
    context.close()


@contextmanager
def narrow(page: Page) -> Iterator[Page]:
    """The page in a window as wide as a phone."""
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": 390, "height": 1000})
    yield page
    page.set_viewport_size(size)


def open_tab(page: Page, title: str) -> None:
    """Choose a tab by its title."""
    page.get_by_role("tab", name=title, exact=True).first.click()


def choose(page: Page, element: str, text: str) -> None:
    """Pick an option of the dropdown with this id.

    Tried again, since the list stays where it opened when what is above it grows.
    """
    field = page.locator(f"#{element} input")
    option = page.locator(f"#{element}").get_by_role("option", name=text, exact=True)
    for _ in range(10):
        field.click()
        with suppress(PlaywrightTimeoutError):
            option.click(timeout=6_000)
            return
        field.blur()
    raise AssertionError(f"{element} has no option {text!r} that can be clicked")


def slow_uploads(page: Page) -> None:
    """Let uploads of the page take a while."""

    def upload_slowly(route: Route) -> None:
        page.wait_for_timeout(1_500)
        route.continue_()

    page.route("**/upload?**", upload_slowly)


_CUT = """() => [...document.querySelectorAll("table")].filter((one) => one.offsetWidth).flatMap((table) => {
  const cells = [...table.querySelectorAll("th, td")].filter((one) => one.scrollWidth > one.clientWidth + 1);
  const hasBar = parseFloat(getComputedStyle(table, "::-webkit-scrollbar").height) > 0;
  const isWhole = table.scrollWidth <= table.clientWidth + 1;
  const isSeen = table.getBoundingClientRect().right <= innerWidth && (isWhole || hasBar);
  return [...cells, ...(isSeen ? [] : [table])].map((one) => one.innerText);
})"""


def cut_tables(page: Page) -> list[str]:
    """Cells whose text is cut off, and tables that leave the window and have no visible bar to scroll them."""
    assert page.locator("table:visible").count()
    cut: list[str] = page.evaluate(_CUT)
    return cut


_FAINT = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const parts = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((part, i) => (part * a + under[i] * (255 - a)) / 255);
  const luminance = (color) =>
    color
      .map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const backdrop = (node) =>
    node ? over(parts(getComputedStyle(node).backgroundColor), backdrop(node.parentElement)) : [255, 255, 255];
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const isEmpty = node.placeholder && !node.value;
    const isTyped = node.matches("textarea, [type=text], [type=number]") && node.value;
    const hasText = isEmpty || isTyped || [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!hasText || node.closest(":disabled") || !node.checkVisibility({ visibilityProperty: true })) continue;
    const back = backdrop(node);
    const text = over(parts(getComputedStyle(node, isEmpty ? "::placeholder" : null).color), back);
    const [high, low] = [luminance(text), luminance(back)].sort((one, other) => other - one);
    const contrast = (high + 0.05) / (low + 0.05);
    found.push([contrast, `${node.placeholder || node.innerText}: ${contrast.toFixed(2)}`]);
  }
  return found;
}"""


def faint_texts(page: Page) -> list[str]:
    """Texts of the page, and their contrast, that is below the 4.5 of WCAG's level AA; disabled controls may be."""
    found = page.evaluate(_FAINT)
    assert len(found) > 5
    return [text for contrast, text in found if contrast < 4.5]


@contextmanager
def app(settings: AppSettings, browser: Browser, *, width: int = 1440, tab: str = "") -> Iterator[Visit]:
    """The app and a window with it."""
    with serving(settings) as url, visited(browser, url, width=width, tab=tab) as visit:
        yield visit
