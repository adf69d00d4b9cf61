"""An editor behind HTTP, for outputs of models that run elsewhere.

A request is `POST URL` with JSON: `instruction`, `images` (the sources, PNG in base64), `seed`, and, after the first
turn of a chain, `earlier` (the instructions before this one, oldest first). The answer is a picture (`image/…`), or
JSON with the picture in base64 under `image` (also `images`, of which the first counts).
"""

from __future__ import annotations

import base64
import binascii
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
from ..inputs import InputError

LIMIT_BYTES = 64 * 2**20
"""Of an answer."""

_AGAIN = (408, 429)
_SHOWN = 300


class HttpEditor:
    """Asks `url` for pictures, `batch` requests at a time.

    name: of the model behind it, for results; the address by default. key_env: the environment variable with a key,
    sent as a bearer token. timeout_s: of one request. retries: further tries after a lost connection, a time-out, HTTP
    408, 429 and 5xx, with pauses of 1 s, 2 s, 4 s, …

    Raises `InputError` for a URL that is none, or that holds a password or a query: those would be in results.
    """

    evaluations = 0

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        key_env: str = "",
        batch: int = 4,
        timeout_s: float = 600.0,
        retries: int = 2,
        pause_s: float = 1.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"--editor-url is a URL such as http://127.0.0.1:8000/edit, got {url!r}")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise InputError("--editor-url must hold no password and no query: give a key by --editor-key-env")
        if key_env and not os.environ.get(key_env):
            raise InputError(f"the environment variable {key_env} is empty: put the editor's key into it")
        self.id = name or f"{parts.netloc}{parts.path}"
        self.batch = batch
        self._url = url
        self._key_env = key_env
        self._timeout_s = timeout_s
        self._retries = retries
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._made: OrderedDict[str, Image] = OrderedDict()

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> Sequence[Image]:
        """As in `Editor`. Raises RuntimeError with the server's words for the first picture that could not be had.

        What was made beside it is remembered, so that asking again without that one asks the server for nothing.
        """
        earlier = history or [()] * len(images)
        bodies = [_body(*asked) for asked in zip(images, instructions, seeds, earlier, strict=True)]
        with ThreadPoolExecutor(max(1, min(self.batch, len(bodies)))) as threads:
            asked = [threads.submit(self._picture, body) for body in bodies]
            problems = [one.exception() for one in asked]
        if problem := next(filter(None, problems), None):
            raise problem
        return [one.result() for one in asked]

    def _picture(self, body: str) -> Image:
        with self._lock:
            if body in self._made:
                return self._made[body]
        picture = self._answer(body)
        with self._lock:
            self._made[body] = picture
            while len(self._made) > 2 * self.batch:
                self._made.popitem(last=False)
        return picture

    def _answer(self, body: str) -> Image:
        problem = ""
        for number in range(self._retries + 1):
            if number:
                time.sleep(self._pause_s * 2 ** (number - 1))
            try:
                with urllib.request.urlopen(self._request(body), timeout=self._timeout_s) as answer:
                    return _picture_of(answer.read(LIMIT_BYTES + 1), answer.headers.get_content_type())
            except urllib.error.HTTPError as error:
                words = error.read(_SHOWN).decode("utf-8", "replace").strip()
                problem = f"HTTP {error.code}: {words or error.reason}"
                if error.code not in _AGAIN and error.code < 500:
                    break
            except OSError as error:  # no connection, a time-out
                problem = str(getattr(error, "reason", error)) or type(error).__name__
        raise RuntimeError(problem)

    def _request(self, body: str) -> urllib.request.Request:
        headers = {"Content-Type": "application/json", "Accept": "image/png, application/json"}
        if self._key_env:
            headers["Authorization"] = f"Bearer {os.environ.get(self._key_env, '')}"
        return urllib.request.Request(self._url, body.encode(), headers, method="POST")


def _body(sources: tuple[Image, ...], instruction: str, seed: int, earlier: tuple[EditSample, ...]) -> str:
    asked: dict[str, Any] = {"instruction": instruction, "images": [_png(image) for image in sources], "seed": seed}
    if earlier:
        asked["earlier"] = [turn.instruction for turn in earlier]
    return json.dumps(asked)


def _png(image: Image) -> str:
    out = io.BytesIO()
    image.pil().save(out, "PNG", compress_level=1)
    return base64.b64encode(out.getvalue()).decode()


def _picture_of(data: bytes, kind: str) -> Image:
    """Raises RuntimeError for an answer that holds no picture."""
    if len(data) > LIMIT_BYTES:
        raise RuntimeError(f"the answer is longer than {LIMIT_BYTES // 2**20} MiB")
    try:
        return Image.of(_decoded(data) if kind == "application/json" else data)
    except (ImageError, ValueError, LookupError, TypeError, binascii.Error) as error:
        raise RuntimeError(f"the answer ({kind}, {len(data)} bytes) holds no picture: {error}") from None


def _decoded(data: bytes) -> bytes:
    found = json.loads(data)
    text = found["image"] if "image" in found else found["images"][0]
    return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
