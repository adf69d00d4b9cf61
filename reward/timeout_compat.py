"""`async with timeout(seconds)`: from asyncio, and below Python 3.11 from the package async_timeout.

`except TIMEOUTS` catches its timeouts and those of futures and sockets; below 3.11 these are three classes.
"""

import asyncio
import concurrent.futures
import sys

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

__all__ = ["TIMEOUTS", "timeout"]
TIMEOUTS: tuple[type[Exception], ...] = (TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError)
