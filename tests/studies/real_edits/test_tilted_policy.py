"""A policy over a pool: where it goes is computed by hand, and the monitor sees what it draws."""

from dataclasses import replace

import numpy as np
import pytest

from editcritic.reward import EditSample, Image, Score
from studies.real_edits.tilted_policy import Course, Pool, course, draw, pools
from tests.studies.real_edits.edits_by_hand import edits_by_hand

RNG = np.random.default_rng(0)


def pool(name):
    """A failure, a good edit, and two fills."""
    source = Image.of(RNG.integers(0, 256, (16, 16, 3), np.uint8))
    pictures = [source, *(Image.of(np.full((16, 16, 3), level, np.uint8)) for level in (40, 120, 200))]
    samples = [EditSample(f"{name}/{row}", name, (source,), picture) for row, picture in enumerate(pictures)]
    return Pool(samples, np.array([False, True, False, False]), np.array([False, False, True, True]))


def scores(*values):
    return [Score.of(value) if value is not None else Score.failed("broken") for value in values]


def test_the_start_is_shared_by_failures_good_edits_and_fills():
    assert pool("a").start.tolist() == pytest.approx([0.9, 0.05, 0.025, 0.025])


def test_a_step_makes_an_image_likelier_by_its_reward():
    made = course("it", [pool("a")], [scores(0.0, 1.0, 1.0, None)], [scores(0, 1, 0, 0)], [], steps=11)
    start = 0.9 + 0.025, 0.05, 0.025
    e = np.exp(1.0)  # ten steps of 0.1 in 1 / beta
    total = start[0] + start[1] * e + start[2] * e
    assert made.good[0] == pytest.approx(0.05)
    assert made.good[10] == pytest.approx(0.05 * e / total)
    assert made.fills[10] == pytest.approx((0.025 * e + 0.025) / total)  # one without a score pays 0
    assert made.paid[10] == pytest.approx((start[1] + start[2]) * e / total)
    assert made.values == [[0.0, 1.0, 1.0, None]]


def test_the_monitor_sees_what_is_drawn(tmp_path):
    made = [pool(name) for name in "abcdefgh"]
    paying, heldout = [scores(0.1, 0.2, 1.0, 1.0)] * 8, [scores(0.5, 0.9, 0.0, 0.0)] * 8
    hacked = course("fills pay", made, paying, heldout, [0, 1])
    honest = course("good edits pay", made, [scores(0.1, 1.0, 0.1, 0.1)] * 8, heldout, [0])
    assert hacked.fills[-1] > 0.9 > 0.1 > honest.fills[-1]
    assert honest.good[-1] > 0.9
    assert "divergence" in {name for _, _, name in hacked.alarms}
    assert len(hacked.first_alarms()["divergence"]) == 2
    told_twice = replace(hacked, alarms=[(0, 30, "agreement"), (1, 25, "agreement"), (0, 28, "agreement")])
    assert told_twice.first_alarms() == {"agreement": [28, 25]}
    assert min(step for _, step, _ in hacked.alarms) >= 20
    assert "divergence" not in {name for _, _, name in honest.alarms}
    draw([hacked, honest], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    assert Course(**hacked.to_json()) == hacked


def test_a_pool_has_the_edits_of_a_group_its_source_and_the_fills():
    good = next(edit for edit in edits_by_hand() if edit.operation == "removal" and edit.is_good)
    bad = replace(good, id="worse", followed="no")
    (made,) = pools([good, bad])
    assert made.good.tolist()[:3] == [True, False, False]
    assert made.samples[2].edited is good.source
    assert made.is_fill.sum() == len(made.samples) - 3 > 5
    assert {sample.group for sample in made.samples} == {made.samples[0].group}
    assert pools([bad]) == []
