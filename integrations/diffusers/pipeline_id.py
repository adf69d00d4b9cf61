"""The id of a pipeline in journals: everything its images depend on besides the request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import PIL.Image
import torch

from ...reward import Image


def pipeline_id(pipeline: Any, settings: Mapping[str, Any]) -> str:
    """Class, origin, settings of the call, weights, solver and library. Raises ValueError for settings without an id.

    The scale of adapters is not included unless they are fused into the weights.
    """
    scheduler = pipeline.scheduler
    settings_json = json.dumps(dict(settings), sort_keys=True, default=_setting_id)
    # Without diffusers' own notes, whose order differs between processes.
    config = {name: value for name, value in scheduler.config.items() if not name.startswith("_")}
    solver = _digest(json.dumps(config, sort_keys=True, default=_config_id).encode())
    weights = _weights_digest(pipeline)
    return (
        f"{type(pipeline).__name__} {getattr(pipeline, 'name_or_path', '')} {settings_json} weights {weights} "
        f"{type(scheduler).__name__} {solver} diffusers {version('diffusers')}"
    )


def _weights_digest(pipeline: Any) -> str:
    """Distinguishes weights by the first numbers of each tensor; tensors on no device (offloaded) are left out."""
    digest = hashlib.sha256()
    for name, module in sorted(pipeline.components.items()):
        if isinstance(module, torch.nn.Module):
            for key, tensor in sorted(module.state_dict().items()):
                if not isinstance(tensor, torch.Tensor):
                    continue
                digest.update(f"{name}.{key} {tuple(tensor.shape)} {tensor.dtype}".encode())
                if not tensor.is_meta:
                    digest.update(tensor.detach().flatten()[:4].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _config_id(value: Any) -> Any:
    """An entry of a solver's configuration: arrays by all their numbers, other objects by their name."""
    try:
        return _setting_id(value)
    except ValueError:
        return str(value)


def _setting_id(value: Any) -> Any:
    """The id of a setting."""
    if isinstance(value, Image):
        return value.digest
    if isinstance(value, torch.Tensor):
        value = value.detach().float().cpu().numpy()
    if isinstance(value, np.ndarray | PIL.Image.Image):
        numbers = np.asarray(value)
        return _digest(f"{numbers.shape} {numbers.dtype}".encode() + numbers.tobytes())
    raise ValueError(f"a setting of type {type(value).__name__} has no stable id: pass id=")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
