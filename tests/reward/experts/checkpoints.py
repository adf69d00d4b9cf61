"""Checkpoints that lack weights, and passes through the parts of a loaded model."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils._pytree import tree_leaves

DEVICE = os.environ.get("TEST_DEVICE", "cpu")  # where the models of these tests compute, such as `cuda:0`


def without_weights(folder: Path | str, to: Path, part: str) -> tuple[Path, int]:
    """A copy of a checkpoint without the weights that have this in their names, and their number."""
    copy = Path(shutil.copytree(folder, to, dirs_exist_ok=True))
    weights = load_file(copy / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if part not in name}
    assert len(kept) < len(weights)
    save_file(kept, copy / "model.safetensors", {"format": "pt"})
    return copy, len(weights) - len(kept)


def counted_passes(
    expert: Any, parts: Mapping[str, str], axis: Mapping[str, int] | None = None
) -> dict[str, list[int]]:
    """The batch sizes of each part of a model from now on. parts: names of modules. axis: of the batch, else 0."""
    sizes: dict[str, list[int]] = {name: [] for name in parts}
    with expert.checkpoint.use() as loaded:
        for name, path in parts.items():

            def note(_: Any, args: Any, kwargs: Any, noted: list[int] = sizes[name]) -> None:
                noted.append(next(len(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)))

            loaded.model.get_submodule(path).register_forward_pre_hook(note, with_kwargs=True)
    return sizes
