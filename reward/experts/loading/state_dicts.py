"""Reading weight files that are published without a configuration, and loading them into a model."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  (for its exception only: torch loads with weights_only)
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ...regular_files import open_regular

_STATE_KEYS = ("params_ema", "params", "state_dict", "model")

_LINEAR, _RECTIFIED = [0, 2, 4, 6, 7], [0, 3, 6, 9, 11]
"""Indices of the layers with weights, with dropout between them, or with ReLU and dropout."""


def read_state(path: Path) -> dict[str, Any]:
    """The tensors of a file by name: safetensors, or a pickle (.pt, .pth, .bin) that holds tensors and nothing else. Of
    a training state, the weights under one of the usual keys, averaged ones first. Raises ValueError for a pickle that
    holds anything else, whose code is not executed, and for one whose tensors are larger than the file, which nothing
    but an attack on the memory is; OSError for what is no regular file."""
    import torch

    with open_regular(path) as file:
        _require_stored(file, path.name)
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise ValueError(f"{path.name} holds more than weights, or is damaged: only tensors are read") from error
    for key in _STATE_KEYS:
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(f"{path.name} holds no mapping of names to tensors, got {type(state).__name__}")
    for name, value in state.items():
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise ValueError(
                f"{path.name} has fewer numbers than its tensor {name!r:.80} of shape {tuple(value.shape)}"
            )
    return dict(state)


def _require_stored(file: BinaryIO, name: str) -> None:
    """Raise ValueError for a zip with members that are larger than the file: torch stores them as they are."""
    size = os.fstat(file.fileno()).st_size
    if not zipfile.is_zipfile(file):
        return
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    if any(member.compress_type != zipfile.ZIP_STORED for member in members) or (
        sum(member.file_size for member in members) > size
    ):
        raise ValueError(f"{name} holds compressed tensors, and torch saves none: it is not unpacked")


def strip_prefix(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The entries whose names have a prefix, which is removed."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def load_state(model: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Assign tensors to a model's parameters and return loading info. Missing ones keep their values. The model may be
    on torch's meta device, which is fast and does not patch initialisers that other threads use. Raises ValueError for
    unexpected tensors and other shapes."""
    import torch

    own = model.state_dict()
    unknown = sorted(state.keys() - own.keys())
    if unknown:
        raise ValueError(f"it has {len(unknown)} weights too many for this kind of model ({', '.join(unknown[:3])})")
    for name, value in state.items():
        if value.shape != own[name].shape:
            raise ValueError(f"its {name} has shape {tuple(value.shape)}, expected {tuple(own[name].shape)}")
    model.load_state_dict(dict(state), strict=False, assign=True)
    for name, buffer in model.named_buffers():
        if buffer.is_meta:  # no weight: in these models the only such buffer is 0, 1, 2, ...
            parent, _, last = name.rpartition(".")
            assert last == "position_ids", f"{name} has no known value"
            model.get_submodule(parent).position_ids = torch.arange(buffer.shape[-1]).expand(buffer.shape)
    return {"missing_keys": sorted(own.keys() - state.keys()), "unexpected_keys": [], "mismatched_keys": []}


def score_head(state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The head of LAION's aesthetic predictor and of ImageReward, and its loading info. Five linear layers to one
    number, named by their index in a sequence with dropout, with or without ReLU between them; or a single linear layer
    (`weight`, `bias`). In float32. Raises ValueError for other names."""
    import torch

    if state.keys() <= {"weight", "bias"}:
        state = {f"0.{name}": value for name, value in state.items()}
    indices = sorted({int(name.split(".")[0]) for name in state if name.split(".")[0].isdigit()})
    if indices not in ([0], _LINEAR, _RECTIFIED) or any(f"{index}.weight" not in state for index in indices):
        layout = f"layers {indices}" if indices else f"weights {', '.join(sorted(state)[:3]) or 'of no kind'}"
        raise ValueError(f"its head has {layout}, expected one layer, {_LINEAR}, or {_RECTIFIED} with ReLU")
    layers: OrderedDict[str, Any] = OrderedDict()
    for index in indices:
        if index and indices == _RECTIFIED:
            layers[f"{index - 1}"] = torch.nn.ReLU()
        outputs, inputs = state[f"{index}.weight"].shape
        layers[f"{index}"] = torch.nn.Linear(inputs, outputs)
    head = torch.nn.Sequential(layers)
    return head, load_state(head, {name: value.float() for name, value in state.items()})


def check_load_options(
    quantization_config: Any = None, device_map: Any = None, output_loading_info: bool = True
) -> None:
    """Raises ValueError for loading options that models built here do not support."""
    if quantization_config is not None or device_map is not None:
        raise ValueError("it supports neither quantisation nor device_map: leave them out")
