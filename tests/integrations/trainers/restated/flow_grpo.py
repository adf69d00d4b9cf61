"""`flow_grpo/rewards.py` and `flow_grpo/stat_tracking.py` of github.com/yifan123/flow_grpo, restated: `multi_score` at
54809b5 and `PerPromptStatTracker` at 94e23ee (with `dists`), read 2026-11-23. Edit-R1's and DiffusionNFT's
`multi_score` have the same signature and result.

Of the reward functions there is one that needs no model.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image


def jpeg_compressibility() -> Callable[..., Any]:
    """Less the kilobytes of the JPEG file, by 500."""

    def _fn(images: Any, prompts: Any, metadata: Any) -> Any:
        if isinstance(images, torch.Tensor):
            images = (images * 255).round().clamp(0, 255).to(torch.uint8).cpu().numpy().transpose(0, 2, 3, 1)
        sizes = []
        for pixels in images:
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, format="JPEG", quality=95)
            sizes.append(buffer.tell() / 1000)
        return -np.array(sizes) / 500, {}

    return _fn


def multi_score(device: Any, score_dict: dict[str, float]) -> Callable[..., Any]:
    known = {"jpeg_compressibility": jpeg_compressibility}
    functions = {name: known[name]() for name in score_dict}

    def _fn(images: Any, prompts: Any, metadata: Any, ref_images: Any = None, only_strict: bool = True) -> Any:
        details: dict[str, Any] = {}
        total: list[Any] = []
        for name, weight in score_dict.items():
            scores, _ = functions[name](images, prompts, metadata)
            details[name] = scores
            weighted = [weight * score for score in scores]
            total = [one + other for one, other in zip(total, weighted, strict=True)] if total else weighted
        details["avg"] = total
        return details, {}

    return _fn


class PerPromptStatTracker:
    """Advantages within the rows of equal prompts; `stats` and `history_prompts` count them."""

    def __init__(self, global_std: bool = False) -> None:
        self.global_std = global_std
        self.stats: dict[Any, Any] = {}
        self.history_prompts: set[int] = set()

    def update(self, prompts: Any, rewards: Any, dists: Any = None, type: str = "grpo") -> Any:  # noqa: A002
        names = np.array(prompts)
        values = np.array(rewards, dtype=np.float64)
        advantages = np.empty_like(values) * 0.0
        if dists is not None and type == "gardo":
            dists = np.array(dists)
            dists = dists / np.linalg.norm(dists, ord=2, axis=1, keepdims=True)
        for name in np.unique(names):
            self.stats.setdefault(name, []).extend(values[names == name])
            self.history_prompts.add(hash(name))
        for name in np.unique(names):
            rows = names == name
            self.stats[name] = np.stack(self.stats[name])
            own = values[rows]
            mean = np.mean(self.stats[name], axis=0, keepdims=True)
            spread = values if self.global_std else self.stats[name]
            std = np.std(spread, axis=0, keepdims=True) + 1e-4
            if type == "grpo":
                advantages[rows] = (own - mean) / std
            elif type == "gardo":
                distance = 1 - np.dot(dists[rows], dists[rows].T).clip(-1, 1)
                count = len(distance)
                nearest = np.array([np.min(np.delete(distance[row], row)) for row in range(count)])
                nearest = np.repeat(nearest[:, None], own.shape[-1], axis=1)
                weight = np.where(own - mean < 0, np.ones_like(nearest), nearest / np.mean(nearest))
                advantages[rows] = (own - mean) * weight
            elif type == "rwr":
                advantages[rows] = own
            elif type == "sft":
                advantages[rows] = own == own.max()
            elif type == "dpo":
                best, worst = int(own.argmax()), int(own.argmin())
                if best == worst:
                    worst, best = 0, 1
                pair = np.zeros_like(own)
                pair[best], pair[worst] = 1.0, -1.0
                advantages[rows] = pair
        return advantages

    def get_stats(self) -> tuple[float, int]:
        size = sum(len(rows) for rows in self.stats.values()) / len(self.stats) if self.stats else 0
        return size, len(self.history_prompts)

    def clear(self) -> None:
        self.stats = {}
