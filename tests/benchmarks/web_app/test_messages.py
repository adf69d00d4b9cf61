"""Errors as messages of the page."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.editor_outputs import MissingOutput
from editcritic.reward import ImageError, TooManyFailures
from editcritic.reward.sample import SampleTooLarge


def shown(error: Exception) -> Any:
    """What the page shows of an error of a handler."""
    import gradio as gr

    from editcritic.benchmarks.web_app.messages import with_messages

    @with_messages
    def handler() -> None:
        raise error

    with pytest.raises(gr.Error) as raised:
        handler()
    return raised.value


@pytest.mark.parametrize("kind", [InputError, ImageError, MissingOutput, SampleTooLarge, FileNotFoundError])
def test_a_mistake_is_a_message_and_is_not_logged(kind, caplog):
    is_file = kind is FileNotFoundError
    message = shown(kind(2, "what to do", "a.png") if is_file else kind("what to do"))
    assert message.message == ("a.png: what to do" if is_file else "what to do")
    assert (message.print_exception, caplog.records) == (False, [])


@pytest.mark.parametrize("error", [KeyError("x"), ValueError("x"), ZeroDivisionError("x")])
def test_an_error_of_ours_is_a_line_on_the_page_and_a_traceback_in_the_log(error, caplog):
    with caplog.at_level(logging.ERROR, "editcritic.app"):
        assert "error of editcritic" in str(shown(error))
    assert "Traceback" in caplog.text


def test_words_of_strangers_are_text_of_one_line_and_a_message_stays_one():
    import gradio as gr

    message = shown(InputError("<img src=x onerror=alert(1)>\n\x1b[31m")).message
    assert "<" not in message
    assert message.isprintable()
    assert shown(gr.Error("said already", duration=3)).duration == 3


def test_a_handler_that_yields_has_messages_too():
    import gradio as gr

    from editcritic.benchmarks.web_app.messages import with_messages

    @with_messages
    def handler() -> Iterator[int]:
        yield 1
        raise TooManyFailures("the judge is down", [])

    values = handler()
    assert next(values) == 1
    with pytest.raises(gr.Error, match="the judge is down"):
        next(values)
