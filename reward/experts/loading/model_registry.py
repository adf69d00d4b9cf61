"""Published models, their experts, sources, sizes and licences; bundles of experts by name.

An expert is resolved from the name of an entry point (`grounding-dino`), a model's short name (`grounding-dino-tiny`),
both (`vlm:Qwen/Qwen3-VL-8B-Instruct`, `openai:http://127.0.0.1:8000/v1`), or a folder or a name on the hub, by the
model type in its `config.json`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...installation import install_command
from ...queries.expert import ExpertDown
from ...queries.specs import Spec, SpecError, entry_point_names
from ...toml_files import tomllib
from .checkpoint import QUANTIZATIONS
from .hub_files import find_file


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A published model.

    name: short name. expert: entry point of its expert. checkpoint: name on the hub; empty if the weights come with a
    package. parameters: in millions. licence: of the weights, as stated by the publisher; empty if unknown. gated:
    whether the hub requires accepting terms first. use: roles. papers: which of the four systems use it. weights: their
    repository on the hub, if the expert is not built with that name. options: of the expert, for this model. file: of
    weights without a `config.json`. counted: whether `parameters` was counted on the published configuration.
    unquantised: parameters that 8 and 4 bit quantisation leaves as they are (embeddings, the output layer, norms), in
    millions; 0 if not counted. stored: precision of the published files; empty if unknown. stored_parameters: in
    millions, if the files hold more than is loaded. packages: that its processor needs beside the extra `hf`.
    """

    name: str
    expert: str
    checkpoint: str
    parameters: float
    licence: str
    use: str
    papers: tuple[str, ...] = ()
    gated: bool = False
    weights: str = ""
    file: str = ""
    note: str = ""
    counted: bool = False
    unquantised: float = 0.0
    stored: str = ""
    stored_parameters: float = 0.0
    packages: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def weight_bytes(self, dtype: str) -> int:
        """Bytes of the weights at a precision; unquantised parameters of quantised models count 16 bits."""
        whole = self.unquantised if dtype in QUANTIZATIONS else 0.0
        others = (self.parameters - whole) * BYTES_PER_WEIGHT[dtype]
        return int((others + whole * BYTES_PER_WEIGHT["bfloat16"]) * 1e6)

    @property
    def download_bytes(self) -> int | None:
        """Bytes of the published weights, computed from their number and precision; None if that is unknown."""
        if not self.stored:
            return None
        return int((self.stored_parameters or self.parameters) * BYTES_PER_WEIGHT[self.stored] * 1e6)


BYTES_PER_WEIGHT: Mapping[str, float] = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "nf4": 0.53, "fp4": 0.53}
"""Bytes per parameter; 4-bit formats include their doubly quantised scales."""


@cache
def registered_models() -> Mapping[str, ModelEntry]:
    """All models, by short name."""
    lists = ("papers", "packages")
    rows = ({**row, **{name: tuple(row.get(name, ())) for name in lists}} for row in _table("model_registry")["model"])
    return {row["name"]: ModelEntry(**row) for row in rows}


def resolve_expert(name: str) -> tuple[str, Mapping[str, Any], str] | None:
    """Entry point of the expert for a name, its options, and the model or address to build it with. None if it is no
    model's name. Raises `SpecError` for a model without an expert."""
    if (model := registered_models().get(name)) is not None:
        return model.expert, model.options, model.checkpoint
    expert, colon, source = name.partition(":")
    if colon and expert in entry_point_names("editcritic.experts"):
        if not source:
            raise SpecError(f"{name} names no model: write as in {expert}:FOLDER")
        entry = registered_models().get(source)
        return (expert, entry.options, entry.checkpoint) if entry and entry.expert == expert else (expert, {}, source)
    if "://" in name:
        raise SpecError(f"{name} is an address: name the expert, as in openai:{name}")
    for model in registered_models().values():
        if name == model.checkpoint:
            return model.expert, model.options, name
    if Path(name).exists() or (name.count("/") == 1 and ":" not in name and not name.startswith((".", "/"))):
        return _expert_for(name), {}, name
    return None


def _expert_for(path: str) -> str:
    """Entry point for the model type in `config.json`."""
    if Path(path).is_file():
        raise SpecError(f"{path} is a file: name the expert, as in real-esrgan:{path}")
    try:
        kind = json.loads(find_file(path, "config.json").read_text(encoding="utf-8")).get("model_type", "")
    except ExpertDown as error:
        raise SpecError(str(error)) from None
    except (json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise SpecError(f"the config.json of {path} cannot be read: {error}") from None
    for expert, kinds in _table("model_registry")["kinds"].items():
        if kind in kinds:
            return str(expert)
    raise SpecError(f"{path} is a {kind or 'model of unknown kind'}: name the expert, as in vlm:{path}")


@cache
def _table(name: str) -> Mapping[str, Any]:
    return tomllib.loads((files(__package__ or "") / f"{name}.toml").read_text(encoding="utf-8"))


_VARIABLE = re.compile(r"\$([A-Z_]+)")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A complete set of experts. purpose: what it is for, one line. machine: what it was put together for. gpu_gb:
    memory of its GPU in GB, 0 for none. passes_gib: what forward passes take beside weights and caches, estimated.
    extras: of the package, to install. packages: to install beside them. unanswered: what none of its experts can know.
    roles: role -> spec, those common to all bundles included."""

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
        common = _table("bundles")["common"]
        return {
            role: _replaced(spec, lambda variable: _addresses()[variable].example)
            for role, spec in self.roles.items()
            if common.get(role) != spec
        }

    @property
    def install_command(self) -> str:
        """Installs what the bundle needs."""
        return " ".join([install_command(",".join(self.extras)), *self.packages])


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
    table, lists, made = _table("bundles"), ("extras", "packages"), {}
    for row in table["bundle"]:
        roles = {**table["common"], **row.get("roles", {})}
        made[row["name"]] = Bundle(**{**row, **{key: tuple(row.get(key, ())) for key in lists}, "roles": roles})
    return made


def bundle_lines() -> list[str]:
    """One line for each bundle: its name and what it is for."""
    return [f"  {bundle.name}: {bundle.purpose} ({bundle.machine})" for bundle in bundles().values()]


def with_addresses(spec: Any, bundle: str, role: str) -> Any:
    """The spec of a bundle's role with the addresses it names, from the environment. Raises `SpecError`, which says
    what to give, for one that is not set."""

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
    return {row["variable"]: Address(**row) for row in _table("bundles")["address"]}
