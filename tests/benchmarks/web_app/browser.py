"""The app in a browser without a screen: a server on a free port of this machine, and one Chromium for a module."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from editcritic.benchmarks.web_app.server import serving
from editcritic.benchmarks.web_app.settings import AppSettings

from ..chromium import FOUND

TIMEOUT_MS = 60_000  # of every step of a page; the machine may be busy


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; tests that use it are marked with `..chromium.needed`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=FOUND, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page of the app. hosts: all that it sent requests to. console: errors that it wrote."""

    page: Page
    url: str
    hosts: set[str] = field(default_factory=set)
    console: list[str] = field(default_factory=list)


@contextmanager
def visited(browser: Browser, url: str, *, width: int = 1440, tab: str = "") -> Iterator[Visit]:
    """A new window at the app's address, on one of its tabs."""
    context = browser.new_context(viewport={"width": width, "height": 1000}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    visit = Visit(page, url)
    page.on("request", lambda request: visit.hosts.add(request.url.split("/")[2] if "//" in request.url else ""))
    page.on("console", lambda message: visit.console.append(message.text) if message.type == "error" else None)
    page.goto(url)
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
    """Choose a tab by its title; on a phone it may be in the menu of further ones.

    Tried again, since a page that loads has neither at first, and moves tabs into the menu once it knows its width.
    """
    button = page.get_by_role("tab", name=title, exact=True).first
    for _ in range(30):
        with suppress(PlaywrightTimeoutError):
            if not button.is_visible():
                page.locator(".overflow-menu > button").first.click(timeout=2_000)
                page.locator(".overflow-dropdown button", has_text=title).first.click(timeout=2_000)
            else:
                button.click(timeout=2_000)
            return
    raise AssertionError(f"the page has no tab {title!r}")


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


@contextmanager
def app(settings: AppSettings, browser: Browser, *, width: int = 1440, tab: str = "") -> Iterator[Visit]:
    """The app and a window with it."""
    with serving(settings) as url, visited(browser, url, width=width, tab=tab) as visit:
        yield visit
