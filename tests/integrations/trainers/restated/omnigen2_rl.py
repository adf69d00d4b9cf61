"""`omnigen2/grpo/reward_client_edit.py` and `process_grpo_rewards` and `compute_single_step_ppo_loss` of
`omnigen2/grpo/utils.py` in `examples/OmniGen2-RL` of github.com/VectorSpaceLab/EditScore (6e0f1b9, 2025-11-09),
restated, read 2026-11-23.
"""

from __future__ import annotations

import logging
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import requests
import torch
from accelerate.utils import gather_object

logger = logging.getLogger(__name__)


class RewardClient:
    """Of `max_retries` 1, as it is made there: nothing is sent again."""

    def __init__(self, proxy_host: str = "127.0.0.1", proxy_port: int = 23456, timeout: int = 300) -> None:
        self.proxy_url = f"http://{proxy_host}:{proxy_port}"
        self.timeout = timeout

    def evaluate(
        self, input_images: Any, output_image: Any, meta_datas: Any, server_type: str = "geneval"
    ) -> tuple[Any, ...] | None:
        if not output_image:
            return [], [], [], []
        request = {
            "input_images": input_images,
            "output_image": output_image,
            "meta_datas": meta_datas,
            "server_type": server_type,
        }
        try:
            answer = requests.post(
                self.proxy_url,
                data=pickle.dumps(request),
                headers={"Content-Type": "application/octet-stream"},
                timeout=self.timeout,
            )
            if answer.status_code == 200:
                result = pickle.loads(answer.content)
                return tuple(result.get(name, []) for name in ("scores", "rewards", "reasoning", "meta_data"))
            logger.error(f"HTTP error: {answer.status_code}")
        except Exception as error:  # noqa: BLE001  (as it is there)
            logger.error(f"Request exception: {error}")
        return None

    def ping(self) -> bool:
        try:
            return requests.get(f"{self.proxy_url}/ping", timeout=5).status_code == 200
        except requests.exceptions.RequestException:
            return False


def evaluate_images(
    input_images: Any,
    output_image: Any,
    meta_datas: Any,
    proxy_host: str = "127.0.0.1",
    proxy_port: int = 23456,
    server_type: str = "vlm",
) -> tuple[Any, ...] | None:
    client = RewardClient(proxy_host, proxy_port, timeout=600)
    return client.evaluate(input_images, output_image, meta_datas, server_type)


def process_grpo_rewards(
    rewards: torch.Tensor, prompts: list[str], accelerator: Any, std_level: str = "group"
) -> tuple[torch.Tensor, dict[str, Any]]:
    everyones = accelerator.gather(rewards)
    everyones_prompts = gather_object(prompts)
    assert len(everyones) == len(everyones_prompts)
    groups = defaultdict(list)
    for prompt, reward in zip(everyones_prompts, everyones, strict=True):
        groups[prompt].append(reward.item())
    stats = {
        prompt: {"min": np.min(group), "max": np.max(group), "mean": np.mean(group), "std": np.std(group)}
        for prompt, group in groups.items()
    }
    batch_std = np.std([reward.item() for reward in everyones])
    advantages = torch.zeros_like(rewards, device=rewards.device)
    for row, prompt in enumerate(prompts):
        std = stats[prompt]["std"] if std_level == "group" else batch_std
        advantage = (rewards[row].item() - stats[prompt]["mean"]) / (std + 1e-8)
        advantages[row] = torch.tensor(advantage, device=rewards.device)
    return advantages, stats


def compute_single_step_ppo_loss(
    step_log_probs: torch.Tensor,
    old_step_log_probs: torch.Tensor,
    advantages: torch.Tensor,
    clip_range: tuple[float, float] = (1e-4, 1e-4),
    adv_clip_max: float = 5,
) -> torch.Tensor:
    """The first of its results, the loss."""
    ratio = torch.exp(step_log_probs - old_step_log_probs.detach())
    advantages = torch.clamp(advantages, -adv_clip_max, adv_clip_max).detach()
    clipped = torch.clamp(ratio, 1.0 - clip_range[0], 1.0 + clip_range[1])
    return torch.max(-advantages * ratio, -advantages * clipped).mean()
