"""HTTP from a client's side: bodies with pictures in them, time limits, and what came back in plain words.

httpx2 does it: asynchronous, keeps connections, takes bodies as they are, and is there wherever `openai` is.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from ...reward import EditSample
from ...reward.timeouts import TIMEOUTS, timeout
from .wire import Detail, Packing, packed, pictures_of, request_json, with_pictures

LIMIT_BYTES = 256 * 2**20
"""Of an answer."""

_QUICK_S = 10.0
"""For questions that are answered at once: whether a server is ready, and what it serves."""

_CONNECT_S = 10.0


class Lost(Exception):
    """No answer. sent: whether the server may have seen the request; late: whether it had its time."""

    def __init__(self, message: str, *, sent: bool = False, late: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.late = late


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any status. data: its JSON; None where it is none."""

    status: int
    headers: Mapping[str, str]
    data: Any

    @property
    def said(self) -> str:
        """The server's words, in a line."""
        said = self.data.get("error", self.data) if isinstance(self.data, Mapping) else self.data
        return (said if isinstance(said, str) else json.dumps(said))[:300] if said else "without a word"

    @property
    def retry_after_s(self) -> float | None:
        """When to come back; None where the server does not say."""
        said = self.headers.get("retry-after", "")
        try:
            return max(0.0, float(said)) if float(said) < float("inf") else None
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None


class Transport:
    """Requests of one client to these servers. token_env: the environment variable with the token; empty for none.

    Raises ValueError where that holds nothing.
    """

    def __init__(self, urls: Sequence[str], *, token_env: str, connections: int) -> None:
        try:
            import httpx2
        except ImportError as error:
            raise ImportError(f"{error.name} is not installed: pip install 'editcritic[serve]'") from None
        self._httpx = httpx2
        self._token = os.environ.get(token_env, "").strip() if token_env else ""
        if token_env and not self._token:
            raise ValueError(f"the judge server's token is to be in the environment variable {token_env}: put it there")
        safe = any(url.startswith("https:") for url in urls)
        self._client = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
            timeout=httpx2.Timeout(None, connect=_CONNECT_S),
            follow_redirects=False,  # pictures and tokens go where they were sent
            trust_env=False,  # and not through proxies that are meant for the rest of the internet
            verify=ssl.create_default_context() if safe else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # which is quick
        )

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    async def get(self, url: str) -> Answer:
        """Raises `Lost`."""
        return await self._ask("GET", url, None, "", _QUICK_S)

    async def post(self, url: str, body: bytes, kind: str, timeout_s: float) -> Answer:
        """Raises `Lost`."""
        return await self._ask("POST", url, body, kind, timeout_s)

    async def close(self) -> None:
        await self._client.aclose()

    async def _ask(self, method: str, url: str, body: bytes | None, kind: str, timeout_s: float) -> Answer:
        headers = {"content-type": kind} if kind else {}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        try:
            async with (
                timeout(timeout_s),
                self._client.stream(method, url, content=body, headers=headers) as one,
            ):
                parts, size = [], 0
                async for part in one.aiter_bytes():
                    size += len(part)
                    if size > LIMIT_BYTES:
                        raise Lost(f"the answer of {url} is longer than {LIMIT_BYTES >> 20} MiB", sent=True, late=True)
                    parts.append(part)
        except TIMEOUTS:
            raise Lost(f"no answer within {timeout_s:.3g} s", sent=True, late=True) from None
        except (self._httpx.ConnectError, self._httpx.ConnectTimeout) as error:
            raise Lost(f"no connection ({_cause(error)})") from None
        except self._httpx.TransportError as error:
            raise Lost(f"the connection was lost ({_cause(error)})", sent=True) from None
        try:
            data = json.loads(b"".join(parts))
        except (ValueError, RecursionError):
            data = None
        return Answer(one.status_code, one.headers, data)


def checked(urls: str | Sequence[str]) -> tuple[str, ...]:
    """URLs of servers, each once. Raises ValueError for one that is none, or has a password in it: it would show."""
    given = [urls] if isinstance(urls, str) else list(urls)
    if not given:
        raise ValueError("a client needs the URL of a judge server, such as http://127.0.0.1:8000")
    for url in given:
        found = urlsplit(url)
        if found.scheme not in ("http", "https") or not found.hostname:
            raise ValueError(f"a judge server has a URL such as http://127.0.0.1:8000, got {url!r:.80}")
        if "@" in found.netloc or found.query or found.fragment:
            raise ValueError(
                f"URLs hold no password and no query, got one for {found.hostname}: name the environment variable "
                "with the token in token_env"
            )
    return tuple(dict.fromkeys(url.rstrip("/") for url in given))


class Body:
    """The body of a request, made once but for the deadline, which is what is left of it when it is sent."""

    def __init__(self, samples: Sequence[EditSample], key: str, detail: Detail, reward: str, packing: Packing) -> None:
        self._samples, self._key, self._detail, self._reward = samples, key, detail, reward
        self._packing: Packing = packing
        self._whole: tuple[bytes, str] | None = None

    def bytes(self, deadline_s: float | None = None) -> tuple[bytes, str]:
        """Bytes and content type: multipart for `rgb`, JSON for `png`. Takes milliseconds a picture."""
        if self._whole is not None and deadline_s is None:
            return self._whole
        data = request_json(
            self._samples, key=self._key, deadline_s=deadline_s, detail=self._detail, reward=self._reward
        )
        pictures = pictures_of(self._samples)
        if self._packing == "png":
            self._whole = json.dumps(with_pictures(data, pictures, "png")).encode(), "application/json"
            return self._whole
        mark = os.urandom(16).hex().encode()
        pieces = [
            b"--" + mark + b'\r\nContent-Disposition: form-data; name="request"\r\n\r\n' + json.dumps(data).encode()
        ]
        for name, image in pictures.items():
            content, kind = packed(image, "rgb")
            head = f'\r\n--{mark.decode()}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
            pieces += [f"{head}Content-Type: {kind}\r\n\r\n".encode(), content]
        pieces.append(b"\r\n--" + mark + b"--\r\n")
        self._whole = b"".join(pieces), f"multipart/form-data; boundary={mark.decode()}"
        return self._whole


def _cause(error: BaseException) -> str:
    """What the system says of it, or what it is called."""
    cause: BaseException | None = error
    last = error
    while cause is not None:
        last, cause = cause, cause.__cause__ or cause.__context__
    return f"{type(last).__name__}: {last}" if str(last) else type(error).__name__
