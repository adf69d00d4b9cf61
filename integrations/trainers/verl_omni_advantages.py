"""Advantages in verl-omni if some samples have no reward.

    actor_rollout_ref.model.external_lib=editcritic.integrations.trainers.verl_omni_advantages
    algorithm.adv_estimator=editcritic_flow_grpo

The first line imports this module where advantages are computed. Read: github.com/verl-project/verl-omni a1139ba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from verl_omni.trainer.diffusion.diffusion_algos import get_diffusion_adv_estimator_fn, register_diffusion_adv_est


@register_diffusion_adv_est("editcritic_flow_grpo")
def flow_grpo_of_scored(
    sample_level_rewards: torch.Tensor, index: Sequence[str], config: Any = None, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """verl-omni's `flow_grpo` over the samples that have a reward; the others, whose reward is NaN, have the advantage
    0.

    sample_level_rewards: samples x timesteps. index: the group of each. config: `algorithm`, of which the settings are
    read that `compute_advantage` passes to its own estimator only. Returns advantages twice, as the original.
    """
    for name in ("norm_adv_by_std_in_grpo", "global_std"):
        if config is not None and name not in options:
            options[name] = config.get(name, True)
    scored = ~torch.isnan(sample_level_rewards).any(dim=1)
    advantages = torch.zeros_like(sample_level_rewards)
    if int(scored.sum()) > 1:  # one alone has the advantage 0, and a deviation that is NaN
        estimate = get_diffusion_adv_estimator_fn("flow_grpo")
        groups = np.asarray(index)[scored.cpu().numpy()]
        advantages[scored] = estimate(sample_level_rewards[scored], index=groups, config=config, **options)[0]
    return advantages, advantages
