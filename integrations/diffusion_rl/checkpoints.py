"""Checkpoints of a training run, in folders of its output: written whole or not at all, and read again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

SCHEMA = 1
"""Of a checkpoint's `state.json`."""

_PREFIX = "checkpoint-"


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
    """Write a checkpoint, and remove the oldest; it is renamed into place once complete.

    state: JSON, with `global_step`. save: writes the LoRA into a folder.
    """
    name = f"{_PREFIX}{state['global_step']}"
    temporary, checkpoint = folder / f".{name}", folder / name
    shutil.rmtree(temporary, ignore_errors=True)
    save(temporary)
    torch.save(optimizer.state_dict(), temporary / "optimizer.pt")
    (temporary / "state.json").write_text(json.dumps({"schema": SCHEMA, **state}), encoding="utf-8")
    shutil.rmtree(checkpoint, ignore_errors=True)
    temporary.rename(checkpoint)
    for old in checkpoints(folder)[:-save_total_limit]:
        shutil.rmtree(old)
