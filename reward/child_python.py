"""Processes with an interpreter of their own: the command that starts them."""

from __future__ import annotations

import sys


def python_command(code: str, *arguments: str) -> list[str]:
    """Runs code in a new interpreter, which finds modules where this one does. With `-m` and `-c` alone it would look
    in the working folder first, where a stranger's modules may lie.
    """
    path = f"import sys; sys.path[:] = dict.fromkeys([*filter(None, sys.path), *{sys.path!r}])"
    return [sys.executable, "-c", f"{path}; {code}", *arguments]
