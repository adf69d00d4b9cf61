"""Which of several equal servers gets a request: the same one for the same group, unless it has too much to do.

The server of a group is the first by rendezvous hashing of its key (Thaler and Ravishankar, 1998): processes need not
communicate, and if a server goes away, only its groups move. A server with more than its share of the load is skipped
(bounded loads: Mirrokni, Thorup and Zadimoghaddam, 2016). Servers are identified by URL, so every process needs the
same URLs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

LOAD_FACTOR = 1.25
"""How many times its share a server may have in flight before other servers take over its requests."""


class Server(Protocol):
    """A server, identified by its URL."""

    @property
    def url(self) -> str: ...


S = TypeVar("S", bound=Server)


def by_preference(servers: Sequence[S], group: str) -> list[S]:
    """The servers in this group's order of preference."""
    return sorted(servers, key=lambda server: rendezvous_weight(server.url, group), reverse=True)


def rendezvous_weight(url: str, group: str) -> bytes:
    """The weight of a server for a group; the highest one has it."""
    return hashlib.blake2b(f"{url}\n{group}".encode(), digest_size=8).digest()


def within_load(servers: Sequence[S], load: Callable[[S], int], count: int, min_bound: int) -> S:
    """The first server that stays within its share of the load with `count` more, else the one with the least.

    load: what a server has in flight. min_bound: load that never exceeds the bound, so that little stays together.
    Raises ValueError without servers.
    """
    if not servers:
        raise ValueError("there is no server to choose from")
    bound = max(min_bound, LOAD_FACTOR * (sum(map(load, servers)) + count) / len(servers))
    return next((server for server in servers if load(server) + count <= bound), min(servers, key=load))
