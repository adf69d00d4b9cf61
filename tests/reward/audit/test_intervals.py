"""Intervals over sources, against a direct computation."""

import numpy as np
import pytest

from editcritic.reward.audit.findings import Mean, mean_interval, mean_of, rate_interval
from editcritic.reward.bootstrap_intervals import resampled_rows, wilson_interval


def direct(values: list[float], sources: list[int]) -> tuple[float, float]:
    """Sources drawn with replacement, all trials of each, the mean of all trials."""
    names = list(dict.fromkeys(sources))
    means = []
    for rows in resampled_rows(len(names), np.random.default_rng(0)):
        drawn = [value for row in rows for value, source in zip(values, sources, strict=True) if source == names[row]]
        means.append(sum(drawn) / len(drawn))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize("count", [2, 3, 5, 8, 9, 10, 17, 40])
def test_the_interval_of_a_mean_of_equal_sources_is_students(count):
    from scipy import stats

    means = np.random.default_rng(count).normal(0.3, 2.0, count)
    values, sources = np.repeat(means, 4), np.repeat(np.arange(count), 4)
    half = stats.t.ppf(0.975, count - 1) * means.std(ddof=1) / np.sqrt(count)
    assert mean_interval(values.tolist(), sources.tolist()) == pytest.approx(
        (means.mean() - half, means.mean() + half), rel=2e-3
    )


def test_the_variance_of_a_mean_of_unequal_sources_is_that_of_a_ratio():
    from scipy import stats

    sources = [0, 0, 0, 0, 1, 2, 2, 3]
    values = [0.0, 0.2, 0.1, 0.1, 0.9, 0.4, 0.6, 0.3]
    mean, residuals = 2.6 / 8, [0.4 - 4 * 2.6 / 8, 0.9 - 2.6 / 8, 1.0 - 2 * 2.6 / 8, 0.3 - 2.6 / 8]
    half = stats.t.ppf(0.975, 3) * np.sqrt(4 / 3 * sum(residual**2 for residual in residuals)) / 8
    assert mean_interval(values, sources) == pytest.approx((mean - half, mean + half), rel=1e-6)


def test_an_interval_ends_where_no_value_can_be():
    assert mean_of([-1.0, 0.0], [0, 1], (-1.0, 1.0)) == Mean(-0.5, -1.0, 1.0)
    unbounded = mean_of([-1.0, 0.0], [0, 1])
    assert unbounded is not None
    assert unbounded.low == pytest.approx(-0.5 - 12.706205 / 2)


def test_a_rate_is_resampled_over_sources_of_unequal_size():
    sources = [0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 4, 5]
    flags = [True, True, False, True, True, False, False, True, False, False, False, True]
    assert rate_interval(flags, sources) == pytest.approx(direct([float(flag) for flag in flags], sources))


def test_trials_of_one_source_are_no_independent_evidence():
    flags = [number % 2 == 0 for number in range(40)]
    by_source = rate_interval(flags, [int(flag) for flag in flags])  # all trials of a source agree
    by_trial = rate_interval(flags, range(40))
    assert by_source[1] - by_source[0] > 2 * (by_trial[1] - by_trial[0])


@pytest.mark.parametrize(
    "rates",
    [*((), (0.0,), (0.5, 0.51), (0.0, 0.02, 0.01), (1.0, 0.9, 0.95, 1.0, 0.97)), (0.0,) * 8, (1.0,) * 8, (0.5,) * 10],
)
def test_of_few_sources_or_equal_ones_the_interval_counts_sources(rates):
    flags = [number < 100 * rate for rate in rates for number in range(100)]
    interval = rate_interval(flags, [source for source in range(len(rates)) for _ in range(100)])
    assert interval == pytest.approx(wilson_interval(sum(rates), len(rates)))


def test_a_single_source_and_none_have_no_interval_of_a_mean():
    assert mean_interval([0.1, 0.2], [0, 0]) is None
    assert mean_interval([], []) is None
