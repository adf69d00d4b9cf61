"""All commands: help, an example that is valid as typed, and JSON; showing help loads nothing heavy."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from editcritic.cli.app import app


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The words of each command, and its object; groups are left out."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, below in command.commands.items():
        yield from walk(below, (*path, name))


typer_version = tuple(int(part) for part in typer.__version__.split(".")[:2])
ALL = dict(walk(typer.main.get_command(app)))
COMMANDS = [pytest.param(words, id=" ".join(words)) for words in ALL]


def test_commands_are_grouped_by_jobs() -> None:
    listed = {" ".join(words) for words in ALL}
    assert listed == {
        *("score", "rank", "audit", "edit", "app", "serve", "estimate", "doctor", "rewards", "rows"),
        *(f"bench {name}" for name in ("list", "prepare", "generate", "run", "report", "compare", "prompts", "verify")),
        *(f"bench build {name}" for name in ("edival", "complex-edit", "dlebench", "i2ibench")),
        *(f"judge {name}" for name in ("label", "agreement", "faults", "drift", "variance")),
        *(f"judge calibrate {name}" for name in ("fit", "list", "show", "apply")),
        "log merge",
        *(f"dev {name}" for name in ("replay", "diff")),
    }


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_and_option_has_help_that_80_columns_show(words: tuple[str, ...]) -> None:
    command = ALL[words]
    assert command.help
    assert "\n" not in command.help.replace("\n\n", "")  # a paragraph is one line, which the terminal wraps
    helps = {parameter.name: parameter.help for parameter in command.params if _keeps_help(parameter)}
    assert [name for name, text in helps.items() if not text] == []
    shown = readable_help(words)
    texts = [" ".join(text.split()) for text in (command.help, command.epilog, *helps.values())]
    assert [text for text in texts if text not in shown] == []


def readable_help(words: tuple[str, ...]) -> str:
    """The help in a terminal of 80 columns, its lines joined: where a word is broken or cut, a text is not in it."""
    lines = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*words, "--help"]).stdout.splitlines()
    assert [line for line in lines if len(line) > 80 or (line and len(line) - len(line.lstrip()) > 50)] == []
    return " ".join(" ".join(lines).split())


def test_groups_list_their_commands_with_a_whole_sentence() -> None:
    for group in sorted({words[:depth] for words in ALL for depth in range(len(words))}):
        shown = readable_help(group)
        below = {words[len(group)]: command for words, command in ALL.items() if words[:-1] == group}
        sentences = {name: re.split(r"(?<=\.) ", command.help.split("\n\n")[0])[0] for name, command in below.items()}
        assert [name for name, text in sentences.items() if f"{name} {text.rstrip('.')}" not in shown] == []


def _keeps_help(parameter: Any) -> bool:
    """Whether typer knows the help of a parameter: below 0.26, beside click 8.3, it loses that of arguments."""
    return parameter.param_type_name == "option" or typer_version >= (0, 26)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_example_of_every_command_is_valid(words: tuple[str, ...]) -> None:
    command = ALL[words]
    assert command.epilog.startswith("Example: editcritic ")
    typed = shlex.split(command.epilog.removeprefix("Example: editcritic "))
    assert tuple(typed[: len(words)]) == words
    command.make_context(words[-1], typed[len(words) :])  # raises for unknown options and missing arguments


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_writes_json(words: tuple[str, ...]) -> None:
    options = {option: parameter for parameter in ALL[words].params for option in parameter.opts}
    assert options["--json"].name == "as_json"
    assert "one JSON document" in options["--json"].help


def test_help_of_any_command_loads_nothing_heavy() -> None:
    heavy = {"cv2", "fastapi", "numpy", "PIL", "torch", "transformers", "uvicorn"}
    groups = {words[:depth] for words in ALL for depth in range(len(words))}
    calls = [[*words, "--help"] for words in sorted({*groups, *ALL})]
    script = (
        "import contextlib, io, sys\n"
        "from editcritic.cli.app import app\n"
        f"for words in {calls!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):\n"
        "        app(words)\n"
        "    assert 'Usage: ' in shown.getvalue(), words\n"
        f"    loaded = sorted({heavy!r} & set(sys.modules))\n"
        "    assert not loaded, (words, loaded)\n"
        "print('done')\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "done\n", ran.stderr
