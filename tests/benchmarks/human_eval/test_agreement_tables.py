"""Tables of agreement, worked out by hand; and the command."""

import json
from typing import Any

import pytest
from scipy import stats

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.agreement_tables import STATISTIC_DESCRIPTIONS, agreement_tables
from editcritic.benchmarks.human_eval.label_matching import LabelMetric, ScoreLookup
from editcritic.benchmarks.run.run_settings import format_toml
from editcritic.benchmarks.suites.human_labels import LabelKind
from editcritic.benchmarks.suites.tables import Table

from .label_files import labels_file, make_label, make_labels, results, row, write

TYPES = ("color_alter", "color_alter", "count_change", "count_change")
YES_NO = "agreement-yes-no-following"
DRAWN = ((0, 0, 10, 10),)


def rows(*values, **more):
    return [
        row(f"{number}", case=f"{number // 2}", labels={"type": TYPES[number % 4]}, following=value, **more)
        for number, value in enumerate(values)
    ]


def tables_of(labels, *all_results, **options) -> dict[str, Table]:
    return {table.name: table for table in agreement_tables(labels, ScoreLookup(all_results), **options)}


def values(table, row_name="all"):
    return {column: figure.value for column, figure in table.rows[row_name].items()}


def test_yes_and_no_by_type():
    labels = make_labels(["yes", "no", "no", "yes"], editor="one")
    table = tables_of(labels, results("one", rows(1.0, 0.0, 1.0, 1.0)))[YES_NO]
    assert list(table.rows) == ["all", "type color_alter", "type count_change"]
    every = values(table)
    assert (every["accuracy"], every["F1"]) == (0.75, pytest.approx(2 * 2 / (3 + 2)))
    assert every["kappa"] == pytest.approx((0.75 - (3 * 2 + 1 * 2) / 16) / (1 - 8 / 16))
    assert every["PLCC"] == pytest.approx(stats.pearsonr([1, 0, 1, 1], [1, 0, 0, 1]).statistic)
    assert [values(table, f"type {name}")["accuracy"] for name in ("color_alter", "count_change")] == [1.0, 0.5]
    assert table.rows["all"]["accuracy"].count == 4


def test_four_levels_as_dlebench_has_them():
    labels = make_labels([4, 4, 2, 1], "four-level", editor="one")
    table = tables_of(labels, results("one", rows(1.0, 2 / 3, 1 / 3, 0.0)))["agreement-four-level-following"]
    sides = [1, 1, 1 / 3, 0], [1, 2 / 3, 1 / 3, 0]
    srcc, plcc = stats.spearmanr(*sides).statistic, stats.pearsonr(*sides).statistic
    expected = {"MAE": 1 / 12, "SRCC": srcc, "PLCC": plcc, "accuracy": 0.75}
    assert {name: values(table)[name] for name in expected} == pytest.approx(expected)


def test_stars_have_a_mean_by_editor_without_a_metric():
    """By hand: (1 + 3 + 5) / 3 = 3 stars and (4 + 5) / 2 = 4.5; stars 1 and 3 are nearest to 0.1 and 0.6."""
    every = [results(name, rows(0.1, 0.6, 0.9)) for name in ("one", "two")]
    labels = make_labels([1, 3, 5], "stars", editor="one", dimension="realism")
    labels += make_labels([4, 5], "stars", editor="two", dimension="realism")
    table = tables_of(labels, *every)["stars-realism"]
    assert [values(table, editor)["stars"] for editor in ("one", "two")] == pytest.approx([3.0, 4.5])
    metric = {"realism": LabelMetric(("following",), 0, 1)}
    assert values(tables_of(labels[:2], *every, metrics=metric)["agreement-stars-realism"])["accuracy"] == 1.0


def test_grades_of_another_range_are_brought_to_shares_and_refused_without_it():
    scored = results("one", rows(10.0, 5.0, 0.0, 10.0))
    labels = make_labels([4, 3, 1, 4], "four-level", editor="one")
    with pytest.raises(InputError, match="ranges = "):
        tables_of(labels, scored)
    ranged = tables_of(labels, scored, metrics={"following": LabelMetric(("following",), 0, 10)})
    assert values(ranged["agreement-four-level-following"])["MAE"] == pytest.approx((2 / 3 - 0.5) / 4)


def test_annotators_with_each_other_and_with_the_metric():
    labels = make_labels(["yes", "no", "yes"], editor="one")
    labels += make_labels(["yes", "yes", "yes"], editor="one", by="bob")
    table = tables_of(labels, results("one", rows(1.0, 0.0, 1.0)))["annotators-yes-no-following"]
    every = values(table)
    assert (every["same"], every["yes"]) == pytest.approx((2 / 3, 5 / 6))
    # Coincidences: 5 of yes and 1 of no; two of six values lie in a pair that differs.
    assert every["alpha nominal"] == pytest.approx(1 - 2 * 5 / (2 * 5 * 1))
    assert table.rows["all"]["alpha nominal, metric too"].count == 9
    assert "alpha interval" not in table.columns  # of two answers all levels are the same


def test_pairs_against_differences_of_scores():
    """Whichever of the two was called A."""
    one, two = results("one", rows(0.9, 0.5, 0.2, 0.5)), results("two", rows(0.1, 0.4, 0.6, 0.5))
    pairs = [(("one", f"{n}"), ("two", f"{n}")) for n in range(4)]
    answers = zip("AAB", (pairs[0], pairs[1][::-1], pairs[2]), strict=True)
    labels = [make_label(answer, pair, "pair") for answer, pair in answers] + [make_label("tie", pairs[3], "pair")]
    tables = tables_of(labels, one, two)
    every = values(tables["agreement-pair-following"])
    assert every["PLCC"] == pytest.approx(stats.pearsonr([0.8, 0.1, -0.4, 0.0], [1, -1, -1, 0]).statistic)
    assert (every["accuracy"], every["decided"]) == (0.75, pytest.approx(2 / 3))
    wide = tables_of(labels, one, two, metrics={"following": LabelMetric(("following",), tie_width=0.2)})
    assert values(wide["agreement-pair-following"])["accuracy"] == 0.75  # 0.1 is a tie now, and wrong as before
    wins = {editor: values(tables["wins-following"], editor) for editor in ("one", "two")}
    assert wins["one"] == pytest.approx({"win ratio": 1.5 / 4, "following": (0.9 + 0.5 + 0.2 + 0.5) / 4})
    assert wins["two"]["win ratio"] == pytest.approx(2.5 / 4)


def test_win_ratios_go_with_scores_over_editors():
    means = {"one": 0.9, "two": 0.5, "three": 0.1}
    all_results = [results(name, [row(item, following=mean) for item in "ab"]) for name, mean in means.items()]
    duels = [("one", "two"), ("one", "three"), ("two", "three")]
    labels = [make_label("A", ((a, item), (b, item)), "pair") for a, b in duels for item in "ab"]
    tables = tables_of(labels, *all_results)
    assert list(tables["wins-pearson"].rows) == ["following"]
    assert values(tables["wins-pearson"], "following")["Pearson"] == pytest.approx(1.0)
    assert [values(tables["wins-following"], name)["win ratio"] for name in means] == [1.0, 0.5, 0.0]


def test_the_overall_preference_picks_how_to_average():
    """People who mind the worst part: the geometric mean goes with them, the arithmetic one does not."""
    first, second = [(9, 1), (8, 2), (6, 6), (7, 3), (5, 5)], [(4, 4), (5, 5), (10, 1), (4, 4), (9, 1)]
    one, two = (
        results(name, [row(f"{n}", o={"if": a, "ip": b}) for n, (a, b) in enumerate(parts)])
        for name, parts in (("one", first), ("two", second))
    )
    labels = [
        make_label(winner, (("one", f"{n}"), ("two", f"{n}")), "pair", dimension="overall")
        for n, winner in enumerate("BBABA")
    ]
    table = tables_of(labels, one, two, average_metrics=[("o", "if"), ("o", "ip")])["averaging"]
    people = [-1, -1, 1, -1, 1]
    means = [(a + b) / 2 - (c + d) / 2 for (a, b), (c, d) in zip(first, second, strict=True)]
    roots = [(a * b) ** 0.5 - (c * d) ** 0.5 for (a, b), (c, d) in zip(first, second, strict=True)]
    assert values(table)["arithmetic"] == pytest.approx(stats.pearsonr(means, people).statistic)
    assert values(table)["geometric"] == pytest.approx(stats.pearsonr(roots, people).statistic)
    assert values(table)["arithmetic - geometric"] < 0


def test_a_majority_and_a_mean_where_one_number_an_item_is_wanted():
    scored = results("one", rows(1.0, 0.0))
    labels = [
        make_label(answer, name, editor="one", by=f"{n}")
        for name, answers in {"0": ["yes", "yes", "no"], "1": ["yes", "no"]}.items()
        for n, answer in enumerate(answers)
    ]
    accuracy = tables_of(labels, scored, pool="item")[YES_NO].rows["all"]["accuracy"]
    assert (accuracy.count, accuracy.num_missing) == (1, 1)
    assert tables_of(labels, scored)[YES_NO].rows["all"]["accuracy"].count == 5
    three = tables_of(labels, scored, min_raters=3)[YES_NO]
    assert three.rows["all"]["accuracy"].count == 3
    assert any("1 items with fewer than 3" in note for note in three.notes)


def test_practice_second_looks_and_scores_without_a_value_are_in_no_statistic():
    labels = [make_label("yes", "0", editor="one"), make_label("no", "0", editor="one", phase="recheck")]
    labels += [make_label("no", "1", editor="one", phase=phase) for phase in ("trial", "answer")]
    assert tables_of(labels, results("one", rows(1.0, 1.0)))[YES_NO].rows["all"]["accuracy"].count == 1
    labels = make_labels(["yes", "yes"], editor="one")
    figure = tables_of(labels, results("one", rows("no box", 1.0)))[YES_NO].rows["all"]["accuracy"]
    assert (figure.value, figure.count, figure.num_missing) == (1.0, 1, 1)


def test_boxes_of_two_people_and_not_of_a_hundred():
    labels = [make_label(DRAWN, "a", "boxes", by=by) for by in ("ann", "bob")]
    labels += [make_label(DRAWN, "b", "boxes", by="ann")]
    labels += [make_label(((0, 5, 10, 10), (20, 20, 30, 30)), "b", "boxes", by="bob")]
    table = tables_of(labels, results("one", rows(1.0)))["annotators-boxes-following"]
    assert values(table) == {"IoU": pytest.approx((1 + 0.5 / 2) / 2), "match": 0.5}
    many = [make_label(DRAWN * 100, "a", "boxes", by=f"person {number}") for number in range(100)]
    with pytest.raises(InputError, match="100 annotators drew 10,000 boxes"):
        tables_of(many, results("one", rows(1.0)))


@pytest.mark.parametrize(
    ("label", "metrics", "says"),
    [
        (make_label("yes", "elsewhere", editor="one"), {}, "no row of the results"),
        (make_label("yes", "0", phase="trial"), {}, "main phase"),
        (make_label("yes", "0"), {"following": LabelMetric(("other",))}, "'other' to compare following with"),
    ],
)
def test_labels_about_nothing_there_is_are_said(label, metrics, says):
    with pytest.raises(InputError, match=says):
        tables_of([label], results("one", rows(1.0)), metrics=metrics)


def test_every_statistic_is_explained():
    all_results = [results(name, rows(0.9, 0.1, o=0.5)) for name in ("one", "two", "three")]
    pairs = [((a, "0"), (b, "0")) for a, b in (("one", "two"), ("two", "three"), ("one", "three"))]
    labels = [make_label("A", pair, "pair", dimension=name) for pair in pairs for name in ("following", "overall")]
    kinds: dict[LabelKind, object] = {"yes-no": "yes", "four-level": 4, "reference": "accept", "boxes": ()}
    labels += [make_label(answer, "0", kind, editor="one") for kind, answer in kinds.items()]
    columns = {c for t in tables_of(labels, *all_results, average_metrics=[("o",)]).values() for c in t.columns}
    assert columns - set(STATISTIC_DESCRIPTIONS) == {"following"}  # the metric itself


def test_agree_prints_each_statistic_with_n_and_interval(editcritic, tmp_path):
    folder = write(tmp_path / "results", results("one", rows(*[1.0, 0.0, 1.0, 1.0, 0.0, 0.0] * 4)))
    labels = labels_file(tmp_path / "l.jsonl", make_labels(["no", "yes"] * 12))
    ran = editcritic("judge", "agreement", folder, "--labels", labels, "-o", tmp_path / "out", code=0)
    assert all(words in ran.stdout for words in ("Cohen's kappa", "bootstrap"))
    assert (tmp_path / "out" / f"{YES_NO}.csv").read_text().startswith("row,column,value,low,high")
    ran = editcritic("judge", "agreement", folder, "--labels", labels, "--json")
    accuracy = json.loads(ran.stdout)["tables"][0]["rows"]["all"]["accuracy"]
    assert accuracy["count"] == 24
    assert accuracy["low"] <= accuracy["value"] <= accuracy["high"]


def test_a_void_dimension_is_in_no_table_of_the_command(editcritic, tmp_path):
    folder = write(tmp_path / "results", results("one", rows(1.0, 0.0, 1.0, 0.0)))
    gold = labels_file(tmp_path / "gold.jsonl", [make_label("no", "0", by="us")])
    yes = ["yes"] * 4
    command = ("judge", "agreement", folder, "--labels", tmp_path / "l.jsonl", "--gold-labels", gold)
    labels_file(tmp_path / "l.jsonl", [*make_labels(yes, by="a"), *make_labels(yes, by="b")])
    assert editcritic(*command).exit_code == 2
    labels_file(tmp_path / "l.jsonl", [*make_labels(yes, by="a"), *make_labels(["no"] * 4, by="b")])
    ran = editcritic(*command, "--json")
    document = json.loads(ran.stdout)
    assert [check["is_void"] for check in document["checks"]] == [True, False]
    assert document["tables"][0]["rows"]["all"]["accuracy"]["count"] == 4  # those of b alone
    assert "following (yes-no), a: 1 of 1 differ from the known answer" in ran.stderr.replace("\n", " ")


def test_a_file_says_how_scores_are_compared_and_options_come_first(editcritic, tmp_path):
    """By hand: of 10, 4 and 2 of 10, the middle one is a yes above a threshold of 0.3, and a no at 0.5."""
    one = write(tmp_path / "one", results("one", rows(10.0, 4.0, 2.0, o=0.5)))
    two = write(tmp_path / "two", results("two", rows(9.0, 4.5, 8.0, o=0.5)))
    labels = make_labels(["yes", "yes", "no"], editor="one", by="a")
    labels += make_labels(["yes", "yes"], editor="one", by="b")
    pairs = [(("one", f"{number}"), ("two", f"{number}")) for number in range(3)]
    labels += [make_label("tie", pair, "pair", dimension="following") for pair in pairs]
    labels += [make_label(answer, pair, "pair", dimension="overall") for answer, pair in zip("ABB", pairs, strict=True)]
    config, path = tmp_path / "agreement.toml", labels_file(tmp_path / "l.jsonl", labels)
    command = ("judge", "agreement", one, two, "--labels", path, "--config", config, "--json")

    def tables(*options: str, **settings: Any) -> dict[str, dict[str, Any]]:
        of_overall = {"metrics": {"overall": "o", **settings.pop("metrics", {})}}
        config.write_text(format_toml({"ranges": {"following": [0, 10]}, **of_overall, **settings}))
        document = json.loads(editcritic(*command, *options, code=0).stdout)
        return {table["name"]: table["rows"]["all"] for table in document["tables"] if "all" in table["rows"]}

    def accuracy(*options: str, **settings: Any) -> tuple[float, int]:
        figure = tables(*options, **settings)[YES_NO]["accuracy"]
        return round(figure["value"], 6), figure["count"]

    assert accuracy() == (3 / 5, 5)
    assert accuracy(thresholds={"following": 0.3}) == (1.0, 5)
    assert accuracy(min_raters=2) == (2 / 4, 4)
    assert accuracy(min_raters=2, pool="item") == (1 / 2, 2)
    assert accuracy(metrics={"following": "o"}) == (1 / 5, 5)  # 0.5 of 10 is a no
    assert accuracy("--metric", "following=following", metrics={"following": "o"}) == (3 / 5, 5)
    pair = "agreement-pair-following"
    ties = [tables(tie_margins={"following": width})[pair]["accuracy"]["value"] for width in (0.0, 0.5, 1.0)]
    assert ties == pytest.approx([0, 1 / 3, 2 / 3])
    assert "averaging" not in tables()
    assert tables(average_metrics=["following", "o"])["averaging"]["arithmetic"]["count"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "give either --labels"),
        ("--labels {labels} --metric following", "--metric is DIMENSION=METRIC, got 'following'"),
        ("--labels {labels} --metric a=b --metric a=c", "names a twice"),
        ('pool = "both"', "agreement.toml: pool: input should be 'each' or 'item', got 'both'"),
        ("ranges = {following = [1]}", "agreement.toml: ranges.following.1: field required"),
        ("ranges = {following = [1, 0]}", "low < high"),
        ("thresholds = {following = 2}", "thresholds.following: input should be less than or equal to 1, got 2"),
        ("range = {}", "agreement.toml: unknown key range: the keys are max_in_flight"),
        ('average_metrics = ["nothing"]', "no row has a score 'nothing'"),
    ],
)
def test_what_a_user_gets_wrong_is_said(editcritic, tmp_path, options, message):
    config = tmp_path / "agreement.toml"
    if " = " in options:
        config.write_text(options)
        options = "--labels {labels} --config {config}"
    one, two = (write(tmp_path / name, results(name, rows(1.0))) for name in ("one", "two"))
    label = make_label("A", (("one", "0"), ("two", "0")), "pair", dimension="overall")
    labels = labels_file(tmp_path / "l.jsonl", [label])
    ran = editcritic("judge", "agreement", one, two, *options.format(labels=labels, config=config).split())
    assert (ran.exit_code, message in ran.stderr.replace("\n", " ")) == (2, True)
