"""Registry of published models: their experts, sources, sizes and licences.

An expert is resolved from the name of an entry point (`grounding-dino`), a model's short name (`grounding-dino-tiny`),
both (`vlm:Qwen/Qwen3-VL-8B-Instruct`, `openai:http://127.0.0.1:8000/v1`), or a folder or a name on the hub, by the
model type in its `config.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...queries.expert import ExpertDown
from ...queries.specs import SpecError, entry_point_names
from ...tomllib_compat import tomllib
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
        unquantised = self.unquantised if dtype in QUANTIZATIONS else 0.0
        return int(
            ((self.parameters - unquantised) * BYTES_PER_WEIGHT[dtype] + unquantised * BYTES_PER_WEIGHT["bfloat16"])
            * 1e6
        )

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
    rows = _table()["model"]
    return {
        row["name"]: ModelEntry(
            **{**row, **{name: tuple(row.get(name, ())) for name in ("papers", "packages")}},
        )
        for row in rows
    }


def resolve_expert(name: str) -> tuple[str, Mapping[str, Any], str] | None:
    """Entry point of the expert for a name, its options, and the model or address to build it with.

    None if it is no model's name. Raises `SpecError` for a model without an expert.
    """
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
    for expert, kinds in _table()["kinds"].items():
        if kind in kinds:
            return str(expert)
    raise SpecError(f"{path} is a {kind or 'model of unknown kind'}: name the expert, as in vlm:{path}")


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads((files(__package__ or "") / "model_registry.toml").read_text(encoding="utf-8"))
