"""What the scripts of Flow-GRPO and Edit-R1 share: the encoding of prompts, and the evaluation. One process: gathering
returns what it is given.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch


def tokenize(texts: list[str]) -> torch.Tensor:
    """In place of the tokenizer: N x 256 ids, padded and cut."""
    rows = [list(text.encode())[:256] for text in texts]
    return torch.tensor([row + [0] * (256 - len(row)) for row in rows])


def batch_decode(ids: Any) -> list[str]:
    return [bytes(int(one) for one in row if one).decode() for row in ids]


def gather(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu()


def sampled_rewards(
    batches: Iterable[Any], reward_fn: Any, executor: Any, only_strict: bool
) -> dict[str, torch.Tensor]:
    """Of all batches, which are scored in threads as they are sampled."""
    futures = []
    for images, prompts, prompt_metadata, ref_images, _ in batches:
        futures.append(
            executor.submit(reward_fn, images, prompts, prompt_metadata, ref_images, only_strict=only_strict)
        )
        time.sleep(0)
    rewards = defaultdict(list)
    for future in futures:
        for key, value in future.result()[0].items():
            rewards[key].append(torch.as_tensor(value, device="cpu").float())
    return {key: torch.cat(values) for key, values in rewards.items()}


def evaluate(batches: Iterable[Any], reward_fn: Any, executor: Any, wandb: Any) -> None:
    rewards = {key: value.numpy() for key, value in sampled_rewards(batches, reward_fn, executor, False).items()}
    wandb.log({f"eval_reward_{key}": np.mean(value[value != -10]) for key, value in rewards.items()})
