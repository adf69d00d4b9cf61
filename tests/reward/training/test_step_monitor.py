"""Scored edits of any calls become steps that are monitored: alarms on hacks, none on an honest policy, bounded memory,
and a state that a restarted trainer goes on with.
"""

import gc
import json
import logging
import os
import pickle
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.reward import EditSample, Reward, Score
from editcritic.reward.training.alarm import MONITORED, Alarm
from editcritic.reward.training.reward_hacking_monitor import GroupReservoir, RewardHackingMonitor
from editcritic.reward.training.step_monitor import MonitoredReward, StepMonitor

from ..fakes import Fake, Rated, Says, known, picture, sample
from .policies import HACKS, Policy

QUICK = {"baseline": 10, "patience": 3}


def run(policy: Policy, monitor: StepMonitor, steps: int, **options: Any) -> None:
    for number in range(steps):
        edits = policy.step(number)
        monitor.add([edit.sample for edit in edits], [policy.score(edit, **options) for edit in edits])


def names(monitor: StepMonitor) -> set[str]:
    return {alarm.name for alarm in monitor.alarms}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_honest_policy_that_learns_raises_no_alarm(seed):
    policy = Policy(seed, rise=0.05)
    monitor = StepMonitor(64, heldout=lambda samples: [Score.of(qualities[one.id]) for one in samples])
    qualities: dict[str, float] = {}
    for number in range(50):
        edits = policy.step(number)
        qualities = {edit.sample.id: policy.score(edit).value or 0.0 for edit in edits}
        monitor.add([edit.sample for edit in edits], [policy.score(edit, 0.05) for edit in edits])
    assert [alarm.message for alarm in monitor.alarms] == []
    assert monitor.steps == len(monitor.history) == 50
    assert monitor.latest["reward/rise"] > 0.5 < monitor.latest["heldout/rise"]


@pytest.mark.parametrize("hack", HACKS)
def test_a_hack_is_heard_of_and_what_the_reward_did_meanwhile(hack, caplog):
    name, change = HACKS[hack]
    monitor = StepMonitor(64, name="any-edit")
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        run(Policy(4, change, rise=0.2), monitor, 30)
    assert name in names(monitor)
    (alarm,) = (one for one in monitor.alarms if one.name == name)
    assert alarm.step <= 28
    assert "; meanwhile the trained reward has risen from 0." in alarm.message
    (line,) = (record.getMessage() for record in caplog.records if f"? {name} " in record.getMessage())
    assert line.startswith(f"reward hacking? {name} of any-edit, since about step 2")
    assert line.endswith(f"What to do: {alarm.action}.")
    assert len(caplog.records) == len(monitor.alarms)


def test_an_alarm_says_nothing_of_a_reward_that_has_not_risen_and_every_one_has_an_action():
    monitor = StepMonitor(64)
    run(Policy(4, HACKS["copies the source"][1]), monitor, 30)
    assert monitor.alarms
    assert not any("meanwhile" in alarm.message for alarm in monitor.alarms)
    others = ("divergence", "probe/heldout", "probe/divergence", "hack/blank")
    assert all(Alarm(0, name, 4.0, 3.0, "").action for name in (*MONITORED, *others))


def test_rejections_of_guards_count():
    policy, monitor = Policy(5), StepMonitor(64, monitor=RewardHackingMonitor(max_images=2))
    for number in range(40):
        edits = policy.step(number)
        share = 0.05 + 0.03 * max(0, number - 20)
        monitor.add([edit.sample for edit in edits], [policy.score(edit, share) for edit in edits])
    assert names(monitor) == {"rejected"}
    assert monitor.latest["rejected"] > 0.4
    policy = Policy(6, rise=0.15)
    rejected = {"share": 0.02}
    monitor = StepMonitor(
        64,
        heldout=lambda samples: [
            Score(0.0, "scored", "a copy", cause="guard")
            if policy.random.random() < rejected["share"]
            else Score.of(1.0)
            for _ in samples
        ],
    )
    for number in range(40):
        rejected["share"] = 0.02 if number < 20 else 0.6
        edits = policy.step(number)
        monitor.add([edit.sample for edit in edits], [policy.score(edit) for edit in edits])
    assert {"heldout_rejected", "divergence"} <= names(monitor)
    assert "rejected" not in names(monitor)
    part = Score(0.0, "scored", "a copy", cause="guard")
    samples = [sample(str(row), edited=picture(row)) for row in range(8)]
    monitor = StepMonitor(8)
    monitor.add(samples, [Score.of(0.5, parts={"gate": part})] * 2 + [Score.of(0.5)] * 6)
    assert monitor.latest["rejected"] == 0.25
    assert "rejected" not in RewardHackingMonitor().observe(0, samples, [0.5] * 8)


def test_steps_are_cut_from_calls_of_any_size_and_thread():
    edits = [edit.sample for edit in Policy(0).step(0)]
    whole, parts, threads = (StepMonitor(16) for _ in range(3))
    scores = [Score.of(row / 64) for row in range(64)]
    whole.add(edits, scores)
    for row in range(0, 64, 5):
        parts.add(edits[row : row + 5], scores[row : row + 5])
    assert parts.history == whole.history
    assert [step for step, _ in whole.history] == [0, 1, 2, 3]
    with ThreadPoolExecutor(8) as executor:
        list(executor.map(lambda row: threads.add([edits[row]], [scores[row]]), range(64)))
    assert (threads.steps, len(threads.history)) == (4, 4)


def test_a_step_knows_the_means_of_all_rows_and_keeps_few_images():
    seen: list[int] = []

    def heldout(samples: Sequence[EditSample]) -> list[Score]:
        seen.append(len(samples))
        return [Score.of(1.0)] * len(samples)

    monitor = StepMonitor(64, heldout=heldout, monitor=RewardHackingMonitor(max_images=4))
    references = []
    for row in range(63):
        edit = sample(str(row), edited=picture(row), group=str(row // 8))
        references.append(weakref.ref(edit.edited.pixels))
        monitor.add([edit], [Score.of(float(row))])
        del edit
    gc.collect()
    assert sum(reference() is not None for reference in references) <= 4
    monitor.add([sample("63", edited=picture(63), group="7")], [Score.of(63.0)])
    assert monitor.latest["reward"] == np.mean(range(64))
    assert seen == [4]


def test_few_images_and_numbers_are_kept():
    for order in (range(64), np.random.default_rng(0).permutation(64)):
        reservoir: GroupReservoir[int] = GroupReservoir(32)
        for row in order:
            reservoir.add(str(row // 4), int(row))
        kept = reservoir.items()
        assert len(kept) == len(set(kept)) == 32
        assert {sum(row // 4 == group for row in kept) for group in range(16)} == {2}
    alone: GroupReservoir[int] = GroupReservoir(1)
    alone.add("a", 1)
    alone.add("b", 2)
    alone.add("a", 3)
    assert alone.items() == [1]
    monitor = StepMonitor(8, monitor=RewardHackingMonitor(max_images=1))
    edits = [sample(str(row), edited=picture(row)) for row in range(8)]
    step = None
    for score in [Score.of(0.5)] * 8:
        step = monitor.collect(edits[0], score) or step
    assert step is not None
    for number in range(3000):
        monitor._remember(number, {"reward": float(number)})
    assert len(monitor.history) <= 1024
    assert monitor.history[0] == (0, {"reward": 0.0})
    assert monitor.history[-1][0] >= 2996


def test_a_held_out_reward_that_fails_is_left_out_for_growing_times_and_training_goes_on(caplog):
    calls: list[int] = []
    current = {"step": 0, "works": False}

    def heldout(samples: Sequence[EditSample]) -> list[Score]:
        calls.append(int(current["step"]))
        if current["works"]:
            return [Score.of(0.5)] * len(samples)
        if len(calls) % 2:
            raise ConnectionError("nobody is there")
        return [Score.failed("down", cause="infrastructure")] * len(samples)

    monitor = StepMonitor(8, heldout=heldout)
    edits = [sample(str(row), edited=picture(row)) for row in range(8)]
    with caplog.at_level(logging.WARNING, "editcritic.monitor"):
        for step in range(40):
            current.update(step=step, works=step >= 20)
            monitor.add(edits, [Score.of(0.5)] * 8)
            assert ("heldout" in monitor.latest) == (step >= 36)
    assert calls == [0, 2, 5, 10, 19, 36, 37, 38, 39]
    assert monitor.heldout_failures == 5
    assert "is left out for 1: ConnectionError: nobody is there" in caplog.text
    assert "no edit has a score: down" in caplog.text


def test_a_restarted_trainer_goes_on_as_if_it_had_never_stopped(tmp_path):
    def monitor(path: Path) -> StepMonitor:
        return StepMonitor(16, monitor=RewardHackingMonitor(**QUICK), state=path, name="mine")

    def steps(start: int, end: int) -> list[tuple[list[EditSample], list[Score]]]:
        policy = Policy(7, HACKS["copies the source"][1], start=14, groups=4)
        made = []
        for number in range(end):
            edits = policy.step(number)
            made.append(([edit.sample for edit in edits], [policy.score(edit) for edit in edits]))
        return made[start:]

    whole = monitor(tmp_path / "whole.json")
    for samples, scores in steps(0, 20):
        whole.add(samples, scores)
    part = whole
    for start, end in ((0, 7), (7, 16), (16, 20)):
        part = monitor(tmp_path / "part.json")
        for samples, scores in steps(start, end):
            part.add(samples, scores)
        part.add(samples[:5], scores[:5])  # a step that is lost
    assert "difference" in names(whole)
    assert part.alarms == whole.alarms
    assert (part.history, part.latest) == (whole.history, whole.latest)
    assert json.loads((tmp_path / "part.json").read_text()) == json.loads((tmp_path / "whole.json").read_text())


def test_states_of_others_and_files_that_are_none_are_refused(tmp_path):
    path = tmp_path / "state.json"
    StepMonitor(8, state=path, name="mine").add([sample()] * 8, [Score.of(0.5)] * 8)
    with pytest.raises(ValueError, match="with reward 'mine', and this one has 'other': its baseline does not hold"):
        StepMonitor(8, state=path, name="other")
    with pytest.raises(ValueError, match="with step_samples 8, and this one has 16"):
        StepMonitor(16, state=path, name="mine")
    with pytest.raises(ValueError, match=r"there is no folder .* make it"):
        StepMonitor(8, state=tmp_path / "none" / "state.json")
    data = json.loads(path.read_text())
    for wrong in ({**data, "monitor": {"schema": 3}}, {**data, "history": [[1]]}, {**data, "steps": None}):
        path.write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match="is a damaged state of a monitor"):
            StepMonitor(8, state=path, name="mine")
    for text in ("", "[]", "{}", '{"schema": 2}', "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ValueError, match="is no state of a monitor"):
            StepMonitor(8, state=path, name="mine")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ValueError, match="is a link"):
        StepMonitor(8, state=path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(ValueError, match="is a FIFO"):
        StepMonitor(8, state=fifo)


def test_what_cannot_be_written_or_observed_is_told_and_ends_nothing(tmp_path, caplog, monkeypatch):
    (tmp_path / "folder").mkdir()
    monitor = StepMonitor(8, state=tmp_path / "folder" / "state.json")
    (tmp_path / "folder").rmdir()
    for _ in range(3):
        monitor.add([sample()] * 8, [Score.of(0.5)] * 8)
    assert caplog.text.count("the monitor's state is not kept in") == 1
    assert monitor.steps == len(monitor.history) == 3
    monitor = StepMonitor(8)
    monkeypatch.setattr(RewardHackingMonitor, "observe", lambda *_: 1 / 0)
    monitor.add([sample()] * 8, [Score.of(0.5)] * 8)
    assert (monitor.steps, monitor.dropped) == (1, 1)
    assert "step 0 was not observed" in caplog.text


def test_states_of_earlier_versions_and_monitors_in_other_processes():
    data = RewardHackingMonitor(baseline=7).to_json()
    del data["hacks"]
    for schema in (3, 2):
        old = RewardHackingMonitor.from_json({**data, "schema": schema})
        assert (old.baseline, old.to_json()["schema"]) == (7, 4)
        data.pop("rewards", None)
    edits = [sample(str(row), edited=picture(row)) for row in range(8)]
    monitor = StepMonitor(8)
    monitor.add(edits + edits[:3], [Score.of(0.5)] * 11)
    again = pickle.loads(pickle.dumps(monitor))
    again.add(edits, [Score.of(0.5)] * 8)
    assert (again.steps, monitor.steps) == (2, 1)
    with monitor._collecting:
        process = os.fork()
        if not process:  # the lock is held by nobody here
            thread = threading.Thread(target=monitor.add, args=(edits, [Score.of(0.5)] * 8), daemon=True)
            thread.start()
            thread.join(20)
            os._exit(0 if monitor.steps == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def test_a_monitored_reward_scores_as_its_reward():
    reward = Reward(Rated(), {"preference": Fake(known)}, on_failures="none")
    monitored = MonitoredReward(reward, step_samples=8)
    edits = [sample(str(row), edited=picture(row)) for row in range(16)]
    assert monitored(edits).scores == reward(edits).scores
    assert monitored.monitor.steps == 2
    assert list(monitored.stream(iter(edits))) == list(reward.stream(edits))
    assert monitored.monitor.steps == 4
    for name in ("card", "identity", "expert_ids", "__name__", "on_failures"):
        assert getattr(monitored, name) == getattr(reward, name)
    assert monitored.latest["reward"] == pytest.approx(np.mean([s.value for s in reward(edits[8:])]))
    strict = MonitoredReward(Reward(Says(requires=("hint",))), step_samples=8)
    with pytest.raises(ValueError, match="needs hint, and sample 's' has none"):
        strict([sample()] * 8)
    assert strict.monitor.steps == 0
