"""Addresses of one API: which of them gets a request, and which gets none for a time.

Requests of one group go to one address (`reward.routing`), which has then computed what they begin with. Each address
has a circuit breaker: after a failure it is unavailable for a second, then twice as long with every further one; after
this backoff it is half open, one request tries it, and if it answers, its groups come back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...forks import ForkSafeLock, at_fork
from ...lru_cache import LruCache
from ...queries.kinds import Judge
from ...routing import Server, choose_server

FIRST_BACKOFF_S, MAX_BACKOFF_S = 1.0, 30.0
"""For how long an address is unavailable after its first failure, and at most, unless it says (`Retry-After`)."""

MIN_BOUNDED_LOAD = 16
"""Requests in flight that never exceed an address's share, so that few stay together: what one judge sends at once."""


@dataclass(eq=False)
class Address(Server):
    """An address. failures: since the start; of requests that fail together, one counts. backoff_s: after the last
    failure; 0 once it has answered. half_open: the request that tries it after the backoff. is_checked: its model is
    known to be the expected one."""

    failures: int = 0
    backoff_s: float = 0.0
    half_open: AddressRequest | None = None
    is_checked: bool = False

    @property
    def host_and_path(self) -> str:
        """For messages and ids."""
        return self.url.partition("://")[2]

    def is_available(self) -> bool:
        return self.half_open is None and self.unavailable_until <= time.monotonic()


@dataclass(eq=False)
class AddressRequest:
    """A request at an address. failures: those that the address had when it began: what it says of the address is old
    if there are more now."""

    address: Address
    failures: int

    @property
    def is_outdated(self) -> bool:
        return self.failures != self.address.failures


class Addresses:
    """The addresses of one API. Thread-safe. base_url: one, several with commas between them, or a sequence.
    max_retry_after_s: the longest that an address is unavailable because it asks for it. Raises ValueError for none,
    for invalid and repeated URLs, and for one with a password or query, which would appear in ids."""

    def __init__(self, base_url: str | Sequence[str], max_retry_after_s: float) -> None:
        urls: object = base_url.split(",") if isinstance(base_url, str) else base_url  # as files may have it
        if not isinstance(urls, Sequence) or not urls:
            raise ValueError(f"base_url is a URL or a list of them, got {base_url!r:.80}")
        self.all = [_address(url) for url in urls]
        names = [address.host_and_path for address in self.all]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"base_url has {twice} twice: give each server once")
        self._max_retry_after_s = max_retry_after_s
        self._lock = ForkSafeLock()
        at_fork(self, Addresses._in_child)

    def _in_child(self) -> None:
        for address in self.all:  # these are the parent's requests
            address.in_flight, address.half_open = 0, None

    @property
    def first(self) -> Address:
        return self.all[0]

    @property
    def names(self) -> str:
        """All of them, for messages."""
        return ", ".join(address.host_and_path for address in self.all)

    @contextmanager
    def use(self, group: str, avoid: Address | None = None) -> Iterator[AddressRequest]:
        """One request, at the address for it. avoid: the one that has just failed it; used if there is no other."""
        with self._lock:
            usable = [address for address in self.all if address.is_available()] or self.all
            chosen = choose_server(usable, group, 1, MIN_BOUNDED_LOAD, avoid) or self.first
            request = AddressRequest(chosen, chosen.failures)
            if chosen.backoff_s:  # until this request has its answer, the others stay away
                chosen.half_open = request
            chosen.in_flight += 1
        try:
            yield request
        finally:
            with self._lock:
                chosen.in_flight = max(0, chosen.in_flight - 1)
                if chosen.half_open is request:  # it was cancelled: another may try
                    chosen.half_open = None

    def has_other(self, failed: Address) -> bool:
        """Whether another address than this one can be asked now."""
        return any(address is not failed and address.is_available() for address in self.all)

    def record_failure(self, request: AddressRequest, retry_after_s: float | None) -> None:
        """Leave the address of a request that failed alone. retry_after_s: as long as it asks for, if it does."""
        address = request.address
        with self._lock:
            now = time.monotonic()
            if not request.is_outdated:
                address.failures += 1
                address.backoff_s = min(max(2 * address.backoff_s, FIRST_BACKOFF_S), MAX_BACKOFF_S)
                address.unavailable_until = now + address.backoff_s
                address.half_open = None
            asked_s = min(retry_after_s or 0.0, self._max_retry_after_s)
            address.unavailable_until = max(address.unavailable_until, now + asked_s)
            address.is_checked = False

    def record_answer(self, request: AddressRequest) -> None:
        """Use the address of a request as before, unless it has failed since the request began."""
        address = request.address
        with self._lock:
            if not request.is_outdated:
                address.unavailable_until, address.backoff_s, address.half_open = 0.0, 0.0, None


def _address(url: object) -> Address:
    parts = urlsplit(url.strip()) if isinstance(url, str) else urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("base_url must be a URL such as http://127.0.0.1:8000/v1, or several with commas between them")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"base_url must hold no password and no query, got one for {parts.hostname}: name the environment "
            "variable with the key in api_key_env"
        )
    path = parts.path.rstrip("/")
    return Address(f"{parts.scheme}://{parts.netloc}{path}")


_MAX_PICTURES = 20_000  # pictures whose groups are kept: the most recent ones


class PrefixGroups:
    """Groups queries by what they begin with. Thread-safe. A query is in the group of its first picture: that of the
    query which showed this picture first, or a new one. Prompts show the source and then the edit; so all queries about
    a source are one group, those about one of its edits alone join it, and a server encodes each of these pictures
    once. Without pictures there is little in common, and each query is a group of its own."""

    def __init__(self) -> None:
        self._groups: LruCache[str, str] = LruCache(_MAX_PICTURES)
        self._lock = ForkSafeLock()  # over all pictures of a query

    def of(self, query: Judge) -> str:
        """The group of a query, by the digest of the picture that it is named after."""
        pictures = [image.digest for image in query.images]
        if not pictures:
            return query.digest
        with self._lock:
            group = self._groups.get(pictures[0]) or pictures[0]
            for one in pictures:
                if self._groups.get(one) is None:
                    self._groups.put(one, group)
        return group
