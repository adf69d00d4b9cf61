"""Checkpoints of a training run, written whole or not at all and read again; and the LoRA that is trained."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from peft import LoraConfig, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ...reward.strict_json import read_json
from ...reward.training.reward_hacking_monitor import RewardHackingMonitor
from .config import DiffusionConfig

SCHEMA = 1
"""Of a checkpoint's `state.json`."""

_PREFIX = "checkpoint-"

_DAMAGED = (OSError, ValueError, LookupError, TypeError, RuntimeError, EOFError, SafetensorError)
"""What reading a file that was cut off or replaced raises."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was read whole. lora, optimizer: finite. monitor: None if the run had none."""

    path: Path
    step: int
    log_history: list[dict[str, float]]
    monitor: RewardHackingMonitor | None
    config: dict[str, Any]
    lora: dict[str, Tensor]
    optimizer: dict[str, Any]


def checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    steps = {path: path.name.removeprefix(_PREFIX) for path in folder.glob(f"{_PREFIX}*")}
    return sorted((path for path, step in steps.items() if step.isdecimal()), key=lambda path: int(steps[path]))


def write_checkpoint(
    folder: Path,
    state: Mapping[str, Any],
    optimizer: torch.optim.Optimizer,
    save: Callable[[Path], None],
    save_total_limit: int,
) -> None:
    """Renamed into place once complete; the oldest is removed before. save: writes the LoRA into a folder."""
    name = f"{_PREFIX}{state['global_step']}"
    temporary, checkpoint = folder / f".{name}", folder / name
    shutil.rmtree(temporary, ignore_errors=True)
    save(temporary)
    torch.save(optimizer.state_dict(), temporary / "optimizer.pt")
    text = json.dumps({"schema": SCHEMA, **state}, allow_nan=False)
    (temporary / "state.json").write_text(text, encoding="utf-8")
    shutil.rmtree(checkpoint, ignore_errors=True)
    temporary.rename(checkpoint)
    existing = checkpoints(folder)
    # Newer ones were left out as damaged when the run was resumed, and must not displace the sound ones.
    for old in existing[: existing.index(checkpoint) + 1][:-save_total_limit]:
        shutil.rmtree(old)


def newest_sound(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest that can be read and is finite, or None; and newer ones with why not. ValueError if none is sound."""
    left_out: list[str] = []
    for path in reversed(checkpoints(folder)):
        try:
            return _read(path), left_out
        except _DAMAGED as error:
            left_out.append(f"{path} ({type(error).__name__}: {str(error)[:300]})")
    if left_out:
        raise ValueError(
            f"no checkpoint can be resumed from: {'; '.join(left_out)}. Delete them to start anew, or train in another "
            "output_dir"
        )
    return None, []


def _read(path: Path) -> Checkpoint:
    state = read_json(path / "state.json")
    if state["schema"] != SCHEMA:
        raise ValueError(f"state.json has schema {state['schema']}, expected {SCHEMA}")
    lora = load_file(path / "pytorch_lora_weights.safetensors")
    if not is_zipfile(path / "optimizer.pt"):
        raise ValueError("optimizer.pt is missing or cut off")
    optimizer = torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True)
    numbers = [(f"weight {name}", value) for name, value in lora.items()]
    numbers += [
        (f"optimizer state {name} of parameter {number}", value)
        for number, values in optimizer["state"].items()
        for name, value in values.items()
    ]
    for name, value in numbers:
        if not bool(torch.isfinite(torch.as_tensor(value)).all()):
            raise ValueError(f"the {name} is NaN or infinite")
    monitor = None if state["monitor"] is None else RewardHackingMonitor.from_json(state["monitor"])
    return Checkpoint(
        path, int(state["global_step"]), list(state["log_history"]), monitor, dict(state["config"]), lora, optimizer
    )


_ADAPTER = "default"


def add_lora(module: Any, config: DiffusionConfig) -> None:
    """Freeze a denoiser and add a LoRA in float32, the same on every process. Raises ValueError if it has adapters."""
    if getattr(module, "peft_config", None):
        raise ValueError(
            f"{type(module).__name__} has adapters already ({', '.join(module.peft_config)}): make them part of "
            "its weights first, with pipeline.fuse_lora() and pipeline.unload_lora_weights()"
        )
    linear = [name for name, part in module.named_modules() if isinstance(part, torch.nn.Linear)]
    # by default those in a numbered block, that is, in a module list
    targets = config.lora_targets or [name for name in linear if any(part.isdigit() for part in name.split("."))]
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
