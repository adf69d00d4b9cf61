"""What objects do when their process forks, as `multiprocessing` and torch's DataLoader do on Linux.

A forked child inherits all objects, but of the threads only the one that forked. So whatever has threads starts them
anew in the child, and a lock that another thread held would never be released there: it is replaced. This is the one
place for that: an object registers what it does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
_hooks: WeakKeyDictionary[Any, _Hooks] = WeakKeyDictionary()
_kept: list[object] = []


@dataclass(frozen=True, slots=True)
class _Hooks:
    before: Callable[[Any], None] | None
    in_parent: Callable[[Any], None] | None
    in_child: Callable[[Any], None]


def at_fork(
    owner: T,
    in_child: Callable[[T], None],
    *,
    before: Callable[[T], None] | None = None,
    in_parent: Callable[[T], None] | None = None,
) -> None:
    """At every fork, call these with `owner`, as long as it exists. They must neither raise nor wait for long.
    in_child: after the fork, in the child's only thread. before, in_parent: in the parent, before and after it. They
    hold no reference to the owner; give methods of its class.
    """
    _hooks[owner] = _Hooks(before, in_parent, in_child)


def was_held(lock: Any) -> bool:
    """In a forked child: whether another thread of the parent held this lock. What it guards may be half changed."""
    if lock.acquire(blocking=False):
        lock.release()
        return False
    return True


class ForkSafeLock:
    """A lock, for `with`, that is free in a forked child whoever held it in the parent."""

    def __init__(self) -> None:
        self._lock = self._held = threading.Lock()
        at_fork(self, ForkSafeLock._in_child)

    def _in_child(self) -> None:
        if was_held(self._lock):
            self._lock = threading.Lock()

    def __enter__(self) -> None:
        lock = self._lock
        lock.acquire()
        self._held = lock

    def __exit__(self, *error: object) -> None:
        self._held.release()  # if it forked inside, this is not the child's new lock


def keep_in_child(inherited: object) -> None:
    """In a forked child: never free this, since that would act on what the parent uses: its sockets, its devices."""
    _kept.append(inherited)


def _call(event: str) -> None:
    for reference in _hooks.keyrefs():  # a copy: other threads may add objects
        owner = reference()
        if owner is not None and (hook := getattr(_hooks[owner], event)) is not None:
            hook(owner)


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(
        before=lambda: _call("before"),
        after_in_parent=lambda: _call("in_parent"),
        after_in_child=lambda: _call("in_child"),
    )
