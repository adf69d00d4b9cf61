"""An editor served over HTTP. A request is `POST URL` with JSON: `instruction`, `images` (the sources, PNG in base64),
`seed`, and, after the first turn of a chain, `history` (the previous instructions, oldest first). The response is an
image (`image/…`), or JSON with the image in base64 under `image` (or `images`, of which the first is used)."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import socket
import threading
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from ...reward import EditSample, Image, ImageError
from ...reward.experts.judging.http_errors import is_retryable
from ...reward.plain_text import one_line
from ..common.errors import InputError

MAX_RESPONSE_BYTES = 64 * 2**20

_MAX_ERROR_CHARS = 300

_MAX_JSON_OBJECTS = 1000


class HttpEditor:
    """Requests edits from `url`, `batch_size` requests concurrently.

    name: of the model, for results; the address by default. key_env: variable with an API key, sent as a bearer token.
    timeout_s: seconds, of one request. retries: after a lost connection, a time-out, HTTP 408, 429 and 5xx, with
    pauses of 1 s, 2 s, 4 s, … Raises `InputError` for an invalid URL, and for one with a password or a query: those
    would be in results."""

    nfe = 0

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        key_env: str = "",
        batch_size: int = 4,
        timeout_s: float = 600.0,
        retries: int = 2,
        pause_s: float = 1.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"--editor-url is a URL such as http://127.0.0.1:8000/edit, got {url!r}")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise InputError("--editor-url must contain no password and no query: give a key by --editor-key-env")
        if key_env and not os.environ.get(key_env):
            raise InputError(f"the environment variable {key_env} is empty: set it to the editor's key")
        self.id = name or f"{parts.netloc}{parts.path}"
        self.batch_size = batch_size
        self._url = url
        self._key_env = key_env
        self._timeout_s = timeout_s
        self._retries = retries
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, Image] = OrderedDict()

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> Sequence[Image]:
        """As in `Editor`. Raises RuntimeError with the server's message for the first failed request. The other images
        of the batch are cached, so that a retry without the failed one sends no request."""
        earlier = history or [()] * len(images)
        bodies = [_body(*request) for request in zip(images, instructions, seeds, earlier, strict=True)]
        with ThreadPoolExecutor(max(1, min(self.batch_size, len(bodies)))) as threads:
            futures = [threads.submit(self._picture, body) for body in bodies]
            errors = [future.exception() for future in futures]
        if error := next(filter(None, errors), None):
            raise error
        return [future.result() for future in futures]

    def _picture(self, body: str) -> Image:
        with self._lock:
            if body in self._cache:
                return self._cache[body]
        picture = self._answer(body)
        with self._lock:
            self._cache[body] = picture
            while len(self._cache) > 2 * self.batch_size:
                self._cache.popitem(last=False)
        return picture

    def _answer(self, body: str) -> Image:
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

        retrying = Retrying(
            retry=retry_if_exception_type(_TransientError),
            stop=stop_after_attempt(self._retries + 1),
            wait=wait_exponential(self._pause_s),
            reraise=True,
        )
        return retrying(self._answer_once, body)

    def _answer_once(self, body: str) -> Image:
        exchange = _Exchange()
        watch = threading.Timer(self._timeout_s, exchange.end)
        watch.daemon = True
        watch.start()
        try:
            status, kind, data = self._exchange(exchange, body)
        except (OSError, http.client.HTTPException) as error:  # no connection, a time-out, no HTTP
            if exchange.ended:
                raise _TransientError(f"the response took too long: more than {self._timeout_s:g} s") from None
            problem = str(getattr(error, "reason", error)) or type(error).__name__
            if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
                problem = f"the response is no HTTP, or not complete: {problem}"
            raise _TransientError(one_line(problem[:_MAX_ERROR_CHARS])) from None
        finally:
            watch.cancel()
        if exchange.ended:
            raise _TransientError(f"the response took too long: more than {self._timeout_s:g} s")
        if status >= 300:
            error_type = _TransientError if is_retryable(status) else RuntimeError
            raise error_type(f"HTTP {status}: {one_line(data.decode('utf-8', 'replace').strip()[:_MAX_ERROR_CHARS])}")
        return _decode_response(data, kind)

    def _exchange(self, exchange: _Exchange, body: str) -> tuple[int, str, bytes]:
        """Status, content type and body of the response, or the reason of an error. Raises OSError, HTTPException."""
        try:
            with exchange.opener().open(self._request(body), timeout=self._timeout_s) as response:
                return response.status, response.headers.get_content_type(), _read(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, "", error.read(_MAX_ERROR_CHARS) or str(error.reason).encode("utf-8", "replace")

    def _request(self, body: str) -> urllib.request.Request:
        headers = {"Content-Type": "application/json", "Accept": "image/png, application/json"}
        if self._key_env:
            headers["Authorization"] = f"Bearer {os.environ.get(self._key_env, '')}"
        return urllib.request.Request(self._url, body.encode(), headers, method="POST")


class _TransientError(RuntimeError):
    """A request failed in a way that a retry may mend."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Pictures and keys go to the address that was given, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Exchange:
    """One request and its response, which can be ended from outside: a socket's own time-out is for each read, so that
    a server can go on for ever, in its headers too."""

    def __init__(self) -> None:
        self.ended = False
        self._sockets: list[socket.socket] = []

    def opener(self) -> urllib.request.OpenerDirector:
        """Opens the request."""
        has_connected = self._has_connected

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                has_connected(self.sock)

        class TLSConnection(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                has_connected(self.sock)

        class Handler(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                return self.do_open(Connection, req)

        class TLSHandler(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                return self.do_open(TLSConnection, req)

        return urllib.request.build_opener(NoRedirects, Handler, TLSHandler)

    def _has_connected(self, opened: socket.socket) -> None:
        self._sockets.append(opened)
        if self.ended:
            raise TimeoutError

    def end(self) -> None:
        """Whoever reads gets the end of the data."""
        self.ended = True
        for opened in self._sockets:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


def _read(response: http.client.HTTPResponse) -> bytes:
    """The body, one byte more than allowed at most."""
    data = response.read(MAX_RESPONSE_BYTES + 1)
    if response.length and len(data) <= MAX_RESPONSE_BYTES:  # what was announced and did not come
        raise http.client.IncompleteRead(b"", response.length)
    return data


def _body(sources: tuple[Image, ...], instruction: str, seed: int, history: tuple[EditSample, ...]) -> str:
    request: dict[str, Any] = {"instruction": instruction, "images": [_png(image) for image in sources], "seed": seed}
    if history:
        request["history"] = [turn.instruction for turn in history]
    return json.dumps(request)


def _png(image: Image) -> str:
    out = io.BytesIO()
    image.pil().save(out, "PNG", compress_level=1)
    return base64.b64encode(out.getvalue()).decode()


def _decode_response(data: bytes, kind: str) -> Image:
    """Raises RuntimeError for a response without an image."""
    if len(data) > MAX_RESPONSE_BYTES:
        raise RuntimeError(f"the response is longer than {MAX_RESPONSE_BYTES // 2**20} MiB")
    try:
        return Image.of(_decoded(data) if kind == "application/json" else data)
    except (ImageError, ValueError, LookupError, TypeError, RecursionError) as error:
        problem = f"the response ({kind}, {len(data)} bytes) contains no image: {error}"
        raise RuntimeError(one_line(problem)) from None


def _decoded(data: bytes) -> bytes:
    if data.count(b"{") + data.count(b"[") > _MAX_JSON_OBJECTS:  # each takes thirty times the memory of its text
        raise ValueError(f"its JSON has more than {_MAX_JSON_OBJECTS} objects and lists")
    reply = json.loads(data)
    text = reply["image"] if "image" in reply else reply["images"][0]
    if not isinstance(text, str):
        raise TypeError(f"the image is {type(text).__name__}, not base64")
    return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
