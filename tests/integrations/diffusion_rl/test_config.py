"""Settings and pipelines that mean nothing, or cannot be trained."""

import pytest
from diffusers import DiffusionPipeline

from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.reward.training.audit_probe import AuditProbe
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor

from ...pipelines_epsilon import instruct, ledits
from .tiny_trainer import CALL, SAMPLES, SMALL, bright


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_steps": 0}, "max_steps must be an integer of at least 1, got 0"),
        ({"groups": 0}, "groups must be an integer of at least 1"),
        ({"save_total_limit": 0}, "save_total_limit must be an integer of at least 1"),
        ({"group_size": 1}, "group_size must be 2 or more, got 1"),
        ({"mixed_precision": "fp16"}, "no or bf16"),
        ({"noise_level": 0.0}, "noise_level must be above 0 and at most 1"),
        ({"sampling": "ode"}, "sampling must be one of sde, cps"),
        ({"pipeline_kwargs": {"num_steps": 3}}, "takes no num_steps"),
        ({"pipeline_kwargs": {"generator": None}}, "leave it out"),
        ({"clip_range": -1e-4}, "clip_range must be 0 or more, got -0.0001"),
        ({"judge_std": -1.0}, "judge_std must be 0 or more"),
        ({"save_steps": -1}, "save_steps must be 0 or more"),
        ({"num_mini_batches": 3}, "num_mini_batches must be at most 2, got 3"),
        ({"pipeline_kwargs": {**CALL, "eta": 0.5}}, "not with eta in pipeline_kwargs"),
        ({"lr_scheduler_type": "cosine"}, "lr_scheduler_type must be constant or linear, got 'cosine'"),
        ({"huber_c": 0.0}, "huber_c must be positive, got 0.0"),
        ({"objective": "ppo"}, "objective must be one of grpo, nft, raft, got 'ppo'"),
    ],
)
def test_settings_that_mean_nothing_are_refused_before_anything_is_made(trainer, settings, words):
    with pytest.raises(ValueError, match=words):
        trainer(**settings)


@pytest.mark.parametrize("chance", [(), (2,), (7,)])
def test_a_run_in_which_no_step_is_left_to_chance_is_refused(trainer, chance):
    with pytest.raises(ValueError, match="none of 3 steps samples with noise"):
        trainer(sde_steps=chance).train()


def test_what_cannot_be_trained_is_refused(trainer, fresh, tmp_path):
    probes = "pass probes=, heldout= and probe_steps together"
    for pipeline, samples, settings, more, message in (
        (fresh(), [], {}, {}, "the dataset is empty"),
        (fresh(), SAMPLES, {}, {"heldout": bright}, "pass monitor="),
        (fresh(), SAMPLES, {}, {"audit_probe": AuditProbe(bright)}, "pass monitor="),
        (fresh(), SAMPLES, {"probe_steps": 2}, {"probes": SAMPLES}, probes),
        (fresh(), SAMPLES, {"probe_steps": 2}, {"monitor": RewardHackingMonitor(), "heldout": bright}, probes),
        (trainer().pipeline, SAMPLES, {}, {}, "has adapters already"),
        (ledits(tmp_path / "a"), SAMPLES, {}, {}, r"LEditsPP.* cannot be trained here: denoising reuses the noise"),
        (instruct(tmp_path / "b"), SAMPLES, {}, {}, r"set pipeline.scheduler = DDIMScheduler.from_config"),
        (DiffusionPipeline(), SAMPLES, {}, {}, "DiffusionPipeline cannot be trained here: it is not among"),
    ):
        with pytest.raises(ValueError, match=message):
            DiffusionTrainer(pipeline, bright, samples, DiffusionConfig(tmp_path, **SMALL | settings), **more)
