"""Graceful shutdown of a judge server: refuse new requests, finish accepted ones, then close connections."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import socket

    from uvicorn import Config

    from .service import ScoringService

_FLUSH_S = 2.0
_TICKS = 50
"""Of uvicorn, ten per second."""
_LISTEN_BACKLOG = 256
"""Connections that the system holds until they are accepted: in a flood, new ones wait behind so many."""


class GracefulServer(Protocol):
    """should_finish: set by any thread to stop. started: whether it listens."""

    should_finish: bool
    started: bool

    def run(self, sockets: list[socket.socket]) -> None:
        """Serve until stopped."""

    def serve_until_signal(self, listener: socket.socket) -> bool:
        """The same; returns whether all accepted requests were finished."""


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

        def serve_until_signal(self, listener: socket.socket) -> bool:
            self.run([listener])
            return self.finished

    return Draining(config)
