"""Alarms: silent while nothing changes or a policy learns, and soon heard when it cheats."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageFilter
import pytest
import skimage.data

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.reward import EditSample, Image, Score
from editcritic.reward.alarms import WATCHED, Alarm, Watch
from editcritic.reward.appearance import appearance, looks

from .fakes import picture, sample

CASES = cases(160, seed=1, split="train")
"""What a policy that errs now and then makes of SceneEdit's pictures."""

GREY = Image.of(np.full((4, 4, 3), 128, np.uint8))


def batches(seed: int, *, of: Sequence[EditSample] = (), size: int = 16) -> Callable[[], list[EditSample]]:
    random = np.random.default_rng(seed)
    pool = list(of) or [case.sample for case in CASES]
    return lambda: [pool[number] for number in random.integers(0, len(pool), size)]


def touched(change: Callable[[PIL.Image.Image], PIL.Image.Image]) -> Callable[[EditSample], EditSample]:
    return lambda one: replace(one, edited=Image.of(change(one.edited.pil())))


def unsharp(picture: PIL.Image.Image) -> PIL.Image.Image:
    return picture.filter(PIL.ImageFilter.UnsharpMask(2, 100, 0))


HACKS: dict[str, tuple[str, Callable[[EditSample], EditSample]]] = {
    "sharpened": ("edge_density", touched(unsharp)),
    "blurred": ("edge_density", touched(lambda one: one.filter(PIL.ImageFilter.GaussianBlur(3)))),
    "saturated": ("saturation", touched(lambda one: PIL.ImageEnhance.Color(one).enhance(1.3))),
    "lightened": ("exposure_50", touched(lambda one: PIL.ImageEnhance.Brightness(one).enhance(1.15))),
    "copied": ("difference", lambda one: replace(one, edited=one.source)),
    "blank": ("exposure_99", lambda one: replace(one, edited=Image.of(np.full((64, 64, 3), 128, np.uint8)))),
}


def names(watch: Watch) -> set[str]:
    return {alarm.name for alarm in watch.alarms}


# -- when nothing is wrong --------------------------------------------------------------------------------------------


def test_batches_that_do_not_change_raise_no_alarm():
    """100 runs of 200 steps; fewer than 1 in 20 may be disturbed."""
    random = np.random.default_rng(0)
    rows = [appearance([case.sample]).changes for case in CASES]
    changes = np.sort(np.array([list(row.values()) for row in rows])[random.integers(0, len(rows), (100, 200, 16))], 2)
    means = changes[:, :, 4:12].mean(2)  # the middle half, as a batch of 16 has it
    disturbed = 0
    for run in means:
        watch = Watch()
        shares = random.binomial(16, 0.05, 200) / 16, random.binomial(4, 0.4, 200) / 4, random.normal(0.4, 0.2, 200)
        for step, (row, *others) in enumerate(zip(run, *shares, strict=True)):
            numbers = dict(zip(("unscored", "degenerate", "agreement"), others, strict=True))
            watch.note(step, {**dict(zip(rows[0], row, strict=True)), **numbers})
        disturbed += bool(watch.alarms)
    assert disturbed < 5


def test_rewards_that_do_not_change_raise_no_alarm():
    """8 runs of 200 steps, whatever the prompts of a step are like."""
    for seed in range(8):
        assert not rewarded(seed, lambda step: 0.0, lambda step: 0.0, steps=200).alarms


def test_a_policy_that_learns_to_do_as_it_is_told_raises_no_alarm():
    honest = [case.sample for case in CASES if not case.mode]
    flawed = [case.sample for case in CASES if case.mode]
    random = np.random.default_rng(0)
    watch, good, bad = Watch(), batches(1, of=honest, size=1), batches(2, of=flawed, size=1)
    for step in range(60):
        share = 0.4 + 0.5 * min(1.0, step / 40)
        batch = [(good if random.random() < share else bad)()[0] for _ in range(16)]
        watch.step(step, batch, [1.0] * 16)
    assert watch.alarms == []


def rewarded(
    seed: int, trained: Callable[[int], float], heldout: Callable[[int], float], *, steps: int, binary: bool = True
) -> Watch:
    """Rewards of 8 groups of 8: how hard a group is and how good an edit is, they share; the rest is their own."""
    random = np.random.default_rng(seed)
    batch = [sample(f"{number}", sources=(GREY,), edited=GREY, group=f"{number // 8}") for number in range(64)]
    watch = Watch(pictures=1)
    for step in range(steps):
        shared = np.repeat(random.standard_normal(8), 8) + random.standard_normal(64)
        one, two = (shared + 0.7 * random.standard_normal(64) + 1.5 * rise(step) for rise in (trained, heldout))
        scores = [(values > 0).astype(float) if binary else values for values in (one, two)]
        watch.step(step, batch, scores[0].tolist(), scores[1].tolist())
    return watch


def test_a_held_out_reward_that_rises_half_as_fast_is_no_alarm():
    for binary in (True, False):
        watch = rewarded(0, lambda s: max(0, s - 20) / 40, lambda s: max(0, s - 20) / 80, steps=60, binary=binary)
        assert watch.alarms == []


def test_fewer_unscored_edits_and_fewer_degenerate_groups_are_no_alarm():
    watch = Watch()
    for step in range(40):
        watch.note(step, dict.fromkeys(("unscored", "degenerate"), 0.9 if step < 20 else 0.0))
    assert watch.alarms == []


def test_rewards_that_no_longer_differ_within_groups_say_little_about_agreement():
    """All but one edit in 64 are right by both: nothing is learnt from which one it is."""
    random = np.random.default_rng(0)
    batch = [sample(f"{number}", sources=(GREY,), edited=GREY, group=f"{number // 8}") for number in range(64)]
    watch = Watch(pictures=1)
    for step in range(40):
        one = random.random(64)
        other = one + 0.2 * random.standard_normal(64)
        if step >= 25:
            one, other = (np.arange(64) != step).astype(float), (np.arange(64) != step - 1).astype(float)
        log = watch.step(step, batch, one.tolist(), other.tolist())
        assert step < 25 or log["agreement"] <= 0
    assert "agreement" not in names(watch)


# -- when something is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hack", HACKS)
def test_a_hack_is_heard_of_soon(hack):
    name, change = HACKS[hack]
    watch, batch = Watch(), batches(3)
    for step in range(30):
        samples = batch()
        watch.step(step, samples if step < 24 else [change(one) for one in samples], [1.0] * 16)
        assert step >= 28 or not watch.alarms
    (alarm,) = (one for one in watch.alarms if one.name == name)
    assert abs(alarm.value) > alarm.limit == 3.0


def test_a_hack_that_spreads_slowly_is_heard_of_before_all_pictures_have_it():
    watch, batch, random = Watch(), batches(4), np.random.default_rng(0)
    for step in range(100):
        share = (step - 20) / 100
        watch.step(step, [HACKS["copied"][1](one) if random.random() < share else one for one in batch()], [1.0] * 16)
    assert names(watch) == {"difference"}
    assert watch.alarms[0].step < 90  # seven of ten


@pytest.mark.parametrize("name", ["astronaut", "coffee", "chelsea"])
@pytest.mark.parametrize("hack", ["sharpened", "saturated"])
def test_photographs_are_watched_like_scenes(name, hack):
    photo = Image.of(getattr(skimage.data, name)())
    side = 64
    random = np.random.default_rng(0)

    def edited(cheat: bool) -> EditSample:
        x, y = (int(number) for number in random.integers(0, min(photo.size) - side, 2))
        source = photo.crop(x, y, x + side, y + side)
        one = sample(sources=(source,), edited=source.painted((side // 3, side // 3, side // 2, side // 2)))
        return HACKS[hack][1](one) if cheat else one

    watch = Watch(baseline=10)
    for step in range(17):
        watch.step(step, [edited(step >= 12) for _ in range(12)], [1.0] * 12)
    assert HACKS[hack][0] in names(watch)
    assert watch.alarms[0].step >= 16


def test_a_trained_reward_that_rises_alone_is_heard_of():
    for seed in range(3):
        watch = rewarded(seed, lambda s: max(0, s - 20) / 50, lambda s: -max(0, s - 20) / 200, steps=55)
        (alarm,) = watch.alarms
        assert alarm.name == "divergence"
        assert alarm.words.startswith("the trained reward has risen from 0.")
        assert "while the held-out one went from 0." in alarm.words


def test_a_held_out_reward_that_ranks_otherwise_is_heard_of():
    random = np.random.default_rng(0)
    batch = [sample(f"{number}", sources=(GREY,), edited=GREY, group=f"{number // 8}") for number in range(32)]
    watch = Watch(pictures=1)
    for step in range(40):
        scores = random.standard_normal(32)
        other = (1 if step < 25 else 0) * scores + random.standard_normal(32)
        watch.step(step, batch, scores.tolist(), other.tolist())
    assert names(watch) == {"agreement"}
    assert watch.alarms[0].step <= 30


def test_edits_that_nobody_can_score_and_groups_that_are_all_alike_are_heard_of():
    random = np.random.default_rng(0)
    batch = [sample(f"{number}", sources=(GREY,), edited=GREY, group=f"{number // 4}") for number in range(32)]
    watch = Watch(pictures=1)
    for step in range(35):
        scores: list[Score | float | None] = [float(value) for value in random.random(32)]
        if step >= 25:
            scores[:16] = [Score.abstained("what is this?")] * 16
        shares = watch.step(step, batch, scores)
        assert shares["unscored"] == shares["degenerate"] == (0.5 if step >= 25 else 0.0)
    assert names(watch) == {"unscored", "degenerate"}
    assert {alarm.step for alarm in watch.alarms} == {29}


def test_an_alarm_says_what_it_saw_and_what_that_may_mean():
    watch, batch = Watch(), batches(3)
    for step in range(30):
        samples = batch()
        watch.step(step, samples if step < 20 else [HACKS["copied"][1](one) for one in samples], [1.0] * 16)
    (alarm,) = watch.alarms
    assert (alarm.step, alarm.name) == (24, "difference")
    assert alarm.words.startswith("the difference to the source was 0.0")
    assert alarm.words.endswith("below that for 5 steps, now 0.00392: the source is copied")


# -- the same prompts time and again -----------------------------------------------------------------------------------


def probed(change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]], *, count: int = 180) -> Watch:
    """Two probes: prompts differ by far more than what `change` makes of the trained and the held-out reward."""
    random = np.random.default_rng(0)
    trained, heldout = random.random(count), random.random(count)
    watch = Watch()
    assert set(watch.probe(-1, trained.tolist(), heldout.tolist())) == {"probe/reward", "probe/heldout"}
    later = [values + 0.05 * random.standard_normal(count) for values in change(trained, heldout)]
    log = watch.probe(9, later[0].tolist(), later[1].tolist())
    assert set(log) == {"probe/reward", "probe/heldout", "probe/reward/z", "probe/heldout/z", "alarms"}
    return watch


def test_a_small_fall_of_the_held_out_reward_is_seen_on_the_same_prompts():
    watch = probed(lambda one, other: (one, other - 0.03))
    assert [(alarm.step, alarm.name) for alarm in watch.alarms] == [(9, "probe/heldout")]
    assert watch.alarms[0].value < -3
    assert watch.alarms[0].words.endswith("edits have become worse")


def test_a_small_rise_of_the_trained_reward_alone_is_seen_on_the_same_prompts():
    watch = probed(lambda one, other: (one + 0.03, other))
    assert [alarm.name for alarm in watch.alarms] == ["probe/divergence"]
    assert watch.alarms[0].words.startswith("on the same prompts from the same noise the trained reward went from 0.")


@pytest.mark.parametrize("rise", [0.0, 0.03])
def test_probes_that_stay_or_rise_together_raise_no_alarm(rise):
    assert probed(lambda one, other: (one + rise, other + rise)).alarms == []


def test_probes_without_a_score_are_left_out_and_others_are_refused():
    watch = Watch()
    watch.probe(-1, [None, 0.5, None], [0.1, None, 0.2])
    assert watch.probe(0, [0.5, 0.5, None], [0.1, 0.1, None]) == {"probe/reward": 0.5, "probe/heldout": 0.1}
    with pytest.raises(ValueError, match="the same edits each time: there were 3, got 2"):
        watch.probe(1, [0.5] * 2, [0.5] * 2)
    with pytest.raises(ValueError, match="without edits says nothing"):
        watch.probe(1, [], [])


def test_a_watch_that_was_saved_knows_its_probe():
    watch = Watch()
    random = np.random.default_rng(0)
    scores, heldout = random.random(50).tolist(), random.random(50).tolist()
    watch.probe(-1, scores, heldout)
    again = Watch.from_json(json.loads(json.dumps(watch.to_json())))
    later = [(value or 0.0) - 0.1 * random.random() for value in heldout]
    assert again.probe(5, scores, later) == watch.probe(5, scores, later)
    assert again.alarms == watch.alarms
    assert [alarm.name for alarm in again.alarms] == ["probe/heldout"]


# -- what is logged ---------------------------------------------------------------------------------------------------


def test_what_is_logged_is_plain_numbers_and_nothing_that_is_not_known():
    watch, batch = Watch(baseline=5), batches(0)
    logs = [watch.step(step, batch(), [None] * 16 if step == 2 else [0.5] * 16, [0.25] * 16) for step in range(7)]
    assert all(type(value) is float and np.isfinite(value) for log in logs for value in log.values())
    assert json.loads(json.dumps(logs)) == logs
    assert set(logs[0]) == {*looks(GREY), "difference", "unscored", "degenerate", "reward", "heldout", "alarms"}
    assert not {"reward", "heldout"} & set(logs[2])
    assert {"edge_density/z", "unscored/z", "divergence/z", "reward/rise"} <= set(logs[6])
    assert "agreement" not in logs[6]  # of constants


def test_how_far_rewards_have_risen_is_told_in_their_standard_deviations_over_the_last_steps():
    watch, batch = Watch(baseline=5, patience=2, pictures=1), batches(0)
    rises = [0.0] * 8 + [0.5] * 7
    logs = [watch.step(step, batch(), [up, 1 + up] * 8, [up, 4 + up] * 8) for step, up in enumerate(rises)]
    assert (logs[7]["reward/rise"], logs[-1]["reward/rise"]) == (0.0, 1.0)
    assert (logs[7]["heldout/rise"], logs[-1]["heldout/rise"]) == (0.0, 0.25)


def test_no_more_pictures_are_looked_at_than_was_said():
    batch = [sample("same", edited=picture(0)), *(sample(f"{number}", edited=picture(1)) for number in range(9))]
    assert Watch(pictures=1).step(0, batch, [0.0] * 10)["difference"] == 0.0
    assert Watch(pictures=2).step(0, batch, [0.0] * 10)["difference"] > 0.0


def test_a_batch_of_nothing_changes_nothing():
    watch = Watch()
    before = watch.to_json()
    assert watch.step(0, [], []) == {"alarms": 0.0}
    assert watch.to_json() == before


def test_a_held_out_reward_may_be_asked_now_and_then_and_about_some():
    watch, batch = Watch(baseline=5), batches(0)
    for step in range(40):
        heldout = None if step % 4 else [0.1, None] * 8
        log = watch.step(step, batch(), [0.5] * 16, heldout)
        assert ("heldout" in log) == (step % 4 == 0)
        assert ("divergence/z" in log) == (step % 4 == 0 and step >= 20)


def test_a_watch_that_was_saved_goes_on_as_if_it_had_never_stopped():
    def steps(watch: Watch, start: int, end: int) -> list[dict[str, float]]:
        logs = []
        for step in range(start, end):
            random = np.random.default_rng(step)
            samples = batches(step)()
            if step >= 12:
                samples = [HACKS["saturated"][1](one) for one in samples]
            logs.append(watch.step(step, samples, random.random(16).tolist(), random.random(16).tolist()))
        return logs

    whole = Watch(baseline=8, patience=3, limit=2.5, pictures=8)
    logs = steps(whole, 0, 20)
    for stop in (5, 13):
        first = Watch(baseline=8, patience=3, limit=2.5, pictures=8)
        begun = steps(first, 0, stop)
        second = Watch.from_json(json.loads(json.dumps(first.to_json())))
        assert begun + steps(second, stop, 20) == logs
        assert second.alarms == whole.alarms
    assert whole.alarms
    assert all(isinstance(alarm, Alarm) for alarm in whole.alarms)


# -- what is too little, and what is refused ---------------------------------------------------------------------------


def test_a_drift_too_small_to_matter_is_none_however_steady_the_number_was():
    watch = Watch()
    for step in range(60):
        watch.note(step, {"saturation": 0.1 if step < 20 else 0.1 + 0.9 * WATCHED["saturation"].least})
    assert watch.alarms == []


@pytest.mark.parametrize("options", [{"baseline": 4}, {"patience": 0}, {"limit": 0.0}, {"pictures": 0}])
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError, match="baseline >= 5, patience >= 1, limit > 0 and pictures >= 1"):
        Watch(**options)


def test_lists_of_other_lengths_and_other_schemas_are_refused():
    with pytest.raises(ValueError, match="got 1 samples, 2 scores and 1 held-out scores"):
        Watch().step(0, [sample()], [1.0, 1.0], [1.0])
    with pytest.raises(ValueError, match="has schema 0, expected 1: begin a new one"):
        Watch.from_json({"schema": 0})
