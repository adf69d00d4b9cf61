"""A file server on loopback that can be told to break off, to answer another file, or to refuse."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Files(ThreadingHTTPServer):
    """files: path -> content. breaks: how often a connection is closed after half of what it should bring.

    refuses: status that is answered to everything, 0 for none. ranges: whether parts may be asked for. requests: what
    was asked, as (path, Range header).
    """

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = dict(files)
        self.breaks = 0
        self.refuses = 0
        self.ranges = True
        self.requests: list[tuple[str, str]] = []

    def url(self, path: str) -> str:
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
def served(files: Mapping[str, bytes]) -> Iterator[Files]:
    """The server, running."""
    server = Files(files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
