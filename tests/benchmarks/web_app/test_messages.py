"""Errors as messages of the page."""

import logging
from collections.abc import Iterator

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.editor_outputs import MissingOutput
from editcritic.reward import ImageError, TooManyFailures
from editcritic.reward.sample import SampleTooLarge


@pytest.mark.parametrize(
    "error",
    [
        InputError("what to do"),
        ImageError("what to do"),
        MissingOutput("what to do"),
        SampleTooLarge("what to do"),
        FileNotFoundError(2, "what to do", "a.png"),
    ],
)
def test_a_mistake_is_a_message_and_is_not_logged(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    import gradio as gr

    from editcritic.benchmarks.web_app.messages import with_messages

    @with_messages
    def handler() -> None:
        raise error

    with pytest.raises(gr.Error) as raised:
        handler()
    assert raised.value.message == ("a.png: what to do" if isinstance(error, OSError) else "what to do")
    assert not raised.value.print_exception
    assert caplog.records == []


@pytest.mark.parametrize("error", [KeyError("x"), ValueError("x"), ZeroDivisionError("x")])
def test_an_error_of_ours_is_a_line_on_the_page_and_a_traceback_in_the_log(error, caplog):
    import gradio as gr

    from editcritic.benchmarks.web_app.messages import with_messages

    @with_messages
    def handler() -> None:
        raise error

    with caplog.at_level(logging.ERROR, "editcritic.app"), pytest.raises(gr.Error, match="error of editcritic"):
        handler()
    assert "Traceback" in caplog.text


def test_words_of_strangers_are_text_of_one_line() -> None:
    import gradio as gr

    from editcritic.benchmarks.web_app.messages import with_messages

    @with_messages
    def handler() -> None:
        raise InputError("<img src=x onerror=alert(1)>\n\x1b[31m")

    with pytest.raises(gr.Error) as raised:
        handler()
    assert "<" not in raised.value.message
    assert raised.value.message.isprintable()


def test_a_handler_that_yields_has_messages_too() -> None:
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


def test_an_error_that_is_a_message_stays_one() -> None:
    import gradio as gr

    from editcritic.benchmarks.web_app.messages import with_messages

    @with_messages
    def handler() -> None:
        raise gr.Error("said already", duration=3)

    with pytest.raises(gr.Error) as raised:
        handler()
    assert raised.value.duration == 3
