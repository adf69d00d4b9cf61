"""Requests of few pixels do not wait for those of many: each kind has threads of its own.

How much there is to decode is known once headers were read. A request that has more than is decoded where it is, is
read anew in the next lane; nothing was decoded until then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_MAX_PIXELS = (4_000_000, 30_000_000)
"""Of a request in the first lanes; the last takes the others. Ten that are crafted take each other a second of two
cores in the first, and eight in the second."""

_here = threading.local()


class _Elsewhere(Exception):
    """The request belongs into a lane of more pixels."""


class DecodingLanes:
    """threads: of each lane."""

    def __init__(self, threads: int) -> None:
        self._pools = [
            ThreadPoolExecutor(threads, "editcritic-decoder", setattr, (_here, "max_pixels", pixels))
            for pixels in (*_MAX_PIXELS, float("inf"))
        ]

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Run it in the first lane whose pixels are enough; see `require_lane`."""
        for pool in self._pools:
            try:
                return await asyncio.get_running_loop().run_in_executor(pool, function, *args)
            except _Elsewhere:
                pass
        raise AssertionError("the last lane takes all")

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)


def require_lane(pixels: int) -> None:
    """Called in a lane, before so many pixels are decoded: goes on in another one if they are too many here."""
    if pixels > getattr(_here, "max_pixels", pixels):
        raise _Elsewhere
