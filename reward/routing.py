"""Which of several equal servers gets a request: the same one for the same group, unless it has too much to do.

The server of a group is the first by rendezvous hashing of its key (Thaler and Ravishankar, 1998): processes need not
communicate, and if a server goes away, only its groups move. A server with more than its share of the load is skipped
(bounded loads: Mirrokni, Thorup and Zadimoghaddam, 2016). Servers are identified by URL, so every process needs the
same URLs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

LOAD_FACTOR = 1.25
"""How many times its share a server may have in flight before other servers take over its requests."""


@dataclass(eq=False)
class Server:
    """A server, identified by its URL. in_flight: what waits for it here. unavailable_until: by `time.monotonic`."""

    url: str
    in_flight: int = 0
    unavailable_until: float = 0.0

    @property
    def load(self) -> int:
        """What it has in flight, as far as that is known."""
        return self.in_flight

    @contextmanager
    def waited_for(self, count: int) -> Iterator[None]:
        """While so many wait for it here."""
        self.in_flight += count
        try:
            yield
        finally:
            self.in_flight = max(0, self.in_flight - count)  # it is 0 in a forked child, which waits for nothing


S = TypeVar("S", bound=Server)


def by_preference(servers: Sequence[S], group: str) -> list[S]:
    """The servers in this group's order of preference."""
    return sorted(servers, key=lambda server: rendezvous_weight(server.url, group), reverse=True)


def rendezvous_weight(url: str, group: str) -> bytes:
    """The weight of a server for a group; the highest one has it."""
    return hashlib.blake2b(f"{url}\n{group}".encode(), digest_size=8).digest()


def choose_server(servers: Sequence[S], group: str, count: int, min_bound: int, avoid: S | None = None) -> S | None:
    """The first server in the group's order that stays within its share of the load with `count` more, else the one
    with the least; None without servers. servers: that can be used. min_bound: load that never exceeds the bound, so
    that little stays together. avoid: one that has just failed, chosen if there is no other.
    """
    order = by_preference([server for server in servers if server is not avoid] or servers, group)
    if not order:
        return None
    bound = max(min_bound, LOAD_FACTOR * (sum(server.load for server in order) + count) / len(order))
    least = min(order, key=lambda server: server.load)
    return next((server for server in order if server.load + count <= bound), least)
