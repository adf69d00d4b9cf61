"""Locked protocols: everything that decides the numbers of a run, in a TOML file that others run by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...reward.toml import tomllib
from ..inputs import InputError
from .asked import Asked
from .journal import refuse_others, write_whole
from .provenance import versions
from .recipe import Recipe

SCHEMA = 1
_HEAD = """# A locked protocol of editcritic: `editcritic bench run --lock THIS --outputs DIR -o OUT` judges by it,
# and refuses data, metrics, prompts and experts that are others than these.
"""
_FREE = ("editor",)
"""Settings that are of a run, and not of its protocol."""


def lock(recipe: Recipe, asked: Asked) -> str:
    """The file of a run. asked: what the recipe makes.

    Raises `InputError` where an expert has no spec, so that nobody else could ask it.
    """
    by = () if isinstance(recipe.experts, Mapping) else recipe.experts
    for role, expert in asked.settings["experts"].items():
        if expert["spec"] is None and not any(":" in text for text in by):
            raise InputError(f"the expert of {role} ({expert['id']}) has no spec: bind it by module:function")
    whole = all(expert["spec"] is not None for expert in asked.settings["experts"].values())
    settings = {name: value for name, value in asked.settings.items() if name not in _FREE and value is not None}
    table = {
        "schema": SCHEMA,
        "spec": recipe.suite,
        **settings,
        "suite_title": asked.suite.about.title,
        "citation": asked.suite.about.citation,
        "bootstrap": {"draws": asked.draws, "seed": asked.seed},
        "asked_metrics": list(asked.metrics),
        "experts_by": None if whole else list(by),
        "versions": versions(),
    }
    return _HEAD + "\n" + toml_of(table)


def write_lock(path: Path, recipe: Recipe, asked: Asked) -> None:
    """Raises `InputError` as `lock`, and where the file is there already."""
    if path.exists():
        raise InputError(f"{path} is there already: give a new file")
    write_whole(path, lock(recipe, asked))


def read_lock(path: Path) -> dict[str, Any]:
    """Raises `InputError` for what is no locked protocol of this version."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    if found.get("schema") != SCHEMA or not {"spec", "suite", "data", "metrics", "experts"} <= found.keys():
        raise InputError(f"{path} is no locked protocol of schema {SCHEMA}: `bench lock` makes one")
    return found


def recipe_of(locked: Mapping[str, Any], data: Path | None, outputs: Path, editor: str) -> Recipe:
    """What is judged by a locked protocol."""
    return Recipe(
        locked["spec"],
        data,
        outputs,
        editor,
        tuple(locked.get("experts_by", ())) or {role: one["spec"] for role, one in locked["experts"].items()},
        locked.get("protocol"),
        tuple(locked["asked_metrics"]),
        locked["reproducible"],
        locked["bootstrap"]["draws"],
        locked["bootstrap"]["seed"],
    )


def refuse_unlocked(locked: Mapping[str, Any], asked: Asked, where: str) -> list[str]:
    """Raise `InputError` where what decides numbers is not as it was locked.

    Gives back the libraries whose versions are others: they may decide the last digits of a model's numbers.
    """
    ours = {name: value for name, value in asked.settings.items() if name not in _FREE and value is not None}
    plain = json.loads(json.dumps({name: locked.get(name) for name in ours}))
    refuse_others(_without_nulls(plain), _without_nulls(ours), where)
    now = versions()
    return [
        f"{name} {now.get(name, 'missing')} instead of {version}"
        for name, version in locked.get("versions", {}).items()
        if now.get(name) != version
    ]


def toml_of(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """A table as TOML, tables inside it below. None is left out: TOML has no word for it."""
    here = "".join(
        f"{_key(name)} = {_value(value)}\n"
        for name, value in table.items()
        if value is not None and not isinstance(value, Mapping)
    )
    inside = [(name, value) for name, value in table.items() if isinstance(value, Mapping)]
    head = f"[{'.'.join(map(_key, path))}]\n" if path and (here or not inside) else ""
    blocks = [toml_of(value, (*path, name)) for name, value in inside]
    return "\n".join(filter(None, [head + here, *blocks]))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items() if one is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name and name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _text(name)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
