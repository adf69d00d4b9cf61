"""The judge server: one process with the experts, for training and selection. Its routes, its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ....reward import Score, SpecError
from ...foreign_pages import is_loopback
from ..http_protocol import SCHEMA, APIError, ScoreRequest, response_json
from .middleware import MONITOR_PATH, AuthAndLimitsMiddleware, error_response
from .monitoring import PAGE_HEADERS, monitor_page
from .request_decoding import decode_request
from .service import ScoringService
from .settings import ServerBusy, ServerConfig

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from uvicorn import Config


_FLUSH_S = 2.0
_TICKS = 50
"""Of uvicorn, ten per second."""
_LISTEN_BACKLOG = 256
"""Connections that the system holds until they are accepted: in a flood, new ones wait behind so many."""


class GracefulServer(Protocol):
    """should_finish: set by any thread to stop. started: whether it listens. finished: all accepted requests."""

    should_finish: bool
    started: bool
    finished: bool

    def run(self, sockets: list[socket.socket]) -> None:
        """Serve until stopped."""


def graceful_server(config: Config, service: ScoringService, drain_timeout_s: float) -> GracefulServer:
    """uvicorn's server; the first signal drains the service, the second one ends the process."""
    import uvicorn

    class Draining(uvicorn.Server):
        should_finish = False
        finished = True
        draining: asyncio.Task[None] | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for listener in sockets or ():
                listener.listen(_LISTEN_BACKLOG)  # uvicorn's `backlog` is also how many are accepted at a time

        def handle_exit(self, sig: int, frame: Any) -> None:
            if self.should_finish:
                os._exit(128 + sig)
            self.should_finish = True
            service.draining = True

        async def on_tick(self, counter: int) -> bool:
            if self.should_finish and self.draining is None:
                self.draining = asyncio.create_task(self._drain())
            if counter % _TICKS == 0:
                service.readiness.unavailable_experts()  # schedules retries, even without requests
            return await super().on_tick(counter)

        async def _drain(self) -> None:
            self.finished = await service.drain(drain_timeout_s)
            for _ in range(int(_FLUSH_S / 0.02)):
                if not service.active_requests:
                    break
                await asyncio.sleep(0.02)
            self.should_exit = True

    return Draining(config)


T = TypeVar("T")

_CLIENT_CLOSED_REQUEST = 499
"""For the metrics; no client receives it."""


def create_app(service: ScoringService, settings: ServerConfig | None = None) -> FastAPI:
    """The application: POST /v1/score; GET /v1/reward, /healthz, /readyz, /metrics, /monitor. See `http_protocol`."""
    from fastapi import FastAPI, Response
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.routing import Route

    settings = settings or ServerConfig()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.readiness.load()
        yield

    app = FastAPI(
        title="editcritic",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # the address would be that of the request's Host
    )

    app.state.error_formats = {}

    async def on_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, APIError | ServerBusy)
        status, body, headers = error_response(error, request.scope)
        return Response(body, status, headers)

    async def on_disconnect(_: Request, error: Exception) -> Response:
        return Response(status_code=_CLIENT_CLOSED_REQUEST)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return await on_refusal(request, APIError(str(error.detail), error.status_code))

    async def on_exception(request: Request, error: Exception) -> Response:  # its traceback is logged
        return await on_refusal(request, APIError(f"internal server error: {type(error).__name__}", 500))

    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_exception)
    app.add_exception_handler(ClientDisconnect, on_disconnect)
    app.add_exception_handler(APIError, on_refusal)
    app.add_exception_handler(ServerBusy, on_refusal)
    app.add_middleware(
        AuthAndLimitsMiddleware,
        service=service,
        token=settings.token,
        loopback=is_loopback(settings.host),
        body_timeout_s=settings.body_timeout_s,
    )

    async def score(request: Request) -> Response:
        start = time.monotonic()
        content_type = request.headers.get("content-type", "")
        score_request = await read_body(service, request, decode_request, content_type, service.limits)
        scores = await unless_disconnected(request, service.score(score_request, received_at=start))
        if scores is None:
            return Response(status_code=_CLIENT_CLOSED_REQUEST)
        is_small = score_request.detail == "value"
        parts = (service, score_request, scores)
        content = _response_body(*parts) if is_small else await service.run_in_decoder(_response_body, *parts)
        headers = {"x-queued-samples": str(service.samples.used)}  # for load balancing by clients
        return Response(content, headers=headers, media_type="application/json")

    async def health(_: Request) -> Response:
        return _json(b'{"alive": true}')

    async def ready(request: Request) -> Response:
        report = service.readiness.report(service.draining)
        visible = report if request.state.authorized else {"ready": report["ready"]}
        return Response(json.dumps(visible).encode(), 200 if report["ready"] else 503, media_type="application/json")

    async def metrics(_: Request) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def monitor(_: Request) -> Response:
        if not service.monitors.by_name:
            raise APIError("no reward is monitored: start the server with --monitor and the edits of a step", 404)
        page = await service.run_in_decoder(monitor_page, service.monitors.by_name)
        return Response(page, headers=PAGE_HEADERS, media_type="text/html; charset=utf-8")

    async def reward(request: Request) -> Response:
        return _json(json.dumps(reward_info_json(service, request.query_params.get("name", ""))).encode())

    def _json(content: bytes) -> Response:
        return Response(content, media_type="application/json")

    for path, endpoint, method in (
        ("/v1/score", score, "POST"),
        ("/v1/reward", reward, "GET"),
        ("/healthz", health, "GET"),
        ("/readyz", ready, "GET"),
        ("/metrics", metrics, "GET"),
        (MONITOR_PATH, monitor, "GET"),
    ):
        app.router.routes.append(Route(path, endpoint, methods=[method]))
    return app


async def read_body(service: ScoringService, request: Request, read: Callable[..., T], *args: object) -> T:
    """What `read` makes of the body of a request, and of the arguments; no body is held while it is scored."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
    return await service.run_in_decoder(read, body, *args)


async def unless_disconnected(request: Request, scoring: Coroutine[Any, Any, T]) -> T | None:
    """The result of a coroutine; None if the client disconnects first, which cancels it."""
    task = asyncio.create_task(scoring)
    disconnect = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        disconnect.cancel()
        task.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def reward_info_json(service: ScoringService, name: str = "") -> dict[str, Any]:
    """Identity, card, spec and expert ids of a reward, and the names of all rewards. Raises `APIError`."""
    reward = service.reward(name or next(iter(service.rewards)))
    try:
        spec = reward.spec
    except SpecError as error:  # built from objects without a spec
        spec = {"error": str(error)}
    return {
        "schema": SCHEMA,
        "rewards": list(service.rewards),
        "name": reward.__name__,
        "identity": service.identity(reward),
        "card": asdict(reward.card),
        "spec": spec,
        "experts": service.expert_ids(reward),
    }


def _response_body(service: ScoringService, score_request: ScoreRequest, scores: Sequence[Score | None]) -> bytes:
    reward = service.reward(score_request.reward)
    late = "" if score_request.deadline_s is None else f"not scored within {score_request.deadline_s:g} s"
    data = response_json(
        reward.card, service.identity(reward), score_request.samples, scores, score_request.detail, late
    )
    return json.dumps(data, allow_nan=False).encode()


def serve(service: ScoringService, settings: ServerConfig | None = None, app: FastAPI | None = None) -> bool:
    """Serve until SIGTERM or SIGINT; then refuse new requests (503), finish accepted ones within `drain_timeout_s`, and
    return whether all were finished. A second signal ends the process at once.

    Args:
        app: See `create_app`.
    """
    settings = settings or ServerConfig()
    with bind_socket(settings) as listener:
        return serve_socket(listener, service, settings, app)


def serve_socket(
    listener: socket.socket, service: ScoringService, settings: ServerConfig, app: FastAPI | None = None
) -> bool:
    """The same on a listening socket; see `bind_socket`."""
    server = _server(service, settings, app)
    server.run([listener])
    return server.finished


@contextlib.contextmanager
def serve_in_thread(
    service: ScoringService,
    settings: ServerConfig | None = None,
    app: FastAPI | None = None,
    *,
    wait_until_loaded: bool = True,
) -> Iterator[str]:
    """A server in a thread of this process, on the port of `settings` (default: a free one); yields its URL.

    Args:
        wait_until_loaded: Yield only after the experts are loaded.
    """
    settings = settings or ServerConfig(port=0)
    with bind_socket(settings) as listener:
        server = _server(service, settings, app)
        thread = threading.Thread(target=server.run, args=([listener],), name="editcritic-server", daemon=True)
        thread.start()
        try:
            while thread.is_alive() and not (
                server.started and not (wait_until_loaded and service.readiness.loading())
            ):
                time.sleep(0.01)
            yield address(listener)
        finally:
            server.should_finish = True
            thread.join(settings.drain_timeout_s + 10)


@contextlib.contextmanager
def bind_socket(settings: ServerConfig) -> Iterator[socket.socket]:
    """The listening socket of a server. Raises OSError if its port is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.create_server(
        (settings.host, settings.port), family=family, backlog=settings.max_connections
    ) as listener:
        yield listener


def address(listener: socket.socket) -> str:
    """The URL, as in http://127.0.0.1:8321."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _server(service: ScoringService, settings: ServerConfig, app: FastAPI | None) -> GracefulServer:
    from uvicorn import Config

    from .connection import http_protocol

    config = Config(
        app or create_app(service, settings),
        http=http_protocol(settings.header_timeout_s, settings.max_connections, bool(settings.token)),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(settings.keep_alive_timeout_s),
        timeout_graceful_shutdown=5,
        # So many connections are accepted before those that are open are read: few, or a new one could lose its place
        # before its first request is seen.
        backlog=min(32, max(1, settings.max_connections // 16)),
    )
    return graceful_server(config, service, settings.drain_timeout_s)
