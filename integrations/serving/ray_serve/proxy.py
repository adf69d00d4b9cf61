"""The limits of the judge server in Ray's HTTP proxies, which would buffer whole bodies, keep idle connections for
ever, and let clients turn off time-outs. Ray calls `middlewares` in each proxy that starts with

    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=editcritic.integrations.serving.ray_serve.proxy:middlewares
    EDITCRITIC_RAY_PROXY='{"token_env": "JUDGE_TOKEN", "max_connections": 512}'

in its environment, as with `editcritic serve --ray`; the second variable has arguments of `JudgeSettings`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ..http_protocol import APIError
from ..server.connection import http_protocol
from ..server.middleware import ASGIApp, AuthAndLimitsMiddleware, Message, Receive, Send
from ..server.settings import Capacity, JudgeSettings, ServerBusy, ServerLimits

if TYPE_CHECKING:
    from starlette.middleware import Middleware

SETTINGS_VARIABLE = "EDITCRITIC_RAY_PROXY"
CALLBACK_VARIABLE = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
CALLBACK = f"{__name__}:middlewares"

LIMITED_HEADER = b"x-editcritic-limits"
"""In responses of a proxy with these limits."""

_SESSION_HEADER = b"x-session-id"
_MAX_SESSION_BYTES = 128

_NOT_FOR_CLIENTS = frozenset(
    {b"x_request_timeout_seconds", b"x_request_disconnect_disabled", b"x_request_id", b"serve_multiplexed_model_id"}
)
"""Headers by which clients turn off Ray's time-outs and cancellation, and name requests in logs, with underscores."""


def middlewares() -> list[Middleware]:
    """Around the app of Ray's proxies, and their connections. Raises ValueError: then the proxy does not start."""
    from starlette.middleware import Middleware
    from uvicorn import config

    settings = JudgeSettings.of(json.loads(os.environ.get(SETTINGS_VARIABLE, "{}")))
    server = settings.server_config()
    protocol: Any = http_protocol(server.header_timeout_s, server.max_connections, bool(server.token))
    config.HTTP_PROTOCOLS["auto"] = protocol
    no_websockets: Any = None
    config.WS_PROTOCOLS["auto"] = no_websockets
    # The first is the innermost.
    return [
        Middleware(RayApp),
        Middleware(
            AuthAndLimitsMiddleware,
            service=ProxyIntake(settings.limits),
            token=server.token,
            loopback=server.host == "127.0.0.1",
            body_timeout_s=server.body_timeout_s,
        ),
    ]


class ProxyIntake:
    """What a proxy holds: the bytes of bodies from their arrival until the answer. Replicas count the rest."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.bytes = Capacity(limits.max_queued_bytes, "bytes")
        self.active_requests = 0

    @property
    def metrics(self) -> ProxyIntake:
        return self

    def check_ready(self) -> None:
        """Whether a replica is ready is Ray's to know."""

    def retry_after_s(self) -> float:
        return 1.0

    def observe_request(self, path: str, status: int, seconds: float, scoring: bool) -> None:
        """Ray counts requests itself."""

    def received(self, count: int) -> None:
        """Replicas count bytes."""


class RayApp:
    """Ray's app in the judge server's words: refusals are told, plain text becomes JSON, no replica is 503."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        refusal: APIError | ServerBusy | None = None
        is_answered, ray_says = False, bytearray()

        async def receive_or_disconnect() -> Message:
            nonlocal refusal
            try:
                return await receive()
            except (APIError, ServerBusy) as error:
                refusal = error
                return {"type": "http.disconnect"}

        async def send_unless_of_ray(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start" and not _is_of_ray(message):
                is_answered = True
                message["headers"] = [*message.get("headers", ()), (LIMITED_HEADER, b"on")]
            if is_answered:
                await send(message)
            else:
                ray_says.extend(message.get("body", b""))

        await self.app({**scope, "headers": _headers_for_ray(scope)}, receive_or_disconnect, send_unless_of_ray)
        if is_answered:
            return
        if refusal is not None:
            raise refusal
        if ray_says:
            raise ServerBusy(f"no replica takes the request: {ray_says.decode(errors='replace')[:200]}")
        raise APIError("the replica was lost while it scored the request", 500)


def _is_of_ray(start: Message) -> bool:
    """Whether the start of a response is of an error that no replica gave: they say it in JSON."""
    return start["status"] >= 400 and dict(start.get("headers", ())).get(b"content-type", b"").startswith(b"text/plain")


def _headers_for_ray(scope: Message) -> list[tuple[bytes, bytes]]:
    """The headers without those that only operators may send. Raises `APIError` for a session that Ray cannot read."""
    headers = [
        (name, value) for name, value in scope["headers"] if name.lower().replace(b"-", b"_") not in _NOT_FOR_CLIENTS
    ]
    for name, value in headers:
        if name == _SESSION_HEADER and (len(value) > _MAX_SESSION_BYTES or not value.isascii()):
            raise APIError(f"x-session-id has at most {_MAX_SESSION_BYTES} ASCII characters", 400)
    return headers
