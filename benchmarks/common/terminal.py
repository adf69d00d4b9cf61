"""Terminal output of commands: messages, JSON documents, progress bars, and user errors without a traceback."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ParamSpec

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from .interruption import tell_interrupted

P = ParamSpec("P")

_WIDTH = 120
"""Columns of output that is not a terminal."""


def limit_library_threads() -> None:
    """Limit numpy and OpenCV to one thread, so that they do not compete with the engine: twice as fast on two cores.
    Call it before either is imported; variables set by the user are kept."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"):
        os.environ.setdefault(name, "1")


def replace_unencodable_output() -> None:
    """Replace characters that standard output cannot encode by question marks, instead of raising."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _console(*, stderr: bool = False) -> Console:
    # Texts hold brackets and names between colons.
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    return console


def echo(text: str, *, stderr: bool = True) -> None:
    """Print a message without markup or wrapping, by default on standard error."""
    _console(stderr=stderr).print(_printable(text), soft_wrap=True)


def echo_first(problems: Sequence[object], shown: int, others: str, total: int | None = None, prefix: str = "") -> None:
    """Print the first problems, and how many others there are. others: what they are."""
    for problem in problems[:shown]:
        echo(f"editcritic: {prefix}{problem}")
    if (count := len(problems) if total is None else total) > shown:
        echo(f"editcritic: {prefix}and {count - shown} {others}")


def render(renderable: RenderableType, *, stderr: bool = False) -> None:
    """Print a table or another rich renderable. Control characters in its texts, which files may bring, are escaped."""
    _console(stderr=stderr).print(_Escaped(renderable))


@dataclass(frozen=True)
class _Escaped:  # without control characters of its texts; those that rich writes for colours stay
    renderable: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.renderable, options):
            yield segment if segment.control else segment._replace(text=_printable(segment.text))


def _printable(text: str) -> str:
    from ...reward.plain_text import printable  # here: --help imports no rewards

    return printable(text)


def plain_table(title: str | Text, *columns: str, right: Collection[str] = (), fixed: Collection[str] = ()) -> Table:
    """A table without lines, for the terminal; without columns it has no header. right: columns of numbers, aligned to
    the right. fixed: columns that are not wrapped. The others are folded."""
    table = Table(box=None, pad_edge=False, show_header=bool(columns), title=title, title_justify="left")
    for column in columns:
        table.add_column(
            column, justify="right" if column in right else "left", no_wrap=column in fixed, overflow="fold"
        )
    return table


def rows_table(
    title: str | Text,
    columns: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    right: Collection[str] = (),
    fixed: Collection[str] = (),
) -> Table:
    """`plain_table` with rows of plain texts."""
    table = plain_table(title, *columns, right=right, fixed=fixed)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_json(data: Any) -> None:
    """Print the JSON document of `--json`."""
    sys.stdout.write(json.dumps(data, indent=2, allow_nan=False) + "\n")


def exit_code_command(command: Callable[P, int]) -> Callable[P, None]:
    """Make a command of a function that returns the exit code; user errors end with a message and exit code 2."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = _exit_code(lambda: command(*args, **kwargs), as_json=bool(kwargs.get("as_json")))
        except KeyboardInterrupt:
            tell_interrupted()
            code = 130
        raise typer.Exit(code)

    return run


def _exit_code(command: Callable[[], int], *, as_json: bool) -> int:
    try:
        return command()
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except user_errors() as error:
        return _report_error(user_error_text(error), as_json)


def user_errors() -> tuple[type[Exception], ...]:
    """The errors that a user's mistake raises: told in a line, without a traceback. A `BrokenPipeError` is none."""
    import sqlite3

    from ...reward import ImageError, SpecError
    from ...reward.engine.answer_log import LogError
    from ...reward.queries.answers import FloorTooHigh
    from ...reward.sample import SampleTooLarge
    from .errors import InputError

    return (InputError, SpecError, ImageError, SampleTooLarge, LogError, FloorTooHigh, sqlite3.Error, OSError)


def user_error_text(error: Exception) -> str:
    """The line that tells one of `user_errors`."""
    if not isinstance(error, OSError) or isinstance(error, user_errors()[:-1]):
        return str(error)
    name = f"{error.filename}: " if error.filename else ""
    return f"{name}{error.strerror or error}"


def _report_error(problem: str, as_json: bool) -> int:
    echo(f"editcritic: {problem}")
    if as_json:
        with suppress(OSError):  # standard output may be what fails
            print_json({"error": problem})
    return 2


@contextmanager
def progress_bar(
    total: int | None, description: str, *, shown: bool = True
) -> Iterator[tuple[Callable[[], None], Callable[[str], None]]]:
    """A progress bar on standard error if that is a terminal; total None: of unknown length. Yields two functions:
    advance by one step, and print a message."""
    console = _console(stderr=True)

    def tell(text: str) -> None:
        console.print(_printable(text), soft_wrap=True)

    if not (shown and console.is_terminal):  # rich 13 ends a disabled bar with a line break
        yield (lambda: None), tell
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()),
        console=console,
        transient=True,
        redirect_stdout=False,  # else rich would redirect our output to the bar's stream
        redirect_stderr=False,
    )
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task), tell
