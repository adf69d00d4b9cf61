"""An editor served over HTTP.

A request is `POST URL` with JSON: `instruction`, `images` (the sources, PNG in base64), `seed`, and, after the first
turn of a chain, `history` (the previous instructions, oldest first). The response is an image
(`image/…`), or JSON with the image in base64 under `image` (or `images`, of which the first is used).
"""

from __future__ import annotations

import base64
import binascii
import http.client
import io
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from ...reward import EditSample, Image, ImageError
from ...reward.experts.judging.http_endpoint import is_retryable
from ..common.errors import InputError

MAX_RESPONSE_BYTES = 64 * 2**20
"""Maximum size of a response."""

_CHUNK_BYTES = 2**16

_MAX_ERROR_CHARS = 300


class HttpEditor:
    """Requests edits from `url`, `batch_size` requests concurrently.

    name: name of the model, for results; the address by default. key_env: environment variable with an API key, sent
    as a bearer token. timeout_s: of one request. retries: after a lost connection, a time-out, HTTP 408, 429 and 5xx,
    with pauses of 1 s, 2 s, 4 s, …

    Raises `InputError` for an invalid URL, and for one with a password or a query: those would be in results.
    """

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
        """As in `Editor`. Raises RuntimeError with the server's message for the first failed request.

        The other images of the batch are cached, so that a retry without the failed one sends no request.
        """
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
        try:
            deadline = time.monotonic() + self._timeout_s
            with _OPENER.open(self._request(body), timeout=self._timeout_s) as response:
                return _decode_response(_read_until(response, deadline), response.headers.get_content_type())
        except urllib.error.HTTPError as error:
            detail = error.read(_MAX_ERROR_CHARS).decode("utf-8", "replace").strip()
            kind = _TransientError if is_retryable(error.code) else RuntimeError
            raise kind(f"HTTP {error.code}: {detail or error.reason}") from None
        except OSError as error:  # no connection, a time-out
            raise _TransientError(str(getattr(error, "reason", error)) or type(error).__name__) from None

    def _request(self, body: str) -> urllib.request.Request:
        headers = {"Content-Type": "application/json", "Accept": "image/png, application/json"}
        if self._key_env:
            headers["Authorization"] = f"Bearer {os.environ.get(self._key_env, '')}"
        return urllib.request.Request(self._url, body.encode(), headers, method="POST")


class _TransientError(RuntimeError):
    """A request failed in a way that a retry may mend."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Pictures and keys go to the address that was given, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _read_until(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """The body, one byte more than allowed at most. Raises TimeoutError: a socket's own time-out is for each read."""
    parts, size = [], 0
    while size <= MAX_RESPONSE_BYTES and (part := response.read1(_CHUNK_BYTES)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError("the response took too long")
    return b"".join(parts)


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
    except (ImageError, ValueError, LookupError, TypeError, binascii.Error) as error:
        raise RuntimeError(f"the response ({kind}, {len(data)} bytes) contains no image: {error}") from None


def _decoded(data: bytes) -> bytes:
    reply = json.loads(data)
    text = reply["image"] if "image" in reply else reply["images"][0]
    return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
