"""Connections of a judge server: who keeps one when they are full, and timeouts for idle and slow clients."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from enum import IntEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from .settings import MIB

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol

_LINGER_S = 2.0
_LINGER_BYTES = 256 * MIB
_WRITE_S = 60.0


class Standing(IntEnum):
    """What a connection has a claim to while they are full; those with the least claim give way to new ones.

    PROBATION: it has not shown the token yet; without a token, it has sent no request yet. IDLE: between requests.
    RECEIVING: its request has not arrived as a whole. RUNNING: its request is scored, or answered.
    """

    PROBATION = 0
    IDLE = 1
    RECEIVING = 2
    RUNNING = 3


def http_protocol(header_timeout_s: float, max_connections: int, has_token: bool) -> type[H11Protocol]:
    """The connection class for uvicorn. header_timeout_s: for the head of a request, or until the first one. When
    `max_connections` are full, a new one takes the place of one of the lowest `Standing`, there of the address with the
    most connections, and of those the oldest; if all are kept, it gets 503.
    """
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    kept_from = Standing.RECEIVING if has_token else Standing.RUNNING
    at_a_time = max(1, max_connections // 16)

    class Connection(H11Protocol):
        """uvicorn's protocol with what it leaves to a proxy: places for those who have a token, and timeouts for
        request heads, unread bodies and unread responses.
        """

        _timer: asyncio.TimerHandle | None = None
        _writing: asyncio.TimerHandle | None = None
        _unread = 0
        _discards = False
        _was_authorized = False
        _standing_since = 0.0
        _address = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            # asyncio sets it for sockets that it opened, not for those of a listener that it was given; without it an
            # answer on an open connection waits 40 ms for the client's delayed acknowledgement.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._address = self.client[0] if self.client else ""
            self._standing_since = self.loop.time()
            if len(self.connections) > max_connections and not self._take_a_place():
                self._respond(b"503 Service Unavailable", b"retry-after: 1\r\n")
            else:
                self._start_timer(header_timeout_s, self._on_header_timeout)

        def _take_a_place(self) -> bool:
            """Close the connection with the least claim to its place; False if all are kept. Of those on probation,
            several are closed, so that a flood of them costs one look at all of them in many.
            """
            others = [other for other in self.connections if isinstance(other, Connection) and other is not self]
            counts = Counter(other._address for other in (*others, self))
            places = sorted(
                (other.standing, -counts[other._address], other._standing_since, id(other), other) for other in others
            )
            if places[0][0] >= kept_from:
                return False
            on_probation = [place for place in places[:at_a_time] if place[0] == Standing.PROBATION]
            for *_, other in on_probation or places[:1]:
                self.connections.discard(other)
                other.transport.abort()
            return True

        @property
        def standing(self) -> Standing:
            if self._discards or self.transport.is_closing() or not self._is_authorized:
                return Standing.PROBATION
            if self.cycle.response_complete:
                return Standing.IDLE
            return Standing.RECEIVING if self.conn.their_state is h11.SEND_BODY else Standing.RUNNING

        @property
        def _is_authorized(self) -> bool:
            """Whether the latest request was; until the middleware has seen it, the one before."""
            scope: Any = self.scope  # None before the first request
            return bool(scope and scope["state"].get("authorized", self._was_authorized))

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            self.resume_writing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            if self._discards or self._lingers():
                self._unread += len(data)
                if self._unread > _LINGER_BYTES:
                    self.transport.close()
            if self._discards:
                return
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:
                if self._timer is None:
                    self._start_timer(header_timeout_s, self._on_header_timeout)
            elif not self._lingers():
                self._stop_timer()

        def on_response_complete(self) -> None:
            self._was_authorized, self._standing_since = self._is_authorized, self.loop.time()
            if self._discards:
                self.flow.resume_reading()
                return
            super().on_response_complete()
            if self._lingers() and not self.transport.is_closing():
                # Rejected before the body was read. Closing at once would lose the response with the data in transit.
                self._unread = 0
                self._start_timer(_LINGER_S, self.transport.close)

        def handle_events(self) -> None:
            cycle = self.cycle
            super().handle_events()
            if self.cycle is not cycle:  # a request has begun
                self._standing_since = self.loop.time()
                parts = {"write": self.transport.write, "is_closing": self.transport.is_closing}
                self.cycle.transport = cast("Any", SimpleNamespace(**parts, close=self._close_after_response))

        def _close_after_response(self) -> None:
            """Close, but while a body is arriving, read on for a while: else the response would be lost with it."""
            if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
                self._discards, self._unread = True, 0
                self.transport.write_eof()
                self._start_timer(_LINGER_S, self.transport.close)
            else:
                self.transport.close()

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
