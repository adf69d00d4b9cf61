"""Authentication, size and rate limits of a judge server, as middleware for all routes."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from ....reward.timeout_compat import TIMEOUTS, timeout
from ..http_protocol import APIError
from .capacity import ServerBusy

if TYPE_CHECKING:
    from .service import ScoringService

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]

PUBLIC_PATHS = ("/healthz", "/readyz")
"""Paths without a token: health probes have none."""

log = logging.getLogger("editcritic.serving")


class AuthAndLimitsMiddleware:
    """ASGI middleware.

    token: bearer token of clients, or empty. body_timeout_s: a body that takes longer, in seconds, is refused with 408.
    Requests with a body (POST) count against the service's capacity until they are answered, and are refused when there
    is none.
    """

    def __init__(self, app: ASGIApp, service: ScoringService, token: str, body_timeout_s: float) -> None:
        self.app = app
        self.service = service
        self.token = token.encode()
        self.body_timeout_s = body_timeout_s

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        start = time.monotonic()
        status = 0

        async def send_and_record(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        is_scoring = scope["method"] == "POST"
        try:
            self._authorize(scope)
            if is_scoring:
                await self._forward_bounded(scope, receive, send_and_record, start)
            else:
                await self.app(scope, receive, send_and_record)
        except (APIError, ServerBusy) as error:
            await _send_error(send_and_record, error)
        finally:
            path = scope["path"] if "endpoint" in scope else "other"
            self.service.metrics.observe_request(path, status, time.monotonic() - start, is_scoring)

    def _authorize(self, scope: Message) -> None:
        header = dict(scope["headers"]).get(b"authorization", b"")
        authorized = not self.token or hmac.compare_digest(_bearer_token(header), self.token)
        scope.setdefault("state", {})["authorized"] = authorized
        if not authorized and scope["path"] not in PUBLIC_PATHS:
            raise APIError("this server requires a token: send `Authorization: Bearer ...`", 401)

    async def _forward_bounded(self, scope: Message, receive: Receive, send: Send, start: float) -> None:
        service = self.service
        service.check_ready()
        max_bytes = service.limits.max_body_bytes
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise APIError("the body is compressed: send it uncompressed", 415)
        length = headers.get(b"content-length", b"0")
        declared = int(length) if length.isdigit() and len(length) < 20 else max_bytes + 1
        if declared > max_bytes:
            raise _too_large(max_bytes)
        service.bytes.acquire(declared, service.retry_after_s())
        reserved, received, complete = declared, 0, False
        deadline = start + self.body_timeout_s

        async def receive_bounded() -> Message:
            nonlocal reserved, received, complete
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
            if received > reserved:
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


def _bearer_token(header: bytes) -> bytes:
    """The token of a header: `Bearer token`, or the password of `Basic`, which trainers' own clients send for the URL
    http://any:token@host. Empty if there is none.
    """
    scheme, _, token = header.partition(b" ")
    if scheme.lower() != b"basic":
        return token.strip() if scheme.lower() == b"bearer" else b""
    try:
        return base64.b64decode(token.strip(), validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _too_large(max_bytes: int) -> APIError:
    return APIError(f"the body may have at most {max_bytes:,} bytes: send fewer samples per request", 413)


async def _send_error(send: Send, error: APIError | ServerBusy) -> None:
    status, body, headers = error_response(error)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def error_response(error: APIError | ServerBusy) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of an error response."""
    busy = isinstance(error, ServerBusy)
    status = 503 if isinstance(error, ServerBusy) else error.status
    body = json.dumps({"error": str(error), "retryable": busy}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    if isinstance(error, ServerBusy):
        headers["retry-after"] = str(math.ceil(error.retry_after_s))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return status, body, headers
