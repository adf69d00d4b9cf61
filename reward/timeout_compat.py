"""`async with timeout(seconds)`, as in asyncio, and below Python 3.11 from the package that asyncio has it of.

`except TIMEOUTS` catches what it raises, and what futures and sockets do: below 3.11 these are three classes.
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
