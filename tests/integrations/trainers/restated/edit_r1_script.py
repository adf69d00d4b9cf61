"""The sampling phase and the loss of `scripts/train_nft_qwen_image_edit.py` of github.com/PKU-YuanGroup/Edit-R1
(4217f25, 2026-01-24), restated, read 2026-11-23; `train_nft_kontext.py` is the same in these. Predictions of the
model are numbers here, and so is the image.

The imports and the lines that docs/trainers/edit_r1.md changes are as there; `config`, `batches` and `wandb` are given.
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
    """Of config/base.py and config/qwen_image_edit_nft.py."""

    reward_fn: dict[str, float] = field(default_factory=lambda: {"editcritic": 1.0})
    beta: float = 1.0
    sample: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            num_steps=2, global_std=True, ban_prompt=False, ban_std_thres=0.05, ban_mean_thres=0.9
        )
    )
    train: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(timestep_fraction=1.0, adv_clip_max=5, adv_mode="all")
    )


def calculate_zero_std_ratio(prompts: Any, gathered_rewards: Any) -> Any:
    _, inverse, counts = np.unique(np.array(prompts), return_inverse=True, return_counts=True)
    grouped = gathered_rewards["avg"][np.argsort(inverse), 0]
    reward_groups = np.split(grouped, np.cumsum(counts)[:-1])
    prompt_std_devs = np.array([np.std(group) for group in reward_groups])
    zero_std_count = np.count_nonzero(prompt_std_devs == 0)
    zero_std_ratio = zero_std_count / len(prompt_std_devs)
    return zero_std_ratio, prompt_std_devs.mean()


def main(config: Config, batches: list[Any], wandb: Any, evaluated: Iterable[Any] = ()) -> SimpleNamespace:
    """One epoch. batches: of the loader and the pipeline, images N x C x H x W in [0, 1], prompts, metadata, PIL
    images, and "prompt_path" texts. Returns the advantages, N x timesteps, the mask of valid rows, r in [0, 1], the
    gradient of the policy loss by each row's prediction, and the tracker.
    """
    num_train_timesteps = int(config.sample.num_steps * config.train.timestep_fraction)
    stat_tracker = PerPromptStatTracker(
        config.sample.global_std,
        config.sample.ban_std_thres,
        config.sample.ban_mean_thres,
    )
    executor = futures.ThreadPoolExecutor(max_workers=8)
    reward_fn = getattr(flow_grpo.rewards, "multi_score")("cpu", config.reward_fn)  # noqa: B009
    eval_reward_fn = getattr(flow_grpo.rewards, "multi_score")("cpu", config.reward_fn)  # noqa: B009
    evaluate(evaluated, eval_reward_fn, executor, wandb)
    collated: dict[str, Any] = {
        "prompt_ids": torch.cat([tokenize(prompts) for _, prompts, *_ in batches]),
        "rewards": sampled_rewards(batches, reward_fn, executor, True),
    }
    collated["rewards"]["avg"] = collated["rewards"]["avg"].unsqueeze(1).repeat(1, num_train_timesteps)
    gathered_rewards_dict = {key: gather(value).numpy() for key, value in collated["rewards"].items()}
    wandb.log(
        {
            **{
                f"reward_{k}": v.mean()
                for k, v in gathered_rewards_dict.items()
                if "_strict_accuracy" not in k and "_accuracy" not in k
            },
        }
    )

    decoded = batch_decode(gather(collated["prompt_ids"]).numpy())
    advantages, stds, means = stat_tracker.update(decoded, gathered_rewards_dict["avg"])
    group_size, trained_prompt_num = stat_tracker.get_stats()
    zero_std_ratio, reward_std_mean = calculate_zero_std_ratio(decoded, gathered_rewards_dict)
    wandb.log(
        {
            "banned_prompt_num": len(stat_tracker.banned_prompts) if config.sample.ban_prompt else 0,
            "group_size": group_size,
            "trained_prompt_num": trained_prompt_num,
            "zero_std_ratio": zero_std_ratio,
            "reward_std_mean": reward_std_mean,
            **{f"mean_reward_{share}": stat_tracker.get_mean_of_top_rewards(share) for share in (100, 75, 50, 25, 10)},
        }
    )
    stat_tracker.clear()
    executor.shutdown()

    advantages, stds, means = (torch.from_numpy(part) for part in (advantages, stds, means))
    if config.sample.ban_prompt:
        valid_mask = (stds > config.sample.ban_std_thres) & (means < config.sample.ban_mean_thres)
    else:
        valid_mask = torch.ones_like(stds)
    r, gradients = nft_loss(config, advantages[:, 0], valid_mask[:, 0].float())
    return SimpleNamespace(
        advantages=advantages.numpy(),
        valid_mask=valid_mask.numpy(),
        r=r.numpy(),
        gradients=gradients.numpy(),
        tracker=stat_tracker,
    )


def nft_loss(config: Config, advantages: torch.Tensor, valid_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For one timestep: r of each row, and the policy loss's gradient by each row's prediction, which is the old one
    yet, as in the first update.
    """
    clipped = torch.clamp(advantages, -config.train.adv_clip_max, config.train.adv_clip_max)
    if config.train.adv_mode == "positive_only":
        clipped = torch.clamp(clipped, 0, config.train.adv_clip_max)
    elif config.train.adv_mode == "negative_only":
        clipped = torch.clamp(clipped, -config.train.adv_clip_max, 0)
    elif config.train.adv_mode == "one_only":
        clipped = torch.where(clipped > 0, torch.ones_like(clipped), torch.zeros_like(clipped))
    elif config.train.adv_mode == "binary":
        clipped = torch.sign(clipped)
    r = torch.clamp((clipped / config.train.adv_clip_max) / 2.0 + 0.5, 0, 1)

    count = len(advantages)
    x0 = torch.linspace(-1, 1, count * 8, dtype=torch.float64).reshape(count, 8)
    xt, t = 0.5 * x0 + 0.1, 0.5
    old_prediction = torch.full_like(x0, 0.3)
    forward_prediction = old_prediction.clone().requires_grad_()
    positive_prediction = config.beta * forward_prediction + (1 - config.beta) * old_prediction
    negative_prediction = (1.0 + config.beta) * old_prediction - config.beta * forward_prediction
    positive, negative = (
        weighted_error(xt - t * prediction, x0) for prediction in (positive_prediction, negative_prediction)
    )
    losses = r * positive * valid_mask / config.beta + (1.0 - r) * negative * valid_mask / config.beta
    losses = losses * config.train.adv_clip_max
    (losses.sum() / valid_mask.sum() if valid_mask.sum() else losses.sum() * 0).backward()
    assert forward_prediction.grad is not None
    return r, forward_prediction.grad


def weighted_error(x0_prediction: torch.Tensor, x0: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        weight = torch.abs(x0_prediction.double() - x0.double()).mean(dim=1, keepdim=True).clip(min=0.00001)
    return ((x0_prediction - x0) ** 2 / weight).mean(dim=1)
