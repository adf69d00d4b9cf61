"""What the app's server promises: docs/security.md has a line for each."""

import http.client
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from editcritic.benchmarks.web_app.server import MAX_EVENT_BYTES, MAX_UPLOAD_BYTES, serving
from editcritic.benchmarks.web_app.settings import AppSettings

from ...default_signals import default_signals
from ..chromium import needed
from .browser import visited


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(AppSettings()) as url:
        yield url


def answer(url: str, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=30)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    finally:
        connection.close()


def test_without_the_token_there_is_nothing(url: str) -> None:
    root = urlsplit(url).path
    assert answer(url, root)[0] == 200
    other = "y" if root[-2] == "x" else "x"
    for path in ("/", "/config", root[:-2] + f"{other}/", "/gradio_api/info", root.rstrip("/") + "x/config"):
        assert answer(url, path)[0] == 404, path


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Origin": "http://attacker.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Origin": "null"},
    ],
)
def test_other_peoples_pages_are_refused(url: str, headers: dict[str, str]) -> None:
    status, text = answer(url, urlsplit(url).path, "GET", None, **headers)
    assert (status, text.startswith("refused")) == (403, True)


@pytest.mark.parametrize(
    "path",
    [
        "gradio_api/proxy=http://127.0.0.1:1/",
        "gradio_api/openapi.json",
        "gradio_api/vibe-code",
        "gradio_api/runs",
        "gradio_api/deep_link",
        "monitoring",
        "gradio_api/dev/reload",
        "login_check",
        "docs",
        "assets/../config",
    ],
)
def test_routes_that_the_page_does_not_use_are_closed(url: str, path: str) -> None:
    assert answer(url, urlsplit(url).path + path)[0] == 404
    assert answer(url, urlsplit(url).path + path, "POST", b"{}")[0] == 404


def test_no_file_of_the_machine_is_served(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    root = urlsplit(url).path
    names = [str(secret), "secret.txt", f"..{secret}", f"%2e%2e{secret}", "/etc/passwd", f"file://{secret}", __file__]
    for name in names:
        for route in ("gradio_api/file=", "file=", "static/", "assets/", "svelte/"):
            status, text = answer(url, f"{root}{route}{name}")
            assert status in (400, 403, 404), (route, name)
            assert "a secret" not in text
            assert "root:" not in text
    status, _ = answer(url, f"{root}gradio_api/file=http://127.0.0.1:9/x")
    assert status in (400, 403, 404)  # nor is an address redirected to


def test_too_much_is_refused_before_it_is_read(url: str) -> None:
    root = urlsplit(url).path
    for path, limit in (("upload", MAX_UPLOAD_BYTES), ("queue/join", MAX_EVENT_BYTES)):
        status, text = answer(url, f"{root}gradio_api/{path}", "POST", b"", Content_Length=str(limit + 1))
        assert (status, "MiB" in text) == (413, True)


def test_answers_forbid_the_browser_what_the_page_does_not_need(url: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(url).port or 0, timeout=30)
    connection.request("GET", urlsplit(url).path)
    response = connection.getresponse()
    policy = response.headers["Content-Security-Policy"]
    connection.close()
    assert "default-src 'none'" in policy
    assert not re.search(r"https?:", policy)
    assert response.headers["Referrer-Policy"] == "no-referrer"


@needed
def test_the_page_asks_nobody_else(url: str, browser: Browser) -> None:
    with visited(browser, url) as visit:
        for title in ("Audit", "Compare results", "Label", "Score and rank"):
            visit.page.get_by_role("tab", name=title, exact=True).first.click()
            visit.page.wait_for_timeout(200)
        assert (visit.hosts, visit.console) == ({urlsplit(url).netloc}, [])


@needed
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_fits_its_window(url: str, browser: Browser, width: int) -> None:
    with visited(browser, url, width=width) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


def test_pictures_lie_in_a_private_folder_which_is_removed() -> None:
    before = {*Path(tempfile.gettempdir()).glob("editcritic-app-*")}
    with serving(AppSettings()) as url:
        (folder,) = {*Path(tempfile.gettempdir()).glob("editcritic-app-*")} - before
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        body = (
            b'--x\r\nContent-Disposition: form-data; name="files"; filename="../../a.png"\r\n'
            b"Content-Type: image/png\r\n\r\nnot a picture\r\n--x--\r\n"
        )
        status, text = answer(
            url,
            f"{urlsplit(url).path}gradio_api/upload",
            "POST",
            body,
            Content_Type="multipart/form-data; boundary=x",
        )
        assert status == 200
        assert str(folder) in text
        assert [path.name for path in folder.rglob("*.png")] == ["a.png"]
    assert not folder.exists()


def started(folder: Path, *arguments: str) -> tuple["subprocess.Popen[str]", str]:
    """`editcritic app` in an empty working folder, and the address that it prints."""
    command = [sys.executable, "-m", "editcritic.cli.main", "app", *arguments]
    with default_signals():
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    return process, lines[1].strip()


def test_ctrl_c_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    process, url = started(tmp_path)
    assert answer(url, urlsplit(url).path)[0] == 200
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert [*tmp_path.iterdir()] == []


def test_a_taken_port_is_a_sentence(tmp_path: Path, url: str) -> None:
    port = str(urlsplit(url).port)
    run = subprocess.run(
        [sys.executable, "-m", "editcritic.cli.main", "app", "--port", port],
        capture_output=True, text=True, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert run.returncode == 2
    assert "--port 0" in run.stderr
    assert "Traceback" not in run.stderr
