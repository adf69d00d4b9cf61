"""Who may speak to a judge server, how much, and how slowly: before any route, and so for all of them."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from ...reward.timeouts import TIMEOUTS, timeout
from .limits import Busy
from .wire import WireError

if TYPE_CHECKING:
    from .service import Service

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = ("/healthz", "/readyz")
"""Paths that need no token: those who look after processes have none."""

log = logging.getLogger("editcritic.serving")


class Guard:
    """An ASGI application around another one.

    token: what clients have to bear, or nothing. body_s: a body that takes longer, in seconds, is refused with 408.
    Requests that bring a body (POST) count against the room of the service until they are answered, and are refused
    while there is none.
    """

    def __init__(self, app: App, service: Service, token: str, body_s: float) -> None:
        self.app = app
        self.service = service
        self.token = token.encode()
        self.body_s = body_s

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        start = time.monotonic()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        scoring = scope["method"] == "POST"
        try:
            self._may_come(scope)
            if scoring:
                await self._bounded(scope, receive, watched, start)
            else:
                await self.app(scope, receive, watched)
        except (WireError, Busy) as error:
            await _answer(watched, error)
        finally:
            path = scope["path"] if "endpoint" in scope else "other"
            self.service.metrics.answered(path, status, time.monotonic() - start, scoring)

    def _may_come(self, scope: Message) -> None:
        given = dict(scope["headers"]).get(b"authorization", b"")
        known = not self.token or hmac.compare_digest(_borne(given), self.token)
        scope.setdefault("state", {})["known"] = known
        if not known and scope["path"] not in OPEN:
            raise WireError("this server wants a token: send `Authorization: Bearer ...`", 401)

    async def _bounded(self, scope: Message, receive: Receive, send: Send, start: float) -> None:
        service = self.service
        service.admit()
        most = service.limits.max_body
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise WireError("the body is compressed: send it as it is", 415)
        said = headers.get(b"content-length", b"0")
        announced = int(said) if said.isdigit() and len(said) < 20 else most + 1
        if announced > most:
            raise _too_large(most)
        service.bytes.take(announced, service.retry_after_s())
        held, got, ended = announced, 0, False
        until = start + self.body_s

        async def bounded() -> Message:
            nonlocal held, got, ended
            if ended:
                return await receive()
            try:
                async with timeout(until - time.monotonic()):
                    message = await receive()
            except TIMEOUTS:
                raise WireError(f"the body did not come within {self.body_s:g} s", 408) from None
            got += len(message.get("body", b""))
            ended = not message.get("more_body", False)
            if got > most:
                raise _too_large(most)
            if got > held:
                service.bytes.take(got - held, service.retry_after_s())
                held = got
            return message

        service.active += 1
        try:
            await self.app(scope, bounded, send)
        finally:
            service.active -= 1
            service.bytes.give_back(held)
            service.metrics.received(got)


def _borne(given: bytes) -> bytes:
    """The token in a header: `Bearer token`, or the password of `Basic`, which is what trainers' own clients send when
    their URL for the judge is http://any:token@host. Nothing where there is none.
    """
    kind, _, token = given.partition(b" ")
    if kind.lower() != b"basic":
        return token.strip() if kind.lower() == b"bearer" else b""
    try:
        return base64.b64decode(token.strip(), validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _too_large(most: int) -> WireError:
    return WireError(f"a body has {most:,} bytes at most here: send fewer samples a request", 413)


async def _answer(send: Send, error: WireError | Busy) -> None:
    status, body, headers = refusal(error)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def refusal(error: WireError | Busy) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of what is said instead of an answer."""
    busy = isinstance(error, Busy)
    status = 503 if isinstance(error, Busy) else error.status
    body = json.dumps({"error": str(error), "retry": busy}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    if isinstance(error, Busy):
        headers["retry-after"] = str(math.ceil(error.retry_after_s))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return status, body, headers
