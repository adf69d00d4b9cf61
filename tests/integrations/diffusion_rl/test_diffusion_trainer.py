"""The trainer of diffusion editors, a few steps each on tiny pipelines of diffusers' own classes."""

import copy
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, DiffusionPipeline, FluxKontextPipeline

from editcritic.integrations.diffusers.editor import editor_of
from editcritic.integrations.diffusers.transitions import log_likelihood
from editcritic.integrations.diffusion_rl import Batch, DiffusionConfig, DiffusionTrainer, _seed
from editcritic.reward import EditSample, Image, Score
from editcritic.reward.advantages import advantages
from editcritic.reward.alarms import Watch
from editcritic.verifiers import unedited

from ..pipelines import flux2, flux2_klein, kontext, qwen_edit, qwen_edit_plus, small_qwen
from ..pipelines_epsilon import instruct, instruct_xl, ledits
from .diffusers.editing import picture

WORDS = ("Remove red star", "Add cat", "Change the color of blue circle to green", "Add dog")
SAMPLES = [unedited(words, picture(number), id=f"s{number}") for number, words in enumerate(WORDS)]
CALL = {
    "num_inference_steps": 3, "height": 32, "width": 32, "max_area": 32**2, "_auto_resize": False,
    "max_sequence_length": 24,
}  # fmt: skip
SMALL: dict[str, Any] = {
    "steps": 2, "groups": 2, "group_size": 3, "lora_rank": 2, "lora_alpha": 4, "learning_rate": 1e-2, "call": CALL,
}  # fmt: skip


def worth(sample: EditSample) -> float:
    """How bright the picture is."""
    return float(sample.edited.pixels.mean()) / 255


def bright(samples: Sequence[EditSample]) -> list[Score]:
    return [Score.of(worth(sample)) for sample in samples]


def silent(samples: Sequence[EditSample]) -> list[Score]:
    return [Score.abstained("nobody knows") for _ in samples]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> Any:
    return quiet(kontext(tmp_path_factory.mktemp("kontext")))


@pytest.fixture
def fresh(loaded) -> Callable[[], Any]:
    """The editor as it was before any training. What is not trained is shared."""

    def made() -> Any:
        own = {name: copy.deepcopy(getattr(loaded, name)) for name in ("transformer", "scheduler")}
        return quiet(FluxKontextPipeline(**{**loaded.components, **own}))

    return made


@pytest.fixture
def trainer(fresh, tmp_path) -> Callable[..., DiffusionTrainer]:
    def made(reward: Any = bright, *, more: dict[str, Any] | None = None, **settings: Any) -> DiffusionTrainer:
        config = DiffusionConfig(tmp_path / "run", **SMALL | settings)
        return DiffusionTrainer(fresh(), reward, SAMPLES, config, **more or {})

    return made


def quiet(pipeline: Any) -> Any:
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def lora(trainer: DiffusionTrainer) -> dict[str, torch.Tensor]:
    return {name: one.detach().clone() for name, one in trainer.module.named_parameters() if one.requires_grad}


def same(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> bool:
    return list(some) == list(others) and all(torch.equal(some[name], others[name]) for name in some)


def untimed(log: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if not name.startswith("seconds/")} for row in log]


def likelihoods(trainer: DiffusionTrainer, batch: Batch) -> torch.Tensor:
    """By the weights as they are: (steps, rows)."""
    found = torch.zeros(len(batch.calls[0][0].steps), len(batch.samples))
    with torch.no_grad():
        for trajectory, rows in batch.calls:
            for number, step in enumerate(trajectory.steps):
                mean, std = trajectory.mean(step, range(len(rows)))
                found[number, rows] = log_likelihood(step.following, mean, std)
    return found


def learnt(
    trainer: DiffusionTrainer, batch: Batch, scores: Sequence[Score]
) -> tuple[list[list[torch.Tensor]], dict[str, float]]:
    """The gradients that each step of the optimizer is given, and the log."""
    found: list[list[torch.Tensor]] = []

    def note(*_: Any) -> None:
        found.append([torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in trainer.weights])

    handle = trainer.optimizer.register_step_pre_hook(note)
    numbers = trainer.learn(batch, scores)
    handle.remove()
    return found, numbers


def expected(
    trainer: DiffusionTrainer, batch: Batch, wanted: Sequence[float], *, clip: float, beta: float, base: Any
) -> list[torch.Tensor]:
    """The gradient of the loss of all rows at once, by autograd: PPO's, and the divergence from `base`'s weights."""
    terms = []
    advantage = torch.tensor(wanted, dtype=torch.float32)
    for trajectory, rows in batch.calls:
        for step in trajectory.steps:
            args, named = step.given
            count = step.state.shape[1]
            mean, std = step.move(trainer.module(*args, **named)[0][:, :count], step.state)
            far = ((step.following - mean) ** 2).mean(dim=(1, 2)) / (2 * std**2)
            ratio = torch.exp(-far - step.likelihood)
            better = advantage[rows]
            gone = ((better > 0) & (ratio > 1 + clip)) | ((better < 0) & (ratio < 1 - clip))
            terms.append(-(torch.where(gone, ratio.detach(), ratio) * better))
            if beta:
                with torch.no_grad():
                    there, _ = step.move(base(*args, **named)[0][:, :count], step.state)
                terms.append(beta * ((mean - there) ** 2).mean(dim=(1, 2)) / (2 * std**2))
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


# -- what a step does --------------------------------------------------------------------------------------------------


def test_a_step_makes_what_was_better_likelier_and_what_was_worse_less_likely(trainer):
    one = trainer(learning_rate=1e-3)
    batch = one.rollout(0)
    scores = bright(batch.samples)
    advantages = torch.tensor(standardised([worth(sample) for sample in batch.samples], 3))
    before = likelihoods(one, batch).sum(0)
    one.learn(batch, scores)
    moved = likelihoods(one, batch).sum(0) - before
    assert float(moved[advantages > 0].mean()) > 0 > float(moved[advantages < 0].mean())


@pytest.mark.parametrize(("train_batch", "rollout_batch"), [(8, 8), (1, 8), (2, 2), (3, 1)])
def test_the_gradient_is_that_of_the_plain_loss_however_it_is_portioned(trainer, train_batch, rollout_batch):
    one = trainer(train_batch=train_batch, rollout_batch=rollout_batch, max_grad_norm=1e9)
    batch = one.rollout(0)
    assert [len(rows) for _, rows in batch.calls] == [min(rollout_batch, 6)] * (6 // min(rollout_batch, 6))
    values = [worth(sample) for sample in batch.samples]
    right = expected(one, batch, standardised(values, 3), clip=1.0, beta=0.0, base=None)
    (found,), _ = learnt(one, batch, bright(batch.samples))
    assert_close(found, right)


def test_off_policy_the_ratio_is_clipped_and_the_divergence_is_that_from_the_editor_without_lora(trainer, fresh):
    one = trainer(max_grad_norm=1e9, clip_range=1e-5, beta=0.1)
    batch = one.rollout(0)
    wanted = standardised([worth(sample) for sample in batch.samples], 3)
    base = fresh().transformer
    numbers = one.learn(batch, bright(batch.samples))
    assert numbers["kl"] == numbers["ratio/off"] == numbers["ratio/clipped"] == 0
    right = expected(one, batch, wanted, clip=1e-5, beta=0.1, base=base)
    unclipped = expected(one, batch, wanted, clip=1e9, beta=0.1, base=base)
    free = expected(one, batch, wanted, clip=1e-5, beta=0.0, base=base)
    found, numbers = learnt(one, batch, bright(batch.samples))
    assert_close(found[0], right)
    for other in (unclipped, free):
        with pytest.raises(AssertionError):
            assert_close(found[0], other)
    assert numbers["kl"] > 0
    assert numbers["ratio/off"] > 1e-5
    assert 0 < numbers["ratio/clipped"] <= 1


def test_updates_go_through_the_groups_one_part_after_the_other(trainer):
    one = trainer(updates=2, max_grad_norm=1e9)
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
    found, numbers = learnt(one, batch, bright(batch.samples))
    assert float(torch.cat([grad.flatten() for grad in found[0]]).norm()) == pytest.approx(1e-6, rel=1e-2)
    assert numbers["grad_norm"] > 1e-5


def test_the_learning_rate_warms_up(trainer):
    rates: list[float] = []
    one = trainer(
        steps=3, warmup=1, more={"callbacks": [lambda it, *_: rates.append(it.optimizer.param_groups[0]["lr"])]}
    )
    one.train()
    assert rates == pytest.approx([0.5e-2, 1e-2, 1e-2])


# -- what takes no part ------------------------------------------------------------------------------------------------


def rows_passed(trainer: DiffusionTrainer, work: Callable[[], Any]) -> int:
    """How many rows the denoiser is asked about."""
    seen: Counter[str] = Counter()
    handle = trainer.module.register_forward_hook(
        lambda _, given, named, made: seen.update(rows=len(named["hidden_states"])), with_kwargs=True
    )
    work()
    handle.remove()
    return seen["rows"]


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 6),
        ((0.1, 0.2, 0.3, 0.5, 0.5, 0.5), 3),  # a group that is all alike
        ((0.1, None, 0.3, 0.4, None, None), 2),  # unscored rows, and what is left alone by them
        ((None,) * 6, 0),
        ((0.5,) * 6, 0),
    ],
)
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_rows_that_teach_nothing_are_not_even_passed_through_the_denoiser(trainer, values, rows, beta):
    one = trainer(beta=beta)
    batch = one.rollout(0)
    scores = [Score.abstained("?") if value is None else Score.of(value) for value in values]
    transitions = 2  # of 3 steps the last one leaves nothing to chance
    assert rows_passed(one, lambda: one.learn(batch, scores)) == rows * transitions * (2 if beta else 1)


def test_a_run_in_which_nothing_is_scored_changes_no_weight(trainer):
    one = trainer(silent, weight_decay=0.5)
    before = lora(one)
    log = one.train()
    assert same(before, lora(one))
    assert [row["unscored"] for row in log] == [1.0, 1.0]
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
    said = CALL | more if "Kontext" in type(pipeline).__name__ else {"num_inference_steps": 3, **more}
    said |= {"height": 32, "width": 32} if "XL" in type(pipeline).__name__ else {}
    shown = picture(0, 64 if "Flux2" in type(pipeline).__name__ else 32)
    found = pipeline(image=shown.pil(), prompt=WORDS[0], generator=torch.Generator().manual_seed(7), **said)
    return Image.of(found.images[0])


def test_pictures_are_made_of_all_the_dataset_before_one_comes_again(trainer):
    one = trainer(groups=3)
    asked = [sample.instruction for step in range(4) for sample in one.rollout(step).samples[::3]]
    assert [Counter(asked[at : at + 4]) for at in (0, 4, 8)] == [Counter(WORDS)] * 3
    assert len({tuple(asked[at : at + 4]) for at in (0, 4, 8)}) > 1


def test_pictures_hang_on_the_seed_the_step_and_the_row_alone(trainer):
    one, other = trainer(rollout_batch=8), trainer(rollout_batch=2)
    some, others = one.rollout(1).samples, other.rollout(1).samples
    assert [sample.id for sample in some] == [sample.id for sample in others]
    pairs = zip(some, others, strict=True)
    assert max(int(abs(a.edited.pixels.astype(int) - b.edited.pixels.astype(int)).max()) for a, b in pairs) <= 1
    assert len({sample.edited.digest for sample in (*some, *one.rollout(0).samples)}) == 12
    assert trainer(seed=1).rollout(1).samples[0].edited != some[0].edited


def test_other_data_is_no_way_to_go_on(trainer):
    one = trainer(steps=1, save_every=1)
    one.train()
    longer = trainer(steps=2, save_every=1)
    longer.dataset = SAMPLES[:3]
    with pytest.raises(ValueError, match="samples was 4 and is 3"):
        longer.train(resume=True)


# -- a whole run -------------------------------------------------------------------------------------------------------


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

    first, second = (trainer(judge, steps=3, overlap=overlap) for _ in range(2))
    assert untimed(first.train()) == untimed(second.train())
    assert same(lora(first), lora(second))
    assert len(threads) == 6
    assert threading.get_ident() not in threads


def test_with_overlap_the_next_pictures_are_made_before_the_weights_change(trainer):
    calm, ahead = trainer(steps=3, overlap=False), trainer(steps=3, overlap=True)
    assert [row["ratio/off"] for row in calm.train()] == [0, 0, 0]
    offs = [row["ratio/off"] for row in ahead.train()]
    assert offs[0] == 0
    assert min(offs[1:]) > 0


def killed_after(calls: int) -> Callable[[Sequence[EditSample]], list[Score]]:
    seen: Counter[str] = Counter()

    def judge(samples: Sequence[EditSample]) -> list[Score]:
        seen.update(["calls"])
        if seen["calls"] > calls:
            raise KeyError("the judge is down")
        return bright(samples)

    return judge


@pytest.mark.parametrize("objective", ["grpo", "nft", "raft"])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_run_that_was_killed_and_resumed_is_one_that_was_not_to_the_bit(trainer, tmp_path, overlap, objective):
    settings: dict[str, Any] = {"steps": 6, "overlap": overlap, "objective": objective, "beta": 0.01, "warmup": 3}
    settings |= {"schedule": "linear", "agree": 100.0} if objective == "raft" else {}
    whole = trainer(save_every=2, **settings)
    whole.train()
    (tmp_path / "run").rename(tmp_path / "whole")
    with pytest.raises(KeyError):
        trainer(killed_after(5), save_every=2, **settings).train()
    kept = sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*"))
    assert kept == ["checkpoint-2", "checkpoint-4"]
    resumed = trainer(save_every=2, **settings)
    assert untimed(resumed.train(resume=True)) == untimed(whole.log_history)
    assert [row["step"] for row in resumed.log_history] == list(range(6))
    assert same(lora(resumed), lora(whole))
    for one, other in zip(resumed.weights, whole.weights, strict=True):
        some, others = resumed.optimizer.state[one], whole.optimizer.state[other]
        assert all(torch.equal(some[name], others[name]) for name in some)
    lines = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("run", "whole")]
    some, others = (untimed([json.loads(line) for line in part]) for part in lines)
    assert some == others
    assert len(some) == 6


def test_a_run_that_ended_is_made_longer(trainer):
    short = trainer(steps=2, save_every=2)
    short.train()
    longer = trainer(steps=3, save_every=2)
    assert len(longer.train(resume=True)) == 3
    assert untimed(longer.log_history)[:2] == untimed(short.log_history)


def test_what_is_half_written_or_named_otherwise_is_no_checkpoint(trainer, tmp_path):
    one = trainer(save_every=1)
    one.train()
    run = tmp_path / "run"
    (run / ".checkpoint-9").mkdir()
    (run / "checkpoint-best").mkdir()
    longer = trainer(steps=3, save_every=1)
    assert len(longer.train(resume=True)) == 3
    assert sorted(path.name for path in run.glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-3", "checkpoint-best"]


def test_to_resume_where_there_is_nothing_is_to_begin(trainer):
    assert len(trainer().train(resume=True)) == 2


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"learning_rate": 1e-3}, "learning_rate was 0.01 and is 0.001"),
        ({"noise": 0.3}, "noise was 0.7 and is 0.3"),
        ({"call": CALL | {"guidance_scale": 9.0}}, "call was"),
        ({"groups": 1, "seed": 3}, "groups was 2 and is 1, seed was 0 and is 3"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(trainer, changed, words):
    trainer(steps=1, save_every=1).train()
    with pytest.raises(ValueError, match=words):
        trainer(**changed).train(resume=True)


def test_a_new_run_does_not_go_where_an_older_one_left_its_checkpoints(trainer, tmp_path):
    trainer(steps=1, save_every=1).train()
    log = (tmp_path / "run" / "log.jsonl").read_text()
    with pytest.raises(ValueError, match=r"checkpoint-1 is of an earlier run: train\(resume=True\)"):
        trainer(seed=1).train()
    assert (tmp_path / "run" / "log.jsonl").read_text() == log


def test_only_the_newest_checkpoints_are_kept(trainer, tmp_path):
    trainer(steps=4, save_every=1, save_total=2).train()
    assert sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*")) == ["checkpoint-3", "checkpoint-4"]


def test_the_trained_lora_is_loaded_as_any_other(trainer, fresh, tmp_path):
    one = trainer(learning_rate=0.1)
    one.train()
    other, untrained = fresh(), fresh()
    other.load_lora_weights(tmp_path / "run")
    assert edited(other) == edited(one.pipeline) != edited(untrained)


@pytest.mark.parametrize("overlap", [True, False])
def test_an_error_of_the_reward_reaches_the_caller_and_the_log_so_far_is_on_disk(trainer, tmp_path, overlap):
    one = trainer(killed_after(2), steps=4, overlap=overlap)
    with pytest.raises(KeyError, match="the judge is down"):
        one.train()
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1]
    assert "step" not in vars(one.pipeline.scheduler)
    assert edited(one.pipeline).size == (32, 32)


def test_too_few_scores_are_an_error(trainer):
    with pytest.raises(ValueError, match="each score has a group, got 5 scores and 6 groups"):
        trainer(lambda samples: bright(samples)[1:]).train()


def test_a_held_out_reward_that_turns_away_alarms_while_the_run_goes_on(trainer, tmp_path):
    asked: list[int] = []
    alarms: list[float] = []

    def turns(samples: Sequence[EditSample]) -> list[Score]:
        asked.append(len(samples))
        return [Score.of(worth(sample) if len(asked) <= 6 else 1 - worth(sample)) for sample in samples]

    def callback(it: DiffusionTrainer, step: int, numbers: dict[str, float]) -> dict[str, float]:
        alarms.append(numbers["alarms"])
        assert len(it.watch.alarms) == numbers["alarms"]  # type: ignore[union-attr]
        return {"mine": float(step)}

    more = {"heldout": turns, "watch": Watch(baseline=5, patience=2), "callbacks": [callback]}
    settings: dict[str, Any] = {"steps": 10, "save_every": 7, "groups": 1, "learning_rate": 0.0}
    one = trainer(more=more, **settings)
    log = one.train()
    assert asked == [3] * 10
    assert [row["agreement"] for row in log] == [1.0] * 6 + [-1.0] * 4
    assert [alarm.step for alarm in one.watch.alarms if alarm.name == "agreement"] == [7]
    assert alarms[6] == 0 < alarms[7]
    assert [row["mine"] for row in log] == list(range(10))
    state = json.loads((tmp_path / "run" / "checkpoint-7" / "state.json").read_text())
    resumed = trainer(more={**more, "watch": Watch(baseline=9)}, **settings)
    resumed.train(resume=True)
    assert Watch.from_json(state["watch"]).alarms == []
    assert resumed.watch.to_json() == one.watch.to_json()


# -- other pipelines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (instruct, {"guidance_scale": 7.5, "image_guidance_scale": 1.5}),
        (instruct, {"guidance_scale": 1.0}),
        (instruct_xl, {"guidance_scale": 5.0, "image_guidance_scale": 1.5}),
    ],
)
def test_ddpo_teaches_an_epsilon_editor(make, settings, tmp_path):
    pipeline = make(tmp_path / "made")
    scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, clip_sample=False)
    pipeline.scheduler = scheduler
    call = {"num_inference_steps": 3, **settings}
    config = DiffusionConfig(tmp_path / "run", **SMALL | {"noise": 1.0, "overlap": False, "call": call})
    trainer = DiffusionTrainer(pipeline, bright, SAMPLES, config)
    batch = trainer.rollout(0)
    before = likelihoods(trainer, batch).sum(0)
    advantages = torch.tensor(standardised([worth(sample) for sample in batch.samples], 3))
    log = trainer.train()
    moved = likelihoods(trainer, batch).sum(0) - before
    assert [row["ratio/off"] for row in log] == pytest.approx([0, 0], abs=1e-5)
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
    samples = [unedited("Add cat", picture(1, 64), *several)]
    config = DiffusionConfig(tmp_path / "run", **SMALL | {"steps": 1, "groups": 1, "learning_rate": 0.1, "call": call})
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
        config = DiffusionConfig(tmp_path / "run", **SMALL | {"mixed_precision": "bf16", "train_batch": 6})
        trainer = DiffusionTrainer(fresh(), bright, SAMPLES, config)
        log = trainer.train()
        assert log[0]["ratio/off"] < 1e-5
        assert all(weight.dtype == torch.float32 for weight in lora(trainer).values())
    finally:
        AcceleratorState._reset_state()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 0}, "steps is a whole number of at least 1, got 0"),
        ({"groups": 0}, "groups is a whole number of at least 1"),
        ({"save_total": 0}, "save_total is a whole number of at least 1"),
        ({"group_size": 1}, "group_size is 2 or more, got 1"),
        ({"mixed_precision": "fp16"}, "no or bf16"),
        ({"noise": 0.0}, "without noise there is nothing to learn from"),
        ({"sampling": "ode"}, "sampling is one of sde, cps"),
        ({"call": {"num_steps": 3}}, "takes no num_steps"),
        ({"call": {"generator": None}}, "leave it out"),
        ({"clip_range": -1e-4}, "clip_range is 0 or more, got -0.0001"),
        ({"judge_noise": -1.0}, "judge_noise is 0 or more"),
        ({"save_every": -1}, "save_every is 0 or more"),
        ({"updates": 3}, "updates is 2 at most, got 3"),
        ({"call": {**CALL, "eta": 0.5}}, "is `noise`, not eta in `call`"),
        ({"schedule": "cosine"}, "schedule is constant or linear, got 'cosine'"),
        ({"threshold": 0.0}, "threshold is a positive number, got 0.0"),
    ],
)
def test_settings_that_mean_nothing_are_refused_before_anything_is_made(trainer, settings, words):
    with pytest.raises(ValueError, match=words):
        trainer(**settings)


@pytest.mark.parametrize("chance", [(), (2,), (7,)])
def test_a_run_in_which_no_step_is_left_to_chance_is_refused(trainer, chance):
    with pytest.raises(ValueError, match="none of 3 steps is left to chance"):
        trainer(chance=chance).train()


def test_a_pipeline_with_adapters_is_refused_with_what_to_do(trainer, fresh, tmp_path):
    one = trainer()
    with pytest.raises(ValueError, match="has adapters already"):
        DiffusionTrainer(one.pipeline, bright, SAMPLES, DiffusionConfig(tmp_path, **SMALL))


def test_what_cannot_be_trained_is_refused(fresh, tmp_path):
    config = DiffusionConfig(tmp_path, **SMALL)
    with pytest.raises(ValueError, match="nothing to train on"):
        DiffusionTrainer(fresh(), bright, [], config)
    with pytest.raises(ValueError, match="watch=Watch"):
        DiffusionTrainer(fresh(), bright, SAMPLES, config, heldout=bright)
    with pytest.raises(ValueError, match=r"LEditsPP.* cannot be trained here: it comes back by the noise"):
        DiffusionTrainer(ledits(tmp_path / "ledits"), bright, SAMPLES, config)
    with pytest.raises(ValueError, match=r"set pipeline.scheduler = DDIMScheduler.from_config"):
        DiffusionTrainer(instruct(tmp_path / "instruct"), bright, SAMPLES, config)
    with pytest.raises(ValueError, match="DiffusionPipeline cannot be trained here: it is not among"):
        DiffusionTrainer(DiffusionPipeline(), bright, SAMPLES, config)


# -- the other objectives ----------------------------------------------------------------------------------------------


def test_pictures_noised_anew_are_the_pipelines_own(trainer):
    made = trainer(objective="nft", levels=2)
    settings: dict[str, Any] = CALL
    editor = editor_of(made.pipeline, **settings)
    batch = made.rollout(0)
    samples = batch.samples
    seeds = [_seed(made.config.seed, 0, 0, row) for row in range(len(samples))]
    plain = editor.edit([one.sources for one in samples], [one.instruction for one in samples], seeds)
    assert plain == [one.edited for one in samples]
    assert [len(trajectory.steps) for trajectory, _ in batch.calls] == [2] * len(batch.calls)


def test_each_step_has_levels_of_its_own(trainer):
    made = trainer(objective="nft", levels=1)
    levels = {made.rollout(step).calls[0][0].steps[0].number for step in range(8)}
    assert len(levels) > 1
    assert levels <= {0, 1, 2}


def test_good_pictures_come_nearer_and_others_go_away(trainer):
    made = trainer(objective="nft", levels=3, updates=1, learning_rate=1e-3)
    batch = made.rollout(0)
    scores = bright(batch.samples)
    values = advantages([score.value for score in scores], [str(row // 3) for row in range(len(scores))]).values

    def errors() -> np.ndarray:
        found = np.zeros(len(values))
        with torch.no_grad():
            for trajectory, rows in batch.calls:
                for step in trajectory.steps:
                    noise = torch.randn(trajectory.final.shape, generator=torch.Generator().manual_seed(5))
                    state = step.noising.signal * trajectory.final + step.noising.noise * noise
                    said = trajectory.prediction(step, range(len(rows)), state)
                    right = step.noising.target(trajectory.final, noise)
                    found[rows] += ((said - right) ** 2).flatten(1).mean(dim=1).numpy()
        return found

    before = errors()
    for _ in range(4):
        made.learn(batch, scores)
    assert float(((errors() - before) * values).sum()) < 0


def test_where_it_is_only_held_nothing_moves(trainer):
    made = trainer(objective="nft", hold_below=1.1)
    before = lora(made)
    made.train()
    assert same(lora(made), before)


def test_noise_that_became_a_bad_picture_comes_nearer_to_the_good_one(trainer):
    made = trainer(objective="raft", levels=3, learning_rate=1e-3, agree=100.0, group_size=4)
    batch = made.rollout(0)
    scores = [Score.of(float(row % 2)) for row in range(8)]
    wanted = made._wanted(batch, advantages(scores, [str(row // 4) for row in range(8)]))
    finals = torch.cat([trajectory.final for trajectory, _ in batch.calls])
    assert all(torch.equal(state, finals[row]) for row, state in wanted.values())
    assert [wanted[row][0] for row in (1, 3, 5, 7)] == [1, 3, 5, 7]
    assert {wanted[row][0] for row in (0, 2)} <= {1, 3}
    assert {wanted[row][0] for row in (4, 6)} <= {5, 7}

    def errors() -> float:
        found = 0.0
        with torch.no_grad():
            for trajectory, rows in batch.calls:
                bad = [at for at, row in enumerate(rows) if row % 2 == 0]
                clean, noise = torch.stack([wanted[rows[at]][1] for at in bad]), trajectory.start[bad]
                for step in trajectory.steps:
                    state = step.noising.signal * clean + step.noising.noise * noise
                    said = trajectory.prediction(step, bad, state)
                    found += float((said - step.noising.target(clean, noise)).abs().mean())
        return found

    before = errors()
    logs = [made.learn(batch, scores) for _ in range(4)]
    assert errors() < before
    assert {log["replaced"] for log in logs} == {0.5}


def test_an_epsilon_editor_learns_from_good_pictures_too(tmp_path):
    pipeline = instruct(tmp_path / "made")
    pipeline.scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, clip_sample=False)
    call = {"num_inference_steps": 3}
    settings = {"objective": "raft", "levels": 3, "agree": 100.0, "group_size": 4, "learning_rate": 1e-3, "call": call}
    trainer = DiffusionTrainer(quiet(pipeline), bright, SAMPLES, DiffusionConfig(tmp_path / "run", **SMALL | settings))
    batch = trainer.rollout(0)
    scores = [Score.of(float(row % 2)) for row in range(8)]
    errors = [trainer.learn(batch, scores)["error"] for _ in range(6)]
    assert all(np.isfinite(errors))
    assert errors[-1] < errors[0]


def test_where_good_pictures_differ_only_they_are_learned_from(trainer):
    made = trainer(objective="raft", agree=0.0, group_size=4)
    batch = made.rollout(0)
    scores = [Score.of(float(row % 2)) for row in range(8)]
    assert set(made._wanted(batch, advantages(scores, [str(row // 4) for row in range(8)]))) == {1, 3, 5, 7}
    assert made.learn(batch, scores)["replaced"] == 0.0


def test_the_learning_rate_falls_to_nothing(trainer):
    made = trainer(steps=4, schedule="linear", warmup=1)
    paces = []
    for made.step in range(5):
        paces.append(made._pace())
    assert paces == [0.5, 0.75, 0.5, 0.25, 0.0]


def test_a_run_whose_rate_falls_is_not_made_longer(trainer):
    trainer(steps=2, save_every=2, schedule="linear").train()
    with pytest.raises(ValueError, match="steps was 2 and is 3"):
        trainer(steps=3, save_every=2, schedule="linear").train(resume=True)


def test_probes_are_edited_from_the_same_noise_before_and_between_steps(trainer):
    seen: list[list[Any]] = []

    def heldout(samples: Sequence[EditSample]) -> list[Score]:
        if [one.id for one in samples] == [one.id for one in SAMPLES[:3]]:
            seen.append([one.edited for one in samples])
        return bright(samples)

    more = {"watch": Watch(), "heldout": heldout, "probes": SAMPLES[:3]}
    made = trainer(steps=4, probe_every=2, learning_rate=0.0, more=more)
    log = made.train()
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]  # nothing was learned
    assert ["probe/reward" in row for row in log] == [False, True, False, True]


def test_probes_need_a_held_out_reward(trainer):
    for more, every in (({"probes": SAMPLES}, 2), ({"watch": Watch(), "heldout": bright}, 2)):
        with pytest.raises(ValueError, match="pass probes=, heldout= and probe_every"):
            trainer(probe_every=every, more=more)


def test_an_objective_that_is_none(trainer):
    with pytest.raises(ValueError, match="objective is one of grpo, nft, raft, got 'ppo'"):
        trainer(objective="ppo")
