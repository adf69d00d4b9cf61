"""Intervals of statistics of independent rows: those of scipy, and what must hold for any."""

import numpy as np
import pytest

from editcritic.reward.bootstrap_intervals import RESAMPLES, bootstrap_interval, percentile_interval, row_means


def ratio(first, second, axis=-1):
    return first.sum(axis=axis) / second.sum(axis=axis)


@pytest.mark.parametrize("rows", [2, 7, 225])
def test_intervals_are_scipys(rows):
    stats = pytest.importorskip("scipy.stats")
    x, y = np.random.default_rng(rows).normal(3, 1, (2, rows))
    for statistic, columns in ((np.mean, (x,)), (ratio, (x, y))):
        theirs = stats.bootstrap(
            columns,
            statistic,
            paired=True,
            vectorized=True,
            method="percentile",
            n_resamples=RESAMPLES,
            random_state=np.random.default_rng(0),
        ).confidence_interval
        ours = bootstrap_interval(row_means if statistic is np.mean else statistic, *columns)
        assert ours == pytest.approx((theirs.low, theirs.high), rel=1e-12)


def test_rows_are_resampled_whole_and_undefined_samples_left_out():
    x = np.random.default_rng(0).normal(size=50)
    assert bootstrap_interval(lambda a, b: (a - b).mean(axis=-1), x + 0.25, x) == pytest.approx((0.25, 0.25))
    assert bootstrap_interval(row_means, [0.5]) is None
    assert bootstrap_interval(row_means, []) is None
    defined = np.arange(100.0)
    assert percentile_interval(np.concatenate((defined, np.full(100, np.nan)))) == percentile_interval(defined)
    assert percentile_interval(np.concatenate((defined, np.full(101, np.nan)))) is None
    assert percentile_interval(np.array([])) is None
