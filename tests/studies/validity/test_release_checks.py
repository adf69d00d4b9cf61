"""The bars: what is measured, when a bar is cleared, and who is to blame for a wrong verdict."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases, drift_series, same_truth_groups
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Score
from studies.validity.disagreements import PAPER, compare_verdicts
from studies.validity.metric_runner import LocalMetricRunner
from studies.validity.metric_selection import select_metrics
from studies.validity.release_checks import (
    CONSISTENCY,
    DENSE,
    GUARDED,
    DriftCorrelation,
    ReleaseCheck,
    check_agreement,
    check_ties,
    measure_drift,
    measure_hacking,
)
from studies.validity.study import MetricValue, ValidityStudy
from tests.studies.validity.fake_metrics import SCENE, case, fixed_metric, other_noise


def study(these, *metrics):
    return ValidityStudy.of(these, metrics, LocalMetricRunner({}).run(metrics, (one.sample for one in these)))


@pytest.mark.parametrize(
    ("measured", "most", "passed"),
    [(0.97, False, True), (0.96, False, False), (0.97, True, True), (0.98, True, False), (None, True, False)],
)
def test_a_bar_is_cleared_by_reaching_it(measured, most, passed):
    assert ReleaseCheck("c", measured, 0.97, most).passed is passed


# -- agreement --------------------------------------------------------------------------------------------------------


def verdicts_by(these, rule):
    """How the paper's protocol is judged whose rows come from a rule."""
    (one,) = select_metrics([PAPER], scene_experts(), these)
    rows = [
        MetricValue(place, PAPER, score.value, score.status, score.reason)
        for place, score in enumerate(map(rule, these))
    ]
    result = compare_verdicts(ValidityStudy(these, [one], {PAPER: rows}), PAPER)
    assert result is not None
    return result


def test_a_verdict_that_perfect_experts_would_not_give_is_the_experts_fault():
    verdicts = verdicts_by([case()], lambda one: Score.of(0.0, "they saw a circle"))
    (wrong,) = verdicts.disagreements
    assert (wrong.cause, wrong.verdict, wrong.oracle_verdict) == ("expert", 0.0, 1.0)
    assert wrong.reason == "they saw a circle"
    assert (verdicts.agreements, verdicts.oracle_agreements) == (0, 1)


def test_a_verdict_that_perfect_experts_give_too_is_the_rules_fault():
    left = case(after=other_noise(SCENE, 2), followed=True)  # whatever the image shows
    assert [one.cause for one in verdicts_by([left], lambda one: Score.of(0.0)).disagreements] == ["rule"]


def test_without_a_scene_nobody_is_blamed():
    lost = case(before=None)
    assert [one.cause for one in verdicts_by([lost], lambda one: Score.of(0.0)).disagreements] == ["unknown"]


def test_a_score_without_a_value_does_not_agree():
    verdicts = verdicts_by(
        [case("a"), case("b")], lambda one: Score.abstained("?") if one.sample.id == "a" else Score.of(1)
    )
    assert [(one.case_index, one.verdict, one.cause) for one in verdicts.disagreements] == [(0, None, "expert")]
    (check,) = check_agreement({PAPER: verdicts})
    assert (check.measured, check.passed) == (0.5, False)


def test_agreement_without_hacks_stands_beside_that_on_all_cases():
    hack = case("hack", after=other_noise(SCENE, 2), followed=False, mode="nothing", is_hack=True)
    verdicts = verdicts_by([case(), hack], lambda one: Score.of(1.0))
    assert (verdicts.agreements, verdicts.agreement_without_hacks) == (1, 1.0)
    assert "without hacks 100.0%" in check_agreement({PAPER: verdicts})[0].note


# -- ties and drift ---------------------------------------------------------------------------------------------------


def ids(groups):
    return [one.sample.id for group in groups for one in group]


def test_pairs_of_equal_value_are_counted_within_their_groups():
    groups = [[case(f"{group}{number}") for number in range(3)] for group in "ab"]
    values = dict(zip(ids(groups), [0.6, 0.6, 0.7, 0.6, None, 0.8], strict=True))
    one = fixed_metric(values, spec=DENSE)
    (check,) = check_ties(study([], one), groups, LocalMetricRunner({}))
    assert check.measured == pytest.approx(1 / 4)
    assert "1 edits have no value" in check.note


def test_a_series_that_does_not_fall_is_the_lowest():
    falling, flat = [(0.1, 0.9), (0.2, 0.8), (0.3, 0.7)], [(0.1, 0.5), (0.2, 0.5), (0.3, 0.5)]
    mean, lowest = DriftCorrelation([falling, flat]).checks()
    assert (mean.measured, lowest.measured) == (0.5, 0.0)
    assert all(check.passed for check in DriftCorrelation([falling]).checks())
    assert not any(check.passed for check in DriftCorrelation([]).checks())


def test_consistency_is_asked_along_each_series():
    (series,) = drift_series(1, seed=1)
    values: dict[str, float | None] = {one.sample.id: 1 - one.severity for one in series}
    values[series[-1].sample.id] = None
    correlation = measure_drift(study([], fixed_metric(values, spec=CONSISTENCY)), [series], LocalMetricRunner({}))
    assert correlation is not None
    assert (correlation.correlations, correlation.missing) == ([1.0], 1)


# -- hacks ------------------------------------------------------------------------------------------------------------


def guarded(values):
    these = [
        case("honest"),
        case("unknown"),
        case("missed", followed=False),
        *(case(name, followed=False, mode="nothing", is_hack=True) for name in ("cheap", "dear", "mute")),
    ]
    hacking = measure_hacking(study(these, fixed_metric(values, spec=GUARDED)), seed=0, count=50)
    assert hacking is not None
    return hacking


def test_a_hack_that_is_worth_as_much_as_an_honest_edit_violates():
    values = {"honest": 0.5, "unknown": None, "missed": 0.1, "cheap": 0.2, "dear": 0.5, "mute": None}
    hacking = guarded(values)
    assert [(hack.case, honest.case) for hack, honest in hacking.violations] == [(4, 0)]
    assert (hacking.pairs, hacking.hack_counts, hacking.honest_counts) == (50, (2, 1), (1, 1))
    assert not hacking.checks()[0].passed


def test_hacks_below_every_honest_edit_pass():
    values = {"honest": 0.5, "unknown": 0.4, "missed": 0.1, "cheap": 0.2, "dear": 0.3, "mute": None}
    assert guarded(values).checks()[0].passed


def test_without_pairs_nothing_is_shown():
    values = dict.fromkeys(("honest", "unknown", "missed", "cheap", "dear", "mute"))
    (check,) = guarded(values).checks()
    assert (check.measured, check.passed) == (None, False)


def test_a_check_whose_metric_is_not_compared_is_not_made():
    nothing = study([], fixed_metric({}))
    assert compare_verdicts(nothing, PAPER) is None
    assert check_ties(nothing, [], LocalMetricRunner({})) == check_agreement({}) == []
    assert measure_drift(nothing, [], LocalMetricRunner({})) is None
    assert measure_hacking(nothing, 0) is None


def test_crowds_and_cases_come_with_what_the_checks_need():
    assert {len({one.truth.followed for one in group}) for group in same_truth_groups(2, seed=1)} == {1}
    assert all(one.before is not None and one.after is not None for one in cases(9, seed=1))
