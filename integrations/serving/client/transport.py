"""The HTTP transport of clients, on httpx2: bodies with images, time-outs, readable errors, and one event loop."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import ssl
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ....reward import EditSample
from ....reward.engine.workers import start_daemon
from ....reward.experts.judging.http_errors import retry_after_seconds
from ....reward.installation import install_command
from ....reward.timeout_compat import TIMEOUTS, timeout
from ..http_protocol import Detail, ImageEncoding, attach_images, encode_image, images_by_digest, one_line, request_json

MAX_SERVER_RESPONSE_BYTES = 64 * 2**20
"""Of a response. One of a thousand samples with all details has a few MiB."""

_MAX_JSON_VALUES = 2_000_000
"""Of a response: an empty object is two bytes, and takes sixty when it is read."""

_PROBE_TIMEOUT_S = 10.0
"""For requests that are answered at once: readiness and reward description."""

_CONNECT_TIMEOUT_S = 10.0


class TransportError(Exception):
    """request_sent: the server may have seen it. timed_out: it did, or its response is not read."""

    def __init__(self, message: str, *, request_sent: bool = False, timed_out: bool = False) -> None:
        super().__init__(message)
        self.request_sent = request_sent
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class TransportResponse:
    """A response of any status. data: its JSON, or None."""

    status: int
    headers: Mapping[str, str]
    data: Any

    @property
    def message(self) -> str:
        message = self.data.get("error", self.data) if isinstance(self.data, Mapping) else self.data
        return one_line(message if isinstance(message, str) else json.dumps(message), 300) if message else "no message"

    @property
    def retry_after_s(self) -> float | None:
        return retry_after_seconds(self.headers)


class Transport:
    """token_env: the environment variable with the token; empty for none. Raises ValueError if it is empty."""

    def __init__(self, urls: Sequence[str], *, token_env: str, connections: int) -> None:
        try:
            import httpx2
        except ImportError as error:
            raise ImportError(f"{error.name} is not installed: {install_command('serve')}") from None
        self._httpx = httpx2
        self._token = os.environ.get(token_env, "").strip() if token_env else ""
        if token_env and not self._token:
            raise ValueError(f"the environment variable {token_env} is empty: put the judge server's token into it")
        uses_tls = any(url.startswith("https:") for url in urls)
        self._client = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
            timeout=httpx2.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            follow_redirects=False,  # images and tokens must not go elsewhere
            trust_env=False,  # no proxies
            # Uncompressed, so that the limit of bytes holds.
            headers={"accept-encoding": "identity"},
            # The second context loads no certificates, which is faster.
            verify=ssl.create_default_context() if uses_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    async def get(self, url: str) -> TransportResponse:
        return await self._request("GET", url, {}, None, _PROBE_TIMEOUT_S)

    async def post(
        self, url: str, body: bytes, content_type: str, timeout_s: float, group: str = ""
    ) -> TransportResponse:
        """group: names the session, by which a proxy may send its requests to one server. Raises `TransportError`."""
        headers = {"content-type": content_type}
        if group:
            headers["x-session-id"] = hashlib.blake2b(group.encode(), digest_size=16).hexdigest()
        return await self._request("POST", url, headers, body, timeout_s)

    async def close(self) -> None:
        await self._client.aclose()

    async def _request(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, timeout_s: float
    ) -> TransportResponse:
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        try:
            async with timeout(timeout_s), self._client.stream(method, url, content=body, headers=headers) as response:
                if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
                    raise _not_read(f"the response of {url} is compressed, which was not asked for")
                content = bytearray()
                async for part in response.aiter_raw():
                    content += part
                    if len(content) > MAX_SERVER_RESPONSE_BYTES:
                        raise _not_read(f"the response of {url} is longer than {MAX_SERVER_RESPONSE_BYTES >> 20} MiB")
        except TIMEOUTS:
            raise _not_read(f"no response within {timeout_s:.3g} s") from None
        except (self._httpx.ConnectError, self._httpx.ConnectTimeout) as error:
            raise TransportError(f"no connection ({_cause(error)})") from None
        except self._httpx.TransportError as error:
            raise TransportError(f"the connection was lost ({_cause(error)})", request_sent=True) from None
        data = await asyncio.to_thread(_read_json, content)
        return TransportResponse(response.status_code, response.headers, data)


def _not_read(problem: str) -> TransportError:
    return TransportError(problem, request_sent=True, timed_out=True)


def _read_json(content: bytearray) -> Any:
    """The JSON of a response; None if it is none, or has too many values."""
    if sum(content.count(separator) for separator in (b",", b":", b"[", b"{")) > _MAX_JSON_VALUES:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def validate_urls(urls: str | Sequence[str]) -> tuple[str, ...]:
    """Validated, distinct URLs. Raises ValueError for an invalid one, or one with a password, which would be logged."""
    url_list = [urls] if isinstance(urls, str) else list(urls)
    if not url_list:
        raise ValueError("a client needs the URL of a judge server, such as http://127.0.0.1:8000")
    for url in url_list:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"expected a URL of a judge server such as http://127.0.0.1:8000, got {url!r:.80}")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                f"URLs must have no password and no query, got one for {parts.hostname}: pass the name of the "
                "environment variable with the token as token_env"
            )
    return tuple(dict.fromkeys(url.rstrip("/") for url in url_list))


@dataclass(slots=True)
class RequestBody:
    """The body of a request. It is built once unless it has a deadline, which changes with each retry."""

    samples: Sequence[EditSample]
    key: str
    detail: Detail
    reward: str
    image_encoding: ImageEncoding
    _body: tuple[bytes, str] | None = None

    def bytes(self, deadline_s: float | None = None) -> tuple[bytes, str]:
        """Bytes and content type: multipart for `rgb`, JSON for `png`. Takes milliseconds per image."""
        if self._body is not None and deadline_s is None:
            return self._body
        data = request_json(self.samples, key=self.key, deadline_s=deadline_s, detail=self.detail, reward=self.reward)
        images = images_by_digest(self.samples)
        if self.image_encoding == "png":
            self._body = json.dumps(attach_images(data, images, "png")).encode(), "application/json"
            return self._body
        boundary = os.urandom(16).hex().encode()
        chunks = [
            b"--" + boundary + b'\r\nContent-Disposition: form-data; name="request"\r\n\r\n' + json.dumps(data).encode()
        ]
        for name, image in images.items():
            content, content_type = encode_image(image, "rgb")
            headers = (
                f'\r\n--{boundary.decode()}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
            )
            chunks += [f"{headers}Content-Type: {content_type}\r\n\r\n".encode(), content]
        chunks.append(b"\r\n--" + boundary + b"--\r\n")
        self._body = b"".join(chunks), f"multipart/form-data; boundary={boundary.decode()}"
        return self._body


def _cause(error: BaseException) -> str:
    """The message of the underlying system error, or its class name."""
    cause: BaseException | None = error
    last = error
    while cause is not None:
        last, cause = cause, cause.__cause__ or cause.__context__
    return f"{type(last).__name__}: {last}" if str(last) else type(error).__name__


T = TypeVar("T")


class BackgroundLoop:
    """An event loop that runs until the process ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="editcritic-clients", daemon=True)
        start_daemon(self.thread, self.stop)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def stop(self) -> None:
        if self.loop.is_running():
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


_process_loop: BackgroundLoop | None = None
_loop_lock = threading.Lock()


def background_loop() -> BackgroundLoop:
    """The loop of this process. A forked process creates its own, since threads are not inherited."""
    global _process_loop  # noqa: PLW0603  (one per process)
    with _loop_lock:
        if _process_loop is None or _process_loop.pid != os.getpid() or not _process_loop.thread.is_alive():
            _process_loop = BackgroundLoop()
        return _process_loop
