"""The reward-hacking monitor from adapters: a policy that hacks is heard of in the log and in the columns of a step."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from editcritic.integrations.serving.server import ScoringService, serve_in_thread
from editcritic.integrations.trainers.trainer_reward import TrainerReward
from editcritic.reward import EditSample, Reward, Score
from editcritic.reward.queries import Measurement, Rate
from editcritic.reward.training.audit_probe import AuditProbe
from editcritic.reward.training.image_statistics import image_statistics
from editcritic.reward.training.step_monitor import MonitoredReward

from ...reward.fakes import Fake
from ...reward.training.policies import HACKS, Policy
from .entries import ENTRIES, rows_of, rows_of_samples, samples_of
from .trainer_cases import Judge, Parted, batch, documented

ROWS = samples_of(rows_of(batch()))


def monitored(entry: str, reward: Reward, **options: Any) -> Callable[[list[EditSample]], Any]:
    if entry == "trl":
        probe = AuditProbe.of(reward, options["monitor_probe"]) if "monitor_probe" in options else None
        call = ENTRIES[entry](MonitoredReward(reward, step_samples=64, probe=probe))
    else:
        call = ENTRIES[entry](reward, monitor="64", **options)
    return lambda samples: call(rows_of_samples(samples))


@pytest.mark.parametrize(
    ("entry", "hack"),
    [
        ("flow_grpo", "copies the source"),
        ("dance_grpo", "makes one image per group"),
        ("flow_factory", "saturates"),
        ("verl_omni", "saturates"),
        ("unirl", "blurs"),
        ("omnigen2_rl", "copies the source"),
        ("trl", "blurs"),
        ("trl", ""),
    ],
)
def test_a_policy_that_hacks_is_heard_of_through_each_entry(entry, hack, caplog):
    name, change = HACKS[hack] if hack else ("", None)
    policy = Policy(11, change)
    call = monitored(entry, Judge().reward())
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        for number in range(26):
            assert not caplog.text or number > 24
            edits = [edit.sample for edit in policy.step(number)]
            call(edits[:24])
            call(edits[24:])
    assert (f"reward hacking? {name}, since about step 20 of 64 edits" in caplog.text) == bool(hack)
    assert bool(caplog.text) == bool(hack)


def colourful(query: Rate) -> Measurement:
    """A judge that likes strong colours, and draws from the trainer's generators."""
    np.random.random()  # noqa: NPY002  (as a model of others may)
    torch.rand(1)
    return Measurement(image_statistics(query.image)["saturation"])


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_hack_that_the_reward_pays_is_named_through_each_entry_before_any_policy_does_it(entry, caplog):
    reward = Reward(Parted(), {"preference": Fake(colourful)})
    call = monitored(entry, reward, monitor_probe="every=1&samples=2&families=over-saturated,blank")
    policy = Policy(14)
    state = torch.random.get_rng_state()
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        for number in range(5):
            assert not caplog.text
            call([edit.sample for edit in policy.step(number)])
    assert (
        "reward hacking? hack/over-saturated, since about step 0 of 64 edits: the hack over-saturated would"
        in caplog.text
    )
    assert "hack/blank" not in caplog.text
    assert torch.equal(torch.random.get_rng_state(), state) or entry == "verl_omni"  # which scores in threads


def test_scores_and_random_numbers_are_the_same_with_a_monitor_and_columns_have_the_number_of_alarms():
    states, rewards, results = [], [], []
    for options in ({}, {"monitor": "16", "monitor_probe": "every=1"}):
        rewards.append(TrainerReward(Reward(Parted(), {"preference": Fake(colourful)}), **options))
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002  (the trainer's)
        results.append(rewards[-1](ROWS))
        states.append((results[-1].values, torch.rand(3).tolist(), np.random.random(3).tolist()))  # noqa: NPY002
    assert states[0] == states[1]
    assert set(results[1].columns) - set(results[0].columns) == {"alarms"}
    assert results[1].columns["alarms"] == [0.0] * 16
    monitor: Any = rewards[1].monitor
    assert (monitor.probe_failures, monitor.steps) == (0, 1)
    assert "hack/best" in monitor.latest
    assert monitor.latest["reward"] == pytest.approx(np.mean(results[0].values))


def test_a_sample_that_is_asked_again_counts_once_and_a_row_that_is_no_edit_does_not():
    judge = Judge(failing={batch().edited[5].digest: 1})
    watched: Any = TrainerReward(judge.reward(), monitor=8, missing="nan")
    watched([*ROWS, "the image edited: NaN"])
    assert watched.monitor.steps == 2
    assert [numbers["unscored"] for _, numbers in watched.monitor.history] == [0.0, 0.0]


def test_the_held_out_reward_may_be_a_spec_or_a_server_that_is_gone(caplog):
    with serve_in_thread(ScoringService(Judge().reward())) as url:
        served: Any = TrainerReward(Judge().reward(), monitor=16, heldout=url)
        served(ROWS)
        assert served.monitor.latest["heldout"] == served.monitor.latest["reward"]
        assert served.monitor.latest["agreement"] == 1.0
    gone: Any = TrainerReward(Judge().reward(), monitor=16, heldout=f"{url}?outage_timeout_s=0.2&deadline_s=1")
    assert not any(math.isnan(value) for value in gone(ROWS).values)
    assert (gone.monitor.heldout_failures, gone.monitor.steps) == (1, 1)
    assert "the held-out reward did not score step 0" in caplog.text


def test_options_that_mean_nothing_are_refused(tmp_path, monkeypatch):
    for options, message in (
        ({"heldout": "guards"}, "are for the monitor: give monitor=64"),
        ({"monitor_state": "state.json"}, "are for the monitor"),
        ({"monitor_probe": "every=10"}, "are for the monitor"),
        ({"monitor": 16, "monitor_probe": "often"}, "as in every=10&samples=4, got 'often'"),
        ({"monitor": 4}, "at least 8 samples, got 4"),
        ({"monitor": "many"}, "monitor is a number, got 'many'"),
    ):
        with pytest.raises(ValueError, match=message):
            TrainerReward(Judge().reward(), **options)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match=r"put \{rank\} into monitor_state"):
        TrainerReward(Judge().reward(), monitor=16, monitor_state=str(tmp_path / "state.json"))
    TrainerReward(Judge().reward(), monitor=16, monitor_state=str(tmp_path / "s-{rank}.json"))(ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["s-1.json"]


def test_a_restarted_trainer_keeps_its_baseline(tmp_path: Path):
    path = str(tmp_path / "monitor.json")
    for _ in range(3):
        TrainerReward(Judge().reward(), monitor=16, monitor_state=path)(ROWS)
    last = TrainerReward(Judge().reward(), monitor=16, monitor_state=path).monitor
    assert last is not None
    assert (last.steps, len(last.history)) == (3, 3)
    with pytest.raises(ValueError, match="with reward 'parted', and this one has 'guards'"):
        TrainerReward("guards", monitor=16, monitor_state=path)


def test_the_documented_lines_are_options_of_adapters():
    lines = "\n".join(documented("Alarms of reward hacking", "yaml")).splitlines()
    options = dict(line.partition("#")[0].strip().split(": ", 1) for line in lines)
    assert set(options) == {"monitor", "heldout", "monitor_probe", "monitor_state"}
    given = {name: options[name] for name in ("monitor", "heldout", "monitor_probe")}
    monitor: Any = TrainerReward(Judge().reward(), **given).monitor
    assert (monitor.probe.every, monitor.step_samples) == (10, int(options["monitor"]))
    assert [type(score) for score in monitor.heldout(ROWS)] == [Score] * 16
