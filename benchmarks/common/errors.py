"""The error of invalid user input."""

from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Invalid user input; the message says what is wrong and what to do."""


@contextmanager
def input_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds become an `InputError` of the same text."""
    try:
        yield
    except kinds as error:
        raise InputError(str(error)) from None
