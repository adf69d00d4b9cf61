"""Runs code in a forked child, as `multiprocessing` and DataLoader do, for a bounded time."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

SOON = 60.0  # seconds
needs_fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")


def forked(work: Callable[[], Any], patience_s: float = SOON) -> Any:
    """What `work` returns in a child that is forked now. Its exception, or a hang, fails the test."""
    context = multiprocessing.get_context("fork")
    parent, child = context.Pipe()
    process = context.Process(target=_run, args=(work, child))
    process.start()
    if not parent.poll(patience_s):
        os.kill(process.pid or 0, signal.SIGABRT)  # faulthandler shows where it hangs
        process.join(5)
        process.kill()
        raise AssertionError("the child hangs")
    problem, result = parent.recv()
    process.join(patience_s)
    exit_code = process.exitcode
    process.kill()
    assert exit_code == 0, "the child does not end"
    assert not problem, problem
    return result


def _run(work: Callable[[], Any], pipe: Connection) -> None:
    try:
        pipe.send(("", work()))
    except Exception:  # noqa: BLE001  (shown in the parent)
        pipe.send((traceback.format_exc(), None))
