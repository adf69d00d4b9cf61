"""Run code inside a training loop without changing the trainer's RNG state."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

_lock = threading.Lock()
_saved_states: list[Callable[[], None]] = []
_depth = 0


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Preserve torch's global RNG state (also CUDA's, if it is initialised) and disable gradients in between. If
    several contexts overlap, the last one to exit restores what the first one saved. The states of Python and numpy are
    restored in the main thread only: it may sample from them while worker threads are here.
    """
    global _depth  # noqa: PLW0603  (process-wide, like the RNG states)
    torch = sys.modules.get("torch")
    restore = _save_python_numpy() if threading.current_thread() is threading.main_thread() else []
    with _lock:
        if not _depth:
            _saved_states[:] = _save_torch(torch)
        _depth += 1
    try:
        with nullcontext() if torch is None else torch.no_grad():
            yield
    finally:
        with _lock:
            _depth -= 1
            if not _depth:
                restore += _saved_states
                _saved_states.clear()
        for restore_one in restore:
            restore_one()


def _save_python_numpy() -> list[Callable[[], None]]:
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002  (the legacy global state)
    return [lambda: random.setstate(python_state), lambda: np.random.set_state(numpy_state)]  # noqa: NPY002


def _save_torch(torch: Any) -> list[Callable[[], None]]:
    if torch is None:
        return []
    state = torch.random.get_rng_state()
    restore: list[Callable[[], None]] = [lambda: torch.random.set_rng_state(state)]
    if torch.cuda.is_initialized():
        devices = torch.cuda.get_rng_state_all()
        restore.append(lambda: torch.cuda.set_rng_state_all(devices))
    return restore
