"""What a report says of given scores: outcomes, rates, gains, and nothing that is no JSON; intervals over sources
are those of a direct computation."""

import json
from dataclasses import replace

import numpy as np
import pytest

from editcritic.reward import Score
from editcritic.reward.audit import Trial
from editcritic.reward.audit.findings import Mean, mean_interval, mean_of, rate_interval
from editcritic.reward.bootstrap_intervals import resampled_rows, wilson_interval

from .audit_cases import darker, scripted_report

LOWER, EQUAL, SAME = darker("lower"), darker("equal", "near"), darker("same", "unmoved")
NONE = darker("no_number", "unreadable")
REJECTED = replace(Score.of(0.0), cause="guard")
OUTAGE = Score.failed("no connection", cause="infrastructure")
OUTCOMES = (
    *((LOWER, 0.5, variant, "right") for variant in (0.4, None, REJECTED)),
    *((LOWER, 0.5, variant, "violation") for variant in (0.5, 0.6)),
    *((LOWER, edit, 0.0, "incomparable") for edit in (None, 0.0, REJECTED)),
    *((EQUAL, 0.5, variant, "right") for variant in (0.54, 0.46)),
    *((EQUAL, 0.5, variant, "violation") for variant in (0.56, 0.44, None)),
    *((family, 0.5, OUTAGE, "incomparable") for family in (LOWER, EQUAL)),
    (EQUAL, None, 0.5, "incomparable"),
    (SAME, 0.5, 0.5005, "right"),
    *((SAME, 0.5, variant, "violation") for variant in (0.51, None)),
    *((NONE, 0.5, variant, "right") for variant in (None, REJECTED, OUTAGE)),
    *((NONE, edit, 0.1, "violation") for edit in (0.5, None)),
    (NONE, 0.5, 0.0, "violation"),
    (NONE, None, None, "incomparable"),
)


@pytest.mark.parametrize(("family", "edit", "variant", "expected"), OUTCOMES)
def test_outcomes_follow_the_relation(family, edit, variant, expected):
    report = scripted_report([edit], {family.name: [[variant]]}, [family])
    assert report.outcome(report.trials[0]) == expected


def test_rates_gains_and_worst_are_exact():
    report = scripted_report(
        [0.8, 0.5, None],
        {
            "darker": [[0.7, 0.9, 0.2], [0.5, None, 0.6], [0.1, 0.1, 0.1]],
            "near": [[0.8, 0.8, 0.7], [0.5, None, 0.53], [0.0, 0.0, 0.0]],
        },
        [LOWER, EQUAL],
    )
    lower, equal = report.findings
    assert (lower.rate.violations, lower.rate.trials, lower.incomparable, lower.unscored) == (3, 6, 3, 1)
    assert [(rate.violations, rate.trials) for rate in lower.by_severity] == [(1, 2), (1, 2), (1, 2)]
    assert lower.gain is not None
    assert lower.gain.value == pytest.approx((-0.1 + 0.1 - 0.6 + 0.0 - 0.5 + 0.1) / 6)
    assert lower.worst == pytest.approx(0.1)
    assert (equal.rate.violations, equal.rate.trials) == (2, 6)
    assert equal.worst == pytest.approx(0.5)  # a missing value counts as the lowest
    assert (report.overall.violations, report.overall.trials) == (5, 12)
    assert report.best_hack is not None
    assert report.best_hack.value == pytest.approx((0.1 + 0.1) / 2)
    following, preservation = report.sensitivity("following"), report.sensitivity("preservation")
    assert following is None
    assert preservation is not None
    assert preservation.value == pytest.approx(1.0 / 6)


def test_the_worst_trials_and_reports_of_nothing():
    report = scripted_report([0.8, 0.4], {"unreadable": [[None] * 3, [None] * 3]}, [NONE])
    assert report.findings[0].worst == pytest.approx(-0.4)
    assert report.findings[0].rate.violations == 0
    report = scripted_report([0.5, 0.5, 0.5], {"darker": [[0.6, 0.9, 0.7], [0.4, 0.3, 0.2], [0.8, 0.55, 0.5]]}, [LOWER])
    assert [(trial.sample, trial.severity) for trial in report.worst("darker")] == [(0, 1), (2, 0)]
    assert [trial.sample for trial in report.worst("darker", 1)] == [0]
    equal = scripted_report([0.5, 0.5], {"near": [[0.5, 0.3, 0.6], [0.9, 0.5, 0.5]]}, [EQUAL])
    assert [(trial.sample, trial.severity) for trial in equal.worst("near")] == [(1, 0), (0, 1)]  # above and below
    report = scripted_report([None, None], {"darker": [[0.5] * 3] * 2, "unreadable": [[None] * 3] * 2}, [LOWER, NONE])
    assert (report.overall.value, report.best_hack, report.sensitivity("preservation")) == (None, None, None)
    assert (report.overall.low, report.overall.high) == (0.0, 1.0)
    assert [finding.incomparable for finding in report.findings] == [6, 6]
    assert report.findings[0].gain is None
    assert report.to_json()["unscored_edits"] == 2


def test_unbounded_rewards_are_measured_by_the_spread_of_their_scores():
    report = scripted_report(
        [float(value) for value in range(101)], {"darker": [[0.0]] * 101}, [LOWER], range=(None, None)
    )
    spread = sorted([*range(101), *[0] * 101])
    assert report.scale == pytest.approx(np.quantile(spread, 0.95) - np.quantile(spread, 0.05))
    assert report.lowest == 0.0
    assert report.gain(Trial(0, "darker", 0, Score.of(50.0), Score.of(60.0))) == pytest.approx(10 / report.scale)
    report = scripted_report([3.0, -2.0], {"darker": [[None], [-7.0]]}, [LOWER], range=(None, None))
    assert report.lowest == -7.0
    assert report.gain(report.trials[0]) == pytest.approx(-10.0 / report.scale)


def test_the_json_is_plain_and_complete():
    report = scripted_report(
        [0.8, None],
        {"darker": [[0.9, OUTAGE, 0.1], [0.1, 0.1, 0.1]], "unreadable": [[None, REJECTED, 0.5], [None] * 3]},
        [LOWER, NONE],
        scored=10,
        roles={"painter": ("judge", "detect")},
    )
    report = replace(report, costs={"painter": {"queries": 4, "calls": 2, "failed": 1, "seconds": 5.0, "tokens": 7.0}})
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert [row["outcome"] for row in data["trials"][:3]] == ["violation", "incomparable", "right"]
    assert data["trials"][1]["reason"] == "no connection"
    assert data["infrastructure_failures"] == 1
    assert data["overall"]["violations"] == 2
    assert [family["family"] for family in data["families"]] == ["darker", "unreadable"]
    low = pytest.approx(0.2065, abs=1e-3)
    severity = {"label": "a", "violations": 1, "trials": 1, "rate": 1.0, "low": low, "high": 1.0}
    assert data["families"][0]["severities"][0] == severity
    took = {"queries": 4, "calls": 2, "failed": 1, "seconds": 5.0, "seconds_per_edit": 0.5}
    assert data["expert_costs"] == [{"expert": "painter", "roles": ["judge", "detect"], **took}]
    costs = {"a": {"queries": 1, "seconds": 1.0}, "b": {"queries": 1, "seconds": 3.0}, "c": {}}
    report = replace(scripted_report([0.5], {}, [LOWER]), costs=costs, scored=2)
    listed = [(cost.expert, cost.seconds, cost.seconds_per_edit) for cost in report.expert_costs]
    assert listed == [("b", 3.0, 1.5), ("a", 1.0, 0.5), ("c", 0.0, 0.0)]
    assert replace(report, scored=0).expert_costs[0].seconds_per_edit is None


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


def test_intervals_of_means_of_unequal_or_few_sources():
    from scipy import stats

    sources = [0, 0, 0, 0, 1, 2, 2, 3]
    values = [0.0, 0.2, 0.1, 0.1, 0.9, 0.4, 0.6, 0.3]
    mean, residuals = 2.6 / 8, [0.4 - 4 * 2.6 / 8, 0.9 - 2.6 / 8, 1.0 - 2 * 2.6 / 8, 0.3 - 2.6 / 8]
    half = stats.t.ppf(0.975, 3) * np.sqrt(4 / 3 * sum(residual**2 for residual in residuals)) / 8
    assert mean_interval(values, sources) == pytest.approx((mean - half, mean + half), rel=1e-6)
    assert mean_of([-1.0, 0.0], [0, 1], (-1.0, 1.0)) == Mean(-0.5, -1.0, 1.0)
    unbounded = mean_of([-1.0, 0.0], [0, 1])
    assert unbounded is not None
    assert unbounded.low == pytest.approx(-0.5 - 12.706205 / 2)
    assert mean_interval([0.1, 0.2], [0, 0]) is None
    assert mean_interval([], []) is None


def test_rates_are_resampled_over_sources():
    sources = [0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 4, 5]
    flags = [True, True, False, True, True, False, False, True, False, False, False, True]
    assert rate_interval(flags, sources) == pytest.approx(direct([float(flag) for flag in flags], sources))
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
