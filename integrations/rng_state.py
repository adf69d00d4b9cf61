"""Work done for a trainer that leaves the trainer's random numbers alone."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

_guard = threading.Lock()
_found: list[Callable[[], None]] = []
_inside = 0


@contextmanager
def untouched() -> Iterator[None]:
    """For work that a trainer waits for: torch's global random numbers (those of CUDA, too, where it is in use) are
    afterwards what they were before, and in between torch makes no graph.

    Where such works overlap, as in the threads of asynchronous rewards, the last one to end puts back what the first
    one found. In the main thread, those of Python and numpy are put back as well. Elsewhere they are left alone: beside
    a worker thread the program may go on and draw from them, as TRL's `AsyncGRPOTrainer` does for the seeds of its
    requests, and would draw the same numbers twice.
    """
    global _inside  # noqa: PLW0603  (so are the states)
    torch = sys.modules.get("torch")
    ours = _of_this_thread() if threading.current_thread() is threading.main_thread() else []
    with _guard:
        if not _inside:
            _found[:] = _of_torch(torch)
        _inside += 1
    try:
        with nullcontext() if torch is None else torch.no_grad():
            yield
    finally:
        with _guard:
            _inside -= 1
            if not _inside:
                ours += _found
                _found.clear()
        for put_back in ours:
            put_back()


def _of_this_thread() -> list[Callable[[], None]]:
    python, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002  (that very state)
    return [lambda: random.setstate(python), lambda: np.random.set_state(arrays)]  # noqa: NPY002


def _of_torch(torch: Any) -> list[Callable[[], None]]:
    if torch is None:
        return []
    state = torch.random.get_rng_state()
    found: list[Callable[[], None]] = [lambda: torch.random.set_rng_state(state)]
    if torch.cuda.is_initialized():
        devices = torch.cuda.get_rng_state_all()
        found.append(lambda: torch.cuda.set_rng_state_all(devices))
    return found
