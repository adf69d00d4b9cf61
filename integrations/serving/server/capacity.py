"""The remaining capacity of a judge server."""

from __future__ import annotations


class ServerBusy(RuntimeError):
    """The server is at capacity: the request may be repeated after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Capacity:
    """Usage of a number of bytes or samples. For one thread."""

    def __init__(self, capacity: int, unit: str) -> None:
        self.capacity = capacity
        self.unit = unit
        self.used = 0

    def acquire(self, count: int, retry_after_s: float = 1.0) -> None:
        """Raises `ServerBusy` if fewer are left."""
        if self.used + count > self.capacity:
            raise ServerBusy(f"the server is at capacity: {self.used} of {self.capacity} {self.unit}", retry_after_s)
        self.used += count

    def release(self, count: int) -> None:
        """Return what was acquired."""
        self.used -= count
