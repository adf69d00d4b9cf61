"""A study asks each question once for all metrics, and its tables follow from its rows."""

import pytest

from editcritic.benchmarks.agreement import Coverage
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.validity.metrics import chosen
from editcritic.benchmarks.validity.study import Kind, Mode, Study, ask_all, by_mode, by_task, by_truth, modes
from editcritic.reward import Engine

from .fakes import SCENE, case, other_noise, told

CASES = [
    case("a", kept=0.9),
    case("b", kept=0.8),
    case("c", after=other_noise(SCENE, 2), followed=False, kept=0.7, mode="nothing", severity=1.0, hack=True),
    case("d", "Change the background to sand", SCENE, followed=False, kept=0.2, mode="wrong_object", severity=0.5),
]
VALUES = {"a": 0.9, "b": None, "c": 0.6, "d": 0.1}


def study(*tried):
    with Engine() as engine:
        return Study.of(CASES, tried, ask_all(tried, (one.sample for one in CASES), {}, engine))


def test_metrics_share_their_answers_and_rows_are_in_order_of_the_cases():
    served = experts()
    both = chosen(["edival-if", "edival-if?dense=true"], served, CASES)
    steps = []
    with Engine() as engine:
        samples = (one.sample for one in CASES)
        rows = list(ask_all(both, samples, served, engine, step=lambda: steps.append(1)))
        stats = engine.stats()
    assert (stats.asked, stats.unique) == (14, 4)  # one source, two edited pictures, one background
    assert [row.case for row in rows if row.spec == both[0].spec] == [0, 1, 2, 3]
    assert len(steps) == 4
    assert [row.value for row in Study.of(CASES, both, rows).rows["edival-if"]] == [1.0, 1.0, 0.0, 0.0]


def test_a_study_with_a_row_missing_is_refused():
    one = told(VALUES)
    with pytest.raises(ValueError, match="one row for each"):
        Study.of(CASES, [one], study(one).rows["told"][:-1])


def test_a_metric_is_compared_with_every_truth():
    one = told(VALUES, "followed")
    found = by_truth(study(one))["told"]
    assert (found["followed"].pairs, found["followed"].auc) == (3, 1.0)
    assert found["followed"].accuracy == pytest.approx(2 / 3)
    assert (found["kept"].spearman, found["kept"].accuracy) == (1.0, None)
    assert found["clean"].auc == 0.5  # of the two that are none, one is above the hack and one below


def test_of_what_is_no_share_only_the_order_counts():
    one = told(VALUES, "followed", range=(None, None))
    found = by_truth(study(one))["told"]["followed"]
    assert (found.accuracy, found.kappa, found.auc) == (None, None, 1.0)
    assert by_mode(study(one))["told"]["nothing"].accepted is None


def test_scores_without_a_value_are_counted_and_left_out():
    one = told(VALUES)
    assert study(one).statuses(one) == Coverage(scored=3, abstained=1)
    assert study(one).main(one) is not None


def test_task_types_and_failure_modes_have_tables_of_their_own():
    one = told(VALUES, "followed")
    assert by_task(study(one))["told"] == {
        "background_change": Kind(None, 1),
        "subject_remove": Kind(1.0, 2),
    }
    assert modes(CASES) == ["", "wrong_object", "nothing"]
    assert by_mode(study(one))["told"] == {
        "": Mode(1, 0.9, 1.0),
        "wrong_object": Mode(1, 0.1, 0.0),
        "nothing": Mode(1, 0.6, 1.0),
    }
