"""LRU cache of features computed from images: token maps, backbone features, vision tokens."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from ..forks import at_fork, was_held

T = TypeVar("T")
V = TypeVar("V")


class FeatureCache(Generic[V]):
    """LRU cache of values by key, bounded by `limit_bytes`.

    size: returns the bytes of a value. Thread-safe; two threads that miss the same key at once both compute it.
    """

    def __init__(self, limit_bytes: int, size: Callable[[V], int]) -> None:
        self.computed = 0
        """Number of values computed so far."""
        self.bytes = 0
        """Total size of the cached values."""
        self._limit = limit_bytes
        self._size = size
        self._kept: OrderedDict[str, V] = OrderedDict()
        self._lock = threading.Lock()
        at_fork(self, FeatureCache._in_child)

    def _in_child(self) -> None:
        if was_held(self._lock):
            self._lock = threading.Lock()
            self._kept, self.bytes = OrderedDict(), 0

    def get_or_compute(self, inputs: Mapping[str, T], compute: Callable[[list[T]], Sequence[V]]) -> dict[str, V]:
        """The value of every key; `compute` gets the inputs of all missing keys at once.

        The caller holds the returned values, so that eviction cannot remove them before use.
        """
        with self._lock:
            values = {key: self._kept[key] for key in inputs if key in self._kept}
            for key in values:
                self._kept.move_to_end(key)
        missing = [key for key in inputs if key not in values]
        if missing:
            computed = dict(zip(missing, compute([inputs[key] for key in missing]), strict=True))
            with self._lock:
                self.computed += len(computed)
                for key, value in computed.items():
                    self._put(key, value)
            values |= computed
        return values

    def _put(self, key: str, value: V) -> None:
        if key not in self._kept:
            self._kept[key] = value
            self.bytes += self._size(value)
        while self.bytes > self._limit:
            self.bytes -= self._size(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._kept.clear()
            self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)
