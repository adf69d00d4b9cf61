"""What was computed of pictures, kept while there is room: token maps, backbone features, vision tokens."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
V = TypeVar("V")


class Remembered(Generic[V]):
    """Values by key, each computed once; the least recently used go first when they take more than `limit_bytes`.

    size: bytes a value takes. Thread-safe; two threads that miss the same value at once both compute it.
    """

    def __init__(self, limit_bytes: int, size: Callable[[V], int]) -> None:
        self.computed = 0
        """How many values were computed."""
        self.bytes = 0
        """What the kept values take."""
        self._limit = limit_bytes
        self._size = size
        self._kept: OrderedDict[str, V] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, wanted: Mapping[str, T], compute: Callable[[list[T]], Sequence[V]]) -> dict[str, V]:
        """The value of every key; `compute` makes those that are not known of what they are made of, all at once.

        What is returned is held by the caller, so that the limit cannot take away what is about to be used.
        """
        with self._lock:
            found = {key: self._kept[key] for key in wanted if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
        missing = [key for key in wanted if key not in found]
        if missing:
            values = compute([wanted[key] for key in missing])
            fresh = dict(zip(missing, values, strict=True))
            with self._lock:
                self.computed += len(fresh)
                for key, value in fresh.items():
                    self._keep(key, value)
            found |= fresh
        return found

    def _keep(self, key: str, value: V) -> None:
        if key not in self._kept:
            self._kept[key] = value
            self.bytes += self._size(value)
        while self.bytes > self._limit:
            self.bytes -= self._size(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._kept.clear()
            self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)
