"""A file server on loopback that can interrupt transfers, send another file, or fail."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Files(ThreadingHTTPServer):
    """files: path -> content. breaks: how often a connection is closed after half of what it should bring. refuses:
    status that is answered to everything, 0 for none. ranges: whether ranges are supported. requests: as (path, Range
    header)."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], *, hub: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _HubHandler if hub else _Handler)
        self.files = dict(files)
        self.breaks = 0
        self.refuses = 0
        self.ranges = True
        self.requests: list[tuple[str, str]] = []

    def url(self, path: str = "") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: Files

    def do_GET(self) -> None:
        path, wanted = self.path.lstrip("/"), self.headers.get("Range") or ""
        self.server.requests.append((path, wanted))
        data = self.server.files.get(path)
        if self.server.refuses or data is None:
            self.send_error(self.server.refuses or 404)
            return
        etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        start = 0
        if wanted and self.server.ranges and self.headers.get("If-Range") in (None, etag):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("ETag", etag)
        self.end_headers()
        body = data[start:]
        if self.server.breaks:
            self.server.breaks -= 1
            self.close_connection = True
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: tests look at `requests`."""


@contextmanager
def served(files: Mapping[str, bytes], *, hub: bool = False) -> Iterator[Files]:
    """The server, running; as a hub with one data set, if wanted."""
    server = Files(files, hub=hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _HubHandler(_Handler):
    """As much of the Hugging Face hub as its library asks of a data set; `files` are those at `commit`."""

    commit = "b0b8a81d740ae413d52572281a23dc975c4b4b91"

    def do_HEAD(self) -> None:
        self._file(body=False)

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Range") or ""))
        files = self.server.files
        if "/tree/" in self.path:
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": _sha1(data)} for name, data in files.items()
            ]
            self._send(json.dumps(rows).encode(), {"Content-Type": "application/json"})
        elif "/revision/" in self.path:
            siblings = [{"rfilename": name} for name in files]
            facts = {"_id": "1", "id": "a/b", "sha": self.commit, "private": False, "siblings": siblings}
            self._send(json.dumps(facts).encode(), {"Content-Type": "application/json"})
        else:
            self._file(body=True)

    def _file(self, *, body: bool) -> None:
        data = self.server.files.get(self.path.rpartition(f"/resolve/{self.commit}/")[2])
        if data is None:
            self.send_error(404)
        else:
            self._send(data, {"ETag": f'"{_sha1(data)}"', "X-Repo-Commit": self.commit}, body=body)

    def _send(self, data: bytes, headers: Mapping[str, str], *, body: bool = True) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
