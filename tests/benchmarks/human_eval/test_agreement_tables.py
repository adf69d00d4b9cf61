"""Tables of agreement, worked out by hand; and the command."""

import json

import pytest
from scipy import stats

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.people.agree import MEANING, tables
from editcritic.benchmarks.people.meeting import Measure, Meeting
from editcritic.benchmarks.suites.tables import Table

from .made import labels_file, results, row, said, write

TYPES = ("color_alter", "color_alter", "count_change", "count_change")


def rows(*values, **more):
    return [
        row(f"{number}", case=f"{number // 2}", labels={"type": TYPES[number % 4]}, following=value, **more)
        for number, value in enumerate(values)
    ]


def found(labels, *all_results, **options) -> dict[str, Table]:
    return {table.name: table for table in tables(labels, Meeting(all_results), **options)}


def value(table, row_name, column):
    return table.rows[row_name][column].value


def test_yes_and_no_by_type():
    ours = results("one", rows(1.0, 0.0, 1.0, 1.0))
    labels = [said(label, f"{number}", editor="one") for number, label in enumerate(["yes", "no", "no", "yes"])]
    table = found(labels, ours)["agreement-yes-no-following"]
    assert list(table.rows) == ["all", "type color_alter", "type count_change"]
    assert value(table, "all", "accuracy") == 0.75
    assert value(table, "all", "F1") == pytest.approx(2 * 2 / (3 + 2))
    assert value(table, "all", "kappa") == pytest.approx((0.75 - (3 * 2 + 1 * 2) / 16) / (1 - 8 / 16))
    assert value(table, "all", "PLCC") == pytest.approx(stats.pearsonr([1, 0, 1, 1], [1, 0, 0, 1]).statistic)
    assert value(table, "type color_alter", "accuracy") == 1.0
    assert value(table, "type count_change", "accuracy") == 0.5
    assert table.rows["all"]["accuracy"].count == 4


def test_four_levels_as_dlebench_has_them():
    ours = results("one", rows(1.0, 2 / 3, 1 / 3, 0.0))
    labels = [said(level, f"{number}", "four-level", editor="one") for number, level in enumerate([4, 4, 2, 1])]
    table = found(labels, ours)["agreement-four-level-following"]
    people, metric = [1, 1, 1 / 3, 0], [1, 2 / 3, 1 / 3, 0]
    assert value(table, "all", "MAE") == pytest.approx(1 / 12)
    assert value(table, "all", "SRCC") == pytest.approx(stats.spearmanr(people, metric).statistic)
    assert value(table, "all", "PLCC") == pytest.approx(stats.pearsonr(people, metric).statistic)
    assert value(table, "all", "accuracy") == 0.75


def test_grades_of_another_range_are_brought_to_shares_and_refused_without_it():
    ours = results("one", rows(10.0, 5.0, 0.0, 10.0))
    labels = [said(level, f"{number}", "four-level", editor="one") for number, level in enumerate([4, 3, 1, 4])]
    with pytest.raises(InputError, match="--range"):
        found(labels, ours)
    table = found(labels, ours, measures={"following": Measure(("following",), 0, 10)})[
        "agreement-four-level-following"
    ]
    assert value(table, "all", "MAE") == pytest.approx((2 / 3 - 0.5) / 4)


def test_annotators_with_each_other_and_with_the_metric():
    ours = results("one", rows(1.0, 0.0, 1.0))
    labels = [
        said(label, f"{number}", editor="one", by=by)
        for by, given in (("ann", ["yes", "no", "yes"]), ("bob", ["yes", "yes", "yes"]))
        for number, label in enumerate(given)
    ]
    table = found(labels, ours)["annotators-yes-no-following"]
    assert value(table, "all", "same") == pytest.approx(2 / 3)
    assert value(table, "all", "yes") == pytest.approx(5 / 6)
    # Coincidences: 5 of yes and 1 of no; two of six values lie in a pair that differs.
    assert value(table, "all", "alpha nominal") == pytest.approx(1 - 2 * 5 / (2 * 5 * 1))
    assert table.rows["all"]["alpha nominal, metric too"].count == 9
    assert "alpha interval" not in table.columns  # of two answers all levels are the same


def test_pairs_against_differences_of_scores():
    """Whichever of the two was called A."""
    one = results("one", rows(0.9, 0.5, 0.2, 0.5))
    two = results("two", rows(0.1, 0.4, 0.6, 0.5))
    pairs = [(("one", f"{n}"), ("two", f"{n}")) for n in range(4)]
    labels = [said("A", pairs[0], "pair"), said("A", pairs[1][::-1], "pair")]
    labels += [said("B", pairs[2], "pair"), said("tie", pairs[3], "pair")]
    tables_ = found(labels, one, two)
    table = tables_["agreement-pair-following"]
    differences, said_ = [0.8, 0.1, -0.4, 0.0], [1, -1, -1, 0]
    assert value(table, "all", "PLCC") == pytest.approx(stats.pearsonr(differences, said_).statistic)
    assert value(table, "all", "accuracy") == 0.75
    assert value(table, "all", "decided") == pytest.approx(2 / 3)
    wide = found(labels, one, two, measures={"following": Measure(("following",), tie=0.2)})
    assert value(wide["agreement-pair-following"], "all", "accuracy") == 0.75  # 0.1 is a tie now, and wrong as before
    wins = tables_["wins-following"]
    assert value(wins, "one", "win ratio") == pytest.approx((1 + 0 + 0 + 0.5) / 4)
    assert value(wins, "two", "win ratio") == pytest.approx((0 + 1 + 1 + 0.5) / 4)
    assert value(wins, "one", "following") == pytest.approx((0.9 + 0.5 + 0.2 + 0.5) / 4)


def test_win_ratios_go_with_scores_over_editors():
    means, names = (0.9, 0.5, 0.1), ("one", "two", "three")
    both = zip(names, means, strict=True)
    ours = [results(name, [row("a", following=mean), row("b", following=mean)]) for name, mean in both]
    duels = [("one", "two"), ("one", "three"), ("two", "three")]
    labels = [said("A", ((a, item), (b, item)), "pair") for a, b in duels for item in "ab"]
    table = found(labels, *ours)["wins-pearson-following"]
    assert value(table, "3 editors", "Pearson") == pytest.approx(1.0)
    assert {name: value(found(labels, *ours)["wins-following"], name, "win ratio") for name in names} == {
        "one": 1.0,
        "two": 0.5,
        "three": 0.0,
    }


def test_the_overall_preference_picks_how_to_average():
    """People who mind the worst part: the geometric mean goes with them, the arithmetic one does not."""
    first = [(9, 1), (8, 2), (6, 6), (7, 3), (5, 5)]
    second = [(4, 4), (5, 5), (10, 1), (4, 4), (9, 1)]
    one, two = (
        results(name, [row(f"{n}", o={"if": a, "ip": b}) for n, (a, b) in enumerate(parts)])
        for name, parts in (("one", first), ("two", second))
    )
    winners = ["B", "B", "A", "B", "A"]
    pairs = [(("one", f"{n}"), ("two", f"{n}")) for n in range(5)]
    labels = [said(winner, pair, "pair", dimension="overall") for winner, pair in zip(winners, pairs, strict=True)]
    table = found(labels, one, two, parts=[("o", "if"), ("o", "ip")])["averaging"]
    people = [1 if winner == "A" else -1 for winner in winners]
    means = [(a + b) / 2 - (c + d) / 2 for (a, b), (c, d) in zip(first, second, strict=True)]
    roots = [(a * b) ** 0.5 - (c * d) ** 0.5 for (a, b), (c, d) in zip(first, second, strict=True)]
    assert value(table, "all", "arithmetic") == pytest.approx(stats.pearsonr(means, people).statistic)
    assert value(table, "all", "geometric") == pytest.approx(stats.pearsonr(roots, people).statistic)
    assert value(table, "all", "arithmetic - geometric") < 0


def test_a_majority_and_a_mean_where_one_number_an_item_is_wanted():
    ours = results("one", rows(1.0, 0.0))
    votes = {"0": ["yes", "yes", "no"], "1": ["yes", "no"]}
    labels = [said(one, name, editor="one", by=f"{n}") for name, given in votes.items() for n, one in enumerate(given)]
    table = found(labels, ours, pool="item")["agreement-yes-no-following"]
    assert (table.rows["all"]["accuracy"].count, table.rows["all"]["accuracy"].without) == (1, 1)
    assert found(labels, ours)["agreement-yes-no-following"].rows["all"]["accuracy"].count == 5
    three = found(labels, ours, raters=3)["agreement-yes-no-following"]
    assert three.rows["all"]["accuracy"].count == 3
    assert any("1 things with fewer than 3" in note for note in three.notes)


def test_practice_and_second_looks_are_in_no_statistic():
    ours = results("one", rows(1.0, 1.0))
    labels = [said("yes", "0", editor="one"), said("no", "0", editor="one", phase="recheck")]
    labels += [said("no", "1", editor="one", phase="trial"), said("no", "1", editor="one", phase="answer")]
    assert found(labels, ours)["agreement-yes-no-following"].rows["all"]["accuracy"].count == 1


def test_scores_without_a_value_are_left_out_and_counted():
    ours = results("one", rows("no box", 1.0))
    labels = [said("yes", "0", editor="one"), said("yes", "1", editor="one")]
    figure = found(labels, ours)["agreement-yes-no-following"].rows["all"]["accuracy"]
    assert (figure.value, figure.count, figure.without) == (1.0, 1, 1)


def test_boxes_of_two_people():
    labels = [said(((0, 0, 10, 10),), "a", "boxes", by=by) for by in ("ann", "bob")]
    labels += [
        said(((0, 0, 10, 10),), "b", "boxes", by="ann"),
        said(((0, 5, 10, 10), (20, 20, 30, 30)), "b", "boxes", by="bob"),
    ]
    table = found(labels, results("one", rows(1.0)))["annotators-boxes-following"]
    assert value(table, "all", "IoU") == pytest.approx((1 + 0.5 / 2) / 2)
    assert value(table, "all", "alike") == 0.5


def test_labels_about_nothing_there_is_are_said():
    ours = results("one", rows(1.0))
    with pytest.raises(InputError, match="no row of the results"):
        found([said("yes", "elsewhere", editor="one")], ours)
    with pytest.raises(InputError, match="main phase"):
        found([said("yes", "0", phase="trial")], ours)
    with pytest.raises(InputError, match="'other', which following"):
        found([said("yes", "0")], ours, measures={"following": Measure(("other",))})


def test_every_statistic_is_explained():
    one, two, three = (results(name, rows(0.9, 0.1, o=0.5)) for name in ("one", "two", "three"))
    pairs = [((a, "0"), (b, "0")) for a, b in (("one", "two"), ("two", "three"), ("one", "three"))]
    labels = [said("A", pair, "pair", dimension=dimension) for pair in pairs for dimension in ("following", "overall")]
    labels += [said("yes", "0", editor="one"), said(4, "0", "four-level", editor="one")]
    labels += [said("accept", "0", "reference", editor="one"), said((), "0", "boxes", editor="one")]
    columns = {c for t in found(labels, one, two, three, parts=[("o",)]).values() for c in t.columns}
    assert columns - set(MEANING) == {"following"}  # the metric itself


# -- the command -------------------------------------------------------------------------------------------------------


def test_agree_prints_each_statistic_with_n_and_interval(editcritic, tmp_path):
    folder = write(tmp_path / "results", results("one", rows(1.0, 0.0, 1.0, 1.0, 0.0, 0.0)))
    labels = labels_file(tmp_path / "l.jsonl", [said("yes" if n % 2 else "no", f"{n}") for n in range(6)])
    ran = editcritic("bench", "agree", folder, "--labels", labels, "-o", tmp_path / "out")
    assert ran.exit_code == 0, ran.stderr
    assert "Cohen's kappa" in ran.stdout
    assert "bootstrap" in ran.stdout
    assert (tmp_path / "out" / "agreement-yes-no-following.csv").read_text().startswith("row,column,value,low,high")
    ran = editcritic("bench", "agree", folder, "--labels", labels, "--json")
    (first, *_) = json.loads(ran.stdout)["tables"]
    accuracy = first["rows"]["all"]["accuracy"]
    assert accuracy["count"] == 6
    assert accuracy["low"] <= accuracy["value"] <= accuracy["high"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "give one of --labels"),
        (["--labels", "{labels}", "--pool", "both"], "--pool is each or item"),
        (["--labels", "{labels}", "--metric", "following"], "DIMENSION=VALUE"),
        (["--labels", "{labels}", "--range", "following=1"], "LOW,HIGH"),
        (["--labels", "{labels}", "--range", "following=1,0"], "goes up"),
        (["--labels", "{labels}", "--cut", "following=half"], "no number"),
        (["--labels", "{labels}", "--average", "nothing"], "no row has a score 'nothing'"),
    ],
)
def test_what_a_user_gets_wrong_is_said(editcritic, tmp_path, options, why):
    one, two = (write(tmp_path / name, results(name, rows(1.0))) for name in ("one", "two"))
    labels = labels_file(tmp_path / "l.jsonl", [said("A", (("one", "0"), ("two", "0")), "pair", dimension="overall")])
    given = [option.format(labels=labels) for option in options]
    ran = editcritic("bench", "agree", one, two, *given)
    assert ran.exit_code == 2
    assert why in ran.stderr.replace("\n", " ")
