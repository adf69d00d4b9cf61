"""One connection to a judge server: who sends nothing, or nothing but a little, does not keep it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .limits import MIB

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol

_LINGER_S = 2.0
_LINGER_BYTES = 256 * MIB
_WRITE_S = 60.0


def protocol(head_s: float, most: int) -> type[H11Protocol]:
    """The class of connections.

    head_s: seconds for the head of a request, from its first byte, or for the first request from the connection's
    begin. most: connections at a time; a further one is told 503 and closed.
    """
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Connection(H11Protocol):
        """uvicorn's, with what it leaves to a proxy: time-outs of heads, of bodies nobody reads, of answers nobody
        takes.
        """

        _timer: asyncio.TimerHandle | None = None
        _writing: asyncio.TimerHandle | None = None
        _unread = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                self._say(b"503 Service Unavailable", b"retry-after: 1\r\n")
            else:
                self._wait(head_s, self._no_head)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            self.resume_writing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self._lingers():
                self._unread += len(data)
                if self._unread > _LINGER_BYTES:
                    self.transport.close()
            if self.conn.their_state is h11.IDLE:
                if self._timer is None:
                    self._wait(head_s, self._no_head)
            elif not self._lingers():
                self._stop_waiting()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._lingers() and not self.transport.is_closing():
                # Refused before it was read. Closed at once, the answer would be lost with what is still on its way.
                self._unread = 0
                self._wait(_LINGER_S, self.transport.close)

        def _lingers(self) -> bool:
            """Whether a body still comes that has its answer."""
            return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

        def pause_writing(self) -> None:
            super().pause_writing()
            self._writing = self.loop.call_later(_WRITE_S, self.transport.abort)

        def resume_writing(self) -> None:
            if self._writing is not None:
                self._writing.cancel()
                self._writing = None
            super().resume_writing()

        def _wait(self, seconds: float, then: Any) -> None:
            self._stop_waiting()
            self._timer = self.loop.call_later(seconds, then)

        def _stop_waiting(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _no_head(self) -> None:
            if not self.transport.is_closing():
                self._say(b"408 Request Timeout", b"")

        def _say(self, status: bytes, header: bytes) -> None:
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\n" + header + b"content-length: 0\r\nconnection: close\r\n\r\n"
            )
            self.transport.close()

    return Connection
