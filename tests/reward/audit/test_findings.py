"""What a report says of given scores: outcomes, rates, gains, and nothing that is no JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest

from editcritic.reward import Score
from editcritic.reward.audit import Trial

from .audit_cases import darker, scripted_report

LOWER, EQUAL, SAME = darker("lower"), darker("equal", "near"), darker("same", "unmoved")
NONE = darker("no_number", "unreadable")
REJECTED = replace(Score.of(0.0), cause="guard")
OUTAGE = Score.failed("no connection", cause="infrastructure")


@pytest.mark.parametrize(
    ("family", "edit", "variant", "expected"),
    [
        (LOWER, 0.5, 0.4, "right"),
        (LOWER, 0.5, 0.5, "violation"),
        (LOWER, 0.5, 0.6, "violation"),
        (LOWER, 0.5, None, "right"),
        (LOWER, 0.5, REJECTED, "right"),
        (LOWER, 0.5, OUTAGE, "incomparable"),
        (LOWER, None, 0.4, "incomparable"),
        (LOWER, 0.0, 0.0, "incomparable"),
        (LOWER, REJECTED, 0.0, "incomparable"),
        (EQUAL, 0.5, 0.54, "right"),
        (EQUAL, 0.5, 0.46, "right"),
        (EQUAL, 0.5, 0.56, "violation"),
        (EQUAL, 0.5, 0.44, "violation"),
        (EQUAL, 0.5, None, "violation"),
        (EQUAL, 0.5, OUTAGE, "incomparable"),
        (EQUAL, None, 0.5, "incomparable"),
        (SAME, 0.5, 0.5005, "right"),
        (SAME, 0.5, 0.51, "violation"),
        (SAME, 0.5, None, "violation"),
        (NONE, 0.5, None, "right"),
        (NONE, 0.5, REJECTED, "right"),
        (NONE, 0.5, 0.0, "violation"),
        (NONE, 0.5, OUTAGE, "right"),
        (NONE, None, None, "incomparable"),
        (NONE, None, 0.1, "violation"),
    ],
)
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


def test_where_all_is_right_the_worst_of_broken_pictures_is_a_loss():
    report = scripted_report([0.8, 0.4], {"unreadable": [[None] * 3, [None] * 3]}, [NONE])
    assert report.findings[0].worst == pytest.approx(-0.4)
    assert report.findings[0].rate.violations == 0


def test_the_worst_trials_are_of_different_samples_and_violations_only():
    report = scripted_report([0.5, 0.5, 0.5], {"darker": [[0.6, 0.9, 0.7], [0.4, 0.3, 0.2], [0.8, 0.55, 0.5]]}, [LOWER])
    assert [(trial.sample, trial.severity) for trial in report.worst("darker")] == [(0, 1), (2, 0)]
    assert [trial.sample for trial in report.worst("darker", 1)] == [0]
    equal = scripted_report([0.5, 0.5], {"near": [[0.5, 0.3, 0.6], [0.9, 0.5, 0.5]]}, [EQUAL])
    assert [(trial.sample, trial.severity) for trial in equal.worst("near")] == [(1, 0), (0, 1)]  # above and below


def test_an_unbounded_reward_is_measured_by_the_spread_of_its_scores():
    report = scripted_report(
        [float(value) for value in range(101)], {"darker": [[0.0]] * 101}, [LOWER], range=(None, None)
    )
    spread = sorted([*range(101), *[0] * 101])
    assert report.scale == pytest.approx(np.quantile(spread, 0.95) - np.quantile(spread, 0.05))
    assert report.lowest == 0.0
    assert report.gain(Trial(0, "darker", 0, Score.of(50.0), Score.of(60.0))) == pytest.approx(10 / report.scale)


def test_a_missing_value_of_an_unbounded_reward_counts_as_the_lowest_seen():
    report = scripted_report([3.0, -2.0], {"darker": [[None], [-7.0]]}, [LOWER], range=(None, None))
    assert report.lowest == -7.0
    assert report.gain(report.trials[0]) == pytest.approx(-10.0 / report.scale)


def test_no_edit_and_no_number_are_reported_as_such():
    report = scripted_report([None, None], {"darker": [[0.5] * 3] * 2, "unreadable": [[None] * 3] * 2}, [LOWER, NONE])
    assert (report.overall.value, report.best_hack, report.sensitivity("preservation")) == (None, None, None)
    assert (report.overall.low, report.overall.high) == (0.0, 1.0)
    assert [finding.incomparable for finding in report.findings] == [6, 6]
    assert report.findings[0].gain is None
    assert report.to_json()["unscored_edits"] == 2


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
    assert data["families"][0]["severities"][0] == {
        "label": "a",
        "violations": 1,
        "trials": 1,
        "rate": 1.0,
        "low": pytest.approx(0.2065, abs=1e-3),
        "high": 1.0,
    }
    assert data["expert_costs"] == [
        {
            "expert": "painter",
            "roles": ["judge", "detect"],
            "queries": 4,
            "calls": 2,
            "failed": 1,
            "seconds": 5.0,
            "seconds_per_edit": 0.5,
        }
    ]


def test_experts_are_listed_by_what_they_took():
    costs = {"a": {"queries": 1, "seconds": 1.0}, "b": {"queries": 1, "seconds": 3.0}, "c": {}}
    report = replace(scripted_report([0.5], {}, [LOWER]), costs=costs, scored=2)
    assert [(cost.expert, cost.seconds, cost.seconds_per_edit) for cost in report.expert_costs] == [
        ("b", 3.0, 1.5),
        ("a", 1.0, 0.5),
        ("c", 0.0, 0.0),
    ]
    assert replace(report, scored=0).expert_costs[0].seconds_per_edit is None
