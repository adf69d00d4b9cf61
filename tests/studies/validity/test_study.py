"""A study asks each question once for all metrics, and its tables follow from its rows."""

import pytest

from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Engine
from studies.validity.metric_selection import select_metrics
from studies.validity.study import KindSummary, ModeSummary, ValidityStudy, by_mode, by_task, by_truth, modes, score_all
from studies.validity.truth_agreement import Coverage
from tests.studies.validity.fake_metrics import SCENE, case, fixed_metric, other_noise

CASES = [
    case("a", kept=0.9),
    case("b", kept=0.8),
    case("c", after=other_noise(SCENE, 2), followed=False, kept=0.7, mode="nothing", severity=1.0, is_hack=True),
    case("d", "Change the background to sand", SCENE, followed=False, kept=0.2, mode="wrong_object", severity=0.5),
]
VALUES = {"a": 0.9, "b": None, "c": 0.6, "d": 0.1}


def study(*metrics):
    with Engine() as engine:
        return ValidityStudy.of(CASES, metrics, score_all(metrics, (one.sample for one in CASES), {}, engine))


def test_metrics_share_their_answers_and_rows_are_in_order_of_the_cases():
    served = scene_experts()
    both = select_metrics(["edival-if", "edival-if?dense=true"], served, CASES)
    steps = []
    with Engine() as engine:
        samples = (one.sample for one in CASES)
        rows = list(score_all(both, samples, served, engine, on_sample=lambda: steps.append(1)))
        stats = engine.stats()
    assert (stats.queries, stats.unique) == (14, 4)  # one source, two edited images, one background
    assert [row.case for row in rows if row.spec == both[0].spec] == [0, 1, 2, 3]
    assert len(steps) == 4
    assert [row.value for row in ValidityStudy.of(CASES, both, rows).rows["edival-if"]] == [1.0, 1.0, 0.0, 0.0]


def test_a_study_with_a_row_missing_is_refused():
    one = fixed_metric(VALUES)
    with pytest.raises(ValueError, match="one row for each"):
        ValidityStudy.of(CASES, [one], study(one).rows["fixed"][:-1])


def test_a_metric_is_compared_with_every_truth():
    one = fixed_metric(VALUES, "followed")
    agreements = by_truth(study(one))["fixed"]
    assert (agreements["followed"].sample_count, agreements["followed"].auc) == (3, 1.0)
    assert agreements["followed"].accuracy == pytest.approx(2 / 3)
    assert (agreements["kept"].spearman, agreements["kept"].accuracy) == (1.0, None)
    assert agreements["clean"].auc == 0.5  # of the two that are none, one is above the hack and one below


def test_of_what_is_no_share_only_the_order_counts():
    one = fixed_metric(VALUES, "followed", range=(None, None))
    agreement = by_truth(study(one))["fixed"]["followed"]
    assert (agreement.accuracy, agreement.kappa, agreement.auc) == (None, None, 1.0)
    assert by_mode(study(one))["fixed"]["nothing"].accepted is None


def test_scores_without_a_value_are_counted_and_left_out():
    one = fixed_metric(VALUES)
    assert study(one).statuses(one) == Coverage(scored=3, abstained=1)
    assert study(one).main_statistic(one) is not None


def test_task_types_and_failure_modes_have_tables_of_their_own():
    one = fixed_metric(VALUES, "followed")
    assert by_task(study(one))["fixed"] == {
        "background_change": KindSummary(None, 1),
        "subject_remove": KindSummary(1.0, 2),
    }
    assert modes(CASES) == ["", "wrong_object", "nothing"]
    assert by_mode(study(one))["fixed"] == {
        "": ModeSummary(1, 0.9, 1.0),
        "wrong_object": ModeSummary(1, 0.1, 0.0),
        "nothing": ModeSummary(1, 0.6, 1.0),
    }
