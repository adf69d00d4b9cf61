"""Rollouts as the scripts of Flow-GRPO and Edit-R1 hand them to reward functions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .trainer_cases import Batch


class Log(dict[str, Any]):
    """In place of wandb: the last number of each name."""

    log = dict.update


def call_order(edits: Batch) -> np.ndarray[Any, Any]:
    """The edits as the sampler mixes groups."""
    return np.random.default_rng(1).permutation(len(edits.prompts))


def rollouts(edits: Batch, size: int, left_out: Sequence[int] = ()) -> list[Any]:
    """Batches: images N x C x H x W in [0, 1], prompts, rows of the data set, PIL images, and "prompt_path"."""
    order = call_order(edits)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    return [
        (
            torch.from_numpy(edits.tensor[rows]).movedim(3, 1) / 255,
            [edits.prompts[row] for row in rows],
            [{"prompt": edits.prompts[row], "image": f"{row // edits.group_size}.png"} for row in rows],
            [edits.sources[row].pil() for row in rows],
            [f"{edits.prompts[row]}_{row // edits.group_size}.png" for row in rows],
        )
        for rows in ([row for row in part if row not in left_out] for part in parts)
    ]


def by_edit(edits: Batch, result: np.ndarray[Any, Any], left_out: Sequence[int] = ()) -> dict[int, float]:
    """The first column of what a script returns, by edit."""
    order = [int(row) for row in call_order(edits) if row not in left_out]
    return dict(zip(order, result.reshape(len(order), -1)[:, 0].tolist(), strict=True))
