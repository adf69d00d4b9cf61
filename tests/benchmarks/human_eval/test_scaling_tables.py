"""Direct and sequential editing, multi-turn and single-pass: curves of results."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval import weighted_statistics
from editcritic.benchmarks.human_eval.expert_swap import swap_tables
from editcritic.benchmarks.human_eval.label_matching import LabelMetric
from editcritic.benchmarks.human_eval.scaling_tables import multi_turn_table, scaling_tables
from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.benchmarks.suites.results import ResultRow
from editcritic.benchmarks.suites.suite import published_figures
from editcritic.reward import Score
from tests.benchmarks.human_eval import label_files
from tests.benchmarks.human_eval.label_files import results, row


def levels(editor, **values):
    """values: c1 -> a value a case."""
    rows = [
        row(f"{case}/{name}", case=f"{case}", labels={"level": int(name[1:])}, o=value)
        for name, case_values in values.items()
        for case, value in enumerate(case_values)
    ]
    return results(editor, rows)


def test_a_curve_a_way_with_paired_differences():
    ways = {
        "direct": levels("d", c1=[8.0, 6.0], c8=[5.0, 4.0]),
        "sequential": levels("s", c1=[8.0, 6.0], c8=[4.0, 2.0]),
        "sequential best": levels("b", c8=[5.0, "no answer"], c1=[8.0, 7.0]),
    }
    (table,) = scaling_tables(ways)
    assert list(table.rows) == ["C1", "C8", "C8 - C1"]
    at = {name: {column: figure.value for column, figure in row.items()} for name, row in table.rows.items()}
    assert (at["C8"]["direct"], at["C8"]["sequential"]) == (4.5, 3.0)
    assert at["C8"]["sequential - direct"] == -1.5
    assert at["C8"]["sequential best - sequential"] == 1.0  # the case that both have a value of
    assert at["C8 - C1"] == {"direct": -2.5, "sequential": -4.0, "sequential best": -3.0}
    assert "direct best - direct" not in table.columns


def test_what_has_no_levels_or_nothing_to_compare_with_is_refused():
    with pytest.raises(InputError, match="no row has a level"):
        scaling_tables({"direct": results("d", [row("a", o=1.0)]), "sequential": results("s", [row("a", o=1.0)])})
    with pytest.raises(InputError, match="at least two strategies"):
        scaling_tables({"direct": levels("d", c1=[1.0])})


def multi(*chains, editor="one"):
    rows = [
        row(f"{case}/{turn}", case=f"{case}", labels={"turn": turn}, **{"if": value})
        for case, values in enumerate(chains)
        for turn, value in enumerate(values, start=1)
    ]
    return results(editor, rows)


def single(*shots):
    """shots: a case each, a list of credits each length."""
    rows = []
    for case, lengths in enumerate(shots):
        for turn, credits in enumerate(lengths, start=1):
            scores = {f"operation {n}": Score.of(one) for n, one in enumerate(credits, start=1)}
            score = Score.of(sum(credits) / len(credits), credits=scores)
            rows.append(ResultRow(f"{case}/singlepass/{turn}", f"{case}", {"turn": turn}, {"if": score}))
    return results("one", rows)


def test_every_turn_followed_against_every_instruction_of_one_shot():
    several = multi([1, 1], [1, 0], [0, 1])
    one = single([[1], [1, 1]], [[1], [0, 1]], [[1], [1, 1]])
    table = multi_turn_table(several, one)
    at = {name: {column: figure.value for column, figure in cells.items()} for name, cells in table.rows.items()}
    assert at["all 2"] == pytest.approx({"multi-turn": 1 / 3, "single-pass": 2 / 3, "difference": -1 / 3})
    assert at["last of 2"] == pytest.approx({"multi-turn": 2 / 3, "single-pass": 1.0, "difference": -1 / 3})
    assert at["all 1"]["multi-turn"] == pytest.approx(2 / 3)


def test_pictures_without_a_value_on_one_side_are_left_out_of_both():
    table = multi_turn_table(multi([1, "?"], [1, 1]), single([[1], [1, 1]], [[1], [0, 0]]))
    cells = table.rows["all 2"]
    assert (cells["multi-turn"].value, cells["single-pass"].value, cells["single-pass"].num_missing) == (1.0, 0.0, 1)
    with pytest.raises(InputError, match="no turn"):
        multi_turn_table(results("one", [row("a", o=1.0)]), single([[1]]))


def test_strategies_are_compared_by_a_command(editcritic, tmp_path):
    cases = [float(n) for n in range(10)]
    direct = label_files.write(tmp_path / "direct", levels("d", c1=cases, c4=cases[::-1]))
    steps = label_files.write(tmp_path / "steps", levels("s", c1=cases, c4=cases))
    plot = tmp_path / "curves.png"
    by_level = ("--strategy", f"direct={direct}", "--strategy", f"sequential={steps}")
    ran = editcritic("bench", "compare", *by_level, "--plot", plot, "--json", code=0)
    cell = json.loads(ran.stdout)["tables"][0]["rows"]["C1"]["sequential - direct"]
    assert (cell["value"], cell["low"], cell["high"], cell["count"]) == (0.0, 0.0, 0.0, 10)
    assert plot.read_bytes().startswith(b"\x89PNG")
    one = label_files.write(tmp_path / "multi", multi([1, 1], [1, 0]))
    other = label_files.write(tmp_path / "single", single([[1], [1, 1]], [[1], [0, 1]]))
    by_turn = ("--strategy", f"multi-turn={one}", "--strategy", f"single-pass={other}")
    ran = editcritic("bench", "compare", *by_turn, "-o", tmp_path / "out", code=0)
    assert (tmp_path / "out" / "turns.tex").exists()
    for wrong, message in (
        (by_level[:2], "at least two strategies"),
        ((*by_level[:2], *by_turn[:2]), "multi-turn and single-pass, and no other"),
        (("--strategy", f"best={direct}"), "STRATEGY=RESULTS"),
        ((*by_level, *by_level[:2]), "names direct twice"),
        ((*by_turn, "--plot", plot), "no curves to plot"),
        ((direct, steps, *by_level), "either A and B, or --strategy"),
        ((direct, steps, "--plot", plot), "are for --strategy"),
    ):
        refused = editcritic("bench", "compare", *wrong)
        assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr


IF = LabelMetric(("if",))


def chains(editor, *values):
    """Two turns a case: values of turn 1, then of turn 2."""
    half = len(values) // 2
    return multi(*zip(values[:half], values[half:], strict=True), editor=editor)


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
