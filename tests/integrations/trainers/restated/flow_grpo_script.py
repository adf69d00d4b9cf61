"""The sampling phase of `scripts/train_flux_kontext.py` of github.com/yifan123/flow_grpo (74db691), restated, read
2026-11-23: the calls of the reward from eight threads, what is logged, the advantages, the rows that are trained on,
and the policy loss of the first update. `scripts/train_qwenimage_edit_plus.py` (9dcdc35) differs in that it drops no
rows.

The imports and the lines that docs/trainers/flow_grpo.md changes are as there; `config`, `batches` and `wandb` are
given.
"""

# ruff: noqa: I001

from __future__ import annotations

from collections.abc import Iterable
from concurrent import futures
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import flow_grpo.rewards  # type: ignore[import-not-found]
from flow_grpo.stat_tracking import PerPromptStatTracker  # type: ignore[import-not-found]
import torch

from tests.integrations.trainers.restated.scripts_of_flow_grpo import (
    batch_decode,
    evaluate,
    gather,
    sampled_rewards,
    tokenize,
)


@dataclass
class Config:
    """Of config/base.py and config/grpo.py."""

    reward_fn: dict[str, float] = field(default_factory=lambda: {"editcritic": 1.0})
    per_prompt_stat_tracking: bool = True
    sample: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(num_steps=2, num_batches_per_epoch=4, global_std=True)
    )
    train: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(timestep_fraction=1.0, adv_clip_max=5, clip_range=1e-4)
    )


def calculate_zero_std_ratio(prompts: Any, gathered_rewards: Any) -> Any:
    _, inverse, counts = np.unique(np.array(prompts), return_inverse=True, return_counts=True)
    grouped = gathered_rewards["ori_avg"][np.argsort(inverse)]
    reward_groups = np.split(grouped, np.cumsum(counts)[:-1])
    prompt_std_devs = np.array([np.std(group) for group in reward_groups])
    zero_std_ratio = np.count_nonzero(prompt_std_devs == 0) / len(prompt_std_devs)
    return zero_std_ratio, prompt_std_devs.mean()


def main(config: Config, batches: list[Any], wandb: Any, evaluated: Iterable[Any] = ()) -> SimpleNamespace:
    """One epoch. batches: of the loader and the pipeline, images N x C x H x W in [0, 1], prompts, metadata, PIL
    images, and "prompt_path" texts. Returns the advantages, N x timesteps, the mask of the rows to train on, and the
    gradient of the policy loss by each row's log-probability.
    """
    num_train_timesteps = int(config.sample.num_steps * config.train.timestep_fraction)
    stat_tracker = PerPromptStatTracker(config.sample.global_std)
    reward_fn = getattr(flow_grpo.rewards, "multi_score")("cpu", config.reward_fn)  # noqa: B009
    eval_reward_fn = getattr(flow_grpo.rewards, "multi_score")("cpu", config.reward_fn)  # noqa: B009
    executor = futures.ThreadPoolExecutor(max_workers=8)
    evaluate(evaluated, eval_reward_fn, executor, wandb)
    samples: dict[str, Any] = {
        "prompt_ids": torch.cat([tokenize(paths) for *_, paths in batches]),  # the edit is named by prompt and image
        "rewards": sampled_rewards(batches, reward_fn, executor, True),
    }

    samples["rewards"]["ori_avg"] = samples["rewards"]["avg"]
    samples["rewards"]["avg"] = samples["rewards"]["avg"].unsqueeze(1).repeat(1, num_train_timesteps)
    gathered_rewards: Any = {key: gather(value).float().numpy() for key, value in samples["rewards"].items()}
    # fmt: off
    wandb.log(
        {
            **{f"reward_{key}": value.mean() for key, value in gathered_rewards.items() if '_strict_accuracy' not in key and '_accuracy' not in key},  # noqa: E501
        },
    )
    # fmt: on

    if config.per_prompt_stat_tracking:
        prompts = [text.lower() for text in batch_decode(gather(samples["prompt_ids"]).float().numpy())]
        advantages = stat_tracker.update(prompts, gathered_rewards["avg"])
        group_size, trained_prompt_num = stat_tracker.get_stats()
        zero_std_ratio, reward_std_mean = calculate_zero_std_ratio(prompts, gathered_rewards)
        wandb.log(
            {
                "group_size": group_size,
                "trained_prompt_num": trained_prompt_num,
                "zero_std_ratio": zero_std_ratio,
                "reward_std_mean": reward_std_mean,
            }
        )
        stat_tracker.clear()
    else:
        avg = gathered_rewards["avg"]
        advantages = (avg - avg.mean()) / (avg.std() + 1e-4)
    advantages = torch.as_tensor(advantages).reshape(1, -1, advantages.shape[-1])[0]

    mask = advantages.abs().sum(dim=1) != 0
    num_batches = config.sample.num_batches_per_epoch
    if (count := int(mask.sum())) % num_batches != 0:
        unused = torch.where(~mask)[0]
        wanted = num_batches - count % num_batches
        if len(unused) >= wanted:
            mask[unused[torch.randperm(len(unused))[:wanted]]] = True
    wandb.log({"actual_batch_size": int(mask.sum()) // num_batches})

    log_probs = torch.zeros(advantages.shape, dtype=torch.float64, requires_grad=True)
    shape = (-1, int(mask.sum()) // num_batches, num_train_timesteps)
    for advantage, log_prob in zip(advantages[mask].reshape(shape), log_probs[mask].reshape(shape), strict=True):
        clipped = torch.clamp(advantage, -config.train.adv_clip_max, config.train.adv_clip_max)
        ratio = torch.exp(log_prob - log_prob.detach())
        near = torch.clamp(ratio, 1.0 - config.train.clip_range, 1.0 + config.train.clip_range)
        torch.mean(torch.maximum(-clipped * ratio, -clipped * near)).backward(retain_graph=True)
    executor.shutdown()
    return SimpleNamespace(advantages=advantages.numpy(), mask=mask.numpy(), gradients=log_probs.grad)
