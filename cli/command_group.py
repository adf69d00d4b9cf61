"""A group of commands, such as `editcritic bench`.

The help of a command is the docstring of its function. The last paragraph, `Example: editcritic ...`, is shown below
the options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import typer

_EXAMPLE = "Example: "


def command_group(
    name: str, description: str, commands: Mapping[str, Callable[..., None]], epilog: str | None = None
) -> typer.Typer:
    """The group with these commands, by name. epilog: shown at the end of its help."""
    group = typer.Typer(
        name=name,
        help=description,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command_name, command in commands.items():
        help_text, example = _help_of(command)
        group.command(command_name, help=help_text, epilog=example)(command)
    return group


def _help_of(command: Callable[..., None]) -> tuple[str, str | None]:
    """The paragraphs of the docstring, each as one line that the terminal wraps; and the example, if there is one."""
    paragraphs = [" ".join(text.split()) for text in (inspect.getdoc(command) or "").split("\n\n")]
    example = paragraphs.pop() if paragraphs[-1].startswith(_EXAMPLE) else None
    return "\n\n".join(paragraphs), example
