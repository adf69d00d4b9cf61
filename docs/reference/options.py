"""Options of what a spec names, as in `edival-if?dense=true`: names, defaults, and what a docstring says of them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from editcritic.reward.toml_files import tomllib

from .api import ROOT
from .docstring_markdown import described_parameters, escaped


def own_entry_points(group: str) -> dict[str, str]:
    """Name -> `module:name` of our own entry points of a group, in the order of pyproject.toml."""
    return _entry_points()[group]


@cache
def _entry_points() -> dict[str, dict[str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points: dict[str, dict[str, str]] = project["entry-points"]
    return points


def options_of(target: Callable[..., Any], *without: str) -> dict[str, Any]:
    """Name -> default of the parameters that a spec may set."""
    parameters = inspect.signature(target).parameters.values()
    named = [one for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    return {one.name: one.default for one in named if one.name not in without}


def option_list(options: Mapping[str, Any], target: object) -> str:
    """A list of options, with defaults and meanings. The meanings come from the docstring of `target`."""
    meanings = described_parameters(inspect.getdoc(target) or "")
    return "\n".join(
        f"- `{name}`, {_default(default)}{': ' + escaped(meanings[name]) if name in meanings else ''}"
        for name, default in options.items()
    )


def _default(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if default is None:
        return "not set by default"
    if card := getattr(default, "card", None):
        return f"by default `{card.name}`"
    if callable(default):
        return f"by default `{default.__name__}`"
    try:
        return f"by default `{json.dumps(default)}`"
    except TypeError:
        return f"by default `{default}`"
