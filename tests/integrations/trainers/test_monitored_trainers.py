"""The reward-hacking monitor from adapters: a policy that hacks is heard of in the log and in the columns of a step."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.integrations.serving.server import ScoringService, serve_in_thread
from editcritic.integrations.trainers import FlowGRPOReward
from editcritic.integrations.trainers.trainer_reward import TrainerReward, resolve_heldout
from editcritic.integrations.trl.reward_function import RewardFunction
from editcritic.reward import EditSample, Reward, Score
from editcritic.reward.training.monitored_reward import MonitoredReward
from editcritic.reward.training.step_monitor import StepMonitor

from ...reward.training.policies import HACKS, Policy
from .trainer_cases import Batch, Judge, batch, documented

Call = Callable[[list[EditSample]], object]


def flow_grpo(adapter: FlowGRPOReward) -> Call:
    """As Flow-GRPO's scripts call it: a batch of images, prompts, sources."""

    def call(edits: list[EditSample]) -> object:
        images = np.stack([edit.edited.pixels for edit in edits])
        sources = [[edit.source.pil()] for edit in edits]
        return adapter(images, [edit.instruction for edit in edits], [{}] * len(edits), ref_images=sources)[0]

    return call


def trl(function: RewardFunction) -> Call:
    def call(edits: list[EditSample]) -> object:
        columns: dict[str, Any] = {
            "instruction": [edit.instruction for edit in edits],
            "source": [edit.source.pil() for edit in edits],
            "edited": [edit.edited.pil() for edit in edits],
        }
        return function([""] * len(edits), [""] * len(edits), **columns)

    return call


def monitored(entry: str, reward: Reward, **options: Any) -> tuple[Call, StepMonitor]:
    if entry == "flow-grpo":
        adapter = FlowGRPOReward(reward, monitor="64", **options)
        assert adapter.reward.monitor is not None
        return flow_grpo(adapter), adapter.reward.monitor
    wrapped = MonitoredReward(reward, step_samples=64, heldout=resolve_heldout(options.get("heldout")))
    return trl(RewardFunction(wrapped)), wrapped.monitor


@pytest.mark.parametrize(
    ("entry", "hack"), [("flow-grpo", "copies the source"), ("flow-grpo", "saturates"), ("trl", "blurs")]
)
def test_a_policy_that_hacks_is_heard_of_through_each_entry(entry, hack, caplog):
    name, change = HACKS[hack]
    policy = Policy(11, change)
    copies = hack == "copies the source"
    call, monitor = monitored(entry, Judge().reward(), heldout="guards" if copies else None)
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        for number in range(27):
            edits = [edit.sample for edit in policy.step(number)]
            call(edits[:24])
            call(edits[24:])
    assert name in {alarm.name for alarm in monitor.alarms}
    assert min(alarm.step for alarm in monitor.alarms) >= 24
    assert f"reward hacking? {name}" in caplog.text
    if copies:
        assert monitor.history[5][1]["heldout"] > 0.9 > 0.1 > monitor.latest["heldout"]


def test_columns_have_the_number_of_alarms_and_values_are_the_same():
    edits = batch()
    rows = rows_of(edits)
    plain, watched = TrainerReward(Judge().reward()), TrainerReward(Judge().reward(), monitor="16")
    one, other = plain(rows), watched(rows)
    assert one.values == other.values
    assert set(other.columns) - set(one.columns) == {"alarms"}
    assert other.columns["alarms"] == [0.0] * 16
    assert watched.monitor is not None
    assert watched.monitor.steps == 1
    assert watched.monitor.latest["reward"] == pytest.approx(np.mean(one.values))


def test_a_sample_that_is_asked_again_counts_once_and_a_row_that_is_no_edit_does_not():
    edits = batch()
    judge = Judge(failing={edits.edited[5].digest: 1})
    watched = TrainerReward(judge.reward(), monitor=8, missing="nan")
    watched([*rows_of(edits), "the image edited: NaN"])
    assert watched.monitor is not None
    assert watched.monitor.steps == 2
    assert [numbers["unscored"] for _, numbers in watched.monitor.history] == [0.0, 0.0]


def test_the_held_out_reward_may_be_a_spec_or_a_server_that_is_gone(caplog):
    edits = batch()
    with serve_in_thread(ScoringService(Judge().reward())) as url:
        served = TrainerReward(Judge().reward(), monitor=16, heldout=url)
        served(rows_of(edits))
        assert served.monitor is not None
        assert served.monitor.latest["heldout"] == served.monitor.latest["reward"]
        assert served.monitor.latest["agreement"] == 1.0
    gone = TrainerReward(Judge().reward(), monitor=16, heldout=f"{url}?outage_timeout_s=0.2&deadline_s=1")
    assert not any(math.isnan(value) for value in gone(rows_of(edits)).values)
    assert gone.monitor is not None
    assert (gone.monitor.heldout_failures, gone.monitor.steps) == (1, 1)
    assert "the held-out reward did not score step 0" in caplog.text


def test_options_that_mean_nothing_are_refused(tmp_path, monkeypatch):
    for options, message in (
        ({"heldout": "guards"}, "are for the monitor: give monitor=64"),
        ({"monitor_state": "state.json"}, "are for the monitor"),
        ({"monitor": 4}, "at least 8 samples, got 4"),
        ({"monitor": "many"}, "monitor is a number, got 'many'"),
    ):
        with pytest.raises(ValueError, match=message):
            TrainerReward(Judge().reward(), **options)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match=r"put \{rank\} into monitor_state"):
        TrainerReward(Judge().reward(), monitor=16, monitor_state=str(tmp_path / "state.json"))
    TrainerReward(Judge().reward(), monitor=16, monitor_state=str(tmp_path / "s-{rank}.json"))(rows_of(batch()))
    assert [path.name for path in tmp_path.iterdir()] == ["s-1.json"]


def test_a_restarted_trainer_keeps_its_baseline(tmp_path: Path):
    path = str(tmp_path / "monitor.json")
    for _ in range(3):
        TrainerReward(Judge().reward(), monitor=16, monitor_state=path)(rows_of(batch()))
    last = TrainerReward(Judge().reward(), monitor=16, monitor_state=path).monitor
    assert last is not None
    assert (last.steps, len(last.history)) == (3, 3)
    with pytest.raises(ValueError, match="with reward 'parted', and this one has 'guards'"):
        TrainerReward("guards", monitor=16, monitor_state=path)


def test_the_documented_lines_are_options_of_adapters():
    lines = "\n".join(documented("Alarms", "yaml")).splitlines()
    options = dict(line.partition("#")[0].strip().split(": ", 1) for line in lines)
    assert set(options) == {"monitor", "heldout", "monitor_state"}
    reward = TrainerReward(Judge().reward(), monitor=options["monitor"], heldout=options["heldout"])
    assert reward.monitor is not None
    assert reward.monitor.step_samples == int(options["monitor"])
    assert reward.monitor.heldout is not None
    scores = reward.monitor.heldout([row for row in rows_of(batch()) if isinstance(row, EditSample)])
    assert [type(score) for score in scores] == [Score] * 16


def rows_of(edits: Batch) -> list[EditSample | str]:
    return [
        EditSample(id=f"edit-{row}", instruction=prompt, sources=(source,), edited=edited)
        for row, (prompt, source, edited) in enumerate(zip(edits.prompts, edits.sources, edits.edited, strict=True))
    ]
