"""Addresses of one API: which of them gets a request, and which is left alone for a time.

Requests of one group go to one address (`reward.routing`), which has then computed what they begin with. An address
that fails is left for a second, then twice as long with every further failure; after that one request tries it, and if
it answers, its groups come back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...forks import at_fork, was_held
from ...routing import by_preference, within_load

FIRST_LEAVE_S, MAX_LEAVE_S = 1.0, 30.0
"""For how long an address is left after its first failure, and at most, unless it says (`Retry-After`)."""

MIN_BOUNDED_LOAD = 16
"""Requests in flight that never exceed an address's share, so that few stay together: what one judge sends at once."""


@dataclass(eq=False)
class Address:
    """An address. host_and_path: for messages and ids. in_flight: requests that wait for it here.

    left_until: by `time.monotonic`; is_tried: one request tries it after that. is_checked: its model is known to be the
    expected one.
    """

    url: str
    host_and_path: str
    in_flight: int = 0
    left_until: float = 0.0
    leave_s: float = 0.0
    is_tried: bool = False
    is_checked: bool = False


class Addresses:
    """The addresses of one API. Thread-safe.

    base_url: one, several with commas between them, or a sequence. trial_s: the longest that a request takes, and that
    an address is left for because it asks for it. Raises ValueError for invalid and repeated URLs, and for one with a
    password or query, which would appear in ids.
    """

    def __init__(self, base_url: str | Sequence[str], trial_s: float) -> None:
        urls: object = base_url.split(",") if isinstance(base_url, str) else base_url  # as files may have it
        if not isinstance(urls, Sequence) or not urls:
            raise ValueError(f"base_url is a URL or a list of them, got {base_url!r:.80}")
        self.all = [_address(url) for url in urls]
        names = [address.host_and_path for address in self.all]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"base_url has {twice} twice: give each server once")
        self._trial_s = trial_s
        self._lock = threading.Lock()
        at_fork(self, Addresses._in_child)

    def _in_child(self) -> None:
        if was_held(self._lock):
            self._lock = threading.Lock()
        for address in self.all:  # these are the parent's requests
            address.in_flight = 0

    @property
    def first(self) -> Address:
        return self.all[0]

    @property
    def names(self) -> str:
        """All of them, for messages."""
        return ", ".join(address.host_and_path for address in self.all)

    @contextmanager
    def use(self, group: str, avoid: Address | None = None) -> Iterator[Address]:
        """An address for one request. avoid: the one that has just failed it; used if there is no other."""
        with self._lock:
            now = time.monotonic()
            order = by_preference(self.all, group) if len(self.all) > 1 else self.all
            usable = [address for address in order if address.left_until <= now] or order
            usable = [address for address in usable if address is not avoid] or usable
            chosen = within_load(usable, lambda address: address.in_flight, 1, MIN_BOUNDED_LOAD)
            if chosen.leave_s:  # until this request has its answer, the others stay away
                chosen.is_tried, chosen.left_until = True, now + self._trial_s
            chosen.in_flight += 1
        try:
            yield chosen
        finally:
            with self._lock:
                chosen.in_flight = max(0, chosen.in_flight - 1)

    def has_other(self, failed: Address) -> bool:
        """Whether another address than this one can be asked now."""
        now = time.monotonic()
        return any(address is not failed and address.left_until <= now for address in self.all)

    def leave(self, address: Address, seconds: float | None) -> None:
        """Leave an address that failed. seconds: as long as it asks for, if it does."""
        with self._lock:
            now = time.monotonic()
            if address.is_tried or address.left_until <= now:  # of requests that fail together, one counts
                address.leave_s = min(max(2 * address.leave_s, FIRST_LEAVE_S), MAX_LEAVE_S)
                address.left_until = now + address.leave_s
            address.left_until = max(address.left_until, now + min(seconds or 0.0, self._trial_s))
            address.is_tried = address.is_checked = False

    def come_back(self, address: Address) -> None:
        """Use an address that has answered as before."""
        with self._lock:
            address.left_until, address.leave_s, address.is_tried = 0.0, 0.0, False


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
    return Address(f"{parts.scheme}://{parts.netloc}{path}", parts.netloc + path)
