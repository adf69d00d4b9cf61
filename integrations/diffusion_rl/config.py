"""Configuration of `DiffusionTrainer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ...reward.training.advantages import AbstainedPolicy, NoiseCorrection, ScaleRewards
from .objectives import Objective
from .transitions import Sampling


@dataclass
class DiffusionConfig:
    """Settings of `DiffusionTrainer`.

    Args:
        output_dir: For the log (`log.jsonl`), checkpoints, and the final LoRA.
        max_steps: Training steps. Each generates `groups` times `group_size` images per process and trains on them
            once, in `num_mini_batches` optimizer steps.
        rollout_batch_size: Images per pipeline call, where the pipeline family supports batches; a source and its
            instruction are encoded once per call.
        train_batch_size: Rows per backward pass.
        objective: See `objectives`. The gradient of `grpo` needs many images if the noise of a single step decides
            little (docs/trainers/diffusion_trainer.md). `grpo` uses noise_level, sampling, sde_steps, init_same_noise,
            clip_range, beta and transition_kl_beta. `nft` uses num_noise_levels (how many noise levels images are
            noised to), nft_beta, and min_noise_level: at lower noise levels, in [0, 1], the denoiser is held at its
            initial weights. The content of an image is decided before these levels; its rendering should stay. `raft`
            uses num_noise_levels, huber_c, max_spread_ratio and beta (see `raft` and `nearest_winners` there).
        noise_level: Noise of the sampler's steps, in (0, 1]: Flow-GRPO's level a, or DDIM's eta.
        sampling: See `transitions.Sampling`.
        sde_steps: Indices of the steps that sample with noise; the other steps are the solver's own and are not trained
            (mixed sampling: Li et al. 2025, arXiv 2507.21802). None: all; a flow's last step has no noise in any case.
        init_same_noise: The images of a group start from the same noise, so that they differ only by the noise of the
            steps, which is what the policy learns from (DanceGRPO: Xue et al. 2025, arXiv 2505.07818).
        clip_range: Of the likelihood ratio. The log-likelihood is a mean over the elements of a latent, so it is far
            smaller than for language models.
        beta: For `grpo` weight of the distance from the editor without LoRA that Flow-GRPO's released code has under
            this name, so that its values carry over.
        transition_kl_beta: Weight of the KL divergence of a step that its paper defines, 1 / dt times as large: 4 to 28
            times in schedules of 4 to 10 steps (see `objectives.grpo`). With `cps` and DDIM both are the same. For
            `raft`, beta is the weight of the distance of predictions (see `raft`). With 0 for both the forward pass
            without LoRA is saved.
        lr_scheduler_type: Of the learning rate after the warmup; `linear` decays to 0 at the last of `max_steps`.
        scale_rewards: See `advantages`; an abstention counts as the lower bound of the reward's range, or without one
            as its group's lowest value.
        judge_std: See `scale_rewards`.
        noise_correction: See `scale_rewards`.
        abstained: See `scale_rewards`.
        advantage_clip: Advantages are clipped to this; for `nft` the clipped advantage maps to optimality 0 or 1.
        lora_targets: Module names, as in peft; None for every linear layer in the denoiser's blocks.
        overlap: Score images in a thread while the next ones are generated. These are then generated with weights one
            step older than those that train on them, which `grpo`'s ratio corrects. Not across a checkpoint: a resumed
            run equals an uninterrupted one bit for bit, on one device.
        save_steps: Steps between checkpoints; 0 for none.
        save_total_limit: Checkpoints kept.
        probe_steps: Steps between probes, see `DiffusionTrainer`; 0 for none.
        report_to: Trackers of accelerate, such as "tensorboard" or "wandb".
    """

    output_dir: str | Path
    max_steps: int = 100
    groups: int = 4
    group_size: int = 8
    num_mini_batches: int = 1
    rollout_batch_size: int = 8
    train_batch_size: int = 8
    objective: Objective = "grpo"
    noise_level: float = 0.7
    sampling: Sampling = "sde"
    sde_steps: Sequence[int] | None = None
    init_same_noise: bool = False
    learning_rate: float = 3e-4
    warmup_steps: int = 0
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    clip_range: float = 1e-4
    beta: float = 0.0
    transition_kl_beta: float = 0.0
    num_noise_levels: int = 3
    nft_beta: float = 4.0
    min_noise_level: float = 0.0
    huber_c: float = 0.05
    max_spread_ratio: float = 0.5
    lr_scheduler_type: Literal["constant", "linear"] = "constant"
    scale_rewards: ScaleRewards = "group"
    judge_std: float = 0.0
    noise_correction: NoiseCorrection = "shrink"
    abstained: AbstainedPolicy = "lowest"
    advantage_clip: float = 5.0
    lora_rank: int = 32
    lora_alpha: int = 64
    lora_targets: Sequence[str] | None = None
    overlap: bool = True
    seed: int = 0
    save_steps: int = 0
    save_total_limit: int = 2
    probe_steps: int = 0
    mixed_precision: str = "no"
    report_to: str | None = None
    pipeline_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of every pipeline call, such as `num_inference_steps` and `guidance_scale`."""

    def __post_init__(self) -> None:
        for name in (
            *("max_steps", "groups", "num_mini_batches", "rollout_batch_size", "train_batch_size", "num_noise_levels"),
            *("lora_rank", "save_total_limit"),
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {getattr(self, name)}")
        if self.objective not in get_args(Objective):
            raise ValueError(f"objective must be one of {', '.join(get_args(Objective))}, got {self.objective!r}")
        if self.lr_scheduler_type not in ("constant", "linear"):
            raise ValueError(f"lr_scheduler_type must be constant or linear, got {self.lr_scheduler_type!r}")
        for name in ("nft_beta", "huber_c"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in (
            *("max_spread_ratio", "clip_range", "beta", "transition_kl_beta", "min_noise_level", "judge_std"),
            *("weight_decay", "warmup_steps", "save_steps"),
        ):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.group_size < 2:
            raise ValueError(f"images of a group are compared: group_size must be 2 or more, got {self.group_size}")
        if self.num_mini_batches > self.groups:
            raise ValueError(
                f"a mini-batch takes whole groups: num_mini_batches must be at most {self.groups}, "
                f"got {self.num_mini_batches}"
            )
        if "eta" in self.pipeline_kwargs:
            raise ValueError("set the noise of the steps with noise_level, not with eta in pipeline_kwargs")
        if self.mixed_precision == "fp16":
            raise ValueError("fp16 is too coarse for likelihood ratios: mixed_precision must be no or bf16")
