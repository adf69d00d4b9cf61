"""The LoRA of a denoiser: added, switched off, saved as pipelines load it, and loaded again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model_state_dict, set_peft_model_state_dict
from torch import Tensor

from .config import DiffusionConfig

_ADAPTER = "default"


def add_lora(module: Any, config: DiffusionConfig) -> None:
    """Freeze a denoiser and add a LoRA in float32, the same on every process. Raises ValueError if it has adapters."""
    if getattr(module, "peft_config", None):
        raise ValueError(
            f"{type(module).__name__} has adapters already ({', '.join(module.peft_config)}): make them part of "
            "its weights first, with pipeline.fuse_lora() and pipeline.unload_lora_weights()"
        )
    targets = config.lora_targets or [
        name for name, part in module.named_modules() if isinstance(part, torch.nn.Linear) and _in_a_block(name)
    ]
    module.requires_grad_(False)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        module.add_adapter(
            LoraConfig(r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules=list(targets)), _ADAPTER
        )
    for weight in module.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()


@contextmanager
def without_lora(module: Any) -> Iterator[None]:
    """A context in which the denoiser is that from before training."""
    module.disable_adapters()
    try:
        yield
    finally:
        module.enable_adapters()


def save_lora(pipeline: Any, module: Any, folder: str | Path) -> None:
    """For `pipeline.load_lora_weights`."""
    component = "transformer" if isinstance(getattr(pipeline, "transformer", None), torch.nn.Module) else "unet"
    layers = {
        f"{component}_lora_layers": get_peft_model_state_dict(module, adapter_name=_ADAPTER),
        f"{component}_lora_adapter_metadata": module.peft_config[_ADAPTER].to_dict(),
    }
    pipeline.save_lora_weights(folder, **layers)


def load_lora(module: Any, saved: dict[str, Tensor]) -> None:
    """saved: the tensors that `save_lora` wrote."""
    weights = {name.partition(".")[2]: weight for name, weight in saved.items()}
    set_peft_model_state_dict(module, weights, _ADAPTER)


def _in_a_block(name: str) -> bool:
    """Whether a module belongs to a numbered block, that is, to a module list."""
    return any(part.isdigit() for part in name.split("."))
