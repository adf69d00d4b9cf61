"""A bounded choice of a step's edits, in which groups stay together."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class GroupReservoir(Generic[T]):
    """At most `capacity` items of those that were added: of at most capacity / 2 groups, those that came first, and of
    each of them about as many. So groups have pairs to compare, in whatever order their items come.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._groups: dict[str, list[T]] = {}
        self._size = 0

    def add(self, group: str, item: T) -> T | None:
        """Add an item; it, or the last one of the largest group, is dropped and returned if there are too many."""
        members = self._groups.get(group)
        if members is None:
            if len(self._groups) >= max(1, self.capacity // 2):
                return item
            members = self._groups[group] = []
        members.append(item)
        self._size += 1
        if self._size > self.capacity:
            self._size -= 1
            return max(self._groups.values(), key=len).pop()
        return None

    def items(self) -> list[T]:
        """Those kept, group by group."""
        return [item for members in self._groups.values() for item in members]
