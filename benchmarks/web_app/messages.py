"""Errors of the page: a user's mistake is a message, anything else a line on the page and its traceback in the log."""

from __future__ import annotations

import functools
import html
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import gradio as gr

from ...reward import TooManyFailures
from ...reward.plain_text import one_line
from ..common.terminal import user_error_text, user_errors
from ..human_eval.annotation_session import AnnotationError
from ..run.editor_outputs import MissingOutput

_MISTAKES: tuple[type[Exception], ...] = (*user_errors(), AnnotationError, MissingOutput, TooManyFailures)

MISTAKE_S = 20.0  # how long a user's mistake is shown, unless it is closed before
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

log = logging.getLogger("editcritic.app")


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Raises `gr.Error` for what the body raises."""
    try:
        yield
    except gr.Error:
        raise
    except _MISTAKES as error:
        raise gr.Error(
            html.escape(one_line(user_error_text(error))), duration=MISTAKE_S, print_exception=False
        ) from None
    except Exception as error:
        log.exception("an error of the app")
        text = one_line(f"{type(error).__name__}: {error}")
        raise gr.Error(
            f"{html.escape(text)}. This is an error of editcritic: its traceback is in the terminal.",
            duration=None,
            print_exception=False,
        ) from None


def with_messages(function: FunctionT) -> FunctionT:
    """A handler of an event whose errors are messages."""
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*arguments: Any, **named: Any) -> Any:
            with errors_as_messages():
                yield from function(*arguments, **named)

        return generator  # type: ignore[return-value]

    @functools.wraps(function)
    def plain(*arguments: Any, **named: Any) -> Any:
        with errors_as_messages():
            return function(*arguments, **named)

    return plain  # type: ignore[return-value]


QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden"}
"""Answered by the request itself. The queue answers over a stream, which the server closes after its last event; the
page then waits forever for an event that it sent at that moment. So only what takes long, or reports something while it
runs (`gr.Progress`, `gr.Info`, `gr.Warning`), is queued."""

UPLOADED = """async () => {
  while (document.querySelector(".uploading")) await new Promise((done) => setTimeout(done, 100));
}"""
"""JavaScript for an event: wait for uploads that are still under way."""

_NARROW = 900  # pixels of a window below which columns lie below each other


def scroll_to(elem_id: str) -> str:
    """JavaScript for an event: bring a component into view on a narrow screen."""
    return (
        f"() => {{ if (innerWidth < {_NARROW}) document.getElementById('{elem_id}').scrollIntoView("
        "{behavior: 'smooth'}); }"
    )
