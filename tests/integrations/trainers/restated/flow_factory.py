"""The parts of Flow-Factory that meet a reward model: github.com/X-GenGroup/Flow-Factory a0b2bc5, 2026-05-02.

Restated from `src/flow_factory`: `hparams/abc.py`, `hparams/reward_args.py`, `rewards/abc.py`, `rewards/registry.py`,
`rewards/loader.py`, `rewards/reward_processor.py` (pointwise models, synchronous and asynchronous),
`samples/samples.py`, `utils/base.py`, `utils/dist.py`, `advantage/advantage_processor.py`, and the steps of
`trainers/grpo.py` from samples to the log, of which means and deviations are restated. Pictures reach all models as
tensors. `global_std` is true and `advantage_aggregation` is `gdpo` there by default, `batch_size` 16.
"""

import hashlib
import importlib
import inspect
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from diffusers.utils.outputs import BaseOutput


@dataclass
class RewardArguments:
    """A row of `rewards`; keys that are no field go to `extra_kwargs`."""

    name: str = "default"
    reward_model: str | None = None
    weight: float = 1.0
    dtype: Any = "bfloat16"
    device: Any = "cuda"
    batch_size: int = 16
    async_reward: bool = False
    num_workers: int = 1
    extra_kwargs: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        self.dtype = getattr(torch, self.dtype)
        self.device = torch.device(self.device)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> "RewardArguments":
        known = {one.name for one in fields(cls)}
        extra = {name: value for name, value in row.items() if name not in known}
        return cls(**{name: value for name, value in row.items() if name in known}, extra_kwargs=extra)

    def identity_key(self) -> tuple[Any, ...]:
        """Rows with an equal key share one model."""
        extra = json.dumps(self.extra_kwargs, sort_keys=True, default=id)
        return self.reward_model, str(self.dtype), str(self.device), extra


@dataclass
class BaseSample:
    """One edit, without a batch dimension; pictures are 3 x H x W tensors, `extra_kwargs` are attributes too."""

    all_latents: torch.Tensor | None = None
    image: Any = None
    prompt: str | None = None
    extra_kwargs: dict[str, Any] = field(default_factory=dict)
    condition_images: Any = None

    def to_dict(self) -> dict[str, Any]:
        result = {one.name: getattr(self, one.name) for one in fields(self)}
        return result | result.pop("extra_kwargs")

    def __getattr__(self, name: str) -> Any:
        extra = object.__getattribute__(self, "__dict__").get("extra_kwargs", {})
        if name in extra:
            return extra[name]
        raise AttributeError(name)

    @property
    def unique_id(self) -> int:
        """The group: a hash of the prompt and the condition images, 64 bits, signed."""
        digest = hashlib.sha256((self.prompt or "").encode())
        for image in self.condition_images or ():
            digest.update(image.numpy().tobytes())
        return int.from_bytes(digest.digest()[:8], "big", signed=True)


@dataclass
class RewardModelOutput(BaseOutput):  # type: ignore[misc]
    """rewards: (batch_size,)."""

    rewards: Any = None
    extra_info: dict[str, Any] | None = None


class BaseRewardModel:
    required_fields: tuple[str, ...] = ()
    use_tensor_inputs = False

    def __init__(self, config: RewardArguments, accelerator: Any) -> None:
        self.accelerator = accelerator
        self.config = config
        self.device = accelerator.device if config.device == torch.device("cuda") else config.device
        self.dtype = config.dtype
        self.model = None


class PointwiseRewardModel(BaseRewardModel):
    required_fields = ("image", "prompt")


def reward_model_class(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def load_rewards(rows: list[dict[str, Any]], accelerator: Any) -> tuple[dict[str, Any], dict[str, RewardArguments]]:
    """Models and rows of settings by name."""
    cache: dict[Any, Any] = {}
    models, configs = {}, {}
    for config in map(RewardArguments.from_dict, rows):
        key = config.identity_key()
        if key not in cache:
            cache[key] = reward_model_class(config.reward_model or "")(config=config, accelerator=accelerator)
        models[config.name], configs[config.name] = cache[key], config
    return models, configs


class RewardProcessor:
    def __init__(
        self, accelerator: Any, reward_models: dict[str, Any], reward_configs: dict[str, RewardArguments]
    ) -> None:
        self.accelerator = accelerator
        self.reward_models = reward_models
        self.reward_configs = reward_configs
        self._pointwise_models = {
            name: model for name, model in reward_models.items() if isinstance(model, PointwiseRewardModel)
        }

    def _called(self, model: Any, samples: list[BaseSample]) -> Any:
        """The model is called with those fields of its signature that no sample lacks."""
        given = samples[0].to_dict()
        parameters = inspect.signature(model.__call__).parameters
        batch = {
            name: [getattr(sample, name) for sample in samples]
            for name in (parameters if "kwargs" not in parameters else given)
            if name in given and all(getattr(sample, name) is not None for sample in samples)
        }
        output = model(**batch)
        return output.rewards if hasattr(output, "rewards") else output

    def _compute_pointwise_batch(self, name: str, model: Any, batch_samples: list[BaseSample]) -> torch.Tensor:
        return torch.as_tensor(self._called(model, batch_samples), device="cpu", dtype=torch.float32)

    def _compute_pointwise_rewards(
        self, samples: list[BaseSample], models: dict[str, Any] | None = None
    ) -> dict[str, torch.Tensor]:
        results = {}
        for name, model in (self._pointwise_models if models is None else models).items():
            size = self.reward_configs[name].batch_size
            parts = [
                self._compute_pointwise_batch(name, model, samples[start : start + size])
                for start in range(0, len(samples), size)
            ]
            results[name] = torch.cat(parts)
        return results


class RewardBuffer:
    """Takes samples as they are sampled. Batches of asynchronous models are scored in threads meanwhile."""

    def __init__(self, processor: RewardProcessor) -> None:
        self.processor = processor
        models, configs = processor._pointwise_models, processor.reward_configs
        self._async = {name: model for name, model in models.items() if configs[name].async_reward}
        self._sync = {name: model for name, model in models.items() if name not in self._async}
        self.clear()

    def clear(self) -> None:
        self.all_samples: list[BaseSample] = []
        self._pending: dict[str, list[int]] = {name: [] for name in self._async}
        self._futures: list[tuple[str, list[int], Future[torch.Tensor]]] = []
        workers = sum(max(1, self.processor.reward_configs[name].num_workers) for name in self._async)
        self._executor = ThreadPoolExecutor(max(1, workers))

    def add_samples(self, samples: list[BaseSample]) -> None:
        start = len(self.all_samples)
        self.all_samples.extend(samples)
        for name in self._async:
            pending = self._pending[name]
            pending.extend(range(start, len(self.all_samples)))
            size = self.processor.reward_configs[name].batch_size
            while len(pending) >= size:
                self._submit(name, pending[:size])
                del pending[:size]

    def _submit(self, name: str, rows: list[int]) -> None:
        samples = [self.all_samples[row] for row in rows]
        task = self.processor._compute_pointwise_batch
        self._futures.append((name, rows, self._executor.submit(task, name, self._async[name], samples)))

    def finalize(self) -> dict[str, torch.Tensor]:
        results = self.processor._compute_pointwise_rewards(self.all_samples, models=self._sync) if self._sync else {}
        for name in self._async:
            if self._pending[name]:
                self._submit(name, self._pending[name])
                self._pending[name] = []
        values: dict[str, list[Any]] = {name: [None] * len(self.all_samples) for name in self._async}
        for name, rows, future in self._futures:
            for row, reward in zip(rows, future.result(), strict=True):
                values[name][row] = reward
        self._executor.shutdown()
        results |= {name: torch.stack(rewards) for name, rewards in values.items()}
        for row, sample in enumerate(self.all_samples):
            sample.extra_kwargs["rewards"] = {name: rewards[row] for name, rewards in results.items()}
        return results


def stats_over_processes(accelerator: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, dict[str, float]]:
    """Mean and population standard deviation of shards."""
    names = sorted(arrays)
    shards = [torch.from_numpy(np.asarray(arrays[name], np.float64)).float() for name in names]
    sums = [value for x in shards for value in (float(x.numel()), float(x.sum()), float((x**2).sum()))]
    packed = accelerator.reduce(torch.tensor(sums, dtype=torch.float64), reduction="sum")
    stats = {}
    for row, name in enumerate(names):
        count, total, squares = packed[3 * row : 3 * row + 3].tolist()
        if not count:
            stats[name] = {"mean": 0.0, "std": 0.0}
            continue
        mean = total / count
        std = max(squares / count - mean**2, 0.0) ** 0.5
        stats[name] = {"mean": mean, "std": std}
    return stats


class AdvantageProcessor:
    def __init__(
        self,
        accelerator: Any,
        reward_weights: dict[str, Any],
        group_size: int,
        global_std: bool = True,
        sampler_type: str = "distributed_k_repeat",
    ) -> None:
        self.accelerator = accelerator
        self.reward_weights = reward_weights
        self.group_size = group_size
        self.global_std = global_std
        self.sampler_type = sampler_type
        self.group_on_same_rank = sampler_type == "group_contiguous"
        self._pending_advantage_metrics: dict[str, Any] | None = None

    def pop_advantage_metrics(self) -> dict[str, Any]:
        metrics = dict(self._pending_advantage_metrics or {})
        self._pending_advantage_metrics = None
        return metrics

    def compute_advantages(
        self, samples: Any, rewards: Any, store_to_samples: bool = True, aggregation_func: Any = None
    ) -> torch.Tensor:
        self._pending_advantage_metrics = None
        aggregation_func = aggregation_func or "gdpo"
        if aggregation_func == "sum":
            return self.compute_weighted_sum(samples, rewards, store_to_samples)
        if aggregation_func == "gdpo":
            return self.compute_gdpo(samples, rewards, store_to_samples)
        if callable(aggregation_func):
            result: torch.Tensor = aggregation_func(self, samples, rewards, store_to_samples)
            return result
        raise ValueError(f"unsupported aggregation {aggregation_func}")

    def collect_group_rewards(self, samples: Any, rewards: Any) -> Any:
        """Rewards by name, and the index of the group: of this process, or of all, one after the other."""
        if self.group_on_same_rank:
            collected = {name: torch.as_tensor(values).cpu().numpy() for name, values in rewards.items()}
            ids = np.array([sample.unique_id for sample in samples], dtype=np.int64)
            return collected, np.unique(ids, return_inverse=True)[1]
        device = self.accelerator.device
        columns = [torch.as_tensor(values).to(device).view(-1).float() for values in rewards.values()]
        columns.append(torch.tensor([sample.unique_id for sample in samples], device=device).float())
        gathered = self.accelerator.gather(torch.stack(columns, dim=1)).cpu().numpy()
        collected = {name: gathered[:, column] for column, name in enumerate(rewards)}
        return collected, np.unique(gathered[:, -1].astype(np.int64), return_inverse=True)[1]

    def _to_local(self, values: Any) -> torch.Tensor:
        tensor = torch.as_tensor(values)
        if not self.group_on_same_rank:
            tensor = tensor.reshape(self.accelerator.num_processes, -1)[self.accelerator.process_index]
        return tensor.to(self.accelerator.device)

    def _global_mean_std(self, values: Any) -> tuple[float, float]:
        if self.group_on_same_rank:
            sums = torch.tensor([float(len(values)), float(np.sum(values)), float(np.sum(values**2))])
            count, total, squares = self.accelerator.reduce(sums, reduction="sum").tolist()
            mean = total / count
            return mean, max((squares / count - mean**2) ** 0.5, 1e-6)
        return float(np.mean(values)), max(float(np.std(values)), 1e-6)

    def _batch_reduce_stats(self, arrays: Any) -> dict[str, dict[str, float]]:
        if self.group_on_same_rank:
            return stats_over_processes(self.accelerator, arrays)
        return {
            name: {"mean": float(x.mean()), "std": max(x.std(), 1e-8)} if len(x) else {"mean": 0.0, "std": 0.0}
            for name, x in ((name, np.asarray(array, np.float64)) for name, array in arrays.items())
        }

    def compute_weighted_sum(self, samples: Any, rewards: Any, store_to_samples: bool) -> torch.Tensor:
        """The weighted sum of rewards, less the mean of its group, over the global or the group's deviation."""
        gathered, groups = self.collect_group_rewards(samples, rewards)
        aggregated = np.zeros_like(next(iter(gathered.values())), dtype=np.float64)
        for name, values in gathered.items():
            aggregated += values * self.reward_weights[name]
        advantages = np.zeros_like(aggregated)
        std: Any = self._global_mean_std(aggregated)[1] if self.global_std else None
        for group in np.unique(groups):
            rows = groups == group
            of_group = aggregated[rows]
            if len(of_group) != self.group_size:
                raise RuntimeError(f"Group size mismatch: expected {self.group_size}, got {len(of_group)}")
            if not self.global_std:
                std = max(np.std(of_group), 1e-6)
            advantages[rows] = (of_group - np.mean(of_group)) / std
        self._pending_advantage_metrics = self._log_data(gathered, advantages, samples, aggregated)
        return self._stored(samples, advantages, store_to_samples)

    def compute_gdpo(self, samples: Any, rewards: Any, store_to_samples: bool) -> torch.Tensor:
        """Each reward normalised in its group, their weighted sum normalised over all."""
        gathered, groups = self.collect_group_rewards(samples, rewards)
        normalised = []
        for name, values in gathered.items():
            of_reward = np.zeros_like(values, dtype=np.float64)
            for group in np.unique(groups):
                rows = groups == group
                of_reward[rows] = (values[rows] - np.mean(values[rows])) / max(np.std(values[rows]), 1e-6)
            normalised.append(of_reward * self.reward_weights[name])
        combined = np.sum(normalised, axis=0)
        mean, std = self._global_mean_std(combined)
        advantages = (combined - mean) / std
        self._pending_advantage_metrics = self._log_data(gathered, advantages, samples, None)
        self._pending_advantage_metrics |= {"train/batch_norm_mean": mean, "train/batch_norm_std": std}
        return self._stored(samples, advantages, store_to_samples)

    def _stored(self, samples: Any, advantages: Any, store_to_samples: bool) -> torch.Tensor:
        local = self._to_local(advantages)
        if store_to_samples:
            for sample, advantage in zip(samples, local, strict=False):
                sample.extra_kwargs["advantage"] = advantage
        return local

    def _log_data(self, gathered: Any, advantages: Any, samples: Any, aggregated: Any) -> dict[str, Any]:
        arrays = dict(gathered) if aggregated is None else {**gathered, "": aggregated}
        stats = self._batch_reduce_stats({**arrays, "adv_abs": np.abs(advantages)})
        log: dict[str, Any] = {}
        for name in arrays:
            key = f"train/reward_{name}" if name else "train/reward"
            log |= {f"{key}_mean": stats[name]["mean"], f"{key}_std": stats[name]["std"]}
        return log | {"train/adv_abs_mean": stats["adv_abs"]["mean"], "train_samples": samples[:30]}


class Trainer:
    """What `BaseTrainer` constructs from the settings, and what `GRPOTrainer` does between sampling and optimization.

    settings: with `rewards`, and of `train` and `data` what is used here.
    """

    def __init__(self, settings: dict[str, Any], accelerator: Any = None) -> None:
        self.accelerator = accelerator or Accelerator(cpu=True)
        train = {"group_size": 4, "global_std": True, "advantage_aggregation": "gdpo", **settings.get("train", {})}
        self.aggregation = train["advantage_aggregation"]
        self.models, self.configs = load_rewards(settings["rewards"], self.accelerator)
        self.processor = RewardProcessor(self.accelerator, self.models, self.configs)
        self.buffer = RewardBuffer(self.processor)
        self.advantages = self._advantage_processor(train, settings.get("data", {}))
        self.log: list[dict[str, Any]] = []

    def _advantage_processor(self, train: dict[str, Any], data: dict[str, Any]) -> Any:
        return AdvantageProcessor(
            accelerator=self.accelerator,
            reward_weights={name: config.weight for name, config in self.configs.items()},
            group_size=train["group_size"],
            global_std=train["global_std"],
            sampler_type=data.get("sampler_type", "distributed_k_repeat"),
        )

    def step(self, batches: list[list[BaseSample]]) -> torch.Tensor:
        """Advantages of the samples of this process. batches: as they are sampled."""
        self.buffer.clear()
        for batch in batches:
            self.buffer.add_samples(batch)
        samples = [sample for batch in batches for sample in batch]
        rewards = self.buffer.finalize()
        advantages: torch.Tensor = self.advantages.compute_advantages(
            samples=samples, rewards=rewards, store_to_samples=True, aggregation_func=self.aggregation
        )
        metrics = self.advantages.pop_advantage_metrics()
        if metrics:
            self.log.append(metrics)
        return advantages

    def evaluate(self, samples: list[BaseSample]) -> dict[str, float]:
        """Pointwise rewards without advantages, gathered and averaged."""
        self.buffer.clear()
        self.buffer.add_samples(samples)
        rewards = self.buffer.finalize()
        gathered = {name: self.accelerator.gather(values).cpu().numpy() for name, values in rewards.items()}
        return {f"eval/reward_{name}_mean": float(np.mean(values)) for name, values in gathered.items()}


def in_batches(samples: list[BaseSample], size: int) -> Iterator[list[BaseSample]]:
    for start in range(0, len(samples), size):
        yield samples[start : start + size]
