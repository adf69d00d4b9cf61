"""How a judge server stops: nothing new, what was accepted is finished, and only then the connections are closed."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

    from uvicorn import Config, Server

    from .service import Service

_TO_WRITE_S = 2.0


def server_class() -> type[Server]:
    """uvicorn's server, which on a signal first drains the service, and on a second one ends the process."""
    import uvicorn

    class Draining(uvicorn.Server):
        """finish: whether it has been told to stop; may be set by any thread."""

        def __init__(self, config: Config, service: Service, drain_s: float) -> None:
            super().__init__(config)
            self.service = service
            self.drain_s = drain_s
            self.finish = False
            self.finished = True
            self._draining: asyncio.Task[None] | None = None

        def handle_exit(self, sig: int, frame: Any) -> None:
            if self.finish:
                os._exit(128 + sig)
            self.finish = True
            self.service.draining = True

        async def on_tick(self, counter: int) -> bool:
            if self.finish and self._draining is None:
                self._draining = asyncio.create_task(self._drain())
            return await super().on_tick(counter)

        async def _drain(self) -> None:
            self.finished = await self.service.drain(self.drain_s)
            for _ in range(int(_TO_WRITE_S / 0.02)):
                if not self.service.active:
                    break
                await asyncio.sleep(0.02)
            self.should_exit = True

        def serve_until_told(self, listener: socket.socket) -> bool:
            """Whether all that was accepted was finished."""
            self.run([listener])
            return self.finished

    return Draining
