"""What verl-omni does with a reward function, restated.

github.com/verl-project/verl-omni at a1139ba (2026-08-22), with github.com/verl-project/verl at 8a69493, which
`.github/verl_pin.txt` names: `verl_omni/reward_loop/reward_manager/{visual,multi}.py`, `verl_omni/agent_loop/
diffusion_agent_loop.py` (`_compute_score`, `_postprocess`), `verl_omni/trainer/diffusion/{ray_diffusion_trainer,
diffusion_algos,diffusion_metric_utils}.py`, `verl_omni/trainer/diffusion/v1/trainer_base.py` (`_compute_metrics`),
`verl_omni/trainer/config/{algorithm.py,reward/reward.yaml}`, `verl_omni/workers/engine/fsdp/diffusers_impl.py`
(`optimizer_step`), `examples/flowgrpo_trainer/qwen_image_edit/prepare_data.py`; of verl `trainer/ppo/{reward,
metric_utils}.py`, `experimental/reward_loop/reward_loop.py` and `utils/import_utils.py`.

One process stands for each of Ray's. Overrides of the command line are read by OmegaConf, without hydra; of its grammar
it has what the page uses: a word is a string, but `nan` and `inf` are numbers.
"""

import asyncio
import functools
import importlib
import inspect
import io
import json
import logging
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageOps
import torch
from omegaconf import OmegaConf

log = logging.getLogger(__name__)

DEFAULTS: dict[str, Any] = {
    "algorithm": {
        "adv_estimator": "${oc.select:actor_rollout_ref.model.algorithm,flow_grpo}",
        "norm_adv_by_std_in_grpo": True,
        "global_std": True,
    },
    "actor_rollout_ref": {"model": {"algorithm": "flow_grpo", "external_lib": None}},
    "reward": {
        "num_workers": 8,
        "custom_reward_function": {"path": None, "name": "compute_score"},
        "reward_functions": {},
        "reward_manager": {"name": "VisualRewardManager"},
        "reward_model": {"enable": False, "model_path": None},
    },
}


def configuration(overrides: list[str]) -> Any:
    """The configuration with the overrides of a command line: `+` adds a key, else the key has to be there."""
    config = OmegaConf.create(DEFAULTS)
    OmegaConf.set_struct(config, True)
    for override in overrides:
        name, _, value = override.removeprefix("+").partition("=")
        if override.startswith("+"):
            OmegaConf.set_struct(config, False)
        number = float(value) if value in ("nan", "inf") else None
        OmegaConf.update(config, name, OmegaConf.create(f"x: {value}").x if number is None else number)
        OmegaConf.set_struct(config, True)
    return config


def prepared_picture(path: Path, image_size: int) -> bytes:
    """The source as the recipe puts it into the column `images`."""
    with PIL.Image.open(path) as opened:
        fitted = PIL.ImageOps.contain(
            opened.convert("RGB"), (image_size, image_size), method=PIL.Image.Resampling.LANCZOS
        )
    square = PIL.Image.new("RGB", (image_size, image_size), color=(255, 255, 255))
    square.paste(fitted, ((image_size - fitted.width) // 2, (image_size - fitted.height) // 2))
    buffer = io.BytesIO()
    square.save(buffer, format="PNG")
    return buffer.getvalue()


def prepared_rows(input_dir: Path, split: str, image_size: int) -> list[dict[str, Any]]:
    """The rows of a split, of `{split}.jsonl` with `prompt` and `image`, and `images/`."""
    rows: list[dict[str, Any]] = []
    for index, line in enumerate((input_dir / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()):
        example = json.loads(line)
        instruction, name = str(example["prompt"]), str(example["image"])
        rows.append(
            {
                "data_source": "image_edit",
                "prompt": [{"role": "user", "content": f"Picture 1: <image>{instruction}"}],
                "negative_prompt": [{"role": "user", "content": "Picture 1: <image> "}],
                "ability": "image_edit",
                "images": [{"bytes": prepared_picture(input_dir / "images" / name, image_size)}],
                "reward_model": {"style": "model", "ground_truth": instruction},
                "extra_info": {"split": split, "index": index, "instruction": instruction, "image": name},
            }
        )
    return rows


def load_extern_object(path: str, name: str) -> Any:
    assert path.startswith("pkg://"), path
    return getattr(importlib.import_module(path.removeprefix("pkg://").replace("/", ".")), name)


async def _call_async(function: Any, extra: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    return await function(*args, **{**kwargs, **extra})


def custom_reward_function(config: Any) -> Any:
    """`reward.custom_reward_function`, with its `reward_kwargs` in every call."""
    settings = config.reward.custom_reward_function
    if not settings.path:
        return None
    function = load_extern_object(settings.path, settings.name)
    assert inspect.iscoroutinefunction(function)
    return functools.partial(_call_async, function, dict(settings.get("reward_kwargs", {})))


@dataclass
class DataItem:
    """One sample of a batch: the picture, uint8 C x H x W, and the columns of its row."""

    responses: torch.Tensor
    non_tensor_batch: dict[str, Any]


class VisualRewardManager:
    def __init__(self, config: Any, compute_score: Any) -> None:
        self.config = config
        self.compute_score = compute_score

    @staticmethod
    def arguments(item: DataItem) -> dict[str, Any]:
        if item.responses.dtype != torch.uint8:
            raise ValueError(f"Expected uint8 pixel responses for output_type='image', got {item.responses.dtype}.")
        columns = item.non_tensor_batch
        extra_info = columns.get("extra_info", {})
        extra_info.update((columns.get("tool_extra_fields") or {}).items())
        extra_info["num_turns"] = columns.get("__num_turns__")
        extra_info["rollout_reward_scores"] = columns.get("reward_scores", {})
        return {
            "data_source": columns["data_source"],
            "solution_image": item.responses,
            "ground_truth": columns["reward_model"]["ground_truth"],
            "extra_info": extra_info,
        }

    async def run_single(self, item: DataItem) -> dict[str, Any]:
        assert inspect.iscoroutinefunction(self.compute_score)
        result = await self.compute_score(**self.arguments(item))
        if not isinstance(result, dict):
            return {"reward_score": result, "reward_extra_info": {"acc": result}}
        extra = {key: value for key, value in result.items() if key != "score"}
        return {"reward_score": result["score"], "reward_extra_info": extra}


class MultiVisualRewardManager(VisualRewardManager):
    def __init__(self, config: Any, compute_score: Any) -> None:
        super().__init__(config, None)
        reserved = {"path", "name", "weight", "required"}
        self.parts = [
            (
                key,
                load_extern_object(entry["path"], entry["name"]),
                float(entry.get("weight", 1.0)),
                entry.get("required", False) in (True, "true"),
                {name: value for name, value in entry.items() if name not in reserved},
            )
            for key, entry in config.reward.reward_functions.items()
        ]
        assert self.parts

    async def run_single(self, item: DataItem) -> dict[str, Any]:
        combined = 0.0
        extra: dict[str, Any] = {}
        for key, function, weight, required, options in self.parts:
            names = inspect.signature(function).parameters.values()
            assert any(one.kind == inspect.Parameter.VAR_KEYWORD for one in names)  # else arguments are filtered
            try:
                result = await function(**self.arguments(item), **options)
                score = float(result["score"])
                extra |= {f"reward/{key}/{name}": value for name, value in result.items() if name != "score"}
            except Exception as error:
                if required:
                    raise RuntimeError(f"Required sub-reward '{key}' failed: {error}") from error
                log.error("sub-reward %s: %s. Contributing 0", key, error)
                score = 0.0
            extra[f"reward/{key}"] = score
            combined += weight * score
        extra["reward/combined"] = combined
        return {"reward_score": combined, "reward_extra_info": extra}


MANAGERS = {"VisualRewardManager": VisualRewardManager, "MultiVisualRewardManager": MultiVisualRewardManager}


def reward_manager(config: Any) -> VisualRewardManager:
    """What each of `reward.num_workers` processes makes."""
    return MANAGERS[config.reward.reward_manager.name](config, custom_reward_function(config))


@dataclass
class DataProto:
    batch: dict[str, torch.Tensor]
    non_tensor_batch: dict[str, np.ndarray[Any, Any]]
    meta_info: dict[str, Any] = field(default_factory=dict)


def rollouts_with_rewards(managers: list[VisualRewardManager], items: list[DataItem], uids: list[str]) -> DataProto:
    """`generate_sequences` of an agent loop worker: each sample is scored as soon as it is there, by any of the reward
    workers; then they are one batch. Keys that one sample lacks are left out."""

    async def run() -> list[dict[str, Any]]:
        return await asyncio.gather(*(random.choice(managers).run_single(item) for item in items))

    results = asyncio.run(asyncio.wait_for(run(), 60))
    keys = sorted(set.intersection(*(set(result["reward_extra_info"]) for result in results)))
    columns = {key: np.array([result["reward_extra_info"][key] for result in results]) for key in keys}
    scores = torch.tensor([result["reward_score"] for result in results], dtype=torch.float32).unsqueeze(-1)
    return DataProto(
        {"rm_scores": scores}, {"uid": np.array(uids, dtype=object), **columns}, {"reward_extra_keys": keys}
    )


DIFFUSION_ADV_ESTIMATOR_REGISTRY: dict[str, Any] = {}


def register_diffusion_adv_est(name: str) -> Any:
    def decorator(function: Any) -> Any:
        if DIFFUSION_ADV_ESTIMATOR_REGISTRY.get(name, function) != function:
            raise ValueError(f"Diffusion adv estimator {name} has already been registered")
        DIFFUSION_ADV_ESTIMATOR_REGISTRY[name] = function
        return function

    return decorator


def get_diffusion_adv_estimator_fn(name: str) -> Any:
    if name not in DIFFUSION_ADV_ESTIMATOR_REGISTRY:
        raise ValueError(f"Unknown diffusion advantage estimator: {name}.")
    return DIFFUSION_ADV_ESTIMATOR_REGISTRY[name]


@register_diffusion_adv_est("flow_grpo")
@register_diffusion_adv_est("dance_grpo")
def compute_flow_grpo_outcome_advantage(
    sample_level_rewards: torch.Tensor,
    index: np.ndarray[Any, Any],
    epsilon: float = 1e-4,
    norm_adv_by_std_in_grpo: bool = True,
    global_std: bool = True,
    config: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples x timesteps. Deviations are over all elements, repeated as they are, with n - 1 of them."""
    scores = sample_level_rewards.clone()
    assert scores.ndim == 2
    groups: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(index):
        groups[name].append(row)
    of_step = torch.std(scores) if global_std else None
    for rows in groups.values():
        own = sample_level_rewards[rows]
        mean = own[0] if len(rows) == 1 else own.mean()
        deviation = of_step if of_step is not None else torch.tensor(1.0) if len(rows) == 1 else torch.std(own)
        scores[rows] = (own - mean) / (deviation + epsilon) if norm_adv_by_std_in_grpo else own - mean
    return scores, scores


def compute_advantage(
    data: DataProto,
    adv_estimator: str,
    norm_adv_by_std_in_grpo: bool = True,
    global_std: bool = True,
    config: Any = None,
) -> DataProto:
    """Only the estimator named flow_grpo is given the two settings; the others find them in config."""
    arguments = {"sample_level_rewards": data.batch["sample_level_rewards"], "config": config}
    arguments["index"] = np.array([str(uid) for uid in data.non_tensor_batch["uid"]], dtype=object)
    estimator = get_diffusion_adv_estimator_fn(adv_estimator)
    if adv_estimator == "flow_grpo":
        arguments |= {"norm_adv_by_std_in_grpo": norm_adv_by_std_in_grpo, "global_std": global_std}
    data.batch["advantages"], data.batch["returns"] = estimator(**arguments)
    return data


def task_runner_imports(config: Any) -> None:
    """What `TaskRunner.run` imports by name, before the trainer is made."""
    if config.actor_rollout_ref.model.external_lib is not None:
        importlib.import_module(config.actor_rollout_ref.model.external_lib)


def train_step(config: Any, data: DataProto, num_timesteps: int) -> dict[str, float]:
    """One step of `PolicyGradientRayTrainer.fit` after the rollouts: advantages into the batch, and what is logged."""
    data.batch["sample_level_scores"] = data.batch["rm_scores"]
    data.batch["sample_level_rewards"] = data.batch["sample_level_scores"].expand(-1, num_timesteps)
    algorithm = config.algorithm
    compute_advantage(
        data,
        adv_estimator=algorithm.adv_estimator,
        norm_adv_by_std_in_grpo=algorithm.get("norm_adv_by_std_in_grpo", True),
        global_std=algorithm.global_std,
        config=algorithm,
    )
    rewards, advantages = data.batch["sample_level_rewards"].mean(dim=1), data.batch["advantages"]
    metrics = {"critic/rewards/mean": rewards.mean().item(), "critic/advantages/mean": advantages.mean().item()}
    for key in data.meta_info["reward_extra_keys"]:
        values = data.non_tensor_batch[key]
        if np.issubdtype(values.dtype, np.number):
            metrics[f"critic/{key}/mean"] = float(values.mean())
    return metrics


def optimizer_step(weights: torch.Tensor, log_probs: torch.Tensor, data: DataProto) -> bool:
    """Whether the engine updates: not if the norm of the gradient is no number, which it prints and nothing else."""
    advantages = data.batch["advantages"].clamp(-5, 5)
    (-advantages * torch.exp(log_probs - log_probs.detach())).mean().backward()
    assert weights.grad is not None
    return bool(torch.isfinite(torch.nn.utils.clip_grad_norm_([weights], 1.0)))


def validate(data: DataProto) -> dict[str, float]:
    """`_validate`: the mean of every column over the samples of a data source. `reward` is its own name."""
    columns: dict[str, list[float]] = {"reward": data.batch["rm_scores"].sum(-1).tolist()}
    for key in data.meta_info["reward_extra_keys"]:
        columns.setdefault(key, []).extend(data.non_tensor_batch[key].tolist())
    for key, values in columns.items():
        assert len(values) == len(columns["reward"]), f"{key}: {len(values)=}"
    core = "acc" if "acc" in columns else "reward"
    return {
        f"{'val-core' if key == core else 'val-aux'}/image_edit/{key}/mean@1": float(np.mean(values))
        for key, values in columns.items()
    }
