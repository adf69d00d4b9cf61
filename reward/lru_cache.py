"""Caches that drop what was used least recently: of pixels, answers, features."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from .forks import at_fork, was_held

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key, whose sizes together are at most `limit`. Thread-safe. size: of a value, in the unit of the limit;
    by default each counts 1. least: so many, the latest ones, are always kept, whatever their size.
    """

    def __init__(self, limit: int, size: Callable[[V], int] = lambda _: 1, *, least: int = 0) -> None:
        self.used = 0
        """Total size of the values."""
        self._limit, self._size, self._least = limit, size, least
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        at_fork(self, LruCache._in_child)

    def _in_child(self) -> None:
        if was_held(self._lock):
            self._lock = threading.Lock()
            self._kept, self.used = OrderedDict(), 0

    def get(self, key: K) -> V | None:
        """The value of a key, if it is kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value, unless one of this key is kept."""
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = value
            self.used += self._size(value)
            while self.used > self._limit and len(self._kept) > self._least:
                self.used -= self._size(self._kept.popitem(last=False)[1])

    def pop(self, key: K) -> V | None:
        """Remove a value, and return it, if it is kept."""
        with self._lock:
            value = self._kept.pop(key, None)
            self.used -= 0 if value is None else self._size(value)
            return value

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._kept.clear()
            self.used = 0

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)


class FeatureCache(LruCache[str, V]):
    """Of features computed from images: token maps, backbone features, vision tokens. Its limit and sizes are bytes.
    Two threads that miss the same key at once both compute it. computed: number of values computed so far.
    """

    computed = 0

    def get_or_compute(self, inputs: Mapping[str, T], compute: Callable[[list[T]], Sequence[V]]) -> dict[str, V]:
        """The value of every key; `compute` gets the inputs of all missing keys at once. The caller holds the returned
        values, so that eviction cannot remove them before use.
        """
        values = {key: value for key in inputs if (value := self.get(key)) is not None}
        if missing := [key for key in inputs if key not in values]:
            computed = dict(zip(missing, compute([inputs[key] for key in missing]), strict=True))
            self.computed += len(computed)
            for key, value in computed.items():
                self.put(key, value)
            values |= computed
        return values
