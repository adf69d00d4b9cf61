"""Other experts, and the same judge at another time."""

import json
from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval import weighted_statistics
from editcritic.benchmarks.human_eval.expert_swap import swap_tables
from editcritic.benchmarks.human_eval.judge_drift import (
    build_golden_set,
    compare_with_golden_set,
    read_golden_set,
    write_golden_set,
)
from editcritic.benchmarks.human_eval.label_matching import LabelMetric
from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.benchmarks.suites.suite import published_figures

from . import label_files
from .label_files import results, row


def chains(editor, *values):
    """Two turns a case: values of turn 1, then of turn 2."""
    half = len(values) // 2
    return results(
        editor,
        [
            row(f"{case}/{turn}", case=f"{case}", labels={"turn": turn}, **{"if": values[half * (turn - 1) + case]})
            for case in range(half)
            for turn in (1, 2)
        ],
    )


IF = LabelMetric(("if",))


def test_rates_of_editors_and_turns_under_two_sets_of_experts():
    from scipy import stats

    before = [chains("one", 1, 1, 0, 1), chains("two", 0, 1, 0, 0)]
    after = [chains("two", 0, 0, 0, 0), chains("one", 1, 1, 0, 0)]
    over, points, items = swap_tables(before, after, IF)
    rates = [1.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0]
    assert over.rows["all"]["Pearson"].value == pytest.approx(stats.pearsonr(*rates).statistic)
    assert over.rows["all"]["Spearman"].value == pytest.approx(stats.spearmanr(*rates).statistic)
    assert over.rows["all"]["rank kept"].value == 1.0
    assert points.rows["one, turn 2"]["after - before"].value == pytest.approx(-0.5)
    assert items.rows["two"]["same"].value == 0.75
    assert items.rows["one"]["kappa"].value == pytest.approx((0.75 - (3 * 2 + 1 * 2) / 16) / (1 - 8 / 16))


def test_items_that_one_side_has_no_value_of_are_left_out_of_both():
    before, after = chains("one", 1, 1, 0, 1), chains("one", 1, 1, 0, 0)
    after = replace(after, rows=[*after.rows[:-1], row("1/2", case="1", labels={"turn": 2}, **{"if": "no answer"})])
    _, points, _ = swap_tables([before], [after], IF)
    assert points.rows["one, turn 2"]["before"].value == 0.0
    assert points.rows["one, turn 2"]["before"].count == 1


def test_editors_that_do_not_match_are_refused():
    with pytest.raises(InputError, match=r"differ: one, two, and one, three"):
        swap_tables([chains("one", 1, 1), chains("two", 0, 1)], [chains("one", 1, 1), chains("three", 1, 1)], IF)
    with pytest.raises(InputError, match="no item has a value"):
        swap_tables([chains("one", 1, 1)], [chains("one", 1, 1)], LabelMetric(("cc",)))


@pytest.mark.parametrize("name", ["threshold_0.3", "threshold_0.4", "no_large_box_filter"])
def test_the_correlations_that_edival_prints_for_other_detector_settings(name):
    """Table 6, from the marginal task rates of table 8 over 4 models and 3 turns."""
    tables = published_figures("edival")["tables"]
    rates = tables["table8_thresholds_img_task_overall"]
    before, after = (
        [[_constant(value) for value in rates[setting][model][3:6]] for model in rates["default"]]
        for setting in ("default", name)
    )
    flat = [[one for model in side for one in model] for side in (before, after)]
    pearson, spearman = tables["table6_tool_swap_pearson_spearman"][name]
    assert weighted_statistics.pearson_over(*flat).value == pytest.approx(pearson, abs=0.011)
    assert weighted_statistics.spearman_over(*flat).value == pytest.approx(spearman, abs=0.011)


def _constant(value):
    return Statistic.ratio(np.array([value]), np.array([1.0]))


def test_swap_as_a_command(editcritic, tmp_path):
    one = label_files.write(tmp_path / "one", chains("one", 1, 1, 0, 1, 0, 0))
    two = label_files.write(tmp_path / "two", chains("one", 1, 0, 0, 1, 0, 0))
    ran = editcritic("judge", "agreement", one, "--swap-results", two, "--json")
    assert ran.exit_code == 0, ran.stderr
    (over, points, _) = json.loads(ran.stdout)["tables"]
    assert over["rows"]["all"]["Pearson"]["count"] == 2
    assert list(points["rows"]) == ["one, turn 1", "one, turn 2"]
    assert editcritic("judge", "agreement", one, "--swap-results", two, "--metric", "cc").exit_code == 2


# -- a golden set ------------------------------------------------------------------------------------------------------


def run_of(*values, editor="one", edited="picture"):
    return results(editor, [row(f"{n}", edited=edited, following=value) for n, value in enumerate(values)])


def test_a_golden_set_is_read_as_it_was_written(tmp_path):
    scored = results("one", [row("a", following={"text": 1.0, "place": 0.0}), row("b", following="nothing found")])
    golden = build_golden_set([[scored]])
    assert golden[0].answers == {"following": (0.5,), "following/text": (1.0,), "following/place": (0.0,)}
    assert golden[1].answers == {"following": ("abstained",)}
    write_golden_set(tmp_path / "golden.jsonl", golden)
    assert read_golden_set(tmp_path / "golden.jsonl") == golden


def test_a_judge_that_says_the_same_has_not_drifted():
    golden = build_golden_set([[run_of(*[1.0, 0.0] * 20)]])
    (drift,) = compare_with_golden_set(golden, [run_of(*[1.0, 0.0] * 20)]).drifts
    assert (drift.changed, drift.mean, drift.exceeds_noise) == (0.0, 0.0, False)


def test_which_answers_changed_is_said():
    report = compare_with_golden_set(build_golden_set([[run_of(1.0, 0.0, "no box")]]), [run_of(1.0, 1.0, 0.5)])
    assert [str(change) for change in report.changes] == [
        "one, 1: following was 0, is 1",
        "one, 2: following was abstained, is 0.5",
    ]
    assert report.drifts[0].changed == pytest.approx(2 / 3)
    assert report.drifts[0].mean == pytest.approx(0.5)  # of the two that have a value both times


def test_a_judge_that_wavers_as_it_always_has_is_within_its_noise_and_one_that_moved_is_not():
    chance = np.random.default_rng(0)
    runs = [run_of(*(chance.random(60) < 0.5).astype(float)) for _ in range(4)]
    golden = build_golden_set([[run] for run in runs[:3]])
    (drift,) = compare_with_golden_set(golden, [runs[3]]).drifts
    assert drift.baseline_disagreement == pytest.approx(0.5, abs=0.1)
    assert not drift.exceeds_noise
    (moved,) = compare_with_golden_set(golden, [run_of(*[1.0] * 60)]).drifts
    assert moved.exceeds_noise
    assert moved.low is not None
    assert moved.low > 0.3


def test_a_steady_judge_that_errs_both_ways_now_is_beyond_its_noise_though_its_mean_stays():
    steady = [run_of(*[1.0, 0.0] * 20) for _ in range(2)]
    golden = build_golden_set([[run] for run in steady])
    flipped = run_of(*[0.0, 1.0] * 10, *[1.0, 0.0] * 10)
    (drift,) = compare_with_golden_set(golden, [flipped]).drifts
    assert (drift.mean, drift.baseline_disagreement, drift.excess) == (0.0, 0.0, 0.5)
    assert drift.exceeds_noise


def test_other_pictures_and_lost_ones_are_counted_and_not_compared():
    golden = build_golden_set([[run_of(1.0, 1.0, 1.0)]])
    rows = [row("0", following=1.0), row("1", edited="another", following=0.0)]
    report = compare_with_golden_set(golden, [results("one", rows)])
    assert (report.compared, report.different_outputs, report.missing) == (1, 1, 1)
    with pytest.raises(InputError, match="3 changed"):
        compare_with_golden_set(golden, [run_of(1.0, 1.0, 1.0, edited="another")])


def test_a_judge_that_answers_nothing_has_not_stayed_as_it_was():
    silent = run_of(None, None, None)
    with pytest.raises(InputError, match="all failed"):
        build_golden_set([[silent]])
    golden = build_golden_set([[run_of(1.0, 0.0, 1.0)]])
    with pytest.raises(InputError, match="of 3 images, scores have failed"):
        compare_with_golden_set(golden, [silent])
    report = compare_with_golden_set(golden, [run_of(None, 0.0, 1.0)])
    assert (report.failed, report.drifts[0].count, report.drifts[0].changed) == (1, 2, 0.0)
    assert [record.id for record in build_golden_set([[run_of(None, 0.0, 1.0)]])] == ["1", "2"]


def test_results_that_have_no_metric_of_the_golden_set_have_not_stayed_as_they_were():
    golden = build_golden_set([[run_of(1.0, 1.0)]])
    others = results("one", [row(f"{n}", consistency=1.0) for n in range(2)])
    with pytest.raises(InputError, match="it has following, the results have consistency"):
        compare_with_golden_set(golden, [others])


def test_runs_of_a_golden_set_are_of_the_same_pictures():
    with pytest.raises(InputError, match="is another image"):
        build_golden_set([[run_of(1.0)], [run_of(1.0, edited="another")]])


def test_golden_and_drift_as_commands(editcritic, tmp_path):
    before = label_files.write(tmp_path / "before", run_of(*[1.0, 0.0] * 10))
    now = label_files.write(tmp_path / "now", run_of(*[1.0] * 20))
    path = tmp_path / "golden.jsonl"
    assert editcritic("judge", "drift", before, "--repeat-results", before, "-o", path).stdout.startswith(
        "20 images, 2 runs"
    )
    assert editcritic("judge", "drift", before, "--golden", path).exit_code == 0
    ran = editcritic("judge", "drift", now, "--golden", path)
    assert ran.exit_code == 1
    assert "one, 1: following was 0, is 1" in ran.stdout
    document = json.loads(editcritic("judge", "drift", now, "--golden", path, "--json").stdout)
    assert document["drift"][0]["exceeds_noise"] is True
    path.write_text("{}\n")
    assert "golden.jsonl:1" in editcritic("judge", "drift", now, "--golden", path).stderr
    ran = editcritic("judge", "drift", before, "--num-images", 5, "-o", path, "--json")
    assert json.loads(ran.stdout)["images"] == 5
    for wrong in ((), ("--golden", path, "-o", path), ("--golden", path, "--num-images", 5)):
        assert editcritic("judge", "drift", before, *wrong).exit_code == 2
