"""Requests of few pixels do not wait for those of many: each kind has threads of its own.

How much there is to decode is known once headers were read: before anything is decoded, a request that has more than
fits goes on to the next lane.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_MAX_PIXELS = (4_000_000, 30_000_000)
"""Of a request in the first lanes; the last takes the others."""

_here = threading.local()


class _DoesNotFit(Exception):
    """The request belongs into a lane of more pixels."""


class DecodingLanes:
    """threads: of each lane."""

    def __init__(self, threads: int) -> None:
        self._pools = [
            ThreadPoolExecutor(threads, "editcritic-decoder", setattr, (_here, "max_pixels", pixels))
            for pixels in (*_MAX_PIXELS, float("inf"))
        ]

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Run it in the first lane in which `require_room` lets it."""
        for pool in self._pools:
            with contextlib.suppress(_DoesNotFit):
                return await asyncio.get_running_loop().run_in_executor(pool, function, *args)
        raise AssertionError("the last lane takes all")

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)


def require_room(pixels: int) -> None:
    """To be called before so many pixels are decoded."""
    if pixels > getattr(_here, "max_pixels", pixels):
        raise _DoesNotFit
