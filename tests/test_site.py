"""The documentation as a site: strict builds by mkdocs and zensical, and what a browser makes of it.

The site is assembled and built in a temporary folder, from this tree's pages.
"""

import functools
import http.server
import re
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from .benchmarks import chromium

ROOT = Path(__file__).parents[1]
NEEDS = ("mkdocs",)
SITE = runpy.run_path(str(ROOT / "docs" / "build_site.py"))


def project(folder: Path) -> Path:
    """What mkdocs and zensical build from: the configuration, its extension, pages and navigation."""
    shutil.copyfile(ROOT / "mkdocs.yml", folder / "mkdocs.yml")
    link_code(folder)
    SITE["assemble"](folder / "build" / "docs")
    return folder


def link_code(folder: Path) -> None:
    """The sources of the reference, and what makes Markdown of their docstrings."""
    for name in ("docs", "typings"):
        (folder / name).symlink_to(ROOT / name)


def build(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    tool, *words = command
    return subprocess.run(
        [str(Path(sys.executable).parent / tool), "build", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
    )  # fmt: skip


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def built(assembled: Path) -> Path:
    run = build(assembled, "mkdocs", "--strict")
    assert run.returncode == 0, run.stdout
    return assembled / "site"


def entries(nav: list[Any]) -> Iterator[str]:
    """The pages of a navigation, in order."""
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(value, list):
            yield from entries(value)
        else:
            yield value


def pages(site: Path) -> dict[str, str]:
    """The pages of a built site: path -> title."""
    found = {}
    for path in site.rglob("*.html"):
        heading = re.search(r"<h1[^>]*>(.*?)</h1>", path.read_text(encoding="utf-8"), re.DOTALL)
        if heading is not None:
            text = re.sub(r'<a class="headerlink".*?</a>|<[^>]+>', "", heading[1])
            found[path.relative_to(site).as_posix()] = " ".join(unescape(text).split())
    return found


def test_every_page_has_one_place_in_the_navigation(assembled: Path) -> None:
    folder = assembled / "build" / "docs"
    written = {path.relative_to(folder / "pages").as_posix() for path in (folder / "pages").rglob("*.md")}
    nav = list(entries(YAML(typ="safe", pure=True).load(folder / "nav.yml")["nav"]))
    assert sorted(nav) == sorted(written)
    assert {"index.md", "contributing.md", "trainers/trl.md", "examples/own_metric.md"} <= written


@pytest.mark.parametrize(
    ("page", "text", "becomes"),
    [
        ("docs/a.md", "[b](b.md#c)", "[b](b.md#c)"),
        ("docs/sub/a.md", "[b](../b.md)", "[b](../b.md)"),
        ("docs/a.md", "[how](../CONTRIBUTING.md#set-up)", "[how](contributing.md#set-up)"),
        ("CONTRIBUTING.md", "[b](docs/b.md), [it](#here)", "[b](b.md), [it](#here)"),
        ("docs/a.md", "[it](../examples/x.py)", "[it](examples/x.md)"),
        ("docs/a.md", "[the table](../reward/table.toml)", "the table (`reward/table.toml`)"),
        ("docs/a.md", "[`reward/table.toml`](../reward/table.toml)", "`reward/table.toml`"),
        ("docs/a.md", "![it](it.png)", "[![it](it.png)](it.png)"),
        ("docs/a.md", "`[b](nowhere.md)` and [`b`](b.md)", "`[b](nowhere.md)` and [`b`](b.md)"),
        ("docs/a.md", "```text\n[b](nowhere.md)\n```", "```text\n[b](nowhere.md)\n```"),
        ("docs/a.md", "[b](https://example.org/b.md)", "[b](https://example.org/b.md)"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, text: str, becomes: str, tmp_path: Path) -> None:
    for name in ["docs/a.md", "docs/b.md", "docs/sub/a.md", "CONTRIBUTING.md", "examples/x.py", "reward/table.toml"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "docs" / "it.png").touch()
    rewriter = SITE["link_rewriter"](page, SITE["page_sources"](tmp_path), tmp_path)
    assert SITE["rewrite_links"](text, rewriter) == f"{becomes}\n"


def test_an_example_is_a_page_and_a_link_to_nowhere_refused(tmp_path):
    source = '"""Best of two: keep the better one.\n\npip install it\npython examples/it.py\n\nLook.\n"""\n\nx = 1\n'
    page = "# Best of two\n\nKeep the better one.\n\n```sh\npip install it\npython examples/it.py\n```\n\nLook.\n\n"
    assert SITE["example_page"](source) == f"{page}```python\nx = 1\n```\n"
    with pytest.raises(ValueError, match="begins with a docstring"):
        SITE["example_page"]("x = 1\n")
    rewriter = SITE["link_rewriter"]("docs/a.md", {"docs/a.md": "a.md"}, tmp_path)
    with pytest.raises(ValueError, match=r"docs/a\.md: a link to b\.md, which does not exist"):
        SITE["rewrite_links"]("[b](b.md)", rewriter)


def test_a_strict_build_refuses_lost_pages_links_and_anchors(assembled: Path, tmp_path: Path) -> None:
    docs = tmp_path / "broken" / "build" / "docs"
    (docs / "pages").mkdir(parents=True)
    shutil.copyfile(assembled / "mkdocs.yml", tmp_path / "broken" / "mkdocs.yml")
    (docs / "nav.yml").write_text("nav: [index.md]\n", encoding="utf-8")
    (docs / "pages" / "index.md").write_text("# A\n\n[b](b.md) [c](#c)\n", encoding="utf-8")
    (docs / "pages" / "lost.md").write_text("# Lost\n", encoding="utf-8")
    run = build(tmp_path / "broken", "mkdocs", "--strict")
    assert run.returncode == 1
    assert [word for word in ("lost.md", "'b.md'", "'#c'") if word not in run.stdout] == []


def test_zensical_builds_the_same_pages(built: Path, assembled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "zensical"
    folder.mkdir()
    shutil.copyfile(assembled / "mkdocs.yml", folder / "mkdocs.yml")
    shutil.copytree(assembled / "build", folder / "build")
    link_code(folder)
    run = build(folder, "zensical", "--strict")
    assert run.returncode == 0, run.stdout
    assert pages(folder / "site") == pages(built)


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Say nothing: a test's output is its own."""


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    handler = functools.partial(_Silent, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium.FOUND, args=["--no-sandbox"])
        yield opened
        opened.close()


@chromium.needed
@pytest.mark.parametrize("place", ["served", "disk"])
def test_a_reader_searches_and_follows_the_navigation(place: str, built: Path, address: str, browser: Any) -> None:
    start = address if place == "served" else f"{built.as_uri()}/"
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    requests, errors = list[str](), list[str]()
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{start}index.html")
    page.get_by_role("link", name="A first score").first.click()
    assert page.locator("h1").inner_text().startswith("A first score")
    page.locator(".md-tabs").get_by_role("link", name="Training").click()
    page.locator(".md-sidebar--primary").get_by_role("link", name="DanceGRPO").click()
    assert page.locator("h1").inner_text().startswith("DanceGRPO")
    page.locator("input.md-search__input").fill("rendezvous hashing")
    page.locator(".md-search-result__link", has_text="Design").first.click()
    assert "design.html" in page.url
    assert errors == []
    assert [url for url in requests if not url.startswith((start, "data:", "blob:"))] == []
    page.close()


@pytest.mark.slow
@chromium.needed
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_screen(built: Path, address: str, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    too_wide = []
    for name in sorted(pages(built)):
        page.goto(f"{address}{name}")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            too_wide.append(name)
        broken = page.evaluate("Array.from(document.images).filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
        assert broken == [], name
    page.close()
    assert too_wide == []
