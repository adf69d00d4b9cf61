"""Settings of commands: tables of TOML files, which unknown keys are refused in, and options in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from ...reward.file_specs import require_own_folder
from ...reward.toml_files import read_toml, validated
from .errors import InputError

Model = TypeVar("Model", bound=BaseModel)


class Settings(BaseModel):
    """A table of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def read_table(path: Path) -> dict[str, Any]:
    """The table of a TOML file. Raises `InputError`."""
    try:
        return read_toml(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from None


def settings_of(model: type[Model], table: Mapping[str, Any], location: str) -> Model:
    """A table as its model. Raises `InputError`, which names the location."""
    try:
        return validated(model, table)
    except ValueError as error:
        raise InputError(f"{location}: {error}") from None


def read_settings(
    model: type[Model], path: Path | None, options: Mapping[str, Any], files: Sequence[str] = ()
) -> Model:
    """The settings of a file, if there is one, and in their place the options that are not None. files: keys of files
    to read: relative to that of the settings, and in its folder or a trusted one. Raises `InputError` and `SpecError`.
    """
    typed = {name: value for name, value in options.items() if value is not None}
    settings = settings_of(model, typed, "options")
    if path is None:
        return settings
    table = read_table(path)
    settings_of(model, table, str(path))
    for name in {*files} & table.keys() - typed.keys():
        require_own_folder(name, table[name], path, does="read")
        table[name] = path.parent / table[name]
    return settings_of(model, {**table, **typed}, str(path))
