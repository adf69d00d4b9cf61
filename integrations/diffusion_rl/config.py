"""Settings of `diffusion_rl.DiffusionTrainer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ..reward.advantages import Noisy, Scale
from .diffusers.objectives import Objective
from .diffusers.transitions import Sampling


@dataclass
class DiffusionConfig:
    """output_dir: for the log (`log.jsonl`), checkpoints, and the LoRA in the end.

    steps: of training; each makes `groups` times `group_size` pictures in every process and goes through them once, in
    `updates` steps of the optimizer. rollout_batch: pictures in a call of the pipeline, where its family can; a source
    and its instruction are encoded once a call. train_batch: rows in a backward pass.

    noise: how much the sampler's steps leave to chance, in (0, 1]: Flow-GRPO's level a, or DDIM's eta. sampling: see
    `transitions.Sampling`. chance: the numbers of these steps; the other ones are the solver's own, and are not trained
    (mixed sampling: Li et al. 2025, arXiv 2507.21802). None: all; a flow's last step has none in any case.

    same_start: pictures of a group start from the same noise, so that only what the steps drew tells them apart, which
    is what they learn from (DanceGRPO: Xue et al. 2025, arXiv 2505.07818).

    objective: see `diffusers.objectives`. The gradient of `grpo` needs many pictures where what is drawn in a single
    step decides little (docs/training.md). For `grpo` are noise, sampling, chance, same_start,
    clip_range and beta; for `nft` levels, how many noise levels pictures are noised to, reach, and hold_below: at
    levels with less noise, from 0 to 1, the denoiser learns nothing and is held where it was. What a picture is to show
    has been decided there, and how it is drawn is best left alone. For `raft` are levels,
    threshold, agree and beta (see `raft` and `imitated` there).

    schedule: of the learning rate after the warmup; `linear` falls to 0 at the last of `steps`.

    clip_range: of the ratio of likelihoods. The logarithm is a mean over the numbers of a latent, so that it is far
    smaller than in language models. beta: weight of the KL divergence to the editor without its LoRA, per number of a
    latent, as in Flow-GRPO, or of `raft`'s distance from it; 0 spares the pass it takes.

    scale, judge_noise, noisy: see `advantages`. advantage_clip: advantages end there; for `nft` that is where a picture
    is wholly wanted, or wholly unwanted.

    lora_targets: names of modules, as peft takes them; None for every linear layer in the denoiser's blocks.
    overlap: judge pictures in a thread while the next are made. Those are then made with weights one step older than
    those that learn from them, which `grpo`'s ratio accounts for. Not across a checkpoint, so that a run that was
    resumed equals one that was not to the bit, on one device. save_every: a checkpoint each so many steps; 0 for none.
    save_total: so many are kept.
    probe_every: see `DiffusionTrainer`; 0 for never.
    report_to: trackers of accelerate, such as "tensorboard" or "wandb".
    """

    output_dir: str | Path
    steps: int = 100
    groups: int = 4
    group_size: int = 8
    updates: int = 1
    rollout_batch: int = 8
    train_batch: int = 8
    objective: Objective = "grpo"
    noise: float = 0.7
    sampling: Sampling = "sde"
    chance: Sequence[int] | None = None
    same_start: bool = False
    learning_rate: float = 3e-4
    warmup: int = 0
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    clip_range: float = 1e-4
    beta: float = 0.0
    levels: int = 3
    reach: float = 4.0
    hold_below: float = 0.0
    threshold: float = 0.05
    agree: float = 0.5
    schedule: Literal["constant", "linear"] = "constant"
    scale: Scale = "group"
    judge_noise: float = 0.0
    noisy: Noisy = "shrink"
    advantage_clip: float = 5.0
    lora_rank: int = 32
    lora_alpha: int = 64
    lora_targets: Sequence[str] | None = None
    overlap: bool = True
    seed: int = 0
    save_every: int = 0
    save_total: int = 2
    probe_every: int = 0
    mixed_precision: str = "no"
    report_to: str | None = None
    call: Mapping[str, Any] = field(default_factory=dict)
    """Settings of every call of the pipeline, such as `num_inference_steps` and `guidance_scale`."""

    def __post_init__(self) -> None:
        for name in ("steps", "groups", "updates", "rollout_batch", "train_batch", "levels", "lora_rank", "save_total"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is a whole number of at least 1, got {getattr(self, name)}")
        if self.objective not in get_args(Objective):
            raise ValueError(f"objective is one of {', '.join(get_args(Objective))}, got {self.objective!r}")
        if self.schedule not in ("constant", "linear"):
            raise ValueError(f"schedule is constant or linear, got {self.schedule!r}")
        for name in ("reach", "threshold"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is a positive number, got {getattr(self, name)}")
        for name in (
            "agree",
            "clip_range",
            "beta",
            "hold_below",
            "judge_noise",
            "weight_decay",
            "warmup",
            "save_every",
        ):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is 0 or more, got {getattr(self, name)}")
        if self.group_size < 2:
            raise ValueError(f"pictures of a group are compared: group_size is 2 or more, got {self.group_size}")
        if self.updates > self.groups:
            raise ValueError(f"an update takes whole groups: updates is {self.groups} at most, got {self.updates}")
        if "eta" in self.call:
            raise ValueError("how much a step leaves to chance is `noise`, not eta in `call`")
        if self.mixed_precision == "fp16":
            raise ValueError("likelihoods are too close for fp16: mixed_precision is no or bf16")
