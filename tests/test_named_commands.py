"""Commands and options that documents name exist, also where a block is shown and not run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from editcritic.cli.app import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def named_commands(markdown: str) -> Iterator[str]:
    """Lines of shell and text blocks that call editcritic, and inline code that does, without what follows a pipe."""
    blocks = re.findall(r"^```(?:text|sh|console|bash)\b.*?\n(.*?)^```", markdown, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    called = [line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?editcritic ", line)]
    for text in [*called, *re.findall(r"`(editcritic [^`\n]+)`", markdown)]:
        yield re.split(r" #|\|\||&&|[;>]|\s\|\s", text)[0]


def unknown(text: str, command: Any) -> list[str]:
    """The words of a command line that name no command, and options that its command does not have."""
    _, *words = shlex.split(text)
    while (commands := getattr(command, "commands", None)) and words and not words[0].startswith("-"):
        choices = words.pop(0).split("|")  # as in `bench build edival|complex-edit`
        if choices[0] not in commands:
            return choices
        command = commands[choices[0]]
    options = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}
    options |= {"--help", "-h"}
    return [word for word in words if re.match(r"-(-|[a-z]$)", word) and word.partition("=")[0] not in options]


def test_commands_and_options_exist() -> None:
    command = typer.main.get_command(app)
    assert unknown("editcritic bench rum x", command) == ["rum"]
    assert unknown("editcritic bench run x --no-such y", command) == ["--no-such"]
    named = [(path.name, text) for path in DOCUMENTS for text in named_commands(path.read_text(encoding="utf-8"))]
    assert len(named) > 100
    assert [(*one, words) for one in named if (words := unknown(one[1], command))] == []
