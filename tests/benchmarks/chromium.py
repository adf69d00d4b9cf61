"""A page as a browser without a screen shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

FOUND = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)

needed = pytest.mark.skipif(FOUND is None, reason="no chromium is installed")


@dataclass(frozen=True)
class Page:
    """title, text of the elements by their id, how many of each tag there are, and what the console said."""

    dom: str
    console: list[str]

    @property
    def title(self) -> str:
        found = re.search(r"<title>(.*?)</title>", self.dom, re.DOTALL)
        return found[1] if found else ""

    def text(self, start: str) -> str:
        """Of the element with that id."""
        reader = _Text(start)
        reader.feed(self.dom)
        return " ".join("".join(reader.found).split())

    def articles(self) -> list[str]:
        """The text of each card."""
        found = re.findall(r"<article.*?</article>", self.dom, re.DOTALL)
        return [" ".join(re.sub(r"<[^>]*>", " ", one).split()) for one in found]


class _Text(HTMLParser):
    def __init__(self, start: str) -> None:
        super().__init__()
        self.start, self.depth, self.found = start, 0, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("img", "input", "br", "meta", "link"):
            return
        if self.depth or dict(attrs).get("id") == self.start:
            self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        if self.depth:
            self.depth -= 1

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.found.append(data)


def opened(page: Path | str, fragment: str = "", *, profile: Path | None = None) -> Page:
    """The page after its scripts have run. page: a file, or an address with a profile, a folder for the browser."""
    assert FOUND is not None
    if isinstance(page, Path):
        profile, address = page.parent / "browser", page.as_uri()
    else:
        address = page
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=5000"]
    done = subprocess.run(
        [FOUND, *flags, f"--user-data-dir={profile}", "--dump-dom", address + fragment],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return Page(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])
