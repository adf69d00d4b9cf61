"""`PerPromptStatTracker` of `flow_grpo/stat_tracking.py` of github.com/PKU-YuanGroup/Edit-R1 (4217f25, 2026-01-24) and,
as `DiffusionNFTStatTracker`, of github.com/NVlabs/DiffusionNFT (24af555, 2025-09-22), restated, read 2026-11-23.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.integrations.trainers.restated import flow_grpo


class DiffusionNFTStatTracker(flow_grpo.PerPromptStatTracker):
    def update(self, prompts: Any, rewards: Any, exp: bool = False) -> Any:  # type: ignore[override]
        return self._updated(prompts, rewards)[0]

    def _updated(self, prompts: Any, rewards: Any) -> tuple[Any, Any, Any]:
        names = np.array(prompts)
        values = np.array(rewards, dtype=np.float64)
        advantages, stds, means = (np.empty_like(values) * 0.0 for _ in range(3))
        for name in np.unique(names):
            self.stats.setdefault(name, []).extend(values[names == name])
            self.history_prompts.add(hash(name))
        for name in np.unique(names):
            rows = names == name
            self.stats[name] = np.stack(self.stats[name])
            mean = np.mean(self.stats[name], axis=0, keepdims=True)
            own_std = np.std(self.stats[name], axis=0, keepdims=True)
            std = (np.std(values, axis=0, keepdims=True) if self.global_std else own_std) + 1e-4
            self._judge(name, own_std.mean(), mean.mean())
            advantages[rows] = (values[rows] - mean) / std
            stds[rows] = own_std.mean()
            means[rows] = mean
        return advantages, stds, means

    def _judge(self, prompt: Any, std: float, mean: float) -> None:
        """DiffusionNFT bans none."""

    def get_mean_of_top_rewards(self, top_percentage: float) -> Any:
        if not self.stats:
            return 0.0
        assert 0 <= top_percentage <= 100
        means = []
        for rows in self.stats.values():
            rewards = np.array(rows)
            if not rewards.size:
                continue
            top = rewards if top_percentage == 100 else rewards[rewards >= np.percentile(rewards, 100 - top_percentage)]
            if top.size:
                means.append(np.mean(top))
        return np.mean(means) if means else 0.0


class PerPromptStatTracker(DiffusionNFTStatTracker):
    def __init__(self, global_std: bool = False, ban_std_thres: float = 0.05, ban_mean_thres: float = 0.9) -> None:
        super().__init__(global_std)
        self.ban_std_thres = ban_std_thres
        self.ban_mean_thres = ban_mean_thres
        self.banned_prompts: set[Any] = set()

    def update(self, prompts: Any, rewards: Any, exp: bool = False) -> Any:  # type: ignore[override]
        return self._updated(prompts, rewards)

    def _judge(self, prompt: Any, std: float, mean: float) -> None:
        if std < self.ban_std_thres and mean > self.ban_mean_thres:
            self.banned_prompts.add(prompt)
