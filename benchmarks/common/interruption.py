"""How the program ends by Ctrl-C (SIGINT), SIGTERM or SIGHUP, at any moment.

The first signal raises KeyboardInterrupt in the main thread; the exit code is 128 plus the signal. A second one, or a
thread `_ENDING_S` after the first, ends the process at once, as a kill would. The interpreter is never destroyed, since
threads of torch, OpenCV and SQLite that still compute then abort the process: what was registered for the exit runs,
and `os._exit` ends it. Only modules of Python's start-up are imported here: Ctrl-C may come while others are.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

_ENDING_S = 10.0
"""How long an interrupted command may take to end."""

_UNRAISABLE_S = 0.05
"""Enough for the code that cannot be interrupted to end."""

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_received = 0
"""The first signal, or 0."""
_is_told = False
_is_leaving = False
_INTERRUPTED = 128 + signal.SIGINT
"""What an interrupted command returns, whatever the signal."""
_code = 1
"""The exit code: 1 until the command has ended, since an error that nobody caught is printed by the interpreter."""


def end_after(program: Callable[[], object]) -> NoReturn:
    """Run a whole program, and end the process with its exit code: that of its SystemExit, else 0.

    Call it first: what is registered with `atexit` later runs earlier. A signal that is ignored stays so, as in what
    `nohup` or a shell's background starts.
    """
    atexit.register(_leave)
    sys.unraisablehook = _unraisable
    try:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _stop)
        _end_with(_exit_code_of(program))
    except KeyboardInterrupt:
        _end_with(_INTERRUPTED)
    except Exception:
        if not _received:
            raise
        _end_with(_INTERRUPTED)  # a library made an error of its own of the interruption, as pydantic does


def _exit_code_of(program: Callable[[], object]) -> int:
    try:
        program()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def tell_interrupted(line: str = "editcritic: interrupted") -> None:
    """Print the one line of an interrupted command on standard error, unless the program has printed one."""
    global _is_told  # noqa: PLW0603  (one for the process)
    if not (_received and _is_told):
        _is_told = True
        with contextlib.suppress(OSError, ValueError):  # nobody reads it
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


def interrupted_code() -> int:
    """What the process of an interrupted command exits with: 130, or that of the other signal that was received."""
    return 128 + _received if _received else _INTERRUPTED


def _end_with(code: int) -> NoReturn:
    """After a signal, code 130 and that of any error, which the interruption led to, become the signal's."""
    global _code, _is_leaving  # noqa: PLW0603
    _is_leaving = True  # from now on a signal has nothing to unwind
    _code = interrupted_code() if code == _INTERRUPTED or (_received and code) else code
    if _code == 128 + _received:
        tell_interrupted()
    sys.exit(_code)


def _stop(number: int, frame: FrameType | None) -> None:
    global _received  # noqa: PLW0603
    if _received or _is_leaving:
        _exit_now(_received or number)
    _received = number
    _thread.start_new_thread(_exit_late, (number,))
    raise KeyboardInterrupt


def _unraisable(unraisable: Any) -> None:
    """Where Python cannot raise, in the end of an object or a callback of C, it would print the interruption and go on:
    it is raised again soon."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt) and _received:
        _thread.start_new_thread(_stop_again, (_received,))
    else:
        sys.__unraisablehook__(unraisable)


def _stop_again(number: int) -> None:
    global _received  # noqa: PLW0603
    time.sleep(_UNRAISABLE_S)
    _received = 0
    _thread.interrupt_main(signal.Signals(number))


def _exit_late(number: int) -> None:
    time.sleep(_ENDING_S)
    _exit_now(number)


def _exit_now(number: int) -> NoReturn:
    if not _is_told:
        with contextlib.suppress(OSError):
            os.write(2, b"editcritic: interrupted\n")  # the interrupted code may hold the lock of `sys.stderr`
    os._exit(128 + number)


def _leave() -> None:
    """The last of the functions that run at the exit."""
    code = _code
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the reader has closed it, or it was closed here, or is None
            code = code or 1
    os._exit(code)
