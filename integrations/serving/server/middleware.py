"""Who may ask a judge server, and how much at a time, as middleware for all routes."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from ....reward.timeout_compat import TIMEOUTS, timeout
from ...foreign_pages import foreign_page
from ..http_protocol import APIError
from .settings import Capacity, ServerBusy, ServerLimits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]

ErrorFormat = Callable[[int, str], tuple[int, bytes]]
"""Status and message of an error to the status and body that the clients of a path understand."""

PUBLIC_PATHS = ("/healthz", "/readyz", "/ping", "/-/healthz")
"""Paths without a token: health probes have none. The last one is of Ray's proxies."""

MONITOR_PATH = "/monitor"
"""A page for browsers, which ask for a password if there is a token."""

log = logging.getLogger("editcritic.serving")


class RequestCounts(Protocol):
    """Where requests and bytes are counted."""

    def observe_request(self, path: str, status: int, seconds: float, scoring: bool) -> None: ...

    def received(self, count: int) -> None: ...


class Intake(Protocol):
    """What takes requests in, as a `ScoringService` does."""

    limits: ServerLimits
    bytes: Capacity
    active_requests: int

    @property
    def metrics(self) -> RequestCounts: ...

    def check_ready(self) -> None:
        """Raises `ServerBusy` if any request would be refused."""

    def retry_after_s(self) -> float:
        """Seconds until there is capacity."""


class AuthAndLimitsMiddleware:
    """ASGI middleware: token, without one foreign pages (403; loopback: see `foreign_page`), and slow bodies (408 after
    `body_timeout_s`). The bytes of a body count against the service's capacity from their arrival until the request is
    answered. `scope["state"]["authorized"]` tells whether the request may have more than a probe."""

    def __init__(self, app: ASGIApp, service: Intake, token: str, loopback: bool, body_timeout_s: float) -> None:
        self.app = app
        self.service = service
        self.token = token.encode()
        self.loopback = loopback
        self.body_timeout_s = body_timeout_s

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        start = time.monotonic()
        status = 0
        scope.setdefault("state", {})["authorized"] = False
        headers = dict(scope["headers"])

        async def send_and_record(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            if message["type"] == "http.response.start" and not scope["state"]["authorized"]:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        is_scoring = scope["method"] == "POST"
        try:
            self._authorize(scope, headers)
            if is_scoring:
                await self._forward_bounded(scope, headers, receive, send_and_record, start)
            else:
                await self.app(scope, receive, send_and_record)
        except (APIError, ServerBusy) as error:
            await _send_error(send_and_record, error, scope)
        finally:
            path = scope["path"] if "endpoint" in scope else "other"
            status = scope["state"].get("status", status)  # of an error whose client is told another one
            self.service.metrics.observe_request(path, status, time.monotonic() - start, is_scoring)

    def _authorize(self, scope: Message, headers: Mapping[bytes, bytes]) -> None:
        if b"transfer-encoding" in headers and (b"content-length" in headers or scope["http_version"] == "1.0"):
            raise APIError("the length of the body is given twice, or by an HTTP/1.0 client in chunks", 400)
        texts = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        if not self.token:
            address = (scope.get("client") or ("",))[0]
            if self.loopback and _is_of_another_machine(address):  # a proxy in front listens on other addresses too
                raise APIError(f"refused, since {address} is another machine: start the server with a token", 403)
            if problem := foreign_page(texts, loopback=self.loopback):
                raise APIError(
                    f"refused, since {problem}: a server without a token answers programs on this machine, not web "
                    "pages; use http://127.0.0.1 and the port, or start the server with a token (--token-env)",
                    403,
                )
        elif not hmac.compare_digest(_bearer_token(headers.get(b"authorization", b"")), self.token):
            if scope["path"] not in PUBLIC_PATHS:
                raise APIError("this server requires a token: send `Authorization: Bearer ...`", 401)
            return
        elif headers[b"authorization"][:5].lower() == b"basic" and (problem := foreign_page(texts, loopback=False)):
            # A browser that was once given the token sends it with the requests of any page.
            raise APIError(f"refused, since {problem}", 403)
        scope["state"]["authorized"] = True

    async def _forward_bounded(
        self, scope: Message, headers: Mapping[bytes, bytes], receive: Receive, send: Send, start: float
    ) -> None:
        service = self.service
        service.check_ready()
        max_bytes = service.limits.max_body_bytes
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise APIError("the body is compressed: send it uncompressed", 415)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) >= 20 or int(length) > max_bytes:
            raise _too_large(max_bytes)
        received, reserved, complete = 0, 0, False
        deadline = start + self.body_timeout_s

        async def receive_bounded() -> Message:
            nonlocal received, reserved, complete
            if complete:
                return await receive()
            try:
                async with timeout(deadline - time.monotonic()):
                    message = await receive()
            except TIMEOUTS:
                raise APIError(f"the body was not received within {self.body_timeout_s:g} s", 408) from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > max_bytes:
                raise _too_large(max_bytes)
            service.bytes.acquire(received - reserved, service.retry_after_s())
            reserved = received
            return message

        service.active_requests += 1
        try:
            await self.app(scope, receive_bounded, send)
        finally:
            service.active_requests -= 1
            service.bytes.release(reserved)
            service.metrics.received(received)


def _is_of_another_machine(address: str) -> bool:
    try:
        return not ipaddress.ip_address(address).is_loopback
    except ValueError:  # of a socket without addresses
        return False


def _bearer_token(header: bytes) -> bytes:
    """Of `Bearer token`, or the password of `Basic`, of the URL http://any:token@host; else empty."""
    scheme, _, token = header.partition(b" ")
    if scheme.lower() != b"basic":
        return token.strip() if scheme.lower() == b"bearer" else b""
    try:
        return base64.b64decode(token.strip(), validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _too_large(max_bytes: int) -> APIError:
    return APIError(f"the body may have at most {max_bytes:,} bytes: send fewer samples per request", 413)


async def _send_error(send: Send, error: APIError | ServerBusy, scope: Message) -> None:
    status, body, headers = error_response(error, scope)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def error_response(error: APIError | ServerBusy, scope: Message) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of an error response: JSON, or as `app.state.error_formats` says for the path."""
    busy = isinstance(error, ServerBusy)
    status = 503 if isinstance(error, ServerBusy) else error.status
    scope["state"]["status"] = status
    headers = {"content-type": "application/json"}
    if isinstance(error, ServerBusy):
        headers["retry-after"] = str(math.ceil(error.retry_after_s))
    if status == 401:
        is_page = scope["path"] == MONITOR_PATH
        headers["www-authenticate"] = 'Basic realm="editcritic: the token is the password"' if is_page else "Bearer"
    formats: Mapping[str, ErrorFormat] = {}
    if scope["method"] == "POST" and "app" in scope:  # in a proxy there is none
        formats = scope["app"].state.error_formats
    format_error = formats.get(scope["path"])
    if format_error is None:
        body = json.dumps({"error": str(error), "retryable": busy}).encode()
    else:
        status, body = format_error(status, str(error))
        headers["content-type"] = "application/octet-stream"
    return status, body, {**headers, "content-length": str(len(body))}
