"""The server of the page, for this machine only, and the guard before it.

The address holds a secret token, as other programs' users on this machine know the port. A request must name this
machine as its host and come from the page itself: see `foreign_page`. Only routes that the page uses are answered;
gradio has others, which fetch addresses, run a coding agent, or describe every function. Of files, a request can name
those of the page's own folder.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from ...integrations.foreign_pages import foreign_page
from ...integrations.serving.server.app import address
from ...integrations.serving.server.connection import http_protocol
from ...reward.plain_text import printable
from ...reward.strict_json import parse_json
from .settings import AppSettings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_UPLOAD_BYTES = 256 * 2**20  # of all files of one upload
MAX_EVENT_BYTES = 8 * 2**20  # of the values of an event: texts, numbers, names of uploaded files

_GET = re.compile(
    r"/|/config/?|/theme\.css|/manifest\.json|/favicon\.ico|/(assets|static|svelte)/[\w./~@+-]*"
    r"|/gradio_api/(theme\.css|queue/data|upload_progress|startup-events|heartbeat/\w+|file=.*)"
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
    """ASGI middleware. root: the path of the page, `/` and its token. files: those that a request may name. num_inputs:
    of the events that the server answers, by number; gradio fails for others. `scope["state"]["authorized"]` tells the
    connection whether it keeps its place while others hold many: see `http_protocol`."""

    def __init__(self, app: ASGIApp, root: str, files: PageFiles, num_inputs: Mapping[int, int]) -> None:
        self.app = app
        self.root = root
        self.files = files
        self.num_inputs = num_inputs

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing of the page is a WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        state = scope.setdefault("state", {})
        state["authorized"] = False
        if refusal := self._refusal(scope):
            await _answer(send, *refusal)
            return
        state["authorized"] = True
        if scope["method"] != "POST":
            await self.app(scope, receive, _with_headers(send))
        elif scope["path"].endswith("/upload"):
            await self._forward_upload(scope, receive, send)
        else:
            await self._forward_event(scope, receive, send)

    async def _forward_upload(self, scope: Message, receive: Receive, send: Send) -> None:
        """Hand on the body as it arrives, up to the limit, at which it ends as if the browser had gone."""
        too_much = _announced(scope) > MAX_UPLOAD_BYTES
        taken = 0

        async def bounded() -> Message:
            nonlocal taken, too_much
            message = await receive()
            taken += len(message.get("body", b""))
            too_much = too_much or taken > MAX_UPLOAD_BYTES
            return {"type": "http.disconnect"} if too_much else message

        async def unless_too_much(message: Message) -> None:
            if not too_much:
                await with_headers(message)

        with_headers = _with_headers(send)
        if not too_much:
            try:
                await self.app(scope, bounded, unless_too_much)
            except Exception:  # whatever gradio raises when the body ends
                if not too_much:
                    raise
        if too_much:
            await _answer(send, 413, _too_large(MAX_UPLOAD_BYTES))

    async def _forward_event(self, scope: Message, receive: Receive, send: Send) -> None:
        """Read the whole body, which is small, and hand it on if it names no file but the page's own."""
        body = bytearray()
        more = _announced(scope) <= MAX_EVENT_BYTES
        is_whole = more
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            is_whole = len(body) <= MAX_EVENT_BYTES
            more = is_whole and message.get("more_body", False)
        if not is_whole:
            await _answer(send, 413, _too_large(MAX_EVENT_BYTES))
            return
        try:
            self.files.check_event(bytes(body), self.num_inputs)
        except ValueError as error:
            await _answer(send, 400, printable(str(error)))
            return
        whole: Message = {"type": "http.request", "body": bytes(body), "more_body": False}

        async def replayed() -> Message:
            nonlocal whole
            message, whole = whole, {}
            return message or await receive()

        await self.app(scope, replayed, _with_headers(send))

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
        if allowed is None or allowed.fullmatch(inner) is None:
            return 404, "there is nothing at this address"
        route, is_file, name = inner.partition("/file=")
        if ".." in route or (is_file and not self.files.holds(name)):
            return 404, "there is nothing at this address"
        return None


def _announced(scope: Message) -> int:
    """The length of the body by its header, 0 without one."""
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() and len(text) < 20 else MAX_UPLOAD_BYTES + 1


def _too_large(limit: int) -> str:
    return f"too much at once: at most {limit // 2**20} MiB are taken"


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


MAX_VALUES = 200_000  # values and keys in the JSON of an event


class PageFiles:
    """folder: the page's own, private."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def holds(self, path: str) -> bool:
        """Whether this is the path of a file of the folder; no address is one, and no link out of it."""
        if "\0" in path or not Path(path).is_absolute():
            return False
        real = Path(os.path.realpath(path))
        return real.is_relative_to(self._folder) and real.is_file()

    def check_event(self, body: bytes, num_inputs: Mapping[int, int]) -> None:
        """Raise ValueError unless the body of an event is JSON that names files of the folder only, and an event of the
        page with as many values as it takes, if any. num_inputs: by the number of an event."""
        event = parse_json(body, max_values=MAX_VALUES)
        for path in _paths(event):
            if not (isinstance(path, str) and self.holds(path)):
                raise ValueError(f"{path!r:.200} is no file that was dropped on the page")
        if isinstance(event, dict) and isinstance(event.get("data"), list):
            number = event.get("fn_index")
            if type(number) is not int or num_inputs.get(number) != len(event["data"]):
                raise ValueError(
                    f"the page has no event {number!r:.40} with {len(event['data'])} values: load it again"
                )


def _paths(value: Any) -> Iterator[Any]:
    """What the objects in it name as `path`, however deep."""
    if isinstance(value, list):
        for item in value:
            yield from _paths(item)
    elif isinstance(value, dict):
        if value.get("path") is not None:
            yield value["path"]
        for item in value.values():
            yield from _paths(item)


HOST = "127.0.0.1"

_HEADER_TIMEOUT_S = 10.0
_MAX_CONNECTIONS = 128
"""At a time. A window of a browser holds six at most."""

# Read when gradio is imported and when the page is built: no telemetry, no look for a newer version, no runs kept.
_ENVIRONMENT = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_RUN_HISTORY": "False",
    "GRADIO_SHARE": "False",
    "GRADIO_MCP_SERVER": "False",
    "GRADIO_SSR_MODE": "False",
    "GRADIO_VIBE_MODE": "",
    "GRADIO_ENABLE_MONITORING": "False",
}


class PageServer(uvicorn.Server):
    """A server whose signals are the program's own, and which does not wait for open windows when it stops."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ctrl-C raises KeyboardInterrupt in the thread that waits, as in every other command."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams to a window have no end: they are cut first, as when the window is closed."""
        for connection in [*self.server_state.connections]:
            if connection.transport is not None:
                connection.transport.abort()
        await super().shutdown(sockets)


@contextlib.contextmanager
def serving(settings: AppSettings, port: int = 0) -> Iterator[str]:
    """Serve the page until the body ends; yields its address with the token. port: 0 picks a free one. Uploads and
    pictures lie in a private folder, which is removed in the end. Raises OSError if the port is taken."""
    folder = Path(tempfile.mkdtemp(prefix="editcritic-app-"))  # readable by its owner only
    environment = {**_ENVIRONMENT, "GRADIO_TEMP_DIR": str(folder), "GRADIO_EXAMPLES_CACHE": str(folder / "examples")}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        with socket.create_server((HOST, port)) as listener:
            root = f"/{secrets.token_urlsafe(24)}"
            server = PageServer(
                uvicorn.Config(
                    _app(settings, root, folder),
                    http=http_protocol(_HEADER_TIMEOUT_S, _MAX_CONNECTIONS, has_token=True),
                    loop="asyncio",
                    ws="none",
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    proxy_headers=False,
                    timeout_graceful_shutdown=1,
                )
            )
            thread = threading.Thread(target=server.run, args=([listener],), name="editcritic-app", daemon=True)
            thread.start()
            try:
                while thread.is_alive() and not server.started:
                    time.sleep(0.01)
                yield f"{address(listener)}{root}/"
            finally:
                server.should_exit = True
                thread.join(5)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        shutil.rmtree(folder, ignore_errors=True)


def _app(settings: AppSettings, root: str, folder: Path) -> PageGuard:
    import gradio as gr

    from .page import CSS, HEAD, build_page, theme

    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    app = Starlette()
    page = build_page(settings)
    page.queue(api_open=False, default_concurrency_limit=2, max_size=64)
    gr.mount_gradio_app(
        app,
        page,
        root,
        server_name=HOST,
        root_path=root,  # else the files of events that are not queued have addresses without the token
        footer_links=[],
        run_history=False,
        show_error=True,
        max_file_size=MAX_UPLOAD_BYTES,
        ssr_mode=False,
        enable_monitoring=False,
        mcp_server=False,
        theme=theme(),
        css=CSS,
        head=HEAD,
        app_kwargs={"docs_url": None, "redoc_url": None, "openapi_url": None},
    )
    num_inputs = {number: len(event.inputs) for number, event in page.fns.items() if event.fn}
    return PageGuard(app, root, PageFiles(folder), num_inputs)
