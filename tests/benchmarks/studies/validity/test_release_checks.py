"""The bars: what is measured, when a bar is cleared, and who is to blame for a wrong verdict."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases, crowds, drift_series
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.validity.checks import (
    CONSISTENCY,
    DENSE,
    GUARDED,
    Check,
    Drift,
    agreement,
    drift,
    hacked,
    ties,
)
from editcritic.benchmarks.validity.desk import Desk
from editcritic.benchmarks.validity.disagreements import PAPER, judged
from editcritic.benchmarks.validity.metrics import chosen
from editcritic.benchmarks.validity.study import Row, Study
from editcritic.reward import Score

from .fakes import SCENE, case, other_noise, told


def study(these, *tried):
    return Study.of(these, tried, Desk({}).ask(tried, (one.sample for one in these)))


@pytest.mark.parametrize(
    ("measured", "most", "passed"),
    [(0.97, False, True), (0.96, False, False), (0.97, True, True), (0.98, True, False), (None, True, False)],
)
def test_a_bar_is_cleared_by_reaching_it(measured, most, passed):
    assert Check("c", measured, 0.97, most).passed is passed


# -- agreement --------------------------------------------------------------------------------------------------------


def found_by(these, rule):
    """How the paper's protocol is judged whose rows come from a rule."""
    (one,) = chosen([PAPER], experts(), these)
    rows = [Row(place, PAPER, score.value, score.status, score.reason) for place, score in enumerate(map(rule, these))]
    result = judged(Study(these, [one], {PAPER: rows}), PAPER)
    assert result is not None
    return result


def test_a_verdict_that_perfect_experts_would_not_give_is_the_experts_fault():
    found = found_by([case()], lambda one: Score.of(0.0, "they saw a circle"))
    (wrong,) = found.disagreements
    assert (wrong.cause, wrong.verdict, wrong.perfect) == ("expert", 0.0, 1.0)
    assert wrong.reason == "they saw a circle"
    assert (found.agree, found.perfect) == (0, 1)


def test_a_verdict_that_perfect_experts_give_too_is_the_rules_fault():
    left = case(after=other_noise(SCENE, 2), followed=True)  # whatever the picture shows
    assert [one.cause for one in found_by([left], lambda one: Score.of(0.0)).disagreements] == ["rule"]


def test_without_a_scene_nobody_is_blamed():
    lost = case(before=None)
    assert [one.cause for one in found_by([lost], lambda one: Score.of(0.0)).disagreements] == ["unknown"]


def test_a_score_without_a_value_does_not_agree():
    found = found_by([case("a"), case("b")], lambda one: Score.abstained("?") if one.sample.id == "a" else Score.of(1))
    assert [(one.case, one.verdict, one.cause) for one in found.disagreements] == [(0, None, "expert")]
    (check,) = agreement({PAPER: found})
    assert (check.measured, check.passed) == (0.5, False)


def test_agreement_without_hacks_stands_beside_that_on_all_cases():
    hack = case("hack", after=other_noise(SCENE, 2), followed=False, mode="nothing", hack=True)
    found = found_by([case(), hack], lambda one: Score.of(1.0))
    assert (found.agree, found.honest) == (1, 1.0)
    assert "without hacks 100.0%" in agreement({PAPER: found})[0].note


# -- ties and drift ---------------------------------------------------------------------------------------------------


def ids(groups):
    return [one.sample.id for group in groups for one in group]


def test_pairs_of_equal_value_are_counted_within_their_groups():
    groups = [[case(f"{group}{number}") for number in range(3)] for group in "ab"]
    values = dict(zip(ids(groups), [0.6, 0.6, 0.7, 0.6, None, 0.8], strict=True))
    one = told(values, spec=DENSE)
    (check,) = ties(study([], one), groups, Desk({}))
    assert check.measured == pytest.approx(1 / 4)
    assert "1 edits have no value" in check.note


def test_a_series_that_does_not_fall_is_the_lowest():
    falling, flat = [(0.1, 0.9), (0.2, 0.8), (0.3, 0.7)], [(0.1, 0.5), (0.2, 0.5), (0.3, 0.5)]
    mean, lowest = Drift([falling, flat]).checks()
    assert (mean.measured, lowest.measured) == (0.5, 0.0)
    assert all(check.passed for check in Drift([falling]).checks())
    assert not any(check.passed for check in Drift([]).checks())


def test_consistency_is_asked_along_each_series():
    (series,) = drift_series(1, seed=1)
    values: dict[str, float | None] = {one.sample.id: 1 - one.severity for one in series}
    values[series[-1].sample.id] = None
    found = drift(study([], told(values, spec=CONSISTENCY)), [series], Desk({}))
    assert found is not None
    assert (found.correlations, found.without) == ([1.0], 1)


# -- hacks ------------------------------------------------------------------------------------------------------------


def guarded(values):
    these = [
        case("honest"),
        case("unknown"),
        case("missed", followed=False),
        *(case(name, followed=False, mode="nothing", hack=True) for name in ("cheap", "dear", "mute")),
    ]
    found = hacked(study(these, told(values, spec=GUARDED)), seed=0, count=50)
    assert found is not None
    return found


def test_a_hack_that_is_worth_as_much_as_an_honest_edit_violates():
    values = {"honest": 0.5, "unknown": None, "missed": 0.1, "cheap": 0.2, "dear": 0.5, "mute": None}
    found = guarded(values)
    assert [(hack.case, honest.case) for hack, honest in found.violations] == [(4, 0)]
    assert (found.pairs, found.hacks, found.honest) == (50, (2, 1), (1, 1))
    assert not found.checks()[0].passed


def test_hacks_below_every_honest_edit_pass():
    values = {"honest": 0.5, "unknown": 0.4, "missed": 0.1, "cheap": 0.2, "dear": 0.3, "mute": None}
    assert guarded(values).checks()[0].passed


def test_without_pairs_nothing_is_shown():
    values = dict.fromkeys(("honest", "unknown", "missed", "cheap", "dear", "mute"))
    (check,) = guarded(values).checks()
    assert (check.measured, check.passed) == (None, False)


def test_a_check_whose_metric_is_not_compared_is_not_made():
    nothing = study([], told({}))
    assert judged(nothing, PAPER) is None
    assert ties(nothing, [], Desk({})) == agreement({}) == []
    assert drift(nothing, [], Desk({})) is None
    assert hacked(nothing, 0) is None


def test_crowds_and_cases_come_with_what_the_checks_need():
    assert {len({one.truth.followed for one in group}) for group in crowds(2, seed=1)} == {1}
    assert all(one.before is not None and one.after is not None for one in cases(9, seed=1))
