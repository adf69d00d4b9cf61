"""Comparison of editors: comparable results, ranks, and differences adjusted for multiple comparisons."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.bootstrap import Statistic, bootstrap_weights, significance_tests, small_sample_factor
from editcritic.benchmarks.suites.leaderboards import EditorComparison, _first, format_tables
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.setting_differences import differing_provenance
from editcritic.benchmarks.suites.tables import ComputedTable, Table
from editcritic.reward import Score

from .tiny_suite import Toy

HEADLINE = "guards, turn 2"


class OneRow(Toy):
    """Its leaderboard has one row, and a table by type stands beside it; few guards are good."""

    ranking_column = ""

    def tables(self, results: Results) -> list[Table]:
        names = ["following", "guards"]

        def row(rows: Sequence[ResultRow]) -> dict[str, Statistic]:
            return {name: results.mean(rows, self._of(name)) for name in names}

        types = {kind: row(results.filter(type=kind)) for kind in ("color_alter", "count_change")}
        board = Table("leaderboard", "Toy", names, {"all": row(results.rows)}, lower_is_better=["guards"])
        by_type = Table("types", "By type", names, types, 100.0, "percent", notes=["of types"])
        return [replace(table, ranking_column=self.ranking_column) for table in (board, by_type)]


def scored(suite: Toy, editor: str, *values: float, missing: Sequence[str] = (), **provenance: object) -> Results:
    """A value a case, the same for both turns and metrics."""
    rows = []
    for item in suite.items:
        value = values[int(item.case) % len(values)]
        scores = {name: Score.of(value) for name in suite.metrics()} if item.id not in missing else {}
        missing_reason = "no picture" if item.id in missing else ""
        rows.append(ResultRow(item.id, item.case, item.labels, scores, missing_reason))
    return Results(editor, rows, {"suite": "toy", "data_digest": suite.digest, "protocol": None, **provenance})


def side(*results: Results, suite: Toy | None = None, count: int = 500) -> EditorComparison:
    return EditorComparison.of(suite or Toy(), results, count=count)


# -- what may stand together ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "value", "told"),
    [
        ("data_digest", "another", "data_digest is [0-9a-f]{64} and another"),
        ("protocol", "official", "protocol is not given and official"),
        ("suite", "other", "suite is toy and other"),
        ("suite_options", {"count": 9}, "count is not given and 9"),
    ],
)
def test_results_that_cannot_be_compared_are_refused_with_what_differs(entry, value, told):
    one = scored(Toy(), "a", 1.0)
    other = replace(one, editor="b", provenance={**one.provenance, entry: value})
    with pytest.raises(InputError, match=rf"a and b cannot be compared: {told}; .* lists all 1 settings"):
        side(one, other)
    with pytest.raises(InputError, match="no results"):
        side()
    nested, changed = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 4}}
    assert differing_provenance(nested, changed) == {"a.c": (2, 4), "d": (3, None)}


def test_other_experts_may_stand_together_and_are_named_and_so_are_editors_of_one_name():
    one, other = (scored(Toy(), name, 1.0, experts={"judge": {"id": f"{name}@1"}}) for name in "ab")
    assert any("experts.judge.id" in note for note in side(one, other).leaderboard.notes)
    assert side(one, one, one).editors == ("a", "a (2)", "a (3)")


# -- the leaderboard --------------------------------------------------------------------------------------------------


def test_a_table_of_several_rows_becomes_a_row_of_the_leaderboard():
    comparison = side(scored(Toy(), "a", 1.0), scored(Toy(), "b", 0.0, 1.0))
    board = ComputedTable.compute(comparison.leaderboard, None)
    assert list(board.table.columns) == ["following, turn 1", "following, turn 2", "guards, turn 1", HEADLINE]
    assert {editor: row[HEADLINE].value for editor, row in board.cells.items()} == {"a": 100.0, "b": 50.0}
    assert comparison.headline == HEADLINE


def test_a_table_of_one_row_keeps_its_columns_and_others_have_a_row_an_editor():
    comparison = side(scored(Toy(), "a", 1.0), scored(Toy(), "b", 0.0, 1.0), suite=OneRow())
    assert list(comparison.leaderboard.columns) == ["following", "guards"]
    types = comparison.other_tables[0]
    assert list(types.rows) == ["color_alter, a", "color_alter, b", "count_change, a", "count_change, b"]
    assert types.rows["count_change, b"]["following"].value == 1.0
    assert types.notes == ["of types"]
    said = OneRow()
    said.ranking_column = "following"
    alone = side(scored(Toy(), "a", 1.0), suite=said)
    assert alone.headline == "following"
    assert [one.table.name for one in alone.computed] == ["leaderboard", "types"]  # neither ranks nor differences
    assert "| a | 1.00 | 1.00 |" in format_tables(alone.computed, "markdown")
    assert "% types: By type\n\\begin{tabular}" in format_tables(alone.computed, "latex")


def test_intervals_are_those_of_the_editors_own_table():
    suite, weights = OneRow(count=30), bootstrap_weights(30, 500)
    results = scored(suite, "a", 0.0, 1.0, 0.5, 0.9, 0.2)
    alone = ComputedTable.compute(suite.tables(results)[0], weights).cells["all"]["following"]
    board = ComputedTable.compute(side(results, suite=suite).leaderboard, weights)
    assert board.cells["a"]["following"] == alone
    few = scored(suite, "b", 0.0, 1.0)  # an editor with fewer cases keeps its numbers, and it is said
    comparison = side(results, replace(few, rows=few.rows[:8]), suite=suite)
    assert comparison.leaderboard.rows["b"]["following"].value == 0.5
    assert "b: 4 of the 30 cases" in comparison.leaderboard.notes


# -- ranks ------------------------------------------------------------------------------------------------------------


def test_the_best_is_first_in_every_draw_and_less_may_be_better():
    comparison = side(scored(Toy(), "low", 0.1), scored(Toy(), "high", 0.9), suite=OneRow())
    first = comparison.first_place_shares.cells
    assert (first["high"]["following"].value, first["low"]["following"].value) == (100.0, 0.0)
    assert (first["high"]["guards"].value, first["low"]["guards"].value) == (0.0, 100.0)
    place = comparison.ranks.cells["low"]["following"]
    assert (place.value, place.low, place.high) == (2.0, 2.0, 2.0)


def test_draws_in_which_no_editor_has_a_value_are_not_counted():
    samples = np.array([[1.0, np.nan, 0.0, np.nan], [np.nan, np.nan, 1.0, np.nan]])
    cells = [_first(samples, samples, number) for number in (0, 1)]
    assert [(cell.value, cell.count) for cell in cells] == [(50.0, 2), (50.0, 2)]
    assert _first(samples, samples[:, 1:2], 0).value is None


def test_equals_share_the_first_place_and_do_not_differ():
    same, suite = scored(Toy(count=10), "a", 0.3, 0.7), Toy(count=10)
    comparison = side(same, replace(same, editor="b"), suite=suite)
    for name in "ab":
        assert comparison.first_place_shares.cells[name][HEADLINE].value == 50.0
        assert comparison.ranks.cells[name][HEADLINE].value == 1.0
    difference = comparison.differences[0]
    test = (difference.value, difference.simultaneous_low, difference.simultaneous_high, difference.adjusted_p)
    assert test == (0, 0, 0, 1)
    assert not difference.is_significant
    chance, suite = np.random.default_rng(0), OneRow(count=20)
    comparison = side(*(scored(suite, name, *chance.random(20)) for name in "abc"), suite=suite)
    shares = [comparison.first_place_shares.cells[name]["following"].value or 0 for name in "abc"]
    assert sum(shares) == pytest.approx(100)
    assert any((cell := comparison.ranks.cells[name]["following"]).low != cell.high for name in "abc")


# -- differences ------------------------------------------------------------------------------------------------------


def test_a_difference_that_is_the_same_everywhere_is_beyond_chance():
    suite = Toy(count=10)
    difference = side(scored(suite, "a", 0.6, 0.8), scored(suite, "b", 0.5, 0.7), suite=suite).differences[0]
    assert (difference.first, difference.second, difference.cases) == ("a", "b", 10)
    assert (difference.value, difference.low, difference.high) == pytest.approx((10, 10, 10))
    assert difference.is_significant
    assert difference.adjusted_p == pytest.approx(1 / 501)


def test_a_pair_is_compared_on_the_cases_of_which_both_have_all_pictures():
    suite = Toy()
    one = scored(suite, "a", 1.0, 1.0, 1.0, 0.0, missing=["3/2"])
    other = scored(suite, "b", 0.5, 0.5, 0.5, 1.0)
    by_column = {one.column: one for one in side(one, other).differences}
    assert {difference.cases for difference in by_column.values()} == {3}
    assert by_column["following, turn 1"].value == pytest.approx(50)
    notes = side(one, other).difference_tables[0].table.notes
    assert any("over the cases that both have (3)" in note for note in notes)
    apart = [scored(suite, "a", 1.0, missing=["0/1", "1/1"]), scored(suite, "b", 1.0, missing=["2/1", "3/1"])]
    assert side(*apart).differences == []  # without a common case


def test_intervals_for_all_pairs_are_wider_the_more_pairs_there_are() -> None:
    chance = np.random.default_rng(3)
    suite = OneRow(count=40)
    results = [scored(suite, name, *chance.random(40)) for name in "abcde"]
    two = side(*results[:2], suite=suite).differences[0]
    five = side(*results, suite=suite).differences[0]
    assert (two.value, two.low, two.high) == (five.value, five.low, five.high)
    assert all(each.simultaneous_high is not None and each.simultaneous_low is not None for each in (two, five))
    assert five.simultaneous_high - five.simultaneous_low > 1.2 * (two.simultaneous_high - two.simultaneous_low)  # type: ignore[operator]
    assert five.adjusted_p >= two.adjusted_p  # type: ignore[operator]


def test_of_equal_editors_few_families_have_a_difference_beyond_chance():
    chance, weights, together, alone = np.random.default_rng(11), bootstrap_weights(60, 300), 0, 0
    for _ in range(150):
        editors = [Statistic.ratio(values, np.ones(60)) for values in chance.random((5, 60))]
        pairs = [Statistic.combine(np.subtract, *pair) for pair in combinations(editors, 2)]
        tests = significance_tests(pairs, weights, [60] * len(pairs))
        together += any((one.simultaneous_low or 0) > 0 or (one.simultaneous_high or 0) < 0 for one in tests)
        alone += any((one.low or 0) > 0 or (one.high or 0) < 0 for one in tests)
    assert together / 150 < 0.12
    assert alone / 150 > 0.2
    figures = [Statistic.ratio(values, values) for values in (np.zeros(12), np.ones(12))]
    tests = significance_tests(figures, bootstrap_weights(12, 100), [12, 12])
    assert (tests[0].value, tests[0].p, tests[0].simultaneous_low) == (None, None, None)
    assert tests[1].value == 1.0


@pytest.mark.parametrize("clusters", [10, 12, 16])
def test_few_differences_of_equal_editors_on_few_pictures_are_beyond_chance(clusters):
    chance, weights, together, alone = np.random.default_rng(7), bootstrap_weights(clusters), 0, 0
    for _ in range(400):
        difference = Statistic.ratio(chance.normal(size=clusters), np.ones(clusters))
        (test,) = significance_tests([difference], weights, [clusters])
        together += not (test.simultaneous_low or 0) <= 0 <= (test.simultaneous_high or 0)
        alone += not (test.low or 0) <= 0 <= (test.high or 0)
    assert 0 < max(together, alone) / 400 < 0.085  # three standard errors above 0.05


@pytest.mark.parametrize("clusters", [2, 5, 9])
def test_below_ten_source_pictures_there_is_no_verdict(clusters):
    suite = Toy(count=clusters)
    difference = side(scored(suite, "a", 1.0), scored(suite, "b", 0.0), suite=suite).differences[0]
    assert difference.value == 100.0
    assert (difference.low, difference.p, difference.simultaneous_low, difference.adjusted_p) == (None,) * 4
    assert not difference.is_significant


@pytest.mark.parametrize("clusters", [10, 30, 300])
def test_the_small_sample_factor_is_that_of_students_t(clusters):
    scipy_stats = pytest.importorskip("scipy.stats")
    quantiles = scipy_stats.t.ppf(0.975, clusters - 1) / scipy_stats.norm.ppf(0.975)
    assert small_sample_factor(clusters) == pytest.approx(np.sqrt(clusters / (clusters - 1)) * quantiles, rel=1e-4)


# -- written ----------------------------------------------------------------------------------------------------------


def test_all_tables_are_written_as_one_csv_that_names_them():
    computed = side(scored(Toy(), "a", 1.0), scored(Toy(), "b", 0.5)).computed
    rows = list(csv.DictReader(io.StringIO(format_tables(computed, "csv"))))
    names = ["leaderboard", "ranks", "first", "differences", "differences-all", "p-values"]
    assert list(dict.fromkeys(row["table"] for row in rows)) == names
    difference = next(row for row in rows if row["table"] == "differences")
    assert (difference["row"], float(difference["value"])) == ("a − b", 50.0)
