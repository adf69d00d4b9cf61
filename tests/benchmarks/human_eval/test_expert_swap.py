"""Other experts, and the same judge at another time."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.people import weighted
from editcritic.benchmarks.people.golden import golden_of, held_against, read, write
from editcritic.benchmarks.people.meeting import Measure
from editcritic.benchmarks.people.swap import swapped
from editcritic.benchmarks.suites.figures import Figure
from editcritic.benchmarks.suites.published import published_figures

from . import made
from .made import results, row


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


IF = Measure(("if",))


def test_rates_of_editors_and_turns_under_two_sets_of_experts():
    before = [chains("one", 1, 1, 0, 1), chains("two", 0, 1, 0, 0)]
    after = [chains("two", 0, 0, 0, 0), chains("one", 1, 1, 0, 0)]
    over, points, items = swapped(before, after, IF)
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
    _, points, _ = swapped([before], [after], IF)
    assert points.rows["one, turn 2"]["before"].value == 0.0
    assert points.rows["one, turn 2"]["before"].count == 1


def test_editors_that_do_not_match_are_refused():
    with pytest.raises(InputError, match=r"one, two, those of the other one, three"):
        swapped([chains("one", 1, 1), chains("two", 0, 1)], [chains("one", 1, 1), chains("three", 1, 1)], IF)
    with pytest.raises(InputError, match="nothing to compare"):
        swapped([chains("one", 1, 1)], [chains("one", 1, 1)], Measure(("cc",)))


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
    assert weighted.pearson_over(*flat).value == pytest.approx(pearson, abs=0.011)
    assert weighted.spearman_over(*flat).value == pytest.approx(spearman, abs=0.011)


def _constant(value):
    return Figure.ratio(np.array([value]), np.array([1.0]))


def test_swap_as_a_command(editcritic, tmp_path):
    one = made.write(tmp_path / "one", chains("one", 1, 1, 0, 1, 0, 0))
    two = made.write(tmp_path / "two", chains("one", 1, 0, 0, 1, 0, 0))
    ran = editcritic("bench", "agree", one, "--swap", two, "--json")
    assert ran.exit_code == 0, ran.stderr
    (over, points, _) = json.loads(ran.stdout)["tables"]
    assert over["rows"]["all"]["Pearson"]["count"] == 2
    assert list(points["rows"]) == ["one, turn 1", "one, turn 2"]
    assert editcritic("bench", "agree", one, "--swap", two, "--metric", "cc").exit_code == 2


# -- a golden set ------------------------------------------------------------------------------------------------------


def run_of(*values, editor="one", edited="picture"):
    return results(editor, [row(f"{n}", edited=edited, following=value) for n, value in enumerate(values)])


def test_a_golden_set_is_read_as_it_was_written(tmp_path):
    scored = results("one", [row("a", following={"text": 1.0, "place": 0.0}), row("b", following="nothing found")])
    golden = golden_of([[scored]])
    assert golden[0].answers == {"following": (0.5,), "following/text": (1.0,), "following/place": (0.0,)}
    assert golden[1].answers == {"following": ("abstained",)}
    write(tmp_path / "golden.jsonl", golden)
    assert read(tmp_path / "golden.jsonl") == golden


def test_a_judge_that_says_the_same_has_not_drifted():
    golden = golden_of([[run_of(*[1.0, 0.0] * 20)]])
    (drift,) = held_against(golden, [run_of(*[1.0, 0.0] * 20)]).drifts
    assert (drift.changed, drift.mean, drift.beyond) == (0.0, 0.0, False)


def test_which_answers_changed_is_said():
    report = held_against(golden_of([[run_of(1.0, 0.0, "no box")]]), [run_of(1.0, 1.0, 0.5)])
    assert [str(change) for change in report.changes] == [
        "one, 1: following was 0, is 1",
        "one, 2: following was abstained, is 0.5",
    ]
    assert report.drifts[0].changed == pytest.approx(2 / 3)
    assert report.drifts[0].mean == pytest.approx(0.5)  # of the two that have a value both times


def test_a_judge_that_wavers_as_it_always_has_is_within_its_noise_and_one_that_moved_is_not():
    chance = np.random.default_rng(0)
    runs = [run_of(*(chance.random(60) < 0.5).astype(float)) for _ in range(4)]
    golden = golden_of([[run] for run in runs[:3]])
    (drift,) = held_against(golden, [runs[3]]).drifts
    assert drift.wavered == pytest.approx(0.5, abs=0.1)
    assert not drift.beyond
    (moved,) = held_against(golden, [run_of(*[1.0] * 60)]).drifts
    assert moved.beyond
    assert moved.low is not None
    assert moved.low > 0.3


def test_a_steady_judge_that_errs_both_ways_now_is_beyond_its_noise_though_its_mean_stays():
    steady = [run_of(*[1.0, 0.0] * 20) for _ in range(2)]
    golden = golden_of([[run] for run in steady])
    flipped = run_of(*[0.0, 1.0] * 10, *[1.0, 0.0] * 10)
    (drift,) = held_against(golden, [flipped]).drifts
    assert (drift.mean, drift.wavered, drift.more) == (0.0, 0.0, 0.5)
    assert drift.beyond


def test_other_pictures_and_lost_ones_are_counted_and_not_compared():
    golden = golden_of([[run_of(1.0, 1.0, 1.0)]])
    rows = [row("0", following=1.0), row("1", edited="another", following=0.0)]
    report = held_against(golden, [results("one", rows)])
    assert (report.compared, report.other, report.lost) == (1, 1, 1)
    with pytest.raises(InputError, match="3 are other pictures now"):
        held_against(golden, [run_of(1.0, 1.0, 1.0, edited="another")])


def test_runs_of_a_golden_set_are_of_the_same_pictures():
    with pytest.raises(InputError, match="is of another picture"):
        golden_of([[run_of(1.0)], [run_of(1.0, edited="another")]])


def test_golden_and_drift_as_commands(editcritic, tmp_path):
    before = made.write(tmp_path / "before", run_of(*[1.0, 0.0] * 10))
    now = made.write(tmp_path / "now", run_of(*[1.0] * 20))
    path = tmp_path / "golden.jsonl"
    assert editcritic("bench", "golden", before, "--again", before, "-o", path).stdout.startswith("20 pictures, 2 runs")
    assert editcritic("bench", "agree", before, "--golden", path).exit_code == 0
    ran = editcritic("bench", "agree", now, "--golden", path)
    assert ran.exit_code == 1
    assert "one, 1: following was 0, is 1" in ran.stdout
    found = json.loads(editcritic("bench", "agree", now, "--golden", path, "--json").stdout)
    assert found["drift"][0]["beyond_noise"] is True
    path.write_text("{}\n")
    assert "golden.jsonl:1" in editcritic("bench", "agree", now, "--golden", path).stderr
    ran = editcritic("bench", "golden", before, "--count", 5, "-o", path, "--json")
    assert json.loads(ran.stdout)["pictures"] == 5
