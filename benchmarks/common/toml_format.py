"""Plain tables as TOML text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def format_toml(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """A table as TOML, nested tables below. None is omitted: TOML has no null."""
    entries = "".join(
        f"{_key(name)} = {_value(value)}\n"
        for name, value in table.items()
        if value is not None and not isinstance(value, Mapping)
    )
    tables = [(name, value) for name, value in table.items() if isinstance(value, Mapping)]
    head = f"[{'.'.join(map(_key, path))}]\n" if path and (entries or not tables) else ""
    blocks = [format_toml(value, (*path, name)) for name, value in tables]
    return "\n".join(filter(None, [head + entries, *blocks]))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{_key(name)} = {_value(element)}" for name, element in value.items() if element is not None)
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(element) for element in value) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name and name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _text(name)
