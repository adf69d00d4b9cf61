"""Rates of editors and turns under two sets of experts."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval import weighted_statistics
from editcritic.benchmarks.human_eval.expert_swap import swap_tables
from editcritic.benchmarks.human_eval.label_matching import LabelMetric
from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.benchmarks.suites.suite import published_figures

from . import label_files
from .label_files import results, row

IF = LabelMetric(("if",))


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


def test_rates_of_editors_and_turns_under_two_sets_of_experts():
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
    figure = swap_tables([before], [after], IF)[1].rows["one, turn 2"]["before"]
    assert (figure.value, figure.count) == (0.0, 1)


def test_editors_that_do_not_match_are_refused():
    one = chains("one", 1, 1)
    with pytest.raises(InputError, match=r"differ: one, two, and one, three"):
        swap_tables([one, chains("two", 0, 1)], [one, chains("three", 1, 1)], IF)
    with pytest.raises(InputError, match="no item has a value"):
        swap_tables([one], [one], LabelMetric(("cc",)))


@pytest.mark.parametrize("name", ["threshold_0.3", "threshold_0.4", "no_large_box_filter"])
def test_the_correlations_that_edival_prints_for_other_detector_settings(name):
    """Table 6, from the marginal task rates of table 8 over 4 models and 3 turns."""
    tables = published_figures("edival")["tables"]
    rates = tables["table8_thresholds_img_task_overall"]
    sides = [
        [
            Statistic.ratio(np.array([value]), np.array([1.0]))
            for model in rates["default"]
            for value in rates[setting][model][3:6]
        ]
        for setting in ("default", name)
    ]
    pearson, spearman = tables["table6_tool_swap_pearson_spearman"][name]
    assert weighted_statistics.pearson_over(*sides).value == pytest.approx(pearson, abs=0.011)
    assert weighted_statistics.spearman_over(*sides).value == pytest.approx(spearman, abs=0.011)


def test_swap_as_a_command(editcritic, tmp_path):
    one = label_files.write(tmp_path / "one", chains("one", 1, 1, 0, 1, 0, 0))
    two = label_files.write(tmp_path / "two", chains("one", 1, 0, 0, 1, 0, 0))
    command = ("judge", "agreement", one, "--swap-results", two)
    ran = editcritic(*command, "--json", code=0)
    (over, points, _) = json.loads(ran.stdout)["tables"]
    assert over["rows"]["all"]["Pearson"]["count"] == 2
    assert list(points["rows"]) == ["one, turn 1", "one, turn 2"]
    assert editcritic(*command, "--metric", "cc").exit_code == 2
