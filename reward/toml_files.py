"""Reading of TOML files that a stranger may have written, in a time of the order of their size; and Python's parser,
below 3.11 from the package tomli."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

from .regular_files import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["MAX_BYTES", "MAX_KEY_PARTS", "read_toml", "tomllib", "validated"]

if TYPE_CHECKING:
    from pydantic import BaseModel

Model = TypeVar("Model", bound="BaseModel")
MAX_BYTES = 2**20
MAX_KEY_PARTS = 64
_LONG_KEY = re.compile(
    r"""(?:(?:(?<![\w-])[\w-]+|"(?:[^"\\\n]|\\.){0,99}"|'[^'\n]{0,99}')[ \t]*\.[ \t]*){64}"""
)  # as `MAX_KEY_PARTS`


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The table in a TOML file. Raises OSError as `read_regular` with `MAX_BYTES`, and ValueError, whose text continues
    "is not TOML", for what is none, for keys of more than `MAX_KEY_PARTS` parts (`a.b.c` has three; Python's parser
    takes hours for a megabyte of them), deep nesting, and integers of more than TOML's 64 bits.
    """
    text = read_text(path, MAX_BYTES)
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts")
    try:
        table = tomllib.loads(text)
        _check_integers(table)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return table


def _check_integers(value: Any) -> None:
    """Raise ValueError for an integer that TOML does not have; Python reads hexadecimal digits of any number."""
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_integers(item)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("an integer has more than 64 bits")


def validated(model: type[Model], table: Mapping[str, Any]) -> Model:
    """A table of settings as its model. Raises ValueError that names all wrong keys and values in one line."""
    from pydantic import ValidationError

    try:
        return model.model_validate(table)
    except ValidationError as error:
        problems = [_problem(model, one["loc"], one["type"], one["msg"], one["input"]) for one in error.errors()]
        raise ValueError("; ".join(dict.fromkeys(problems))) from None


def _problem(model: type[BaseModel], location: tuple[int | str, ...], kind: str, message: str, value: object) -> str:
    field = model.model_fields.get(str(location[0]))
    annotation = None if field is None else field.annotation
    types = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    table = next((one for one in types if hasattr(one, "model_fields")), None)
    if table is None and len(types) > 1:
        location = location[:1]  # below stand the types of the union
    name = ".".join(map(str, location))
    if kind == "extra_forbidden":
        known = model if len(location) == 1 or table is None else table
        return f"unknown key {name}: the keys are {', '.join(known.model_fields)}"
    message = message.removeprefix("Value error, ")
    return f"{name}: {message[:1].lower()}{message[1:]}, got {value!r:.80}"
