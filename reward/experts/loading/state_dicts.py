"""Weights in files of their own, as authors publish them beside no configuration: read, and put into a model."""

from __future__ import annotations

import pickle  # noqa: TID251  (its error's name alone: torch reads weights, and nothing that a file asks to run)
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_WITHIN = ("params_ema", "params", "state_dict", "model")

_LINEAR, _RECTIFIED = [0, 2, 4, 6, 7], [0, 3, 6, 9, 11]
"""Where the layers with weights come, with dropout alone between them, and with ReLU and dropout."""


def read_state(path: Path) -> dict[str, Any]:
    """The tensors of a file by name: safetensors, or a pickle (.pt, .pth, .bin) that holds tensors and nothing else.

    Of a training state, with the weights under one of the usual names, those: averaged ones first. Raises ValueError
    where a pickle holds anything else: what it asks to run is not run.
    """
    import torch

    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise ValueError(f"{path.name} holds more than weights, or is damaged: nothing else is read") from error
    for within in _WITHIN:
        if isinstance(state, Mapping) and isinstance(state.get(within), Mapping):
            state = state[within]
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(f"{path.name} holds no table of tensors by name, got {type(state).__name__}")
    return dict(state)


def part(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What is named with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def fill(model: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Put tensors in the place of a model's own, and return loading info. What is missing is left as it is.

    The model may have been made on torch's meta device, which takes no time and touches no initialisers that other
    threads use at the moment. Raises ValueError where there are tensors that it has no place for, or of other shapes.
    """
    import torch

    own = model.state_dict()
    unknown = sorted(state.keys() - own.keys())
    if unknown:
        raise ValueError(f"it has {len(unknown)} weights too many for this kind of model ({', '.join(unknown[:3])})")
    for name, value in state.items():
        if value.shape != own[name].shape:
            raise ValueError(f"its {name} is of {tuple(value.shape)}, and {tuple(own[name].shape)} belongs there")
    model.load_state_dict(dict(state), strict=False, assign=True)
    for name, buffer in model.named_buffers():
        if buffer.is_meta:  # no weight: 0, 1, 2, ... is all that transformers' models of this kind have there
            place, _, last = name.rpartition(".")
            assert last == "position_ids", f"nobody knows what {name} should hold"
            model.get_submodule(place).position_ids = torch.arange(buffer.shape[-1]).expand(buffer.shape)
    return {"missing_keys": sorted(own.keys() - state.keys()), "unexpected_keys": [], "mismatched_keys": []}


def regressor(state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The head that LAION's aesthetic predictor and ImageReward have, and its loading info.

    Five layers to one number, named by their place in a sequence with dropout: linear throughout, or with ReLU between
    them. A single linear layer (`weight`, `bias`) is one as well. In float32. Raises ValueError for other names.
    """
    import torch

    if state.keys() <= {"weight", "bias"}:
        state = {f"0.{name}": value for name, value in state.items()}
    numbers = sorted({int(name.split(".")[0]) for name in state if name.split(".")[0].isdigit()})
    if numbers not in ([0], _LINEAR, _RECTIFIED) or any(f"{number}.weight" not in state for number in numbers):
        has = f"layers {numbers}" if numbers else f"weights {', '.join(sorted(state)[:3]) or 'of no kind'}"
        raise ValueError(
            f"its head has {has}, and there are heads with one layer, with {_LINEAR} and, with ReLU, {_RECTIFIED}"
        )
    layers: OrderedDict[str, Any] = OrderedDict()
    for number in numbers:
        if number and numbers == _RECTIFIED:
            layers[f"{number - 1}"] = torch.nn.ReLU()
        out, into = state[f"{number}.weight"].shape
        layers[f"{number}"] = torch.nn.Linear(into, out)
    head = torch.nn.Sequential(layers)
    return head, fill(head, {name: value.float() for name, value in state.items()})


def only_plain(quantization_config: Any = None, device_map: Any = None) -> None:
    """Raises ValueError for ways of loading that a model put together here does not know."""
    if quantization_config is not None or device_map is not None:
        raise ValueError("it is small, and loaded whole: leave quantisation and device_map out")
