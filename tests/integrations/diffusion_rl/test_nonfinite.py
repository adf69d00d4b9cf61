"""Numbers that are none, in the latents of a row, in a gradient, in checkpoints and in logs."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from editcritic.integrations.diffusion_rl.checkpoints import newest_sound
from editcritic.integrations.diffusion_rl.diffusion_trainer import DiffusionTrainer
from editcritic.integrations.diffusion_rl.trajectories import TrajectoryRecorder
from editcritic.integrations.diffusion_rl.transitions import transitions_of
from editcritic.reward import Score
from editcritic.reward.strict_json import parse_json, read_json

from .test_diffusion_trainer import DOWN, edited, learnt
from .tiny_trainer import lora, same, untimed, worth

OBJECTIVES: dict[str, dict[str, Any]] = {
    "grpo": {"beta": 0.1},
    "nft": {"objective": "nft"},
    "raft": {"objective": "raft", "group_size": 4, "max_spread_ratio": 100.0, "beta": 0.1},
}


def broken(
    trainer: DiffusionTrainer, when: Callable[[int], bool], rows: Sequence[int] = (1,), gradient: float = math.nan
) -> Any:
    """NaN in these rows of a call, where `when` says so of the number of calls so far; gradients NaN or 0."""
    calls = 0

    def spoil(module: Any, args: Any, output: Any) -> Any:
        nonlocal calls
        calls += 1
        if not when(calls):
            return output
        spoilt = output[0].clone()
        spoilt[list(rows)] = spoilt[list(rows)] * torch.nan if gradient else torch.nan
        return (spoilt, *output[1:])

    return trainer.denoiser.register_forward_hook(spoil)


def in_training(trainer: DiffusionTrainer, step: int) -> Callable[[int], bool]:
    return lambda _: torch.is_grad_enabled() and trainer.step >= step


def is_finite(trainer: DiffusionTrainer) -> bool:
    return all(bool(torch.isfinite(weight).all()) for weight in lora(trainer).values())


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_row_of_nan_is_trained_on_no_more_than_one_that_has_no_score(trainer, objective, call):
    settings = {"max_grad_norm": 1e9, "overlap": False, **OBJECTIVES[objective]}
    sound, hurt = trainer(**settings), trainer(**settings)
    handle = broken(hurt, lambda calls: calls == call)
    batches = sound.rollout(0), hurt.rollout(0)
    handle.remove()
    assert list(batches[1].nonfinite) == list(batches[1].failures) == [1]
    assert f"NaN or infinite from sampler step {call - 1} on" in batches[1].rows[1]
    values = [Score.of(worth(sample)) for sample in batches[0].samples]
    (expected,), expected_log = learnt(sound, batches[0], [DOWN if row == 1 else one for row, one in enumerate(values)])
    best = [Score.of(1.0) if row == 1 else one for row, one in enumerate(values)]
    (gradient,), log = learnt(hurt, batches[1], best)
    assert all(torch.equal(one, other) for one, other in zip(gradient, expected, strict=True))
    assert any(float(one.abs().max()) > 0 for one in gradient)
    assert [log.pop("frac_nonfinite"), log["unscored"]] == pytest.approx([1 / len(values)] * 2)
    assert expected_log.pop("frac_nonfinite") == log["abstained"] == log["skipped_updates"] == 0
    assert untimed([log]) == untimed([expected_log])
    assert is_finite(hurt)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_a_run_in_which_all_rows_are_nan_ends(trainer):
    one = trainer(max_steps=9, overlap=False)
    before = lora(one)
    broken(one, lambda _: not torch.is_grad_enabled(), range(6))
    with pytest.raises(FloatingPointError, match="in step 2: the latents of all edits are NaN"):
        one.train()
    assert [row["skipped_updates"] for row in one.log_history] == [1.0, 1.0]
    assert same(before, lora(one))


def test_nan_that_a_pipeline_replaces_is_an_error_that_names_it(trainer):
    pipeline = trainer().pipeline
    with TrajectoryRecorder(pipeline, transitions_of(pipeline, 0.7), [torch.Generator()]):
        pipeline.transformer.register_forward_hook(lambda *_: (torch.zeros(1, 256, 16),))  # what the recorder sees not
        handle = pipeline.transformer.proj_out.register_forward_hook(lambda _, args, output: output * torch.nan)
        with pytest.raises(ValueError, match=r"NaN or infinite in the rows \[0\] of a call, at sampler step 0"):
            edited(pipeline)
    handle.remove()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_update_of_nan_is_not_made_and_the_next_one_is(trainer, caplog, objective, tmp_path):
    one = trainer(overlap=False, **OBJECTIVES[objective])
    before, between = lora(one), []
    one.callbacks = [lambda it, *_: between.append(lora(it))]
    broken(one, lambda _: torch.is_grad_enabled() and one.step == 0)
    first, second = one.train()
    assert same(before, between[0])
    assert not same(before, between[1])
    assert is_finite(one)
    assert (first["skipped_updates"], second["skipped_updates"]) == (1.0, 0.0)
    assert "grad_norm" not in first
    assert second["grad_norm"] > 0
    assert "the update in step 0, mini-batch 0 is skipped: NaN or infinite is the loss of s" in caplog.text
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [parse_json(line) for line in lines] == [first, second]


def test_after_three_in_a_row_the_run_ends_before_a_checkpoint_and_says_where(trainer, tmp_path):
    one = trainer(max_steps=9, save_steps=1, save_total_limit=9, overlap=False)
    weights = []
    one.callbacks = [lambda it, *_: weights.append(lora(it))]
    broken(one, in_training(one, 1))
    where = r"3 updates in a row .* step 3, mini-batch 0: .* the loss of s\d/3/\d at sampler step 0; .* first .*lora_A"
    with pytest.raises(FloatingPointError, match=where):
        one.train()
    assert same(weights[0], lora(one))
    names = sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*"))
    assert names == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]
    checkpoint, left_out = newest_sound(tmp_path / "run")
    assert (checkpoint.step, left_out) == (3, [])  # type: ignore[union-attr]


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_updates_that_are_made_between_are_no_reason_to_end(trainer, caplog, what):
    one = trainer(max_steps=5, overlap=False)
    if what == "loss":
        broken(one, lambda _: torch.is_grad_enabled() and one.step != 2, gradient=0.0)
    else:
        one.weights[0].register_hook(lambda gradient: gradient if one.step == 2 else gradient * torch.nan)
    assert [row["skipped_updates"] for row in one.train()] == [1, 1, 0, 1, 1]
    assert f"NaN or infinite is the {what} of" in caplog.text


def test_what_is_no_number_is_in_no_log_and_no_checkpoint(trainer, tmp_path):
    def callback(*_: Any) -> dict[str, float]:
        return {"mine": math.nan, "yours": -math.inf, "ours": 1.0}

    settings = {"save_steps": 1, "max_grad_norm": math.inf, "more": {"callbacks": [callback]}, "groups": 1}
    log = trainer(max_steps=1, **settings).train()
    assert [(row.get("mine"), row.get("yours"), row["ours"]) for row in log] == [(None, None, 1.0)]
    assert read_json(tmp_path / "run" / "checkpoint-1" / "state.json")["log_history"] == log
    assert parse_json((tmp_path / "run" / "log.jsonl").read_text()) == log[0]
    assert len(trainer(max_steps=2, **settings).train(resume=True)) == 2
