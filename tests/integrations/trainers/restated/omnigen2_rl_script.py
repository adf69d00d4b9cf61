"""A step of `train.py` in `examples/OmniGen2-RL` of github.com/VectorSpaceLab/EditScore (6e0f1b9, 2025-11-09), from its
pictures to its log, restated, read 2026-11-23. The pictures and the log probabilities of the model are given.

The lines that docs/trainers/omnigen2_rl.md changes are as there.
"""

# ruff: noqa: I001

from __future__ import annotations

import json
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from accelerate.logging import get_logger
from accelerate.utils import gather_object
from omnigen2.grpo.reward_client_edit import evaluate_images  # type: ignore[import-not-found]
from omnigen2.grpo.utils import process_grpo_rewards, compute_single_step_ppo_loss  # type: ignore[import-not-found]

logger = get_logger(__name__)


def train_step(
    args: Any,
    accelerator: Any,
    reward_server_config: Any,
    batch: dict[str, Any],
    images: list[Any],
    global_step: int,
    log: dict[str, Any],
) -> SimpleNamespace:
    """batch: `instruction`, `input_images_pil` (for each edit a list of images of PIL) and `meta_data` (JSON texts), of
    this process. images: of PIL.
    """
    instruction = batch["instruction"]
    input_images_pil = batch["input_images_pil"]
    log_probs = torch.zeros(len(images), requires_grad=True)
    for i in range(len(batch["meta_data"])):
        json_data = json.loads(batch["meta_data"][i])
        number = global_step * args.global_batch_size + accelerator.process_index * args.batch_size + i
        json_data["id"] = f"{number}"
        batch["meta_data"][i] = json.dumps(json_data)

    local_batch_size = len(input_images_pil)
    gathered_input_images_pil = gather_object(input_images_pil)
    gathered_output_images = gather_object(images)
    gathered_meta_data = gather_object(batch["meta_data"])
    to_scatter: list[Any] = [[None] * accelerator.num_processes for _ in range(3)]
    if accelerator.is_main_process:
        scores, rewards, reasoning, meta_data = evaluate_images(  # noqa: RUF059  (as it is there)
            input_images=gathered_input_images_pil,
            output_image=gathered_output_images,
            meta_datas=gathered_meta_data,
            proxy_host=reward_server_config.server.hosts[0],
            proxy_port=reward_server_config.server.proxy_port,
            server_type=args.rl.get("server_type", "vlm"),
        )
        to_scatter = [
            [column[i : i + local_batch_size] for i in range(0, len(column), local_batch_size)]
            for column in (rewards, reasoning, meta_data)
        ]
    accelerator.wait_for_everyone()
    received: list[Any] = [[None], [None], [None]]
    for own, everyones in zip(received, to_scatter, strict=True):
        torch.distributed.scatter_object_list(own, everyones)
    (rewards,), (reasoning,), (meta_data,) = received
    assert len(rewards) == len(reasoning) == len(meta_data) == local_batch_size

    rewards = torch.tensor(rewards, dtype=torch.float32, device=accelerator.device)

    advantages, prompt_stats = process_grpo_rewards(
        rewards=rewards,
        prompts=instruction,
        accelerator=accelerator,
        std_level=args.rl.get("std_level", "group"),
    )

    logs: Any = defaultdict(list)
    loss = compute_single_step_ppo_loss(
        step_log_probs=log_probs,
        old_step_log_probs=torch.zeros(local_batch_size),
        advantages=advantages,
        clip_range=(1e-4, 5e-4),
        adv_clip_max=5,
    )
    loss.backward()
    logs["policy_loss"].append(loss.detach())
    logs["advantages"].append(advantages.mean().detach())
    logs["advantages_std"].append(advantages.std().detach())
    logs["advantages_min"].append(advantages.min().detach())
    logs["advantages_max"].append(advantages.max().detach())
    logs = {k: torch.mean(torch.stack(v)) for k, v in logs.items()}
    logs = accelerator.reduce(logs, reduction="mean")
    logs = {k: v.item() for k, v in logs.items()}
    logs.update(
        {
            "rewards_min": np.mean([v["min"] for k, v in prompt_stats.items()]),
            "rewards_max": np.mean([v["max"] for k, v in prompt_stats.items()]),
            "rewards_mean": np.mean([v["mean"] for k, v in prompt_stats.items()]),
            "rewards_std": np.mean([v["std"] for k, v in prompt_stats.items()]),
            "zero_std_ratio": np.mean([v["std"] == 0 for k, v in prompt_stats.items()]),
        }
    )
    files = [
        f"instruction: {instruction[j]}\nreward: {rewards[j].item()}\nadvantages: {advantages[j].item()}\n"
        f"reasoning: {reasoning[j]}\nmeta_data: {batch['meta_data'][j]}\ncur_receive_meta_data: {meta_data[j]}"
        for j in range(local_batch_size)
    ]
    progress_bar = SimpleNamespace(set_postfix=lambda **kwargs: None)
    progress_bar.set_postfix(**logs)
    log.update(logs)
    return SimpleNamespace(
        rewards=rewards, advantages=advantages, gradients=log_probs.grad, files=files, prompt_stats=prompt_stats
    )
