"""The trainer of diffusion editors, a few steps each on tiny pipelines of diffusers' own classes."""

import json
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler

from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.integrations.diffusion_rl.trajectories import RolloutBatch
from editcritic.integrations.diffusion_rl.transitions import log_likelihood
from editcritic.reward import EditSample, Image, Score
from editcritic.reward.training.audit_probe import AuditProbe
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor
from editcritic.verifiers import edit_request

from ...pipelines import flux2, flux2_klein, qwen_edit, qwen_edit_plus, small_qwen
from ...pipelines_epsilon import instruct, instruct_xl
from ..diffusers.editing import picture
from ..trainers.trainer_cases import PARTS, check_log
from .tiny_trainer import CALL, SAMPLES, SMALL, WORDS, bright, killed_after, lora, quiet, same, silent, untimed, worth


def likelihoods(trainer: DiffusionTrainer, batch: RolloutBatch) -> torch.Tensor:
    """By the weights as they are: (steps, rows)."""
    values = torch.zeros(len(batch.calls[0][0].steps), len(batch.samples))
    with torch.no_grad():
        for trajectory, rows in batch.calls:
            for number, step in enumerate(trajectory.steps):
                mean, std = trajectory.mean(step, range(len(rows)))
                values[number, rows] = log_likelihood(step.next_state, mean, std)
    return values


def learnt(
    trainer: DiffusionTrainer, batch: RolloutBatch, scores: Sequence[Score]
) -> tuple[list[list[torch.Tensor]], dict[str, float]]:
    """The gradients that each step of the optimizer is given, and the log."""
    gradients: list[list[torch.Tensor]] = []

    def note(*_: Any) -> None:
        gradients.append(
            [torch.zeros_like(weight) if weight.grad is None else weight.grad.clone() for weight in trainer.weights]
        )

    handle = trainer.optimizer.register_step_pre_hook(note)
    numbers = trainer.update(batch, scores)
    handle.remove()
    return gradients, numbers


def expected(
    trainer: DiffusionTrainer,
    batch: RolloutBatch,
    advantages: Sequence[float],
    *,
    clip: float,
    base: Any = None,
    beta: float = 0.0,
    transition_beta: float = 0.0,
) -> list[torch.Tensor]:
    """The gradient of the loss of all rows at once, by autograd: PPO's, and the divergence from `base`'s weights."""
    sigmas = trainer.pipeline.scheduler.sigmas
    terms = []
    advantage = torch.tensor(advantages, dtype=torch.float32)
    for trajectory, rows in batch.calls:
        for step in trajectory.steps:
            args, kwargs = step.denoiser_inputs
            count = step.state.shape[1]
            mean, std = step.transition(trainer.denoiser(*args, **kwargs)[0][:, :count], step.state)
            far = ((step.next_state - mean) ** 2).mean(dim=(1, 2)) / (2 * std**2)
            ratio = torch.exp(-far - step.log_likelihood)
            better = advantage[rows]
            gone = ((better > 0) & (ratio > 1 + clip)) | ((better < 0) & (ratio < 1 - clip))
            terms.append(-(torch.where(gone, ratio.detach(), ratio) * better))
            if beta or transition_beta:
                with torch.no_grad():
                    there, _ = step.transition(base(*args, **kwargs)[0][:, :count], step.state)
                dt = float(sigmas[step.index] - sigmas[step.index + 1])
                weight = beta / (2 * std**2 / dt) + transition_beta / (2 * std**2)
                terms.append(weight * ((mean - there) ** 2).mean(dim=(1, 2)))
    rows_and_steps = sum(len(rows) * len(trajectory.steps) for trajectory, rows in batch.calls)
    loss = torch.cat(terms).sum() / rows_and_steps
    return list(
        torch.autograd.grad(loss, trainer.weights, allow_unused=True, materialize_grads=True)  # zeros where unused
    )


def standardised(values: Sequence[float], size: int) -> list[float]:
    groups = [values[at : at + size] for at in range(0, len(values), size)]
    return [float((value - np.mean(group)) / np.std(group, ddof=1)) for group in groups for value in group]


def assert_close(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> None:
    one, other = (torch.cat([grad.flatten() for grad in grads]) for grads in (some, others))
    assert float(other.norm()) > 0
    assert float((one - other).norm()) < 2e-3 * float(other.norm())


@pytest.mark.parametrize(("train_batch", "rollout_batch"), [(8, 8), (1, 8), (2, 2), (3, 1)])
def test_the_gradient_is_that_of_the_plain_loss_however_it_is_portioned(trainer, train_batch, rollout_batch):
    one = trainer(train_batch_size=train_batch, rollout_batch_size=rollout_batch, max_grad_norm=1e9)
    batch = one.rollout(0)
    assert [len(rows) for _, rows in batch.calls] == [min(rollout_batch, 6)] * (6 // min(rollout_batch, 6))
    values = [worth(sample) for sample in batch.samples]
    right = expected(one, batch, standardised(values, 3), clip=1.0)
    (gradients,), _ = learnt(one, batch, bright(batch.samples))
    assert_close(gradients, right)


@pytest.mark.parametrize("weights", [{"beta": 0.5}, {"transition_beta": 0.1}])
def test_off_policy_the_ratio_is_clipped_and_the_divergence_is_that_from_the_editor_without_lora(
    trainer, fresh, weights
):
    names = {"beta": "beta", "transition_beta": "transition_kl_beta"}
    one = trainer(max_grad_norm=1e9, clip_range=1e-5, **{names[name]: weight for name, weight in weights.items()})
    batch = one.rollout(0)
    advantage_values = standardised([worth(sample) for sample in batch.samples], 3)
    base = fresh().transformer
    numbers = one.update(batch, bright(batch.samples))
    assert numbers["kl"] == numbers["ratio_deviation"] == numbers["clip_ratio"] == 0
    right = expected(one, batch, advantage_values, clip=1e-5, base=base, **weights)
    unclipped = expected(one, batch, advantage_values, clip=1e9, base=base, **weights)
    free = expected(one, batch, advantage_values, clip=1e-5)
    gradients, numbers = learnt(one, batch, bright(batch.samples))
    assert_close(gradients[0], right)
    for other in (unclipped, free):
        with pytest.raises(AssertionError):
            assert_close(gradients[0], other)
    assert 0 < numbers["kl"] < numbers["transition_kl"]
    assert numbers["ratio_deviation"] > 1e-5
    assert 0 < numbers["clip_ratio"] <= 1


def test_updates_go_through_the_groups_one_part_after_the_other(trainer):
    one = trainer(num_mini_batches=2, max_grad_norm=1e9)
    batch = one.rollout(0)
    scores = bright(batch.samples)
    (first, second), _ = learnt(one, batch, scores)
    alone = trainer(max_grad_norm=1e9)
    half = [Score.abstained("of another part")] * 3
    (only,), _ = learnt(alone, alone.rollout(0), scores[:3] + half)
    assert_close(first, only)
    with pytest.raises(AssertionError):
        assert_close(second, only)


def test_a_smaller_norm_is_what_is_left_of_a_gradient_and_the_log_says_what_it_was(trainer):
    one = trainer(max_grad_norm=1e-6)
    batch = one.rollout(0)
    (gradient,), numbers = learnt(one, batch, bright(batch.samples))
    assert float(torch.cat([grad.flatten() for grad in gradient]).norm()) == pytest.approx(1e-6, rel=1e-2)
    assert numbers["grad_norm"] > 1e-5


@pytest.mark.parametrize(("kind", "shares"), [("constant", (0.5, 1, 1, 1)), ("linear", (0.5, 0.75, 0.5, 0.25))])
def test_the_learning_rate_warms_up_and_may_fall(trainer, kind, shares):
    rates: list[float] = []
    more = {"callbacks": [lambda it, *_: rates.append(it.optimizer.param_groups[0]["lr"])]}
    trainer(max_steps=4, warmup_steps=1, lr_scheduler_type=kind, more=more).train()
    assert rates == pytest.approx([share * 1e-2 for share in shares])


def rows_passed(trainer: DiffusionTrainer, work: Callable[[], Any]) -> int:
    counts: Counter[str] = Counter()
    handle = trainer.denoiser.register_forward_hook(
        lambda _, args, kwargs, output: counts.update(rows=len(kwargs["hidden_states"])), with_kwargs=True
    )
    work()
    handle.remove()
    return counts["rows"]


DARK, DOWN = Score.abstained("too dark to tell"), Score.failed("down", cause="infrastructure")


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_rows_that_teach_nothing_are_not_even_passed_through_the_denoiser(trainer, beta):
    one = trainer(beta=beta)
    batch = one.rollout(0)
    transitions = 2  # of 3 steps the last one leaves nothing to chance
    for values, rows in (
        ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 6),
        ((0.1, 0.2, 0.3, 0.5, 0.5, 0.5), 3),  # a group that is all alike
        ((0.1, DOWN, 0.3, 0.4, DOWN, DOWN), 2),  # unscored rows, and what is left alone by them
        ((0.1, DARK, 0.3, 0.4, DARK, DOWN), 3),  # what nobody can judge counts as the lowest of its group
        ((DOWN,) * 6, 0),
        ((0.5,) * 6, 0),
    ):
        scores = [value if isinstance(value, Score) else Score.of(value) for value in values]
        passed = rows_passed(one, partial(one.update, batch, scores))
        assert passed == rows * transitions * (2 if beta else 1), values


def test_a_run_in_which_nothing_is_scored_changes_no_weight(trainer):
    one = trainer(silent, weight_decay=0.5)
    before = lora(one)
    log = one.train()
    assert same(before, lora(one))
    assert [(row["unscored"], row["abstained"]) for row in log] == [(0.0, 1.0)] * 2
    assert all("reward" not in row and "grad_norm" not in row for row in log)


def test_base_weights_and_encoders_stay_and_the_editor_without_lora_is_the_one_from_before(trainer, fresh):
    one, before = trainer(beta=0.1), fresh()
    one.train()
    after = one.pipeline
    for name, part in before.components.items():
        if isinstance(part, torch.nn.Module):
            weights = {
                key.replace(".base_layer", ""): weight for key, weight in getattr(after, name).state_dict().items()
            }
            assert all(torch.equal(weight, weights[key]) for key, weight in part.state_dict().items())
        if isinstance(part, torch.nn.Module) and name != "transformer":
            assert all(weight.grad is None for weight in getattr(after, name).parameters())
    assert any(float(weight.abs().max()) > 0 for name, weight in lora(one).items() if "lora_B" in name)
    assert edited(after) != edited(before)
    after.transformer.disable_adapters()
    assert edited(after) == edited(before)


def edited(pipeline: Any, **more: Any) -> Image:
    call = CALL | more if "Kontext" in type(pipeline).__name__ else {"num_inference_steps": 3, **more}
    call |= {"height": 32, "width": 32} if "XL" in type(pipeline).__name__ else {}
    shown = picture(0, 64 if "Flux2" in type(pipeline).__name__ else 32)
    result = pipeline(image=shown.pil(), prompt=WORDS[0], generator=torch.Generator().manual_seed(7), **call)
    return Image.of(result.images[0])


def test_pictures_are_made_of_all_the_dataset_before_one_comes_again(trainer):
    one = trainer(groups=3)
    instructions = [sample.instruction for step in range(4) for sample in one.rollout(step).samples[::3]]
    assert [Counter(instructions[at : at + 4]) for at in (0, 4, 8)] == [Counter(WORDS)] * 3
    assert len({tuple(instructions[at : at + 4]) for at in (0, 4, 8)}) > 1


def test_pictures_hang_on_the_seed_the_step_and_the_row_alone(trainer):
    one, other = trainer(rollout_batch_size=8), trainer(rollout_batch_size=2)
    some, others = one.rollout(1).samples, other.rollout(1).samples
    assert [sample.id for sample in some] == [sample.id for sample in others]
    pairs = zip(some, others, strict=True)
    assert max(int(abs(a.edited.pixels.astype(int) - b.edited.pixels.astype(int)).max()) for a, b in pairs) <= 1
    assert len({sample.edited.digest for sample in (*some, *one.rollout(0).samples)}) == 12
    assert trainer(seed=1).rollout(1).samples[0].edited != some[0].edited


@pytest.mark.parametrize("overlap", [True, False])
def test_random_numbers_of_the_program_are_left_alone(trainer, overlap):
    def draws(samples: Sequence[EditSample]) -> list[Score]:
        return [Score.of(float(torch.rand(()))) for _ in samples]

    def states() -> tuple[Any, ...]:
        return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())  # noqa: NPY002

    before = states()
    trainer(draws, overlap=overlap, beta=0.1).train()
    assert states() == before
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("overlap", [True, False])
def test_rewards_are_asked_once_a_step_in_another_thread_and_runs_repeat(trainer, overlap):
    threads: list[int] = []

    def judge(samples: Sequence[EditSample]) -> list[Score]:
        threads.append(threading.get_ident())
        assert len(samples) == 6
        return bright(samples)

    first, second = (trainer(judge, overlap=overlap) for _ in range(2))
    assert untimed(first.train()) == untimed(second.train())
    assert same(lora(first), lora(second))
    assert len(threads) == 4
    assert threading.get_ident() not in threads


def test_with_overlap_the_next_pictures_are_made_before_the_weights_change(trainer):
    calm, ahead = trainer(max_steps=3, overlap=False), trainer(max_steps=3, overlap=True)
    assert [row["ratio_deviation"] for row in calm.train()] == [0, 0, 0]
    offs = [row["ratio_deviation"] for row in ahead.train()]
    assert offs[0] == 0
    assert min(offs[1:]) > 0


@pytest.mark.parametrize("overlap", [True, False])
def test_an_error_of_the_reward_reaches_the_caller_and_the_log_so_far_is_on_disk(trainer, tmp_path, overlap):
    one = trainer(killed_after(1), max_steps=3, overlap=overlap)
    with pytest.raises(KeyError, match="the judge is down"):
        one.train()
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0]
    assert "step" not in vars(one.pipeline.scheduler)
    assert edited(one.pipeline).size == (32, 32)


def test_a_held_out_reward_that_turns_away_alarms_while_the_run_goes_on(trainer, tmp_path):
    batch_sizes: list[int] = []
    alarms: list[float] = []

    def turns(samples: Sequence[EditSample]) -> list[Score]:
        batch_sizes.append(len(samples))
        return [Score.of(worth(sample) if len(batch_sizes) <= 6 else 1 - worth(sample)) for sample in samples]

    def callback(it: DiffusionTrainer, step: int, numbers: dict[str, float]) -> dict[str, float]:
        alarms.append(numbers["alarms"])
        assert len(it.monitor.alarms) == numbers["alarms"]  # type: ignore[union-attr]
        return {"mine": float(step)}

    more = {"heldout": turns, "monitor": RewardHackingMonitor(baseline=5, patience=2), "callbacks": [callback]}
    settings: dict[str, Any] = {"max_steps": 10, "save_steps": 7, "groups": 1, "learning_rate": 0.0}
    one = trainer(more=more, **settings)
    log = one.train()
    assert batch_sizes == [3] * 10
    assert [row["agreement"] for row in log] == [1.0] * 6 + [-1.0] * 4
    assert [alarm.step for alarm in one.monitor.alarms if alarm.name == "agreement"] == [7]
    assert alarms[6] == 0 < alarms[7]
    assert [row["mine"] for row in log] == list(range(10))
    state = json.loads((tmp_path / "run" / "checkpoint-7" / "state.json").read_text())
    resumed = trainer(more={**more, "monitor": RewardHackingMonitor(baseline=9)}, **settings)
    resumed.train(resume=True)
    assert RewardHackingMonitor.from_json(state["monitor"]).alarms == []
    assert resumed.monitor.to_json() == one.monitor.to_json()


@pytest.mark.parametrize(
    ("make", "settings"),
    [(instruct, {"guidance_scale": 1.0}), (instruct_xl, {"guidance_scale": 5.0, "image_guidance_scale": 1.5})],
)
def test_ddpo_teaches_an_epsilon_editor(make, settings, tmp_path):
    pipeline = make(tmp_path / "made")
    scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, clip_sample=False)
    pipeline.scheduler = scheduler
    call = {"num_inference_steps": 3, **settings}
    config = DiffusionConfig(
        tmp_path / "run", **SMALL | {"noise_level": 1.0, "overlap": False, "pipeline_kwargs": call}
    )
    trainer = DiffusionTrainer(pipeline, bright, SAMPLES, config)
    batch = trainer.rollout(0)
    before = likelihoods(trainer, batch).sum(0)
    advantages = torch.tensor(standardised([worth(sample) for sample in batch.samples], 3))
    log = trainer.train()
    moved = likelihoods(trainer, batch).sum(0) - before
    assert [row["ratio_deviation"] for row in log] == pytest.approx([0, 0], abs=1e-5)
    assert float((advantages * moved).sum()) > 0
    fresh = quiet(type(pipeline).from_pretrained(tmp_path / "made"))
    fresh.scheduler = scheduler
    untrained = edited(fresh, **settings)
    fresh.load_lora_weights(tmp_path / "run")
    assert edited(fresh, **settings) == edited(pipeline, **settings) != untrained


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (qwen_edit, {"true_cfg_scale": 1.0}),
        (qwen_edit_plus, {"true_cfg_scale": 1.0}),
        (flux2, {"text_encoder_out_layers": (1,)}),
        (flux2_klein, {"text_encoder_out_layers": (1,), "guidance_scale": 1.0}),
    ],
)
def test_each_editor_learns_and_what_it_has_learnt_is_loaded_as_any_other_lora(make, settings, tmp_path):
    pipeline, call = quiet(make(tmp_path)), {"num_inference_steps": 2, **settings}
    several = (picture(2, 64),) if make is not qwen_edit else ()
    samples = [edit_request("Add cat", picture(1, 64), *several)]
    config = DiffusionConfig(
        tmp_path / "run", **SMALL | {"max_steps": 1, "groups": 1, "learning_rate": 0.1, "pipeline_kwargs": call}
    )
    with small_qwen():
        trainer = DiffusionTrainer(pipeline, bright, samples, config)
        trainer.train()
        where = tmp_path / "pipeline" if make in (qwen_edit, qwen_edit_plus) else tmp_path
        fresh = quiet(type(pipeline).from_pretrained(where))
        untrained = edited(fresh, **call)
        fresh.load_lora_weights(tmp_path / "run")
        assert edited(fresh, **call) == edited(pipeline, **call) != untrained


def test_mixed_precision_starts_from_a_ratio_of_one(fresh, tmp_path):
    """In a process of its own group of settings: accelerate keeps the first precision it was told."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state()
    try:
        config = DiffusionConfig(tmp_path / "run", **SMALL | {"mixed_precision": "bf16", "train_batch_size": 6})
        trainer = DiffusionTrainer(fresh(), bright, SAMPLES, config)
        log = trainer.train()
        assert log[0]["ratio_deviation"] < 1e-5
        assert all(weight.dtype == torch.float32 for weight in lora(trainer).values())
    finally:
        AcceleratorState._reset_state()


def test_probes_are_edited_from_the_same_noise_before_and_between_steps(trainer):
    edited_probes: list[list[Any]] = []

    def heldout(samples: Sequence[EditSample]) -> list[Score]:
        if [sample.id for sample in samples] == [sample.id for sample in SAMPLES[:3]]:
            edited_probes.append([sample.edited for sample in samples])
        return bright(samples)

    more = {"monitor": RewardHackingMonitor(), "heldout": heldout, "probes": SAMPLES[:3]}
    run = trainer(max_steps=4, probe_steps=2, learning_rate=0.0, more=more)
    log = run.train()
    assert len(edited_probes) == 3
    assert edited_probes[0] == edited_probes[1] == edited_probes[2]  # nothing was learned
    assert ["probe/reward" in row for row in log] == [False, True, False, True]


def test_hacks_are_measured_on_the_images_of_a_step_and_training_is_the_same(trainer):
    asked: list[list[str]] = []

    def noted(samples: Sequence[EditSample]) -> list[Score]:
        asked.append([sample.id for sample in samples])
        return bright(samples)

    plain = trainer(max_steps=3)
    plain_log = plain.train()
    shutil.rmtree(plain.config.output_dir)
    probe = AuditProbe(noted, every=2, samples=2, families=["unchanged-source", "words-to-judge"])
    monitor = RewardHackingMonitor()
    one = trainer(max_steps=3, more={"monitor": monitor, "audit_probe": probe})
    log = one.train()
    assert same(lora(plain), lora(one))
    assert [row["reward"] for row in log] == [row["reward"] for row in plain_log]
    assert ["hack/best" in row for row in log] == [True, False, True]
    assert len(asked) == 2
    assert {name.rpartition("/")[0].rpartition("/")[2] for name in asked[0]} == {"unchanged-source", "words-to-judge"}
    assert {"hack/unchanged-source", "hack/words-to-judge"} <= set(log[0])
    best = max(log[0]["hack/unchanged-source"], log[0]["hack/words-to-judge"])
    assert log[0]["hack/best"] >= best
    assert RewardHackingMonitor.from_json(monitor.to_json()).to_json() == monitor.to_json()


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_a_picture_of_nan_is_a_failed_score_and_the_others_are_learnt_from(trainer, monkeypatch):
    seen: list[EditSample] = []

    def noted(samples: Sequence[EditSample]) -> list[Score]:
        seen.extend(samples)
        return bright(samples)

    monitor = RewardHackingMonitor()
    one = trainer(noted, max_steps=1, more={"heldout": bright, "monitor": monitor})
    decode = one.pipeline.vae.decode

    def overflowing(*args: Any, **kwargs: Any) -> Any:
        pixels = decode(*args, **kwargs)[0].clone()
        pixels[:1] = torch.nan
        return (pixels,)

    monkeypatch.setattr(one.pipeline.vae, "decode", overflowing)
    before = lora(one)
    (log,) = one.train()
    calls = 6 - len(seen)
    assert 0 < calls < 6, "one row of each call"
    assert log["abstained"] == pytest.approx(calls / 6)
    assert not same(before, lora(one))
    assert all(bool(torch.isfinite(weight).all()) for weight in lora(one).values())
    assert min(worth(sample) for sample in seen) > 0, "no black picture was scored"


@pytest.mark.filterwarnings("error:Mean of empty slice")
def test_the_log_has_the_documented_names(fresh, tmp_path):
    def parted(samples: Sequence[EditSample]) -> list[Score]:
        lacking = {"0": Score.abstained("nobody knows"), "1": Score.failed("no answer", cause="infrastructure")}
        scored = Score.of(0.5, parts=dict.fromkeys(PARTS, Score.of(0.5)))
        return [lacking.get(sample.id.rpartition("/")[2], scored) for sample in samples]

    for name, reward in (("parted", parted), ("plain", bright)):
        config = DiffusionConfig(tmp_path / name, **SMALL | {"max_steps": 1})
        (log,) = DiffusionTrainer(fresh(), reward, SAMPLES, config).train()
        check_log("DiffusionTrainer", log, parts=name == "parted", share=1 / 6 if name == "parted" else 0)
