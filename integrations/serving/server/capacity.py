"""What a judge server takes at most, and the room that is left of it."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


class Busy(RuntimeError):
    """There is no room for it now: the same may be sent again after so many seconds."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one request: what is beyond them is refused with 413, before memory is taken for it.

    max_samples; max_body: bytes. max_pixels: of all its pictures together, decoded, and max_picture of each; three
    bytes a pixel stay until the request is answered. max_turns: earlier turns, sources, or operations of a sample.
    max_items: values in its JSON. max_text: characters of a text in it.

    Of the server: beyond them it is busy, which is 503. queue_samples: accepted and not answered. queue_bytes: of
    bodies and decoded pictures together. in_flight: samples in the engine at a time; what has not come so far is not
    started any more once nobody waits for it. decoders: threads that decode pictures.

    remembered: scores that are kept for requests that are sent again with their key, the latest.
    """

    max_samples: int = 1024
    max_body: int = 256 * MIB
    max_pixels: int = 256 * MIB
    max_picture: int = 36_000_000
    max_turns: int = 64
    max_items: int = 1_000_000
    max_text: int = 100_000
    queue_samples: int = 8192
    queue_bytes: int = 4096 * MIB
    in_flight: int = 256
    decoders: int = 2
    remembered: int = 16_384

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) < (0 if name == "remembered" else 1):
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.queue_samples < self.max_samples:
            raise ValueError(
                f"queue_samples={self.queue_samples} has no room for a request of max_samples={self.max_samples}"
            )
        if self.queue_bytes < self.max_body + 3 * self.max_pixels:
            raise ValueError(
                f"queue_bytes={self.queue_bytes} has no room for one request: a body of max_body={self.max_body} and "
                f"three bytes for each of max_pixels={self.max_pixels}"
            )


class Room:
    """How much is taken of a number of bytes, or of samples. Of one thread."""

    def __init__(self, most: int, what: str) -> None:
        self.most = most
        self.what = what
        self.taken = 0

    def take(self, count: int, retry_after_s: float = 1.0) -> None:
        """Raises `Busy` where there are not so many left."""
        if self.taken + count > self.most:
            raise Busy(f"the server is full: {self.taken} of {self.most} {self.what} are taken", retry_after_s)
        self.taken += count

    def give_back(self, count: int) -> None:
        """What was taken."""
        self.taken -= count
