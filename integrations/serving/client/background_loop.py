"""One event loop in a thread of its own for all clients of a process: they work from any thread and any loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ...reward.threads import start

T = TypeVar("T")


class Background:
    """An event loop that runs until the process ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="editcritic-clients", daemon=True)
        start(self.thread, self.stop)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, from any thread but the loop's own."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """Cancel what runs, and end the thread."""
        if self.loop.is_running():
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


_here: Background | None = None
_making = threading.Lock()


def background() -> Background:
    """That of this process. One that was forked has its own: threads do not come along."""
    global _here  # noqa: PLW0603  (one a process)
    with _making:
        if _here is None or _here.pid != os.getpid() or not _here.thread.is_alive():
            _here = Background()
        return _here
