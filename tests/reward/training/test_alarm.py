"""Drift detection: sides, streaks, weights, and the underlying statistics."""

import numpy as np
import pytest

from editcritic.reward.training.alarm import DriftTracker, robust_std, within_group_kendall_tau


def test_alarms_follow_sides_streaks_and_weights():
    tracker = DriftTracker([0.0, 1.0] * 5, [1.0] * 10)
    raised = [tracker.update(z, 0, 3.0, 2) for z in (4, 4, 4, 2, 4, 4, 1, 4, 4, -4, -4)]
    assert raised == [False, True, False, False, False, False, False, False, True, False, False]
    for side, z, heard in ((1, 5.0, True), (1, -5.0, False), (-1, -5.0, True), (-1, 5.0, False), (0, -5.0, True)):
        assert DriftTracker([0.0], [1.0]).update(z, side, 3.0, 1) is heard
    tracker = DriftTracker([0.0], [1.0])
    assert not any(tracker.update(z, 0, 3.0, 2) for z in (5.0, -5.0) * 4)
    tracker = DriftTracker([0.0, 1.0] * 5, [16.0] * 10)
    assert tracker.z_score(5.0, 0.1, weight=4.0) == pytest.approx(tracker.z_score(5.0, 0.1, weight=16.0) / 2)
    assert tracker.z_score(5.0, 0.1, weight=64.0) == tracker.z_score(5.0, 0.1, weight=16.0)


def test_spread_and_agreement():
    random = np.random.default_rng(0)
    values = random.standard_normal(1000).tolist()
    assert robust_std(values) == pytest.approx(1.0, rel=0.1)
    assert robust_std([*values[:19], 20.0]) < 3
    assert robust_std([0.0] * 11 + [1.0] * 9) > 0.5  # of which the median deviation is 0
    first, second, groups = [1.0, 2.0, 3.0, 0.0, 9.0], [1.0, 3.0, 2.0, 5.0, 5.0], "aaabb"
    tau, pairs = within_group_kendall_tau(list(zip(first, second, groups, strict=True)))
    assert tau == pytest.approx((2 - 1) / np.sqrt(4 * 3))  # a pair of b is tied in one of them
    assert pairs == 3
    assert within_group_kendall_tau([(1.0, 1.0, "a"), (2.0, 2.0, "b")]) == (None, 0)
