"""Who may talk to the page, and how much at a time, as middleware before all that gradio answers.

The address holds a secret token, as other programs' users on this machine know the port. A request must name this
machine as its host and come from the page itself: see `foreign_page`. Only routes that the page uses are answered;
gradio has others, which fetch addresses, run a coding agent, or describe every function.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ...integrations.foreign_pages import foreign_page

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_UPLOAD_BYTES = 256 * 2**20
"""Of all files of one upload."""
MAX_EVENT_BYTES = 8 * 2**20
"""Of the values of an event: texts, numbers, names of uploaded files."""

_DRAINED_BYTES = 64 * 1024
_DRAIN_S = 1.0

_GET = re.compile(
    r"/|/config/?|/theme\.css|/manifest\.json|/favicon\.ico|/(assets|static|svelte)/[\w./~@+-]*"
    r"|/gradio_api/(theme\.css|queue/data|upload_progress|startup-events|heartbeat/\w+|file=.*|info/?)"
)
_POST = re.compile(r"/gradio_api/(queue/join|upload|cancel|reset/?|run/predict)")

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; frame-src 'self' "
    "blob:; manifest-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'self'"
)
_HEADERS = [
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class PageGuard:
    """ASGI middleware. root: the path of the page, `/` and its token."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        self.app = app
        self.root = root

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing of the page is a WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        if refusal := self._refusal(scope):
            await _drained(scope, receive)
            await _answer(send, *refusal)
            return
        limit = MAX_UPLOAD_BYTES if scope["path"].endswith("/upload") else MAX_EVENT_BYTES
        if _announced(scope) > limit:
            await _answer(send, 413, f"too much at once: at most {limit // 2**20} MiB are taken")
            return
        await self.app(scope, _bounded(receive, limit), _with_headers(send))

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        if problem := foreign_page(headers, loopback=True):
            return 403, f"refused, since {problem}"
        path = scope["path"]
        if path == "/favicon.ico":  # which a browser looks for without the token
            return 204, ""
        if path != self.root and not path.startswith(f"{self.root}/"):
            return 404, "the address of the page has a token: copy all of what `editcritic app` printed"
        inner = path[len(self.root) :] or "/"
        allowed = {"GET": _GET, "HEAD": _GET, "POST": _POST}.get(scope["method"])
        if allowed is None or allowed.fullmatch(inner) is None or ".." in inner.split("/file=")[0]:
            return 404, "there is nothing at this address"
        return None


def _announced(scope: Message) -> int:
    """The length of the body by its header, 0 without one."""
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() and len(text) < 20 else MAX_UPLOAD_BYTES + 1


async def _drained(scope: Message, receive: Receive) -> None:
    """Read a small body that is refused: closed before, the connection would be reset, and the answer lost."""
    if _announced(scope) > _DRAINED_BYTES:
        return
    with contextlib.suppress(asyncio.TimeoutError):
        while (await asyncio.wait_for(receive(), _DRAIN_S)).get("more_body"):
            pass


def _bounded(receive: Receive, limit: int) -> Receive:
    """The body, which ends as if the browser had gone once it is longer than announced bodies may be."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        return message if taken <= limit else {"type": "http.disconnect"}

    return bounded


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name.lower() not in dict(_HEADERS)]
            message = {**message, "headers": [*kept, *_HEADERS]}
        await send(message)

    return with_headers


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode() if text else b""})
