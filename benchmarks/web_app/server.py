"""The server of the page, for this machine only; its address holds a secret token."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from ...integrations.serving.server.app import address
from ...integrations.serving.server.connection import http_protocol
from .guard import MAX_UPLOAD_BYTES, PageGuard
from .page_files import PageFiles
from .settings import AppSettings

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
    """Serve the page until the body ends; yields its address with the token. port: 0 picks a free one.

    Uploads and pictures lie in a private folder, which is removed in the end. Raises OSError if the port is taken.
    """
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
