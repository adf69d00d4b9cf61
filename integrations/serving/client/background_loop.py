"""One event loop in its own thread for all clients of a process; they can be used from any thread and any loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ....reward.engine.workers import start_daemon

T = TypeVar("T")


class BackgroundLoop:
    """An event loop that runs until the process ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="editcritic-clients", daemon=True)
        start_daemon(self.thread, self.stop)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, from any thread but the loop's own."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def stop(self) -> None:
        """Cancel all tasks and end the thread."""
        if self.loop.is_running():
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


_process_loop: BackgroundLoop | None = None
_loop_lock = threading.Lock()


def background_loop() -> BackgroundLoop:
    """The loop of this process. A forked process creates its own, since threads are not inherited."""
    global _process_loop  # noqa: PLW0603  (one per process)
    with _loop_lock:
        if _process_loop is None or _process_loop.pid != os.getpid() or not _process_loop.thread.is_alive():
            _process_loop = BackgroundLoop()
        return _process_loop
