"""Tables of agreement, worked out by hand; and the command."""

import json

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.agreement_tables import STATISTIC_DESCRIPTIONS, agreement_tables
from editcritic.benchmarks.human_eval.label_matching import LabelMetric, ScoreLookup
from editcritic.benchmarks.suites.tables import Table

from .label_files import labels_file, make_label, results, row, write

TYPES = ("color_alter", "color_alter", "count_change", "count_change")


def rows(*values, **more):
    return [
        row(f"{number}", case=f"{number // 2}", labels={"type": TYPES[number % 4]}, following=value, **more)
        for number, value in enumerate(values)
    ]


def tables_of(labels, *all_results, **options) -> dict[str, Table]:
    return {table.name: table for table in agreement_tables(labels, ScoreLookup(all_results), **options)}


def value(table, row_name, column):
    return table.rows[row_name][column].value


def test_yes_and_no_by_type():
    from scipy import stats

    scored = results("one", rows(1.0, 0.0, 1.0, 1.0))
    labels = [make_label(label, f"{number}", editor="one") for number, label in enumerate(["yes", "no", "no", "yes"])]
    table = tables_of(labels, scored)["agreement-yes-no-following"]
    assert list(table.rows) == ["all", "type color_alter", "type count_change"]
    assert value(table, "all", "accuracy") == 0.75
    assert value(table, "all", "F1") == pytest.approx(2 * 2 / (3 + 2))
    assert value(table, "all", "kappa") == pytest.approx((0.75 - (3 * 2 + 1 * 2) / 16) / (1 - 8 / 16))
    assert value(table, "all", "PLCC") == pytest.approx(stats.pearsonr([1, 0, 1, 1], [1, 0, 0, 1]).statistic)
    assert value(table, "type color_alter", "accuracy") == 1.0
    assert value(table, "type count_change", "accuracy") == 0.5
    assert table.rows["all"]["accuracy"].count == 4


def test_four_levels_as_dlebench_has_them():
    from scipy import stats

    scored = results("one", rows(1.0, 2 / 3, 1 / 3, 0.0))
    labels = [make_label(level, f"{number}", "four-level", editor="one") for number, level in enumerate([4, 4, 2, 1])]
    table = tables_of(labels, scored)["agreement-four-level-following"]
    labels_as_shares, metric = [1, 1, 1 / 3, 0], [1, 2 / 3, 1 / 3, 0]
    assert value(table, "all", "MAE") == pytest.approx(1 / 12)
    assert value(table, "all", "SRCC") == pytest.approx(stats.spearmanr(labels_as_shares, metric).statistic)
    assert value(table, "all", "PLCC") == pytest.approx(stats.pearsonr(labels_as_shares, metric).statistic)
    assert value(table, "all", "accuracy") == 0.75


def test_stars_have_a_mean_by_editor_without_a_metric():
    """By hand: (1 + 3 + 5) / 3 = 3 stars and (4 + 5) / 2 = 4.5; stars 1 and 3 are nearest to 0.1 and 0.6."""
    every = [results(name, rows(0.1, 0.6, 0.9)) for name in ("one", "two")]
    labels = [make_label(s, f"{n}", "stars", editor="one", dimension="realism") for n, s in enumerate([1, 3, 5])]
    labels += [make_label(s, f"{n}", "stars", editor="two", dimension="realism") for n, s in enumerate([4, 5])]
    table = tables_of(labels, *every)["stars-realism"]
    assert [value(table, editor, "stars") for editor in ("one", "two")] == pytest.approx([3.0, 4.5])
    metric = {"realism": LabelMetric(("following",), 0, 1)}
    agreement = tables_of(labels[:2], *every, metrics=metric)["agreement-stars-realism"]
    assert value(agreement, "all", "accuracy") == 1.0


def test_grades_of_another_range_are_brought_to_shares_and_refused_without_it():
    scored = results("one", rows(10.0, 5.0, 0.0, 10.0))
    labels = [make_label(level, f"{number}", "four-level", editor="one") for number, level in enumerate([4, 3, 1, 4])]
    with pytest.raises(InputError, match="--range"):
        tables_of(labels, scored)
    table = tables_of(labels, scored, metrics={"following": LabelMetric(("following",), 0, 10)})[
        "agreement-four-level-following"
    ]
    assert value(table, "all", "MAE") == pytest.approx((2 / 3 - 0.5) / 4)


def test_annotators_with_each_other_and_with_the_metric():
    scored = results("one", rows(1.0, 0.0, 1.0))
    labels = [
        make_label(label, f"{number}", editor="one", by=by)
        for by, answers in (("ann", ["yes", "no", "yes"]), ("bob", ["yes", "yes", "yes"]))
        for number, label in enumerate(answers)
    ]
    table = tables_of(labels, scored)["annotators-yes-no-following"]
    assert value(table, "all", "same") == pytest.approx(2 / 3)
    assert value(table, "all", "yes") == pytest.approx(5 / 6)
    # Coincidences: 5 of yes and 1 of no; two of six values lie in a pair that differs.
    assert value(table, "all", "alpha nominal") == pytest.approx(1 - 2 * 5 / (2 * 5 * 1))
    assert table.rows["all"]["alpha nominal, metric too"].count == 9
    assert "alpha interval" not in table.columns  # of two answers all levels are the same


def test_pairs_against_differences_of_scores():
    """Whichever of the two was called A."""
    from scipy import stats

    one = results("one", rows(0.9, 0.5, 0.2, 0.5))
    two = results("two", rows(0.1, 0.4, 0.6, 0.5))
    pairs = [(("one", f"{n}"), ("two", f"{n}")) for n in range(4)]
    labels = [make_label("A", pairs[0], "pair"), make_label("A", pairs[1][::-1], "pair")]
    labels += [make_label("B", pairs[2], "pair"), make_label("tie", pairs[3], "pair")]
    tables_ = tables_of(labels, one, two)
    table = tables_["agreement-pair-following"]
    differences, preferences = [0.8, 0.1, -0.4, 0.0], [1, -1, -1, 0]
    assert value(table, "all", "PLCC") == pytest.approx(stats.pearsonr(differences, preferences).statistic)
    assert value(table, "all", "accuracy") == 0.75
    assert value(table, "all", "decided") == pytest.approx(2 / 3)
    wide = tables_of(labels, one, two, metrics={"following": LabelMetric(("following",), tie_width=0.2)})
    assert value(wide["agreement-pair-following"], "all", "accuracy") == 0.75  # 0.1 is a tie now, and wrong as before
    wins = tables_["wins-following"]
    assert value(wins, "one", "win ratio") == pytest.approx((1 + 0 + 0 + 0.5) / 4)
    assert value(wins, "two", "win ratio") == pytest.approx((0 + 1 + 1 + 0.5) / 4)
    assert value(wins, "one", "following") == pytest.approx((0.9 + 0.5 + 0.2 + 0.5) / 4)


def test_win_ratios_go_with_scores_over_editors():
    means, names = (0.9, 0.5, 0.1), ("one", "two", "three")
    named = zip(names, means, strict=True)
    all_results = [results(name, [row("a", following=mean), row("b", following=mean)]) for name, mean in named]
    duels = [("one", "two"), ("one", "three"), ("two", "three")]
    labels = [make_label("A", ((a, item), (b, item)), "pair") for a, b in duels for item in "ab"]
    table = tables_of(labels, *all_results)["wins-pearson"]
    assert list(table.rows) == ["following"]
    assert value(table, "following", "Pearson") == pytest.approx(1.0)
    assert {name: value(tables_of(labels, *all_results)["wins-following"], name, "win ratio") for name in names} == {
        "one": 1.0,
        "two": 0.5,
        "three": 0.0,
    }


def test_the_overall_preference_picks_how_to_average():
    """People who mind the worst part: the geometric mean goes with them, the arithmetic one does not."""
    from scipy import stats

    first = [(9, 1), (8, 2), (6, 6), (7, 3), (5, 5)]
    second = [(4, 4), (5, 5), (10, 1), (4, 4), (9, 1)]
    one, two = (
        results(name, [row(f"{n}", o={"if": a, "ip": b}) for n, (a, b) in enumerate(parts)])
        for name, parts in (("one", first), ("two", second))
    )
    winners = ["B", "B", "A", "B", "A"]
    pairs = [(("one", f"{n}"), ("two", f"{n}")) for n in range(5)]
    labels = [
        make_label(winner, pair, "pair", dimension="overall") for winner, pair in zip(winners, pairs, strict=True)
    ]
    table = tables_of(labels, one, two, average_metrics=[("o", "if"), ("o", "ip")])["averaging"]
    people = [1 if winner == "A" else -1 for winner in winners]
    means = [(a + b) / 2 - (c + d) / 2 for (a, b), (c, d) in zip(first, second, strict=True)]
    roots = [(a * b) ** 0.5 - (c * d) ** 0.5 for (a, b), (c, d) in zip(first, second, strict=True)]
    assert value(table, "all", "arithmetic") == pytest.approx(stats.pearsonr(means, people).statistic)
    assert value(table, "all", "geometric") == pytest.approx(stats.pearsonr(roots, people).statistic)
    assert value(table, "all", "arithmetic - geometric") < 0


def test_a_majority_and_a_mean_where_one_number_an_item_is_wanted():
    scored = results("one", rows(1.0, 0.0))
    votes = {"0": ["yes", "yes", "no"], "1": ["yes", "no"]}
    labels = [
        make_label(answer, name, editor="one", by=f"{n}")
        for name, answers in votes.items()
        for n, answer in enumerate(answers)
    ]
    table = tables_of(labels, scored, pool="item")["agreement-yes-no-following"]
    assert (table.rows["all"]["accuracy"].count, table.rows["all"]["accuracy"].num_missing) == (1, 1)
    assert tables_of(labels, scored)["agreement-yes-no-following"].rows["all"]["accuracy"].count == 5
    three = tables_of(labels, scored, min_raters=3)["agreement-yes-no-following"]
    assert three.rows["all"]["accuracy"].count == 3
    assert any("1 items with fewer than 3" in note for note in three.notes)


def test_practice_and_second_looks_are_in_no_statistic():
    scored = results("one", rows(1.0, 1.0))
    labels = [make_label("yes", "0", editor="one"), make_label("no", "0", editor="one", phase="recheck")]
    labels += [make_label("no", "1", editor="one", phase="trial"), make_label("no", "1", editor="one", phase="answer")]
    assert tables_of(labels, scored)["agreement-yes-no-following"].rows["all"]["accuracy"].count == 1


def test_scores_without_a_value_are_left_out_and_counted():
    scored = results("one", rows("no box", 1.0))
    labels = [make_label("yes", "0", editor="one"), make_label("yes", "1", editor="one")]
    figure = tables_of(labels, scored)["agreement-yes-no-following"].rows["all"]["accuracy"]
    assert (figure.value, figure.count, figure.num_missing) == (1.0, 1, 1)


def test_boxes_of_many_people_are_not_all_compared():
    drawn = ((0, 0, 10, 10),) * 100
    labels = [make_label(drawn, "a", "boxes", by=f"person {number}") for number in range(100)]
    with pytest.raises(InputError, match="100 annotators drew 10,000 boxes"):
        tables_of(labels, results("one", rows(1.0)))


def test_boxes_of_two_people():
    labels = [make_label(((0, 0, 10, 10),), "a", "boxes", by=by) for by in ("ann", "bob")]
    labels += [
        make_label(((0, 0, 10, 10),), "b", "boxes", by="ann"),
        make_label(((0, 5, 10, 10), (20, 20, 30, 30)), "b", "boxes", by="bob"),
    ]
    table = tables_of(labels, results("one", rows(1.0)))["annotators-boxes-following"]
    assert value(table, "all", "IoU") == pytest.approx((1 + 0.5 / 2) / 2)
    assert value(table, "all", "match") == 0.5


def test_labels_about_nothing_there_is_are_said():
    scored = results("one", rows(1.0))
    with pytest.raises(InputError, match="no row of the results"):
        tables_of([make_label("yes", "elsewhere", editor="one")], scored)
    with pytest.raises(InputError, match="main phase"):
        tables_of([make_label("yes", "0", phase="trial")], scored)
    with pytest.raises(InputError, match="'other' to compare following with"):
        tables_of([make_label("yes", "0")], scored, metrics={"following": LabelMetric(("other",))})


def test_every_statistic_is_explained():
    one, two, three = (results(name, rows(0.9, 0.1, o=0.5)) for name in ("one", "two", "three"))
    pairs = [((a, "0"), (b, "0")) for a, b in (("one", "two"), ("two", "three"), ("one", "three"))]
    labels = [
        make_label("A", pair, "pair", dimension=dimension) for pair in pairs for dimension in ("following", "overall")
    ]
    labels += [make_label("yes", "0", editor="one"), make_label(4, "0", "four-level", editor="one")]
    labels += [make_label("accept", "0", "reference", editor="one"), make_label((), "0", "boxes", editor="one")]
    columns = {c for t in tables_of(labels, one, two, three, average_metrics=[("o",)]).values() for c in t.columns}
    assert columns - set(STATISTIC_DESCRIPTIONS) == {"following"}  # the metric itself


# -- the command -------------------------------------------------------------------------------------------------------


def test_agree_prints_each_statistic_with_n_and_interval(editcritic, tmp_path):
    folder = write(tmp_path / "results", results("one", rows(1.0, 0.0, 1.0, 1.0, 0.0, 0.0)))
    labels = labels_file(tmp_path / "l.jsonl", [make_label("yes" if n % 2 else "no", f"{n}") for n in range(6)])
    ran = editcritic("judge", "agreement", folder, "--labels", labels, "-o", tmp_path / "out")
    assert ran.exit_code == 0, ran.stderr
    assert "Cohen's kappa" in ran.stdout
    assert "bootstrap" in ran.stdout
    assert (tmp_path / "out" / "agreement-yes-no-following.csv").read_text().startswith("row,column,value,low,high")
    ran = editcritic("judge", "agreement", folder, "--labels", labels, "--json")
    (first, *_) = json.loads(ran.stdout)["tables"]
    accuracy = first["rows"]["all"]["accuracy"]
    assert accuracy["count"] == 6
    assert accuracy["low"] <= accuracy["value"] <= accuracy["high"]


def test_a_void_dimension_is_in_no_table_of_the_command(editcritic, tmp_path):
    folder = write(tmp_path / "results", results("one", rows(1.0, 0.0, 1.0, 0.0)))
    labels = labels_file(tmp_path / "l.jsonl", [make_label("yes", f"{n}", by=by) for n in range(4) for by in "ab"])
    gold = labels_file(tmp_path / "gold.jsonl", [make_label("no", "0", by="us")])
    assert editcritic("judge", "agreement", folder, "--labels", labels, "--gold-labels", gold).exit_code == 2
    labels_file(
        tmp_path / "l.jsonl", [make_label("yes" if by == "a" else "no", f"{n}", by=by) for n in range(4) for by in "ab"]
    )
    ran = editcritic("judge", "agreement", folder, "--labels", labels, "--gold-labels", gold, "--json")
    document = json.loads(ran.stdout)
    assert [check["is_void"] for check in document["checks"]] == [True, False]
    assert document["tables"][0]["rows"]["all"]["accuracy"]["count"] == 4  # those of b alone
    assert "following (yes-no), a: 1 of 1 differ from the known answer" in ran.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give either --labels"),
        (["--labels", "{labels}", "--pool", "both"], "--pool is each or item"),
        (["--labels", "{labels}", "--metric", "following"], "DIMENSION=VALUE"),
        (["--labels", "{labels}", "--range", "following=1"], "LOW,HIGH"),
        (["--labels", "{labels}", "--range", "following=1,0"], "low < high"),
        (["--labels", "{labels}", "--threshold", "following=half"], "expected a number"),
        (["--labels", "{labels}", "--average-metric", "nothing"], "no row has a score 'nothing'"),
    ],
)
def test_what_a_user_gets_wrong_is_said(editcritic, tmp_path, options, message):
    one, two = (write(tmp_path / name, results(name, rows(1.0))) for name in ("one", "two"))
    labels = labels_file(
        tmp_path / "l.jsonl", [make_label("A", (("one", "0"), ("two", "0")), "pair", dimension="overall")]
    )
    arguments = [option.format(labels=labels) for option in options]
    ran = editcritic("judge", "agreement", one, two, *arguments)
    assert ran.exit_code == 2
    assert message in ran.stderr.replace("\n", " ")
