"""Bundles: complete sets of experts by name, from bundles.toml. Every bundle binds every role that `any-edit` needs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ...queries.specs import Spec, SpecError
from ...tomllib_compat import tomllib

_VARIABLE = re.compile(r"\$([A-Z_]+)")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A complete set of experts.

    purpose: what it is for, one line. machine: the machine it was put together for. extras: of the package, to install.
    unanswered: what none of its experts can know. roles: role -> spec, those common to all bundles included.
    """

    name: str
    purpose: str
    machine: str
    extras: tuple[str, ...]
    unanswered: str
    roles: Mapping[str, Spec] = field(default_factory=dict)

    @property
    def install_command(self) -> str:
        return f"pip install 'editcritic[{','.join(self.extras)}]'"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server that specs name as `$VARIABLE`. command: an example that starts such a server."""

    variable: str
    need: str
    example: str
    command: str


@cache
def bundles() -> Mapping[str, Bundle]:
    """All bundles, by name, the smallest first."""
    table = _table()
    return {
        row["name"]: Bundle(
            **{**row, "extras": tuple(row["extras"]), "roles": {**table["common"], **row.get("roles", {})}}
        )
        for row in table["bundle"]
    }


def bundle_lines() -> list[str]:
    """One line for each bundle: its name and what it is for."""
    return [f"  {bundle.name}: {bundle.purpose} ({bundle.machine})" for bundle in bundles().values()]


def with_addresses(spec: Any, bundle: str, role: str) -> Any:
    """The spec of a bundle's role with the addresses it names, from the environment.

    Raises `SpecError`, which says what to give, for one that is not set.
    """
    if isinstance(spec, Mapping):
        return {key: with_addresses(value, bundle, role) for key, value in spec.items()}
    return _VARIABLE.sub(lambda found: _address(found[1], bundle, role), spec) if isinstance(spec, str) else spec


def _address(variable: str, bundle: str, role: str) -> str:
    if value := os.environ.get(variable, "").strip():
        return value
    address = next(Address(**row) for row in _table()["address"] if row["variable"] == variable)
    raise SpecError(
        f"the bundle {bundle} needs {address.need}: set {variable}={address.example}, or write "
        f"'{bundle} {role}=openai:{address.example}'; a server is started by, for example, `{address.command}`"
    )


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads((files(__package__ or "") / "bundles.toml").read_text(encoding="utf-8"))
