"""The error of invalid user input."""


class InputError(ValueError):
    """Invalid user input; the message says what is wrong and what to do."""
