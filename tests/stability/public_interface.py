"""What others build on: public names with their parameters, commands with their options, entry points, schema numbers.

python -m tests.stability.public_interface     records it anew, after something was added or given up
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer.main

from editcritic.cli.app import app
from editcritic.reward.toml_files import tomllib

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("public_interface.json")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

PACKAGES = (
    *("reward", "reward.audit", "reward.engine", "reward.metrics", "reward.queries"),
    *("verifiers", "verifiers.selection", "verifiers.selectors"),
    *("integrations.serving.client", "integrations.serving.server", "integrations.trl"),
    *("integrations.diffusers", "integrations.diffusion_rl", "integrations.trainers"),
    *("benchmarks", "benchmarks.sceneedit"),
)
"""The packages whose `__all__` is public; of other modules, none is."""

GROUPS = ("rewards", "experts", "selectors", "suites", "parts")


def public_interface() -> dict[str, Any]:
    """`names`: package -> name -> its `call` and `members`; `commands`: path -> options; and so on."""
    points = PROJECT["project"]["entry-points"]
    return {
        "names": {package: _names(package) for package in PACKAGES},
        "commands": dict(sorted(_commands(typer.main.get_command(app), ""))),
        "entry points": {f"editcritic.{group}": sorted(points[f"editcritic.{group}"]) for group in GROUPS},
        "extras": sorted(PROJECT["project"]["optional-dependencies"]),
        "schemas": dict(sorted(_schemas())),
    }


def _names(package: str) -> dict[str, dict[str, list[str]]]:
    module = import_module(f"editcritic.{package}")
    return {name: _form(getattr(module, name)) for name in sorted(module.__all__)}


def _form(thing: Any) -> dict[str, list[str]]:
    """`call`: parameters of a function or class. `members`: public attributes of a class of ours."""
    form = {} if (parameters := _parameters(thing)) is None else {"call": parameters}
    if inspect.isclass(thing):
        ours = [one for one in thing.__mro__ if one.__module__.startswith("editcritic.")]
        members = {name for one in ours for name in [*vars(one), *vars(one).get("__annotations__", {})]}
        form["members"] = sorted(name for name in members if not name.startswith("_"))
    return form


def _parameters(thing: Any) -> list[str] | None:
    """Names of parameters, in order; with `=` those that may be left out."""
    if not callable(thing):
        return None
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):  # a type alias, or a class of C
        return None
    return [one.name if one.default is one.empty else f"{one.name}=" for one in parameters if one.name[0] != "_"]


def _commands(command: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    if subcommands := getattr(command, "commands", None):
        for name, subcommand in subcommands.items():
            yield from _commands(subcommand, f"{path} {name}".strip())
    else:
        options = (text for one in command.params for text in [*one.opts, *one.secondary_opts])
        yield path, sorted(options)


def _schemas() -> Iterator[tuple[str, int]]:
    """Module -> its `SCHEMA`: the number of a file's form, or of the protocol's. Read from the text of assignments."""
    for part in ("reward", "verifiers", "integrations", "benchmarks", "cli"):
        for path in (ROOT / part).rglob("*.py"):
            for line in path.read_text(encoding="utf-8").splitlines():
                if match := re.fullmatch(r"SCHEMA(?:, RUN_SCHEMA)? = (\d+)(?:, \d+)?", line):
                    yield path.relative_to(ROOT).with_suffix("").as_posix(), int(match[1])


if __name__ == "__main__":
    RECORD.write_text(json.dumps(public_interface(), indent=1) + "\n", encoding="utf-8")
