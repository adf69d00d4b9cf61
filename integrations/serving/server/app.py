"""The judge server: one process with the experts, for all that trains and selects."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...reward import Score, SpecError
from .guarding import Guard, refusal
from .limits import Busy
from .service import Service
from .stopping import Stoppable, server_of
from .unpacking import request_from
from .wire import SCHEMA, WireError, answer_json
from .wire import Request as Asked

if TYPE_CHECKING:
    from fastapi import FastAPI, Request


_HUNG_UP = 499
"""For the metrics: nobody is there to read it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a server listens, and how patient it is.

    token: what clients have to bear; without one, `host` has to be this machine's own, unless `no_token` says that it
    is meant. head_s, body_s: seconds for the head and for the body of a request. idle_s: that a connection is kept
    between two requests. connections: at a time. drain_s: after a signal to stop, for what was accepted.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    token: str = ""
    no_token: bool = False
    head_s: float = 10.0
    body_s: float = 60.0
    idle_s: float = 30.0
    connections: int = 512
    drain_s: float = 60.0

    def __post_init__(self) -> None:
        if not (self.token or self.no_token or self.host in ("127.0.0.1", "::1", "localhost")):
            raise ValueError(
                f"{self.host} can be reached from other machines, and everybody there could use this one: give a "
                "token, or say that none is wanted"
            )
        if self.token and (len(self.token) < 16 or not self.token.isprintable() or " " in self.token):
            raise ValueError("the token is too easy to guess: at least 16 letters, without spaces")

    def __repr__(self) -> str:  # which may end in a log
        return f"Settings(host={self.host!r}, port={self.port}, token={'***' if self.token else 'none'})"


def app_of(service: Service, settings: Settings | None = None) -> FastAPI:
    """The application: POST /v1/score; GET /v1/reward, /healthz, /readyz, /metrics. See `wire`."""
    from fastapi import FastAPI, Response
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.routing import Route

    settings = settings or Settings()

    @contextlib.asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        service.readiness.load()
        yield

    app = FastAPI(title="editcritic", lifespan=life, docs_url=None, redoc_url=None)

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, WireError | Busy)
        status, body, headers = refusal(error)
        return Response(body, status, headers)

    async def hung_up(_: Request, error: Exception) -> Response:
        return Response(status_code=_HUNG_UP)

    async def no_route(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return await refused(_, WireError(str(error.detail), error.status_code))

    async def broke(_: Request, error: Exception) -> Response:  # its traceback is logged
        return await refused(_, WireError(f"a mistake of the server: {type(error).__name__}", 500))

    app.add_exception_handler(HTTPException, no_route)
    app.add_exception_handler(Exception, broke)
    app.add_exception_handler(ClientDisconnect, hung_up)
    app.add_exception_handler(WireError, refused)
    app.add_exception_handler(Busy, refused)
    app.add_middleware(Guard, service=service, token=settings.token, body_s=settings.body_s)

    async def score(request: Request) -> Response:
        since = time.monotonic()
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
        asked = await service.work(request_from, body, request.headers.get("content-type", ""), service.limits)
        body = bytearray()
        found = await unless_gone(request, service, asked, since)
        if found is None:
            return Response(status_code=_HUNG_UP)
        brief = asked.detail == "value"
        content = _answer(service, asked, found) if brief else await service.work(_answer, service, asked, found)
        waiting = {"x-samples-waiting": str(service.samples.taken)}  # so that clients can spread what they send
        return Response(content, headers=waiting, media_type="application/json")

    async def health(_: Request) -> Response:
        return _json(b'{"alive": true}')

    async def ready(request: Request) -> Response:
        found = service.readiness.report()
        told = found if request.state.known else {"ready": found["ready"]}
        return Response(json.dumps(told).encode(), 200 if found["ready"] else 503, media_type="application/json")

    async def metrics(_: Request) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def reward(request: Request) -> Response:
        return _json(json.dumps(described(service, request.query_params.get("name", ""))).encode())

    def _json(content: bytes) -> Response:
        return Response(content, media_type="application/json")

    for path, endpoint, method in (
        ("/v1/score", score, "POST"),
        ("/v1/reward", reward, "GET"),
        ("/healthz", health, "GET"),
        ("/readyz", ready, "GET"),
        ("/metrics", metrics, "GET"),
    ):
        app.router.routes.append(Route(path, endpoint, methods=[method]))
    return app


async def unless_gone(request: Request, service: Service, asked: Asked, since: float) -> list[Score | None] | None:
    """What `service.score` finds; None where the client hangs up before, and then what it waited for is given up."""
    work = asyncio.create_task(service.score(asked, since=since))
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        return await work if work.done() else None
    finally:
        gone.cancel()
        work.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def described(service: Service, name: str = "") -> dict[str, Any]:
    """What is served: card, spec and experts' ids of a reward, and the names of all. Raises `WireError`."""
    reward = service.reward(name or next(iter(service.rewards)))
    try:
        spec = reward.spec
    except SpecError as error:  # made of what has no spec
        spec = {"problem": str(error)}
    return {
        "schema": SCHEMA,
        "rewards": list(service.rewards),
        "name": reward.__name__,
        "card": asdict(reward.card),
        "spec": spec,
        "experts": {role: expert.id for role, expert in reward.experts.items()},
    }


def _answer(service: Service, asked: Asked, scores: Sequence[Score | None]) -> bytes:
    reward = service.reward(asked.reward)
    late = "" if asked.deadline_s is None else f"not scored within {asked.deadline_s:g} s"
    data = answer_json(reward.card.signature, asked.samples, scores, asked.detail, late)
    return json.dumps(data, allow_nan=False).encode()


def serve(service: Service, settings: Settings | None = None, app: FastAPI | None = None) -> bool:
    """Serve until SIGTERM or SIGINT: then nothing new is taken (503), what was accepted is finished, within `drain_s`,
    and this returns whether all was. A second signal ends the process at once. app: see `app_of`.
    """
    settings = settings or Settings()
    with listening(settings) as listener:
        return serve_at(listener, service, settings, app)


def serve_at(listener: socket.socket, service: Service, settings: Settings, app: FastAPI | None = None) -> bool:
    """The same at a socket that listens already; see `listening`."""
    return _server(service, settings, app).serve_until_told(listener)


@contextlib.contextmanager
def running(
    service: Service, settings: Settings | None = None, app: FastAPI | None = None, *, loaded: bool = True
) -> Iterator[str]:
    """A server in a thread of this process, at the port of `settings` (default: a free one); yields its address.

    loaded: wait until the experts are.
    """
    settings = settings or Settings(port=0)
    with listening(settings) as listener:
        server = _server(service, settings, app)
        thread = threading.Thread(target=server.run, args=([listener],), name="editcritic-server", daemon=True)
        thread.start()
        try:
            while thread.is_alive() and not (server.started and not (loaded and service.readiness.loading())):
                time.sleep(0.01)
            yield address(listener)
        finally:
            server.finish = True
            thread.join(settings.drain_s + 10)


@contextlib.contextmanager
def listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket of a server. Raises OSError where its port is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.create_server((settings.host, settings.port), family=family, backlog=settings.connections) as listener:
        yield listener


def address(listener: socket.socket) -> str:
    """As in http://127.0.0.1:8321."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _server(service: Service, settings: Settings, app: FastAPI | None) -> Stoppable:
    from uvicorn import Config

    from .connection import protocol

    config = Config(
        app or app_of(service, settings),
        http=protocol(settings.head_s, settings.connections),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(settings.idle_s),
        timeout_graceful_shutdown=5,
    )
    return server_of(config, service, settings.drain_s)
