"""Flow-Factory after it got data sets with weights of their own: github.com/X-GenGroup/Flow-Factory 5f6cda1, read on
2026-11-23 from a store without dates of commits; it follows a0b2bc5 (2026-05-02).

Restated from `src/flow_factory`, where it differs from `flow_factory.py` here: `rewards/reward_processor.py` (a reward
applies to data sets; NaN elsewhere; NaN of a model ends the run), `samples/samples.py` (`source`, `source_id`,
`applicable_rewards`), `advantage/advantage_processor.py`, and from a version of `data_utils/dataset.py` and
`trainers/abc.py` how the columns of a row reach a sample as `metadata`, JSON text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import load_dataset

from . import flow_factory as old
from .flow_factory import PointwiseRewardModel, RewardArguments, RewardBuffer, RewardModelOutput, in_batches

__all__ = ["BaseSample", "PointwiseRewardModel", "RewardArguments", "RewardModelOutput", "Trainer", "in_batches"]

LEGACY_SOURCE = -1


@dataclass
class BaseSample(old.BaseSample):
    """source: the name of a data set, with source_id; both None if there is one only. applicable_rewards: set when
    rewards are computed."""

    source: str | None = None
    source_id: int | None = None
    applicable_rewards: set[str] = field(default_factory=set)


class RewardProcessor(old.RewardProcessor):
    def _reward_applies(self, name: str, sample: BaseSample) -> bool:
        applicable = self.reward_configs[name].extra_kwargs.get("_datasets")
        return applicable is None or sample.source is None or sample.source in applicable

    def _compute_pointwise_batch(self, name: str, model: Any, batch_samples: Any) -> torch.Tensor:
        mask = [self._reward_applies(name, sample) for sample in batch_samples]
        for sample, applies in zip(batch_samples, mask, strict=True):
            if applies:
                sample.applicable_rewards.add(name)
        rewards = torch.full((len(mask),), float("nan"))
        if not any(mask):
            return rewards
        scored = [sample for sample, applies in zip(batch_samples, mask, strict=True) if applies]
        values = torch.as_tensor(self._called(model, scored), dtype=torch.float32).detach().cpu().reshape(-1)
        if len(values) != len(scored):
            raise RuntimeError(f"Reward '{name}' returned {len(values)} scores, {len(scored)} samples were applicable.")
        if not torch.isfinite(values).all():
            raise RuntimeError(f"Reward '{name}' produced NaN/Inf at applicable sub-batch positions.")
        rewards[[row for row, applies in enumerate(mask) if applies]] = values
        return rewards


class AdvantageProcessor(old.AdvantageProcessor):
    """reward_weights: by reward and data set."""

    def __init__(self, *args: Any, source_id_to_name: Sequence[str] = (), **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._source_id_to_name = list(source_id_to_name)

    def collect_group_rewards(self, samples: Any, rewards: Any, *, prepared_collection: Any = None) -> Any:
        """Rewards by name, group indices, source ids. Groups are of a source and a unique id, which is not rounded."""
        source_ids = [LEGACY_SOURCE if sample.source_id is None else sample.source_id for sample in samples]
        ids = np.array([source_ids, [sample.unique_id for sample in samples]], dtype=np.int64).T.reshape(-1, 2)
        if self.group_on_same_rank:
            collected = {name: torch.as_tensor(values).cpu().numpy() for name, values in rewards.items()}
            return collected, np.unique(ids, axis=0, return_inverse=True)[1].reshape(-1), ids[:, 0]
        names = sorted(rewards)
        matrix = torch.stack([torch.as_tensor(rewards[name]).reshape(-1).float() for name in names], dim=1)
        gathered = self.accelerator.gather(matrix).cpu().numpy()
        all_ids = self.accelerator.gather(torch.from_numpy(ids)).cpu().numpy()
        indices = np.unique(all_ids, axis=0, return_inverse=True)[1].reshape(-1)
        return {name: gathered[:, column] for column, name in enumerate(names)}, indices, all_ids[:, 0]

    def build_source_aware_matrices(self, samples: Any, reward_keys: Any, gathered_source_ids: Any) -> Any:
        """(rewards, rows): whether a reward applies, and its weight there."""
        if self.group_on_same_rank:
            sources = [sample.source for sample in samples]
            applicable = np.array(
                [
                    [
                        name in sample.applicable_rewards or (not sample.applicable_rewards and sample.source is None)
                        for sample in samples
                    ]
                    for name in reward_keys
                ]
            ).reshape(len(reward_keys), len(samples))
        else:
            sources = [self._source_id_to_name[one] if one >= 0 else None for one in gathered_source_ids]
            applicable = np.array(
                [[source is None or source in self.reward_weights[name] for source in sources] for name in reward_keys]
            ).reshape(len(reward_keys), len(sources))
        weights = np.array(
            [
                [
                    self.reward_weights[name].get(source, next(iter(self.reward_weights[name].values())))
                    for source in sources
                ]
                for name in reward_keys
            ]
        ).reshape(applicable.shape)
        return applicable, weights

    @staticmethod
    def _group_normalize(values: Any, groups: Any, mask: Any = None) -> Any:
        num_groups = groups.max() + 1
        mask = np.ones(len(values), bool) if mask is None else mask
        counts = np.maximum(np.bincount(groups, weights=mask.astype(float), minlength=num_groups), 1.0)
        means = np.bincount(groups, weights=np.where(mask, values, 0.0), minlength=num_groups) / counts
        residuals = np.where(mask, values - means[groups], 0.0)
        stds = np.sqrt(np.bincount(groups, weights=residuals**2, minlength=num_groups) / counts)
        result = np.zeros(len(values))
        result[mask] = residuals[mask] / np.maximum(stds, 1e-6)[groups[mask]]
        return result

    def _checked(self, samples: Any, rewards: Any) -> Any:
        gathered, groups, source_ids = self.collect_group_rewards(samples, rewards, prepared_collection=None)
        names = list(gathered)
        applicable, weights = self.build_source_aware_matrices(samples, names, source_ids)
        stack = np.stack([gathered[name].astype(np.float64) for name in names])
        if (~np.isfinite(stack) & applicable).any():
            raise RuntimeError("NaN/Inf reward at APPLICABLE positions: a reward-model bug, not a routing miss.")
        if ((applicable * weights).sum(axis=0) == 0).any():
            raise RuntimeError("samples have NO applicable reward")
        return gathered, groups, applicable, weights, stack

    def compute_weighted_sum(self, samples: Any, rewards: Any, store_to_samples: bool) -> torch.Tensor:
        gathered, groups, applicable, weights, stack = self._checked(samples, rewards)
        aggregated = (np.where(applicable, stack, 0.0) * weights).sum(axis=0)
        if self.global_std:
            _, std = self._global_mean_std(aggregated)
            num_groups = groups.max() + 1
            sums = np.bincount(groups, weights=aggregated, minlength=num_groups)
            means = sums / np.maximum(np.bincount(groups, minlength=num_groups), 1)
            advantages = (aggregated - means[groups]) / std
        else:
            advantages = self._group_normalize(aggregated, groups)
        self._pending_advantage_metrics = self._source_log(gathered, advantages, samples, applicable)
        return self._stored(samples, advantages, store_to_samples)

    def compute_gdpo(self, samples: Any, rewards: Any, store_to_samples: bool) -> torch.Tensor:
        gathered, groups, applicable, weights, stack = self._checked(samples, rewards)
        combined = np.sum(
            [
                self._group_normalize(values, groups, mask=applies) * weight
                for values, applies, weight in zip(stack, applicable, weights, strict=True)
            ],
            axis=0,
        )
        mean, std = self._global_mean_std(combined) if self.global_std else (0.0, 1.0)
        advantages = (combined - mean) / std
        self._pending_advantage_metrics = self._source_log(gathered, advantages, samples, applicable)
        return self._stored(samples, advantages, store_to_samples)

    def _source_log(self, gathered: Any, advantages: Any, samples: Any, applicable: Any) -> dict[str, Any]:
        arrays = {name: values[applicable[row]] for row, (name, values) in enumerate(gathered.items())}
        return self._log_data(arrays, advantages, samples, None)


class Trainer(old.Trainer):
    """settings: `data.datasets` names the data sets; a reward may have `applicable_datasets`."""

    def __init__(self, settings: dict[str, Any], accelerator: Any = None) -> None:
        self._datasets = settings.get("data", {}).get("datasets", [])
        rows = [dict(row) for row in settings["rewards"]]
        self._applicable = {row.get("name", "default"): row.pop("applicable_datasets", None) for row in rows}
        super().__init__({**settings, "rewards": rows}, accelerator)
        for name, config in self.configs.items():
            config.extra_kwargs = {**config.extra_kwargs, "_datasets": self._applicable[name]}
        self.processor = RewardProcessor(self.accelerator, self.models, self.configs)
        self.buffer = RewardBuffer(self.processor)

    def _advantage_processor(self, train: dict[str, Any], data: dict[str, Any]) -> Any:
        return AdvantageProcessor(
            accelerator=self.accelerator,
            reward_weights={
                name: dict.fromkeys(self._applicable[name] or self._datasets or ["default"], config.weight)
                for name, config in self.configs.items()
            },
            group_size=train["group_size"],
            global_std=train["global_std"],
            sampler_type=data.get("sampler_type", "distributed_k_repeat"),
            source_id_to_name=self._datasets,
        )


def rows_of(path: Path, cache: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file as the data loader hands them over: what is no prompt or picture is JSON in `metadata`.

    Tables of different rows have been merged before, by Arrow: a name that one lacks is None there.
    """
    raw = load_dataset("json", data_files=str(path), split="train", cache_dir=str(cache))

    def packed(batch: dict[str, Any]) -> dict[str, Any]:
        kept = {name: values for name, values in batch.items() if name in ("prompt", "images")}
        others = {name: values for name, values in batch.items() if name not in kept}
        texts = [
            json.dumps({name: values[row] for name, values in others.items()}, ensure_ascii=False, sort_keys=True)
            for row in range(len(batch["prompt"]))
        ]
        return {**kept, "metadata": texts}

    processed = raw.map(packed, batched=True, batch_size=16, remove_columns=raw.column_names)
    processed.set_format(type="torch", columns=processed.column_names)
    return [processed[row] for row in range(len(processed))]
