"""Models by name: which expert answers with a model, where its weights are published, and what is known of them.

An expert is found by the name of an entry point (`grounding-dino`), by a model's short name (`grounding-dino-tiny`), by
both (`vlm:Qwen/Qwen3-VL-8B-Instruct`, `openai:http://127.0.0.1:8000/v1`), or by a folder or a name on the hub alone,
whose `config.json` says what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..expert import ExpertDown
from ..spec import SpecError, names
from ..toml import tomllib
from .checkpoint import QUANTISATIONS
from .published import find_file


@dataclass(frozen=True, slots=True)
class Model:
    """What is known of a published model.

    name: the short one. expert: entry point of who answers with it. checkpoint: name on the hub; empty where weights
    come with a package. parameters: how many, in millions. licence: of the weights, as their publisher states it; empty
    where it was not found. gated: whether the hub wants terms to be accepted first. use: what for. papers: which of the
    four systems took it. weights: where they lie on the hub, of experts that are not built with that name. options: of
    the expert, for this model. file: of weights without a `config.json`. counted: whether the number of parameters is
    that of the published configuration, built and counted. unquantised: those that 8 and 4 bits leave as they are
    (embeddings, the output layer, norms), in millions; 0 where nobody counted them.
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
    options: Mapping[str, Any] = field(default_factory=dict)

    def memory(self, dtype: str) -> int:
        """Bytes that the weights take at a precision: of quantised ones what is left as it is in 16 bits."""
        left = self.unquantised if dtype in QUANTISATIONS else 0.0
        return int(((self.parameters - left) * BYTES[dtype] + left * BYTES["bfloat16"]) * 1e6)


BYTES: Mapping[str, float] = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "nf4": 0.53, "fp4": 0.53}
"""What a weight takes; of the 4-bit formats with their scales, doubly quantised."""


@cache
def models() -> Mapping[str, Model]:
    """All of them, by short name."""
    rows = _table()["model"]
    return {row["name"]: Model(**{**row, "papers": tuple(row.get("papers", ()))}) for row in rows}


def expert_of(name: str) -> tuple[str, Mapping[str, Any], str] | None:
    """Entry point of the expert that a name stands for, options, and the model or address to build it with.

    None for what is no model's name. Raises `SpecError` for a model that no expert answers with.
    """
    if (model := models().get(name)) is not None:
        return model.expert, model.options, model.checkpoint
    expert, colon, place = name.partition(":")
    if colon and expert in names("editcritic.experts"):
        if not place:
            raise SpecError(f"{name} names no model: write as in {expert}:FOLDER")
        short = models().get(place)
        return (expert, short.options, short.checkpoint) if short and short.expert == expert else (expert, {}, place)
    if "://" in name:
        raise SpecError(f"{name} is an address: say who is asked there, as in openai:{name}")
    for model in models().values():
        if name == model.checkpoint:
            return model.expert, model.options, name
    if Path(name).exists() or (name.count("/") == 1 and ":" not in name and not name.startswith((".", "/"))):
        return _expert_for(name), {}, name
    return None


def _expert_for(place: str) -> str:
    """By what `config.json` says."""
    if Path(place).is_file():
        raise SpecError(f"{place} is a file: say which expert answers with it, as in real-esrgan:{place}")
    try:
        kind = json.loads(find_file(place, "config.json").read_text(encoding="utf-8")).get("model_type", "")
    except ExpertDown as error:
        raise SpecError(str(error)) from None
    except (json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise SpecError(f"the config.json of {place} cannot be read: {error}") from None
    for expert, kinds in _table()["kinds"].items():
        if kind in kinds:
            return str(expert)
    raise SpecError(
        f"{place} is a {kind or 'model of unknown kind'}: say which expert answers with it, as in vlm:{place}"
    )


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads((files(__package__ or "") / "known.toml").read_text(encoding="utf-8"))
