"""Runs that go on from checkpoints: from the newest sound one, with the same settings, to the bit."""

import json
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from editcritic.integrations.diffusion_rl.checkpoints import newest_sound

from .tiny_trainer import CALL, SAMPLES, killed_after, lora, same, untimed


@pytest.mark.parametrize(("objective", "overlap"), [("grpo", True), ("grpo", False), ("nft", True), ("raft", True)])
def test_a_run_that_was_killed_and_resumed_is_one_that_was_not_to_the_bit(trainer, tmp_path, overlap, objective):
    settings: dict[str, Any] = {"max_steps": 6, "overlap": overlap, "objective": objective, "beta": 0.01}
    settings |= {"warmup_steps": 3, "save_steps": 2}
    settings |= {"lr_scheduler_type": "linear", "max_spread_ratio": 100.0} if objective == "raft" else {}
    whole = trainer(**settings)
    whole.train()
    (tmp_path / "run").rename(tmp_path / "whole")
    with pytest.raises(KeyError):
        trainer(killed_after(5), **settings).train()
    kept = sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*"))
    assert kept == ["checkpoint-2", "checkpoint-4"]
    resumed = trainer(**settings)
    assert untimed(resumed.train(resume=True)) == untimed(whole.log_history)
    assert [row["step"] for row in resumed.log_history] == list(range(6))
    assert same(lora(resumed), lora(whole))
    for one, other in zip(resumed.weights, whole.weights, strict=True):
        some, others = resumed.optimizer.state[one], whole.optimizer.state[other]
        assert all(torch.equal(some[name], others[name]) for name in some)
    for name in ("run", "whole"):
        lines = [json.loads(line) for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        assert untimed(lines) == untimed(whole.log_history)


def test_what_is_half_written_or_named_otherwise_is_no_checkpoint(trainer, tmp_path):
    one = trainer(save_steps=1)
    one.train()
    run = tmp_path / "run"
    (run / ".checkpoint-9").mkdir()
    (run / "checkpoint-best").mkdir()
    longer = trainer(max_steps=3, save_steps=1)
    assert len(longer.train(resume=True)) == 3
    assert sorted(path.name for path in run.glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-3", "checkpoint-best"]


def test_a_run_is_not_resumed_with_other_settings(trainer):
    one = trainer(max_steps=2, save_steps=1, lr_scheduler_type="linear")
    assert len(one.train(resume=True)) == 2  # from nothing
    changes: list[tuple[dict[str, Any], str]] = [
        ({"learning_rate": 1e-3}, "learning_rate was 0.01 and is 0.001"),
        ({"noise_level": 0.3}, "noise_level was 0.7 and is 0.3"),
        ({"pipeline_kwargs": CALL | {"guidance_scale": 9.0}}, "pipeline_kwargs was"),
        ({"groups": 1, "seed": 3}, "groups was 2 and is 1, seed was 0 and is 3"),
        ({"max_steps": 3}, "max_steps was 2 and is 3"),  # where the rate depends on it
    ]
    for changed, words in changes:
        with pytest.raises(ValueError, match=words):
            trainer(**{"lr_scheduler_type": "linear", **changed}).train(resume=True)
    other = trainer(lr_scheduler_type="linear")
    other.dataset = SAMPLES[:3]
    with pytest.raises(ValueError, match="samples was 4 and is 3"):
        other.train(resume=True)


def test_a_new_run_does_not_go_where_an_older_one_left_its_checkpoints(trainer, tmp_path):
    trainer(max_steps=1, save_steps=1).train()
    log = (tmp_path / "run" / "log.jsonl").read_text()
    with pytest.raises(ValueError, match=r"checkpoint-1 is of an earlier run: resume with train\(resume=True\)"):
        trainer(seed=1).train()
    assert (tmp_path / "run" / "log.jsonl").read_text() == log


def nan_weight(folder: Path) -> None:
    lora = load_file(folder / "pytorch_lora_weights.safetensors")
    next(iter(lora.values())).view(-1)[0] = torch.nan
    save_file(lora, folder / "pytorch_lora_weights.safetensors")


def nan_moment(folder: Path) -> None:
    state = torch.load(folder / "optimizer.pt")
    state["state"][0]["exp_avg"].view(-1)[0] = torch.inf
    torch.save(state, folder / "optimizer.pt")


def cut_off(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-200])


DAMAGES: list[tuple[Callable[[Path], Any], str]] = [
    (nan_weight, "the weight transformer.*lora.* is NaN or infinite"),
    (nan_moment, "optimizer state exp_avg of parameter 0 is NaN or infinite"),
    (cut_off("pytorch_lora_weights.safetensors"), "SafetensorError"),
    (cut_off("optimizer.pt"), "optimizer.pt is missing or cut off"),
    (cut_off("state.json"), "not JSON"),
    (lambda folder: (folder / "state.json").unlink(), "FileNotFoundError"),
    (lambda folder: (folder / "state.json").write_text('{"schema": 1, "loss": NaN}'), "NaN is no number of JSON"),
    (lambda folder: (folder / "state.json").write_text("[]"), "TypeError"),
]


def test_the_newest_sound_checkpoint_is_the_one_to_resume_from(trainer, tmp_path, caplog):
    settings = {"max_steps": 4, "save_steps": 1, "groups": 1}
    whole, run = trainer(**settings), tmp_path / "run"
    whole.train()
    run.rename(tmp_path / "kept")
    for damage, reason in DAMAGES:
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(tmp_path / "kept", run)
        damage(run / "checkpoint-4")
        checkpoint, (left_out,) = newest_sound(run)
        assert checkpoint is not None
        assert checkpoint.step == 3
        assert str(run / "checkpoint-4") in left_out
        assert re.search(reason, left_out)
    again = trainer(**settings)
    with caplog.at_level(logging.WARNING):
        assert untimed(again.train(resume=True)) == untimed(whole.log_history)
    assert "checkpoint-3; newer and left out:" in caplog.text
    assert same(lora(again), lora(whole))
    assert newest_sound(run)[0].step == 4  # type: ignore[union-attr]
    for name in ("checkpoint-3", "checkpoint-4"):
        nan_weight(run / name)
    with pytest.raises(ValueError, match=r"no checkpoint can be resumed from: .*checkpoint-4 .*checkpoint-3 .* Delete"):
        trainer(**settings).train(resume=True)


def test_a_damaged_checkpoint_does_not_displace_a_sound_one(trainer, tmp_path):
    trainer(max_steps=6, save_steps=2, groups=1).train()
    nan_weight(tmp_path / "run" / "checkpoint-6")
    with pytest.raises(KeyError):
        trainer(killed_after(1), max_steps=6, save_steps=1, save_total_limit=1, groups=1).train(resume=True)
    assert sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*")) == ["checkpoint-5", "checkpoint-6"]
    assert newest_sound(tmp_path / "run")[0].step == 5  # type: ignore[union-attr]
