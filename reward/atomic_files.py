"""Atomic writes: a file has its old content or its whole new one, even if the process or the machine dies.

The temporary file stands beside the target and is named `.NAME.PROCESS-THREAD.tmp`. Patterns such as `*.json` and
`rows-*.jsonl` do not match it, and no two writers share it. A killed process leaves it behind.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""The disk is full, the file is as long as it may be, or the user's share is used up: `write` names no file."""


@contextmanager
def named_if_full(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file that is written where the error, for want of room, names none."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL and error.filename is None:
            error.filename = os.fspath(path)
        raise


@contextmanager
def atomic_replacement(target: Path) -> Iterator[Path]:
    """The path of a temporary file for the body to write; at its end that file replaces `target`. If the body raises,
    `target` is unchanged and the temporary file is removed. Of several writers the last one wins. The folder must
    exist. Raises OSError.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with named_if_full(target):
            yield temporary
            with temporary.open("r+b") as file:
                os.fsync(file.fileno())  # else a crash of the machine may leave the new name with no content
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> Path:
    r"""Write text as UTF-8, without changing its line ends, and return the path.

    A lone surrogate, which UTF-8 cannot hold, is written as `\udXXX`: in JSON that is the same character.
    """
    with atomic_replacement(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    return path
