"""How a judge server stops: nothing new, what was accepted is finished, and only then the connections are closed."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import socket

    from uvicorn import Config

    from .service import Service

_TO_WRITE_S = 2.0
_TICKS = 50
"""Of uvicorn's, ten a second."""


class Stoppable(Protocol):
    """finish: set, by any thread, to have it stop. started: whether it listens."""

    finish: bool
    started: bool

    def run(self, sockets: list[socket.socket]) -> None:
        """Serve until it is to stop."""

    def serve_until_told(self, listener: socket.socket) -> bool:
        """The same; whether all that was accepted was finished."""


def server_of(config: Config, service: Service, drain_s: float) -> Stoppable:
    """uvicorn's server, which on a signal first drains the service, and on a second one ends the process."""
    import uvicorn

    class Draining(uvicorn.Server):
        finish = False
        finished = True
        draining: asyncio.Task[None] | None = None

        def handle_exit(self, sig: int, frame: Any) -> None:
            if self.finish:
                os._exit(128 + sig)
            self.finish = True
            service.draining = True

        async def on_tick(self, counter: int) -> bool:
            if self.finish and self.draining is None:
                self.draining = asyncio.create_task(self._drain())
            if counter % _TICKS == 0:
                service.readiness.dead()  # who is dead gets another chance, whether or not anybody asks
            return await super().on_tick(counter)

        async def _drain(self) -> None:
            self.finished = await service.drain(drain_s)
            for _ in range(int(_TO_WRITE_S / 0.02)):
                if not service.active:
                    break
                await asyncio.sleep(0.02)
            self.should_exit = True

        def serve_until_told(self, listener: socket.socket) -> bool:
            self.run([listener])
            return self.finished

    return Draining(config)
