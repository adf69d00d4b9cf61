"""Pages of the command line: one for each command at the top level, one for each group with its commands.

Texts, options, types and defaults are those of the commands themselves, as `--help` shows them.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any

import typer
from pydantic import BaseModel

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.cli.app import app
from editcritic.cli.command_settings import AgreementSettings, ConstructionSettings, ScoreSettings, StudySettings

from .docstring_markdown import outside_code

ROOT = Path(__file__).parents[2]
_EXAMPLE = "Example: "
SETTINGS: dict[str, type[BaseModel]] = {
    "editcritic score": ScoreSettings,
    "editcritic bench build edival": ConstructionSettings,
    "editcritic judge agreement": AgreementSettings,
    "editcritic judge label": StudySettings,
}
"""The keys of a command's --config file."""
_TYPES = {str: "text", int: "number", float: "number", Path: "path"}


def command_pages() -> dict[str, str]:
    """The pages, below reference/cli."""
    root: Any = typer.main.get_command(app)
    pages = {"reference/cli/index.md": _index(root)}
    for name, command in root.commands.items():
        pages[f"reference/cli/{name}.md"] = _page(command, f"editcritic {name}")
    return pages


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All commands below a command, itself included if it is no group: the words that call it, and the object."""
    if (below := getattr(command, "commands", None)) is None:
        yield path, command
        return
    for name, one in below.items():
        yield from commands(one, f"{path} {name}")


def _index(root: Any) -> str:
    rows = [
        (f"[`{path}`]({_place(path)})", _plain(_first_sentence(command.help)))
        for path, command in commands(root, "editcritic")
    ]
    codes = root.epilog.removeprefix("Exit codes: ")
    lines = [
        "# Command line",
        _plain(root.help),
        "\n".join(table_lines(("command", "what it does"), rows)),
        (
            "`editcritic --version` prints the version; `--help`, or `-h`, after any command or group prints what "
            "these pages say. With `--json`, standard output holds one JSON document and nothing else. Where several "
            "commands share an option, it means the same."
        ),
        "## Exit codes",
        "\n".join(f"- {_plain(code)}" for code in codes.rstrip(".").split("; ")),
        "[What is stable](../../stability.md#exit-codes) says which of these are promised.",
    ]
    return "\n\n".join(lines) + "\n"


def _place(path: str) -> str:
    """The page and place of a command, seen from the index."""
    _, top, *below = path.split()
    return f"{top}.md" + (f"#{'-'.join(path.split())}" if below else "")


def _page(command: Any, path: str) -> str:
    if not hasattr(command, "commands"):
        return "\n\n".join([f"# {path}", *_sections(command, path)]) + "\n"
    lines = [f"# {path}", _plain(command.help)]
    for one_path, one in commands(command, path):
        lines += [f"## {one_path} {{ #{'-'.join(one_path.split())} }}", *_sections(one, one_path)]
    return "\n\n".join(lines) + "\n"


def _sections(command: Any, path: str) -> Iterator[str]:
    """Usage, description, arguments, options, example."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    words = [_usage(one) for one in arguments]
    yield f"```text\n{' '.join([path, '[OPTIONS]', *words])}\n```"
    yield from (_plain(paragraph) for paragraph in command.help.split("\n\n"))
    if arguments:
        yield "**Arguments**"
        yield "\n".join(f"- `{_name(one)}`{_details(one, command)}: {_plain(one.help)}" for one in arguments)
    yield "**Options**"
    yield "\n".join(
        f"- {_option(one, command)}: {_plain(one.help.replace(' Repeatable.', ''))}{_default(one)}" for one in options
    )
    if path in SETTINGS:
        yield "**Keys of the file for `--config`**"
        yield "\n".join(_keys(SETTINGS[path]))
    yield "**Example**"
    yield f"```text\n{command.epilog.removeprefix(_EXAMPLE)}\n```"
    yield "[Exit codes](index.md#exit-codes)"


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """What each key means, those of tables below."""
    for name, field in model.model_fields.items():
        tables = [one for one in (field.annotation, *typing.get_args(field.annotation)) if hasattr(one, "model_fields")]
        unsaid = tables or field.default in (None, (), {})
        default = "" if unsaid else f" Default: `{json.dumps(field.default)}`."
        yield f"- `{prefix}{name}`: {_plain(field.description or '')}{default}"
        for table in tables:
            yield from _keys(table, f"{prefix}{name}.")


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _usage(argument: Any) -> str:
    name = _name(argument)
    name = name if argument.nargs == 1 or name.endswith("...") else f"{name}..."
    return name if argument.required else f"[{name}]"


def _option(option: Any, command: Any) -> str:
    """The names of an option, with what follows them and how often it may be given."""
    kind, repeated = _type(option, command)
    names = " or ".join(f"`{name}`" for name in option.opts)
    if option.secondary_opts:
        names += " / " + " or ".join(f"`{name}`" for name in option.secondary_opts)
    value = "" if kind is bool else f" *{(option.metavar or _TYPES.get(kind, 'text')).lower()}*"
    notes = [*([_bounds(option, command)] if value else []), "required" * option.required, "repeatable" * repeated]
    return names + value + "".join(f", {note}" for note in notes if note)


def _details(argument: Any, command: Any) -> str:
    kind, repeated = _type(argument, command)
    notes = [_TYPES.get(kind, "text"), *(["one or more"] if repeated else [])]
    return f" *{', '.join(notes)}*" + ("" if argument.required else ", may be left out")


def _type(parameter: Any, command: Any) -> tuple[Any, bool]:
    """The type of a parameter's value, and whether there may be several."""
    hint = _annotation(parameter, command)
    hint = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    if typing.get_origin(hint) in (typing.Union, UnionType):
        hint = next(one for one in typing.get_args(hint) if one is not type(None))
    if typing.get_origin(hint) in (list, tuple):
        return typing.get_args(hint)[0], True
    return hint, False


def _annotation(parameter: Any, command: Any) -> Any:
    function = inspect.unwrap(command.callback)
    return typing.get_type_hints(function, include_extras=True)[parameter.name]


def _bounds(option: Any, command: Any) -> str:
    declared = inspect.signature(inspect.unwrap(command.callback)).parameters[option.name].default
    if not hasattr(declared, "min"):  # shared options are annotations
        declared = typing.get_args(_annotation(option, command))[1]
    low, high = declared.min, declared.max
    if low is None and high is None:
        return ""
    if high is None:
        return f"{low:g} or more"
    return f"at most {high:g}" if low is None else f"{low:g} to {high:g}"


def _meaning(option: Any) -> str:
    return _plain(option.help.replace(" Repeatable.", "")) + _default(option)


def _default(option: Any) -> str:
    if option.default in (None, False, "", ()) or option.show_default is False or "Default:" in option.help:
        return ""
    return " Default: on." if option.default is True else f" Default: `{option.default}`."


def _first_sentence(text: str) -> str:
    found = re.match(r".+?\.(?= |$)", text.partition("\n\n")[0])
    return found[0] if found else text


def _plain(text: str) -> str:
    """A help text as Markdown that shows it. A document that it names is a link."""
    return outside_code(text, _escaped)


def _escaped(text: str) -> str:
    text = re.sub(r"([\\*_{}\[\]])", r"\\\1", text).replace("<", "&lt;")
    text = re.sub(r"(?<![\w-])(--[a-z][a-z-]*[a-z])", r"`\1`", text)
    return re.sub(r"docs/([a-z\\_/]+)\.md", _link, text)


def _link(found: re.Match[str]) -> str:
    name = found[1].replace("\\", "")
    return f"[docs/{found[1]}.md](../../{name}.md)" if (ROOT / "docs" / f"{name}.md").exists() else found[0]
