"""Bundles: complete sets of experts by name, from bundles.toml. Every bundle binds every role that `any-edit` needs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
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

    purpose: what it is for, one line. machine: what it was put together for. gpu_gb: memory of its GPU in GB, 0 for
    none. passes_gib: what forward passes take beside weights and caches, estimated. extras: of the package, to install.
    packages: to install beside them. unanswered: what none of its experts can know. roles: role -> spec, those common
    to all bundles included.
    """

    name: str
    purpose: str
    machine: str
    gpu_gb: int
    passes_gib: float
    extras: tuple[str, ...]
    unanswered: str
    packages: tuple[str, ...] = ()
    roles: Mapping[str, Spec] = field(default_factory=dict)

    @property
    def own_roles(self) -> dict[str, Spec]:
        """The roles that are not common to all bundles, with examples of the addresses they name."""
        common = _table()["common"]
        return {
            role: _replaced(spec, lambda variable: _addresses()[variable].example)
            for role, spec in self.roles.items()
            if common.get(role) != spec
        }

    @property
    def install_command(self) -> str:
        """Installs what the bundle needs."""
        return " ".join([f"pip install 'editcritic[{','.join(self.extras)}]'", *self.packages])


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
            **{
                **row,
                **{key: tuple(row.get(key, ())) for key in ("extras", "packages")},
                "roles": {**table["common"], **row.get("roles", {})},
            }
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

    def value_of(variable: str) -> str:
        address = _addresses()[variable]
        if value := os.environ.get(variable, "").strip():
            if not value.startswith(("http://", "https://")):  # a name would be a public server's model
                raise SpecError(f"{variable} is {value!r:.80}: give an address such as {address.example}")
            return value
        raise SpecError(
            f"the bundle {bundle} needs {address.need}: set {variable}={address.example}, or write "
            f"'{bundle} {role}=openai:{address.example}'; a server is started by, for example, `{address.command}`"
        )

    return _replaced(spec, value_of)


def _replaced(spec: Any, value_of: Callable[[str], str]) -> Any:
    """A spec with its variables replaced."""
    if isinstance(spec, Mapping):
        return {key: _replaced(value, value_of) for key, value in spec.items()}
    return _VARIABLE.sub(lambda found: value_of(found[1]), spec) if isinstance(spec, str) else spec


def _addresses() -> dict[str, Address]:
    return {row["variable"]: Address(**row) for row in _table()["address"]}


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads((files(__package__ or "") / "bundles.toml").read_text(encoding="utf-8"))
