"""How the commands speak: messages, documents, progress, and a user's mistake told in a line instead of a traceback."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec

import typer
from rich.console import Console, RenderableType

P = ParamSpec("P")

_WIDTH = 120
"""Columns where nobody says how many there are."""


def one_thread_a_library() -> None:
    """Keep numpy's and OpenCV's own threads from competing with the engine's: twice as fast on two cores.

    For a process of ours, before either is imported; what the user has set stands.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"):
        os.environ.setdefault(name, "1")


def write_in_any_locale() -> None:
    """Write what the encoding of standard output lacks as a question mark: an ellipsis or a name ends no command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    return console


def say(text: str, *, stderr: bool = True) -> None:
    """A message as it is, in one line however long; on standard error unless told otherwise."""
    _console(stderr=stderr).print(text, markup=False, soft_wrap=True)


def show(what: RenderableType, *, stderr: bool = False) -> None:
    """A table, or whatever else rich draws."""
    _console(stderr=stderr).print(what)


def document(data: Any) -> None:
    """The one JSON document of `--json`."""
    sys.stdout.write(json.dumps(data, indent=2, allow_nan=False) + "\n")


def plainly(command: Callable[P, int]) -> Callable[P, None]:
    """Make a command of a function that returns the exit code; what a user can get wrong ends with a message and 2."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        import sqlite3

        from ..reward import ImageError, SpecError
        from ..reward.answers import LogError
        from ..reward.query import FloorTooHigh
        from .inputs import InputError

        as_json = bool(kwargs.get("as_json"))
        try:
            code = command(*args, **kwargs)
        except (InputError, SpecError, ImageError, LogError, FloorTooHigh, sqlite3.Error) as error:
            code = _refuse(str(error), as_json)
        except BrokenPipeError:  # whoever read our output has seen enough
            raise
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            code = _refuse(f"{name}{error.strerror or error}", as_json)
        except KeyboardInterrupt:
            say("editcritic: interrupted")
            code = 130
        raise typer.Exit(code)

    return run


def _refuse(problem: str, as_json: bool) -> int:
    say(f"editcritic: {problem}")
    if as_json:
        document({"error": problem})
    return 2


@contextmanager
def progress(
    total: int | None, what: str, *, shown: bool = True
) -> Iterator[tuple[Callable[[], None], Callable[[str], None]]]:
    """A bar on standard error if that is a terminal; without an end where the total is None.

    Yields two functions: a step is done; say something beside it.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = _console(stderr=True)
    bar = Progress(
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
        redirect_stdout=False,  # left alone, rich would send our output where the bar is
        redirect_stderr=False,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task), lambda text: console.print(text, markup=False, soft_wrap=True)
