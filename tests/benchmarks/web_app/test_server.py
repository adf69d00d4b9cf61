"""What the app's server promises, and what a request may not do although it has the token: see docs/security.md."""

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from editcritic.benchmarks.web_app.server import MAX_EVENT_BYTES, MAX_UPLOAD_BYTES, serving
from editcritic.benchmarks.web_app.settings import AppSettings

from ...default_signals import default_signals
from ..chromium import needed
from .browser import faint_texts, visited

JSON = {"Content-Type": "application/json"}
BOUNDARY = {"Content-Type": "multipart/form-data; boundary=x"}

_WATCHED = """
import sys

def watch(event, arguments):
    if event == "socket.getaddrinfo" and arguments[0] not in ("127.0.0.1", "localhost"):
        print("OUTSIDE", arguments[0], file=sys.stderr, flush=True)
    elif event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] != "127.0.0.1":
        print("OUTSIDE", arguments[1], file=sys.stderr, flush=True)

sys.addaudithook(watch)
from editcritic.cli.main import main
sys.argv = ["editcritic", "app"]
main()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(AppSettings()) as url:
        yield url


def answer(
    url: str, path: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers. A body that is no bytes is sent in chunks."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=60)
    try:
        connection.request(method, f"{parts.path}{path}", body, headers or {}, encode_chunked=True)
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
        return response.status, text, {name.lower(): value for name, value in response.getheaders()}
    finally:
        connection.close()


def uploaded(url: str, name: str, content: bytes = b"uploaded") -> Path:
    """Where a file lies that was dropped on the page."""
    head = f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
    status, text, _ = answer(url, "gradio_api/upload", "POST", head.encode() + content + b"\r\n--x--\r\n", BOUNDARY)
    assert status == 200, text
    return Path(json.loads(text)[0])


def event_with(*values: Any) -> bytes:
    return json.dumps({"data": values, "fn_index": 0, "session_hash": "of-a-test"}).encode()


def file_value(path: str) -> dict[str, Any]:
    """What the page sends for a file."""
    return {"path": path, "meta": {"_type": "gradio.FileData"}}


@pytest.fixture
def outside() -> Iterator[tuple[str, list[str]]]:
    """The address of another server of this machine, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/picture.png", asked
        server.shutdown()


def test_without_the_token_there_is_nothing(url: str) -> None:
    parts = urlsplit(url)
    assert answer(url, "")[0] == 200
    root, other = parts.path, "y" if parts.path[-2] == "x" else "x"
    for path in ("/", "/config", root[:-2] + f"{other}/", "/gradio_api/info", root.rstrip("/") + "x/config"):
        assert answer(f"http://{parts.netloc}", path)[0] == 404, path


def test_other_peoples_pages_are_refused(url: str) -> None:
    foreign = [("Host", "attacker.example"), ("Origin", "http://attacker.example"), ("Origin", "null")]
    for name, value in (*foreign, ("Sec-Fetch-Site", "cross-site")):
        status, text, _ = answer(url, "", headers={name: value})
        assert (status, text.startswith("refused")) == (403, True), name


CLOSED = (
    *("gradio_api/proxy=http://127.0.0.1:1/", "gradio_api/openapi.json", "gradio_api/vibe-code", "gradio_api/runs"),
    *("gradio_api/deep_link", "monitoring", "gradio_api/dev/reload", "login_check", "docs", "assets/../config"),
)


@pytest.mark.parametrize("path", CLOSED)
def test_routes_that_the_page_does_not_use_are_closed(url: str, path: str) -> None:
    assert answer(url, path)[0] == answer(url, path, "POST", b"{}")[0] == 404


def test_no_file_of_the_machine_is_served(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names = [str(secret), "secret.txt", f"..{secret}", f"%2e%2e{secret}", "/etc/passwd", f"file://{secret}", __file__]
    for name in names:
        for route in ("gradio_api/file=", "file=", "static/", "assets/", "svelte/"):
            status, text, _ = answer(url, f"{route}{name}")
            assert status in (400, 403, 404), (route, name)
            assert "a secret" not in text
            assert "root:" not in text


def test_too_much_is_refused_before_it_is_read(url: str) -> None:
    for path, limit in (("upload", MAX_UPLOAD_BYTES), ("queue/join", MAX_EVENT_BYTES)):
        status, text, _ = answer(url, f"gradio_api/{path}", "POST", b"", {"Content-Length": str(limit + 1)})
        assert (status, "MiB" in text) == (413, True)


def test_answers_forbid_the_browser_what_the_page_does_not_need(url: str) -> None:
    headers = answer(url, "")[2]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert not re.search(r"https?:", headers["content-security-policy"])
    assert headers["referrer-policy"] == "no-referrer"


def test_an_event_names_files_of_the_pages_folder_only(url, tmp_path, outside):
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret", encoding="utf-8")
    own = uploaded(url, "own.txt")
    (own.parent / "link.txt").symlink_to(secret)
    address, asked = outside
    folder = own.parent.parent
    before = {*folder.rglob("*")}
    for path in (
        str(secret), "/etc/passwd", f"{own.parent}/../../..{secret}", str(own.parent / "link.txt"), str(own.parent),
        f"file://{secret}", address, "secret.txt", "", "\0",
    ):  # fmt: skip
        for body in (
            event_with(file_value(path)),
            event_with([file_value(str(own)), {"image": file_value(path)}]),
            json.dumps({"event_data": {"value": file_value(path)}, "data": [], "fn_index": 0}).encode(),
        ):
            for route in ("queue/join", "run/predict"):
                status, text, _ = answer(url, f"gradio_api/{route}", "POST", body, JSON)
                assert (status, "no file that was dropped" in text) == (400, True), (path, route, text)
    twice = event_with(file_value("SECOND")).replace(b'"path"', b'"path": "' + str(own).encode() + b'", "path"')
    assert answer(url, "gradio_api/queue/join", "POST", twice, JSON)[0] == 400
    assert {*folder.rglob("*")} == before  # nothing was copied to where the page reads it
    assert asked == []


def test_an_event_that_names_what_was_dropped_is_taken(url: str) -> None:
    own = uploaded(url, "own.png")
    status, text, _ = answer(url, "gradio_api/queue/join", "POST", event_with(file_value(str(own))), JSON)
    assert (status, "event_id" in text) == (200, True)


@pytest.mark.parametrize(
    "body",
    [b"", b"no JSON", b"[" * 5000 + b"]" * 5000, b'{"data": NaN}', b"\xff\xfe{}", b"[" + b"1," * 300_000 + b"1]"],
)
def test_odd_events_are_refused(url: str, body: bytes) -> None:
    assert answer(url, "gradio_api/queue/join", "POST", body, JSON)[0] == 400


@pytest.mark.parametrize("route", ["queue/join", "run/predict"])
def test_an_event_that_the_page_does_not_have_is_refused(url: str, route: str) -> None:
    """It was a KeyError of gradio, with a traceback on the terminal."""
    events = json.loads(answer(url, "config")[1])["dependencies"]
    without_server = [event["id"] for event in events if not event["backend_fn"]]
    assert without_server
    for number in (-1, len(events), 10**9, *without_server, "0", True, None, 0.0, [0]):
        body = json.dumps({"data": [], "fn_index": number, "session_hash": "x"})
        status, text, _ = answer(url, f"gradio_api/{route}", "POST", body, JSON)
        assert (status, "the page has no event" in text) == (400, True), (number, text)


def test_an_event_has_as_many_values_as_it_takes(url: str) -> None:
    status, text, _ = answer(url, "gradio_api/run/predict", "POST", event_with(*range(50)), JSON)
    assert (status, text) == (400, "the page has no event 0 with 50 values: load it again\n")


def test_an_address_is_not_fetched_for_a_request(url: str, outside: tuple[str, list[str]]) -> None:
    address, asked = outside
    for text in (address, quote(address, safe=""), address.replace("http", "HTTP"), f"/{address}", "ftp://127.0.0.1/"):
        assert answer(url, f"gradio_api/file={text}")[0] == 404
    assert asked == []


def test_folders_of_gradio_below_the_working_folder_are_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = tmp_path / ".gradio" / "cached_examples" / "a.txt"
    found.parent.mkdir(parents=True)
    found.write_text("a secret", encoding="utf-8")
    with serving(AppSettings()) as url:
        assert answer(url, f"gradio_api/file={found}")[0] == 404


@pytest.mark.parametrize("name", ["page.html", "picture.svg", "page.xhtml", "script.js", "none"])
def test_an_upload_is_no_page_of_the_app(url: str, name: str) -> None:
    path = uploaded(url, name, b"<html><script>alert(1)</script></html>")
    status, _, headers = answer(url, f"gradio_api/file={path}")
    assert status == 200
    assert headers["content-disposition"].startswith("attachment")
    assert headers["x-content-type-options"] == "nosniff"


def test_a_body_without_a_length_is_taken_to_the_limit_only(url: str) -> None:
    chunk = b"x" * 2**20
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    upload = (head if number == 0 else chunk for number in range(MAX_UPLOAD_BYTES // len(chunk) + 2))
    event = (chunk for _ in range(MAX_EVENT_BYTES // len(chunk) + 1))
    for path, body, headers in (("upload", upload, BOUNDARY), ("queue/join", event, JSON)):
        status, text, _ = answer(url, f"gradio_api/{path}", "POST", body, headers)
        assert (status, "MiB" in text) == (413, True), text


def test_of_thousands_of_files_none_is_kept(url: str) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n\r\n'
    assert answer(url, "gradio_api/upload", "POST", part * 5000 + b"--x--\r\n", BOUNDARY)[0] == 400


def test_who_has_no_token_cannot_keep_out_who_has_one(url: str) -> None:
    port = urlsplit(url).port or 0
    held = []
    for number in range(400):  # more than there are places for
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        if number % 2:
            connection.send(b"POST /x/gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n")
        held.append(connection)
    assert answer(url, "")[0] == 200
    for connection in held:
        connection.close()


@needed
def test_the_page_asks_nobody_else(url: str, browser: Browser) -> None:
    with visited(browser, url) as visit:
        for title in ("Audit", "Compare", "Label", "Score and rank"):
            visit.page.get_by_role("tab", name=title, exact=True).first.click()
            visit.page.wait_for_timeout(200)
        assert (visit.hosts, visit.console) == ({urlsplit(url).netloc}, [])


@needed
@pytest.mark.parametrize(("width", "theme"), [(390, "light"), (1440, "dark")])
def test_all_tabs_are_in_the_window_and_their_texts_can_be_read(url, browser, width, theme):
    with visited(browser, url, width=width, theme=theme) as visit:
        tabs = visit.page.get_by_role("tablist").first.get_by_role("tab")
        expect(tabs).to_have_text(["Score and rank", "Audit", "Compare", "Label"])
        for number, name in enumerate(("rank", "audit", "compare", "label")):
            tabs.nth(number).click()
            expect(tabs.nth(3)).to_be_in_viewport(ratio=1)
            expect(visit.page.locator(f"#tab-{name}")).to_be_visible()
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
            assert faint_texts(visit.page) == []


def test_pictures_lie_in_a_private_folder_which_is_removed() -> None:
    before = {*Path(tempfile.gettempdir()).glob("editcritic-app-*")}
    with serving(AppSettings()) as url:
        (folder,) = {*Path(tempfile.gettempdir()).glob("editcritic-app-*")} - before
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert uploaded(url, "../../a.png", b"not a picture").is_relative_to(folder)
        assert [path.name for path in folder.rglob("*.png")] == ["a.png"]
    assert not folder.exists()


@needed
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_process_contacts_nobody_and_leaves_nothing(tmp_path: Path, browser: Browser, number: int) -> None:
    """With a window open, which holds connections, and after requests that name other machines."""
    home, temporary, working = (tmp_path / name for name in ("home", "temporary", "working"))
    for folder in (home, temporary, working):
        folder.mkdir()
    with default_signals():
        process = subprocess.Popen(
            [sys.executable, "-c", _WATCHED],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=working,
            env={**os.environ, "TMPDIR": str(temporary), "HOME": str(home)},
        )  # fmt: skip
    assert process.stdout is not None
    url = [process.stdout.readline() for _ in range(2)][1].strip()
    with visited(browser, url) as visit:
        for text in ("http://outside.example/a.png", "https://huggingface.co/a.png"):
            assert answer(url, f"gradio_api/file={text}")[0] == 404
            assert answer(url, "gradio_api/queue/join", "POST", event_with(file_value(text)), JSON)[0] == 400
        assert visit.hosts == {urlsplit(url).netloc}
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert "OUTSIDE" not in errors
    assert "Traceback" not in errors
    assert (process.returncode, [*temporary.iterdir(), *working.iterdir(), *home.glob(".gradio*")]) == (0, [])


def test_a_taken_port_is_a_sentence(tmp_path: Path, url: str) -> None:
    port = str(urlsplit(url).port)
    run = subprocess.run(
        [sys.executable, "-m", "editcritic.cli.main", "app", "--port", port],
        capture_output=True, text=True, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert run.returncode == 2
    assert "--port 0" in run.stderr
    assert "Traceback" not in run.stderr
