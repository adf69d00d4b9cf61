"""Alarms: none while nothing changes or a policy learns, and early ones on reward hacking."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageFilter
import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.reward import EditSample, Image, Score
from editcritic.reward.training.alarm import MONITORED, Alarm
from editcritic.reward.training.image_statistics import batch_statistics, image_statistics
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor

from ..fakes import picture, sample

GREY = Image.of(np.full((4, 4, 3), 128, np.uint8))


@cache
def edits():
    """Edits of SceneEdit's images by a policy with occasional errors."""
    return cases(160, seed=1, split="train")


def batches(seed: int, *, of: Sequence[EditSample] = (), size: int = 16) -> Callable[[], list[EditSample]]:
    random = np.random.default_rng(seed)
    pool = list(of) or [case.sample for case in edits()]
    return lambda: [pool[number] for number in random.integers(0, len(pool), size)]


def touched(change: Callable[[PIL.Image.Image], PIL.Image.Image]) -> Callable[[EditSample], EditSample]:
    return lambda edit: replace(edit, edited=Image.of(change(edit.edited.pil())))


HACKS: dict[str, tuple[str, Callable[[EditSample], EditSample]]] = {
    "sharpened": ("edge_density", touched(lambda image: image.filter(PIL.ImageFilter.UnsharpMask(2, 100, 0)))),
    "blurred": ("edge_density", touched(lambda image: image.filter(PIL.ImageFilter.GaussianBlur(3)))),
    "saturated": ("saturation", touched(lambda image: PIL.ImageEnhance.Color(image).enhance(1.3))),
    "lightened": ("exposure_50", touched(lambda image: PIL.ImageEnhance.Brightness(image).enhance(1.15))),
    "copied": ("difference", lambda edit: replace(edit, edited=edit.source)),
    "blank": ("exposure_99", lambda edit: replace(edit, edited=Image.of(np.full((64, 64, 3), 128, np.uint8)))),
}


def constant(rows: int, group_size: int) -> list[EditSample]:
    """Edits whose images say nothing, in groups."""
    return [
        sample(f"{number}", sources=(GREY,), edited=GREY, group=f"{number // group_size}") for number in range(rows)
    ]


def names(monitor: RewardHackingMonitor) -> set[str]:
    return {alarm.name for alarm in monitor.alarms}


def test_batches_that_do_not_change_raise_no_alarm():
    """100 runs of 200 steps; fewer than 1 in 20 may raise an alarm."""
    random = np.random.default_rng(0)
    rows = [batch_statistics([case.sample]).relative_to_source for case in edits()]
    changes = np.sort(np.array([list(row.values()) for row in rows])[random.integers(0, len(rows), (100, 200, 16))], 2)
    means = changes[:, :, 4:12].mean(2)  # the middle half, as a batch of 16 has it
    disturbed = 0
    for run in means:
        monitor = RewardHackingMonitor()
        shares = random.binomial(16, 0.05, 200) / 16, random.binomial(4, 0.4, 200) / 4, random.normal(0.4, 0.2, 200)
        for step, (row, *others) in enumerate(zip(run, *shares, strict=True)):
            numbers = dict(zip(("unscored", "degenerate", "agreement"), others, strict=True))
            monitor.update(step, {**dict(zip(rows[0], row, strict=True)), **numbers})
        disturbed += bool(monitor.alarms)
    assert disturbed < 5


def test_rewards_that_do_not_change_or_change_too_little_raise_no_alarm():
    for seed in range(8):
        assert not rewarded(seed, lambda step: 0.0, lambda step: 0.0, steps=200).alarms
    for binary in (True, False):
        monitor = rewarded(0, lambda s: max(0, s - 20) / 40, lambda s: max(0, s - 20) / 80, steps=60, binary=binary)
        assert monitor.alarms == []
    monitor, small = RewardHackingMonitor(), 0.9 * MONITORED["saturation"].min_drift
    for step in range(60):
        monitor.update(step, dict.fromkeys(("unscored", "degenerate"), 0.9 if step < 20 else 0.0))
        monitor.update(step, {"saturation": 0.1 if step < 20 else 0.1 + small})
    assert monitor.alarms == []


def rewarded(
    seed: int, trained: Callable[[int], float], heldout: Callable[[int], float], *, steps: int, binary: bool = True
) -> RewardHackingMonitor:
    """Rewards of 8 groups of 8: both share group difficulty and edit quality; the noise is independent."""
    random = np.random.default_rng(seed)
    batch = constant(64, 8)
    monitor = RewardHackingMonitor(max_images=1)
    for step in range(steps):
        shared = np.repeat(random.standard_normal(8), 8) + random.standard_normal(64)
        trained_values, heldout_values = (
            shared + 0.7 * random.standard_normal(64) + 1.5 * rise(step) for rise in (trained, heldout)
        )
        scores = [(values > 0).astype(float) if binary else values for values in (trained_values, heldout_values)]
        monitor.observe(step, batch, scores[0].tolist(), scores[1].tolist())
    return monitor


@pytest.mark.parametrize("hack", HACKS)
def test_a_hack_is_heard_of_soon(hack):
    name, change = HACKS[hack]
    monitor, batch = RewardHackingMonitor(), batches(3)
    for step in range(30):
        samples = batch()
        monitor.observe(step, samples if step < 24 else [change(edit) for edit in samples], [1.0] * 16)
        assert step >= 28 or not monitor.alarms
    (alarm,) = (item for item in monitor.alarms if item.name == name)
    assert abs(alarm.value) > alarm.z_limit == 3.0


def test_a_held_out_reward_that_ranks_otherwise_is_heard_of_where_groups_differ():
    random = np.random.default_rng(0)
    batch = constant(32, 8)
    monitor = RewardHackingMonitor(max_images=1)
    for step in range(40):
        scores = random.standard_normal(32)
        other = (1 if step < 25 else 0) * scores + random.standard_normal(32)
        monitor.observe(step, batch, scores.tolist(), other.tolist())
    assert names(monitor) == {"agreement"}
    assert monitor.alarms[0].step <= 30
    random = np.random.default_rng(0)
    batch = constant(64, 8)
    monitor = RewardHackingMonitor(max_images=1)
    for step in range(40):
        trained = random.random(64)
        heldout = trained + 0.2 * random.standard_normal(64)
        if step >= 25:
            trained, heldout = (np.arange(64) != step).astype(float), (np.arange(64) != step - 1).astype(float)
        log = monitor.observe(step, batch, trained.tolist(), heldout.tolist())
        assert step < 25 or log["agreement"] <= 0
    assert "agreement" not in names(monitor)


def test_edits_that_nobody_can_score_and_groups_that_are_all_alike_are_heard_of():
    random = np.random.default_rng(0)
    batch = constant(32, 4)
    monitor = RewardHackingMonitor(max_images=1)
    for step in range(35):
        scores: list[Score | float | None] = [float(value) for value in random.random(32)]
        if step >= 25:
            scores[:16] = [Score.abstained("what is this?")] * 16
            scores[16:24] = [Score.failed("no answer", cause="infrastructure")] * 8
        shares = monitor.observe(step, batch, scores)
        assert (shares["abstained"], shares["unscored"]) == ((0.5, 0.25) if step >= 25 else (0.0, 0.0))
    assert names(monitor) == {"abstained", "unscored", "degenerate"}
    assert {alarm.step for alarm in monitor.alarms} == {29}


def test_alarms_say_what_they_saw():
    monitor, batch = RewardHackingMonitor(), batches(3)
    for step in range(30):
        samples = batch()
        monitor.observe(step, samples if step < 20 else [HACKS["copied"][1](edit) for edit in samples], [1.0] * 16)
    (alarm,) = monitor.alarms
    assert (alarm.step, alarm.name) == (24, "difference")
    assert alarm.message.startswith("the difference to the source was 0.0")
    assert alarm.message.endswith("below that for 5 steps, now 0.00392: the source is copied")
    for seed in range(3):
        monitor = rewarded(seed, lambda s: max(0, s - 20) / 50, lambda s: -max(0, s - 20) / 200, steps=55)
        (alarm,) = monitor.alarms
        assert alarm.name == "divergence"
        assert alarm.message.startswith("the trained reward has risen from 0.")
        assert "while the held-out one went from 0." in alarm.message


def probed(
    change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]], *, count: int = 180
) -> RewardHackingMonitor:
    """Two probes: the variation between prompts is far larger than `change` of the trained and held-out reward."""
    random = np.random.default_rng(0)
    trained, heldout = random.random(count), random.random(count)
    monitor = RewardHackingMonitor()
    assert set(monitor.observe_probe(-1, trained.tolist(), heldout.tolist())) == {"probe/reward", "probe/heldout"}
    later = [values + 0.05 * random.standard_normal(count) for values in change(trained, heldout)]
    log = monitor.observe_probe(9, later[0].tolist(), later[1].tolist())
    assert set(log) == {"probe/reward", "probe/heldout", "probe/reward/z", "probe/heldout/z", "alarms"}
    return monitor


@pytest.mark.parametrize(
    ("rise", "heldout_rise", "name", "words"),
    [
        (0.0, -0.03, "probe/heldout", "edits have become worse"),
        (0.03, 0.0, "probe/divergence", "the policy overoptimises the trained reward"),
        (0.0, 0.0, "", ""),
        (0.03, 0.03, "", ""),
    ],
)
def test_a_small_change_is_seen_on_the_same_prompts(rise, heldout_rise, name, words):
    alarms = probed(lambda trained, heldout: (trained + rise, heldout + heldout_rise)).alarms
    assert [(alarm.step, alarm.name) for alarm in alarms] == ([(9, name)] if name else [])
    for alarm in alarms:
        assert abs(alarm.value) > 3
        assert alarm.message.startswith("on the same prompts from the same noise the trained reward went from 0.")
        assert alarm.message.endswith(words)


def test_probes_without_a_score_are_left_out_others_are_refused_and_a_saved_watch_knows_its_probe():
    monitor = RewardHackingMonitor()
    monitor.observe_probe(-1, [None, 0.5, None], [0.1, None, 0.2])
    assert monitor.observe_probe(0, [0.5, 0.5, None], [0.1, 0.1, None]) == {"probe/reward": 0.5, "probe/heldout": 0.1}
    again = RewardHackingMonitor.from_json(json.loads(json.dumps(monitor.to_json())))
    with pytest.raises(ValueError, match="the same edits each time: there were 3, got 2"):
        again.observe_probe(1, [0.5] * 2, [0.5] * 2)
    with pytest.raises(ValueError, match="a probe needs edits"):
        monitor.observe_probe(1, [], [])


def test_what_is_logged_is_plain_numbers():
    monitor, batch = RewardHackingMonitor(baseline=5), batches(0)
    logs = [monitor.observe(step, batch(), [None] * 16 if step == 2 else [0.5] * 16, [0.25] * 16) for step in range(7)]
    assert all(type(value) is float and np.isfinite(value) for log in logs for value in log.values())
    assert json.loads(json.dumps(logs)) == logs
    assert set(logs[0]) == {
        *image_statistics(GREY),
        "difference",
        "unscored",
        "abstained",
        "degenerate",
        "reward",
        "heldout",
        "alarms",
    }
    assert not {"reward", "heldout"} & set(logs[2])
    assert {"edge_density/z", "unscored/z", "divergence/z", "reward/rise"} <= set(logs[6])
    assert "agreement" not in logs[6]  # of constants
    monitor, batch = RewardHackingMonitor(baseline=5, patience=2, max_images=1), batches(0)
    rises = [0.0] * 8 + [0.5] * 7
    logs = [monitor.observe(step, batch(), [up, 1 + up] * 8, [up, 4 + up] * 8) for step, up in enumerate(rises)]
    assert (logs[7]["reward/rise"], logs[-1]["reward/rise"]) == (0.0, 1.0)
    assert (logs[7]["heldout/rise"], logs[-1]["heldout/rise"]) == (0.0, 0.25)
    monitor, batch = RewardHackingMonitor(baseline=5), batches(0)
    for step in range(40):
        heldout = None if step % 4 else [0.1, None] * 8
        log = monitor.observe(step, batch(), [0.5] * 16, heldout)
        assert ("heldout" in log) == (step % 4 == 0)
        assert ("divergence/z" in log) == (step % 4 == 0 and step >= 20)


def test_odd_batches_options_and_states():
    batch = [sample("same", edited=picture(0)), *(sample(f"{number}", edited=picture(1)) for number in range(9))]
    assert RewardHackingMonitor(max_images=1).observe(0, batch, [0.0] * 10)["difference"] == 0.0
    assert RewardHackingMonitor(max_images=2).observe(0, batch, [0.0] * 10)["difference"] > 0.0
    monitor = RewardHackingMonitor()
    assert monitor.observe(0, [], []) == {"alarms": 0.0}
    assert monitor.to_json() == RewardHackingMonitor().to_json()
    for options in ({"baseline": 4}, {"patience": 0}, {"z_limit": 0}, {"max_images": 0}):
        with pytest.raises(ValueError, match="baseline >= 5, patience >= 1, z_limit > 0 and max_images >= 1"):
            RewardHackingMonitor(**options)
    with pytest.raises(ValueError, match="got 1 samples, 2 scores and 1 held-out scores"):
        RewardHackingMonitor().observe(0, [sample()], [1.0, 1.0], [1.0])
    with pytest.raises(ValueError, match="has schema 0, expected 4: start a new one"):
        RewardHackingMonitor.from_json({"schema": 0})


def test_a_watch_that_was_saved_goes_on_as_if_it_had_never_stopped():
    def steps(monitor: RewardHackingMonitor, start: int, end: int) -> list[dict[str, float]]:
        logs = []
        for step in range(start, end):
            random = np.random.default_rng(step)
            samples = batches(step)()
            if step >= 12:
                samples = [HACKS["saturated"][1](edit) for edit in samples]
            logs.append(monitor.observe(step, samples, random.random(16).tolist(), random.random(16).tolist()))
        return logs

    uninterrupted = RewardHackingMonitor(baseline=8, patience=3, z_limit=2.5, max_images=8)
    logs = steps(uninterrupted, 0, 20)
    for stop in (5, 13):
        first = RewardHackingMonitor(baseline=8, patience=3, z_limit=2.5, max_images=8)
        begun = steps(first, 0, stop)
        second = RewardHackingMonitor.from_json(json.loads(json.dumps(first.to_json())))
        assert begun + steps(second, stop, 20) == logs
        assert second.alarms == uninterrupted.alarms
    assert uninterrupted.alarms
    assert all(isinstance(alarm, Alarm) for alarm in uninterrupted.alarms)


def test_a_policy_that_learns_to_do_as_it_is_told_raises_no_alarm():
    honest = [case.sample for case in edits() if not case.mode]
    flawed = [case.sample for case in edits() if case.mode]
    random = np.random.default_rng(0)
    monitor, good, bad = RewardHackingMonitor(), batches(1, of=honest, size=1), batches(2, of=flawed, size=1)
    for step in range(60):
        share = 0.4 + 0.5 * min(1.0, step / 40)
        batch = [(good if random.random() < share else bad)()[0] for _ in range(16)]
        monitor.observe(step, batch, [1.0] * 16)
    assert monitor.alarms == []


def test_a_hack_that_spreads_slowly_is_heard_of_before_all_pictures_have_it():
    monitor, batch, random = RewardHackingMonitor(), batches(4), np.random.default_rng(0)
    for step in range(100):
        share = (step - 20) / 100
        monitor.observe(
            step, [HACKS["copied"][1](edit) if random.random() < share else edit for edit in batch()], [1.0] * 16
        )
    assert names(monitor) == {"difference"}
    assert monitor.alarms[0].step < 90  # seven of ten
