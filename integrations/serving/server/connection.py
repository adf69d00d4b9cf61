"""Connections of a judge server, with timeouts for idle and slow clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .limits import MIB

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol

_LINGER_S = 2.0
_LINGER_BYTES = 256 * MIB
_WRITE_S = 60.0


def http_protocol(header_timeout_s: float, max_connections: int) -> type[H11Protocol]:
    """The connection class for uvicorn.

    header_timeout_s: for the head of a request, from its first byte, or for the first request from the start of the
    connection. max_connections: concurrent ones; further ones get 503 and are closed.
    """
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Connection(H11Protocol):
        """uvicorn's protocol with timeouts that it leaves to a proxy: for request heads, unread bodies and unread
        responses.
        """

        _timer: asyncio.TimerHandle | None = None
        _writing: asyncio.TimerHandle | None = None
        _unread = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > max_connections:
                self._respond(b"503 Service Unavailable", b"retry-after: 1\r\n")
            else:
                self._start_timer(header_timeout_s, self._on_header_timeout)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
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
                    self._start_timer(header_timeout_s, self._on_header_timeout)
            elif not self._lingers():
                self._stop_timer()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._lingers() and not self.transport.is_closing():
                # Rejected before the body was read. Closing at once would lose the response with the data in transit.
                self._unread = 0
                self._start_timer(_LINGER_S, self.transport.close)

        def _lingers(self) -> bool:
            """Whether the body is still arriving after its response."""
            return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

        def pause_writing(self) -> None:
            super().pause_writing()
            self._writing = self.loop.call_later(_WRITE_S, self.transport.abort)

        def resume_writing(self) -> None:
            if self._writing is not None:
                self._writing.cancel()
                self._writing = None
            super().resume_writing()

        def _start_timer(self, seconds: float, callback: Any) -> None:
            self._stop_timer()
            self._timer = self.loop.call_later(seconds, callback)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _on_header_timeout(self) -> None:
            if not self.transport.is_closing():
                self._respond(b"408 Request Timeout", b"")

        def _respond(self, status: bytes, header: bytes) -> None:
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\n" + header + b"content-length: 0\r\nconnection: close\r\n\r\n"
            )
            self.transport.close()

    return Connection
