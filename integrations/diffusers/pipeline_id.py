"""What a pipeline is known by in journals: all that its pictures depend on, besides what is asked for."""

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


def name_of(pipeline: Any, settings: Mapping[str, Any]) -> str:
    """Class, origin, settings of the call, weights, solver and library. Raises ValueError for settings without a name.

    How strongly adapters are applied is not in it, other than by weights that were fused with theirs.
    """
    scheduler = pipeline.scheduler
    said = json.dumps(dict(settings), sort_keys=True, default=_said)
    # Not what the library notes for itself, which is in another order in every process.
    config = {name: value for name, value in scheduler.config.items() if not name.startswith("_")}
    solver = _digest(json.dumps(config, sort_keys=True, default=str).encode())
    return (
        f"{type(pipeline).__name__} {getattr(pipeline, 'name_or_path', '')} {said} weights {_weights(pipeline)} "
        f"{type(scheduler).__name__} {solver} diffusers {version('diffusers')}"
    )


def _weights(pipeline: Any) -> str:
    """What tells two sets of weights apart: the first numbers of each tensor. Not of those on no device (offloaded)."""
    found = hashlib.sha256()
    for name, part in sorted(pipeline.components.items()):
        if isinstance(part, torch.nn.Module):
            for key, tensor in sorted(part.state_dict().items()):
                if not isinstance(tensor, torch.Tensor):
                    continue
                found.update(f"{name}.{key} {tuple(tensor.shape)} {tensor.dtype}".encode())
                if not tensor.is_meta:
                    found.update(tensor.detach().flatten()[:4].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def _said(value: Any) -> Any:
    """A setting, for the name of an editor."""
    if isinstance(value, Image):
        return value.digest
    if isinstance(value, torch.Tensor):
        value = value.detach().float().cpu().numpy()
    if isinstance(value, np.ndarray | PIL.Image.Image):
        numbers = np.asarray(value)
        return _digest(f"{numbers.shape} {numbers.dtype}".encode() + numbers.tobytes())
    raise ValueError(f"a setting of type {type(value).__name__} has no name that lasts: pass id=")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
