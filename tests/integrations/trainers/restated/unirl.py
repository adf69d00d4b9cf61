"""UniRL's reward step, restated from github.com/Tencent-Hunyuan/UniRL as read on 2026-11-23: what reaches a reward
backend, what becomes of its answer, and its client of reward servers.

Of main: `unirl/types/primitives.py` (3984e2a), `unirl/types/reward.py` (after pull request 477), `RewardService` of
`unirl/reward/service.py` (0e713d6, with the request of 477), `Part.compute_advantages` of `unirl/types/sample.py`
(09bbaa7) and `finite_mean_std` of `unirl/types/advantages.py` (after pull request 335), `_tensor_stats` of
`unirl/utils/wandb_metrics.py` (735e098), `_rollout_and_score` of `unirl/trainer/diffusion.py` (0104a7e), and
`unirl/reward/remote.py` (0e713d6). Pictures are stacked here and packed there; `to_list` gives the same.
"""

import base64
import importlib
import io
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from unittest.mock import patch

import PIL.Image
import requests
import torch


@dataclass
class Image:
    """pixels: C x H x W in [0, 1]."""

    pixels: torch.Tensor


@dataclass
class Images:
    """One image a row."""

    held: list[Image]

    def to_list(self) -> list[Image]:
        return self.held


@dataclass
class ImageSets:
    """Several images a row."""

    rows: list[Images]


@dataclass
class Texts:
    texts: list[str]


@dataclass
class RewardRequest:
    """One shard. conditioning: what the images were generated from, but text."""

    generated: dict[str, Any] = field(default_factory=dict)
    conditioning: dict[str, Any] = field(default_factory=dict)
    original_prompt: Texts | None = None
    generation_prompt: Texts | None = None
    metadata: list[dict[str, Any] | None] | None = None
    sample_ids: list[str] | None = None
    group_ids: list[str] | None = None


@dataclass
class RewardResponse:
    """One number a row in each list; compute_time: seconds."""

    rewards: list[float] = field(default_factory=list)
    component_rewards: dict[str, list[float]] = field(default_factory=dict)
    successes: list[bool] = field(default_factory=list)
    errors: list[str | None] = field(default_factory=list)
    compute_time: float = 0.0


def finite_mean_std(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and population std of the finite values; (0, 1) of none, and std 1 of one."""
    known = values[torch.isfinite(values)]
    if known.numel() == 0:
        return values.new_zeros(()), values.new_ones(())
    return known.mean(), (known.std(unbiased=False) if known.numel() > 1 else values.new_ones(()))


@dataclass
class Part:
    """Rows of one lineage level. An id is a path, whose last step tells siblings apart: p0/0/3."""

    sample_ids: list[str]
    primitives: dict[str, Any] = field(default_factory=dict)
    metadata: list[dict[str, Any] | None] = field(default_factory=list)
    rewards: torch.Tensor | None = None
    component_rewards: dict[str, torch.Tensor] | None = None
    advantages: torch.Tensor | None = None

    @property
    def group_ids(self) -> list[str]:
        return [sample_id.rpartition("/")[0] or sample_id for sample_id in self.sample_ids]

    def compute_advantages(self, eps: float = 1e-8) -> "Part":
        """Of each group, by its own deviation."""
        assert self.rewards is not None
        rewards = self.rewards.to(torch.float32)
        labels = list(dict.fromkeys(self.group_ids))
        branch = len(rewards) // len(labels)
        if self.group_ids != [label for label in labels for _ in range(branch)]:
            raise ValueError("siblings stand together, in groups of one size")
        rows = rewards.view(len(labels), branch)
        known = torch.isfinite(rows)
        count = known.sum(dim=1, keepdim=True)
        mean = torch.where(known, rows, 0.0).sum(dim=1, keepdim=True) / count.clamp_min(1)
        centred = torch.where(known, rows - mean, 0.0)
        variance = (centred * centred).sum(dim=1, keepdim=True) / count.clamp_min(1)
        std = torch.where(count > 1, variance.sqrt(), 1.0)
        return replace(self, advantages=(centred / (std + eps)).flatten())


@dataclass
class Sample:
    """parts: each one's rows are children of the one before: prompts, sources, generated images."""

    parts: list[Part]

    def conditioning(self, key: str) -> list[Any]:
        """The rows of the nearest part before the last one that has this primitive, for each row of the last."""
        (owner,) = [part for part in self.parts[:-1] if key in part.primitives][-1:]
        value = owner.primitives[key]
        rows: list[Any] = value.texts if key == "text" else value.to_list()
        by_id = dict(zip(owner.sample_ids, rows, strict=True))
        depth = owner.sample_ids[0].count("/") + 1
        return [by_id["/".join(sample_id.split("/")[:depth])] for sample_id in self.parts[-1].sample_ids]


class RewardService:
    """One backend."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def score_and_attach(self, sample: Sample) -> Sample:
        """The sample with rewards and component rewards in its last part. RuntimeError on any flag."""
        last = sample.parts[-1]
        kind = self.backend.preferred_input_kind
        if kind not in last.primitives:
            raise ValueError(f"the backend takes {kind!r}")
        prompts = Texts(sample.conditioning("text"))
        root = dict(zip(sample.parts[0].sample_ids, sample.parts[0].metadata, strict=False))
        metadata = [root.get(sample_id.partition("/")[0]) for sample_id in last.sample_ids]
        response = self.backend.compute_rewards(
            RewardRequest(
                generated=dict(last.primitives),
                conditioning={"image": Images(sample.conditioning("image"))},
                original_prompt=prompts,
                generation_prompt=prompts,
                metadata=metadata if any(row is not None for row in metadata) else None,
                sample_ids=last.sample_ids,
                group_ids=last.group_ids,
            )
        )
        flagged = [
            (row, error)
            for row, (ok, error) in enumerate(zip(response.successes, response.errors, strict=True))
            if not ok
        ]
        if flagged:
            raise RuntimeError(
                f"Reward computation flagged {len(flagged)} of {len(response.successes)} as failure: {flagged[:3]}"
            )
        scored = replace(
            last,
            rewards=torch.tensor(response.rewards, dtype=torch.float32),
            component_rewards={
                str(name): torch.tensor(list(column or []), dtype=torch.float32)
                for name, column in dict(response.component_rewards or {}).items()
            },
        )
        return Sample([*sample.parts[:-1], scored])


def rollout_and_score(service: RewardService, sample: Sample) -> Part:
    """The trainer's step up to the optimizer's: its last part with advantages."""
    return service.score_and_attach(sample).parts[-1].compute_advantages()


def logged(part: Part) -> dict[str, float]:
    """What of rewards reaches wandb, under `rollout/`."""
    tensors = {"reward": part.rewards, "advantage": part.advantages}
    tensors |= {f"reward_{name.replace('/', '_')}": column for name, column in (part.component_rewards or {}).items()}
    metrics: dict[str, float] = {}
    for name, tensor in tensors.items():
        if tensor is not None and len(known := tensor[torch.isfinite(tensor)]):
            metrics |= {f"{name}_mean": known.mean().item(), f"{name}_std": known.std(unbiased=False).item()}
    return metrics


@dataclass
class RemoteRewardSpec:
    base_url: str = ""
    required_rewards: tuple[str, ...] = ()
    timeout: float = 300.0
    max_retries: int = 3
    retry_delay: float = 1.0
    image_format: str = "JPEG"
    image_quality: int = 95
    input_kind: str = "image"


class RemoteRewardBackend:
    """The client of reward servers; aggregation is its default, a mean, of the first number of each reward."""

    def __init__(self, *, config: RemoteRewardSpec, base_device: str) -> None:
        del base_device
        self.config = config
        self.preferred_input_kind = config.input_kind

    def compute_rewards(self, request: RewardRequest) -> RewardResponse:
        assert request.generation_prompt is not None
        images = request.generated["image"].to_list()
        rows = zip(request.generation_prompt.texts, request.conditioning["image"].to_list(), images, strict=True)
        items = [
            {
                "history": [{"text": text, "image_b64": self._encoded(image)} for image in (source, edited)],
                "required_rewards": list(self.config.required_rewards),
                "metadata": None if request.metadata is None else request.metadata[row],
                "request_id": request.sample_ids and request.sample_ids[row],
                "sample_id": request.sample_ids and request.sample_ids[row],
                "group_id": request.group_ids and request.group_ids[row],
                "source_rank": None, "policy_version": None, "scorer_version": None,
                "idempotency_key": f"{request.sample_ids and request.sample_ids[row]}",
            }
            for row, (text, source, edited) in enumerate(rows)
        ]  # fmt: skip
        raw = self._post({"protocol_version": "1", "requests": items})
        if len(raw["results"]) > len(items) or len(raw["identities"]) != len(items):
            raise ValueError("more rows than requested")
        for item, identity in zip(items, raw["identities"], strict=True):
            for key in ("request_id", "sample_id", "group_id", "source_rank", "policy_version", "idempotency_key"):
                if identity[key] != item[key]:
                    raise ValueError(f"identity mismatch for {key}")
        return self._parsed(raw)

    def _encoded(self, image: Image) -> str:
        pixels = (image.pixels.clamp(0.0, 1.0) * 255).to(torch.uint8).permute(1, 2, 0).numpy()
        buffer = io.BytesIO()
        quality = {"quality": self.config.image_quality} if self.config.image_format == "JPEG" else {}
        PIL.Image.fromarray(pixels).save(buffer, self.config.image_format, **quality)
        return base64.b64encode(buffer.getvalue()).decode()

    def _post(self, payload: dict[str, Any]) -> Any:
        for attempt in range(self.config.max_retries):
            if attempt:
                time.sleep(self.config.retry_delay)
            answer = requests.post(f"{self.config.base_url}/score", json=payload, timeout=self.config.timeout)
            if 400 <= answer.status_code < 500 and answer.status_code != 429:
                answer.raise_for_status()
            if answer.ok:
                return answer.json()
        raise RuntimeError(f"failed after {self.config.max_retries} retries")

    def _parsed(self, raw: dict[str, Any]) -> RewardResponse:
        """A sample without all its rewards is flagged; null, NaN, and what is no number count as none."""
        components: dict[str, list[float]] = {name: [] for name in self.config.required_rewards}
        response = RewardResponse(component_rewards=components)
        for result, errors in zip(raw["results"], raw["errors"], strict=True):
            found: list[float] = []
            reasons: list[str] = []
            for name in self.config.required_rewards:
                numbers = list(result.get(name, {}).values())
                if name not in result:
                    reasons.append(f"{name}: {errors.get(name, 'missing from server response without error')}")
                elif not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
                    reasons.append(f"{name}: non-finite value")
                else:
                    found.append(float(numbers[0]))
                components[name].append(0.0 if reasons else found[-1])
            response.rewards.append(sum(found) / len(found) if found else 0.0)
            response.successes.append(bool(found) and not reasons)
            response.errors.append("; ".join(reasons) or None)
        return response


def instantiate(config: Any) -> Any:
    """`hydra.utils.instantiate`, of plain YAML: what has `_target_` is called with the rest, the innermost first."""
    if isinstance(config, list):
        return [instantiate(value) for value in config]
    if not isinstance(config, Mapping):
        return config
    values = {name: instantiate(value) for name, value in config.items() if name != "_target_"}
    if "_target_" not in config:
        return values
    module, _, name = config["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**values)


@contextmanager
def installed(*, leaves_nan_out: bool = True) -> Iterator[None]:
    """As if UniRL were installed. leaves_nan_out: not before pull request 335."""
    names: dict[str, dict[str, Any]] = {
        "unirl": {}, "unirl.reward": {}, "unirl.types": {},
        "unirl.reward.service": {"RewardService": RewardService},
        "unirl.reward.remote": {"RemoteRewardBackend": RemoteRewardBackend, "RemoteRewardSpec": RemoteRewardSpec},
        "unirl.types.reward": {"RewardRequest": RewardRequest, "RewardResponse": RewardResponse},
        "unirl.types.advantages": {"finite_mean_std": finite_mean_std} if leaves_nan_out else {},
    }  # fmt: skip
    modules = {}
    for name, contents in names.items():
        module = modules[name] = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None, is_package=len(contents) == 0)
        vars(module).update(contents)
    with patch.dict(sys.modules, modules):
        yield
