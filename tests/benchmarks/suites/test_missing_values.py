"""Missing values in tables: what counts as the lowest, what is left out, what is counted, and what the bounds are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.benchmarks.report.comparison import compare_results
from editcritic.benchmarks.suites.bootstrap import Statistic, bootstrap_weights
from editcritic.benchmarks.suites.edival.tables import tables_of
from editcritic.benchmarks.suites.i2ibench.suite import i2ibench_tables
from editcritic.benchmarks.suites.leaderboards import EditorComparison
from editcritic.benchmarks.suites.missing_values import missing_notes, suite_tables
from editcritic.benchmarks.suites.results import RANGES_ENTRY, ResultRow, Results
from editcritic.benchmarks.suites.tables import ComputedTable, Table, TableCell
from editcritic.reward import Score

from .tiny_suite import Toy

RANGES = {RANGES_ENTRY: {"following": [0.0, 1.0], "guards": [0.0, 1.0], "if": [0.0, 1.0], "cc": [0.0, 1.0]}}
DARK = Score.abstained("too dark to tell")
GONE = Score.abstained("nothing in the edited picture is the cup", cause="edit")
DOWN = Score.failed("no answer within 600 s", cause="infrastructure")
NOTHING = Score.not_applicable("no object is listed as unchanged")
HEADLINE = "guards, turn 2"


def toy_results(suite: Toy, editor: str, scores: Sequence[Score]) -> Results:
    """A score for each case, the same for both turns and metrics."""
    rows = [
        ResultRow(item.id, item.case, item.labels, dict.fromkeys(suite.metrics(), scores[int(item.case)]))
        for item in suite.items
    ]
    provenance = {"suite": "toy", "data_digest": suite.digest, "protocol": None, **RANGES}
    return Results(editor, rows, provenance)


def valued(*values: float) -> list[Score]:
    return [Score.of(value) for value in values]


def cell_of(results: Results, suite: Toy) -> TableCell:
    board = ComputedTable.compute(suite_tables(suite, results)[0], None)
    return board.cells["turn 1"]["guards"]


def without_outputs(results: Results, cases: set[str], reason: str = "the editor refused") -> Results:
    rows = [replace(row, scores={}, missing_reason=reason) if row.case in cases else row for row in results.rows]
    return replace(results, rows=rows)


# -- a cell -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unknown", "value", "num_missing", "bounds"),
    [
        ([DARK, DOWN], 70.0, 2, (35.0, 85.0)),
        ([GONE], 1.4 / 3 * 100, 0, (None, None)),
        ([DARK, NOTHING], 70.0, 2, (1.4 / 3 * 100, 2.4 / 3 * 100)),
    ],
    ids=["missing: in the bounds", "undecidable because of the edit: the lowest", "not applicable: left out"],
)
def test_what_has_no_value_counts_by_its_reason(unknown, value, num_missing, bounds):
    scores = [*valued(0.5, 0.9), *unknown]
    suite = Toy(count=len(scores))
    cell = cell_of(toy_results(suite, "a", scores), suite)
    assert cell.value == pytest.approx(value)
    assert cell.num_missing == num_missing
    assert (cell.lowest, cell.highest) == (pytest.approx(bounds) if None not in bounds else bounds)


def test_an_item_without_an_output_is_in_the_bounds():
    suite = Toy(count=3)
    results = toy_results(suite, "a", valued(0.5, 0.9, 0.7))
    (table,) = suite_tables(suite, results)
    assert not table.notes
    assert table.rows["turn 1"]["guards"].lowest is None  # without missing values there are no bounds
    for cases, reasons, bounds, text in (
        ({"1"}, ("no picture",), (40.0, 220 / 3), "2 of 6 items were not scored: no picture"),
        ({"1", "2"}, ("no 1.png", "no 2.png"), (50 / 3, 250 / 3), "4 of 6 items were not scored, e.g. no 1.png"),
    ):
        left = results
        for case, reason in zip(sorted(cases), reasons, strict=True):
            left = without_outputs(left, {case}, reason)
        cell = cell_of(left, suite)
        assert (cell.lowest, cell.highest) == pytest.approx(bounds)
        assert text in missing_notes(left)
    results = replace(toy_results(suite, "a", [*valued(2.0, 6.0), DARK]), provenance={"suite": "toy"})
    cell = cell_of(results, suite)  # without a range, the bounds are the lowest and the highest value there is
    assert (cell.lowest, cell.highest) == pytest.approx((1000 / 3, 1400 / 3))


def test_a_table_says_how_many_values_are_missing_why_and_what_they_may_change():
    suite = Toy(count=4)
    (table,) = suite_tables(suite, toy_results(suite, "a", [*valued(0.5), DARK, DOWN, GONE]))
    assert "following: 6 of 8 without a value (2 abstained, 2 failed, 2 undecidable because of the edit): " in (
        " ".join(table.notes)
    )
    computed = ComputedTable.compute(table, None)
    assert "25.00, 2 missing, between 12.50 and 62.50" in computed.markdown()
    assert computed.to_json()["rows"]["turn 1"]["guards"]["lowest"] == 12.5
    assert "value,low,high,count,num_missing,lowest,highest" in computed.csv()


# -- editors ----------------------------------------------------------------------------------------------------------


def compared(*results: Results, suite: Toy) -> Any:
    return EditorComparison.of(suite, results, count=200)


def places(comparison: EditorComparison, column: str = HEADLINE) -> dict[str, Any]:
    return {editor: row[column].value for editor, row in comparison.ranks.cells.items()}


def test_abstaining_does_not_move_an_editor_to_the_first_place() -> None:
    suite = Toy(count=20)
    honest = toy_results(suite, "honest", valued(*[1.0] * 14, *[0.0] * 6))
    spoiled = toy_results(suite, "spoiled", [*valued(*[1.0] * 12), *[DARK] * 8])
    comparison = compared(honest, spoiled, suite=suite)
    assert comparison.leaderboard.rows["spoiled"][HEADLINE].value == 1.0
    assert places(comparison) == {"honest": 1.0, "spoiled": 2.0}
    assert comparison.first_place_shares.cells["honest"][HEADLINE].value > 80
    assert not any(difference.is_significant for difference in comparison.differences)
    dark = toy_results(suite, "dark", [DARK] * 20)
    assert places(compared(dark, toy_results(suite, "poor", valued(*[0.1] * 20)), suite=suite))["dark"] == 2.0


def test_a_difference_that_holds_for_the_bounds_is_beyond_chance() -> None:
    suite = Toy(count=20)
    good = toy_results(suite, "good", valued(*[0.9, 1.0] * 10))
    bad = toy_results(suite, "bad", [*valued(*[0.1, 0.0] * 9), DARK, DOWN])
    difference = compared(good, bad, suite=suite).differences[0]
    assert difference.is_significant
    assert difference.simultaneous_low < 85 < difference.value
    figure: Any = suite_tables(suite, bad)[0].rows["turn 1"]["guards"]
    weights = bootstrap_weights(20, 200)
    assert (figure.lowest.evaluate(weights) <= figure.highest.evaluate(weights)).all()


QUALITY = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(QUALITY, min_size=6, max_size=6), min_size=2, max_size=4),
    st.sets(st.integers(0, 5), min_size=1),
    st.sampled_from([DARK, GONE, Score.failed("the judge refused"), DOWN]),
)
def test_abstaining_never_raises_a_place_or_a_lower_bound(
    editors: list[list[float]], spoiled: set[int], unknown: Score
) -> None:
    suite = Toy(count=6)
    rows = [valued(*values) for values in editors]
    before = compared(*(toy_results(suite, f"e{n}", row) for n, row in enumerate(rows)), suite=suite)
    rows[0] = [unknown if case in spoiled else score for case, score in enumerate(rows[0])]
    after = compared(*(toy_results(suite, f"e{n}", row) for n, row in enumerate(rows)), suite=suite)
    for column in before.leaderboard.columns:
        assert places(after, column)["e0"] >= places(before, column)["e0"]
        lowest = after.leaderboard.rows["e0"][column]
        bound = (lowest.lowest or lowest).value
        assert bound <= before.leaderboard.rows["e0"][column].value + 1e-9


# -- EdiVal -----------------------------------------------------------------------------------------------------------


class Chains(Toy):
    """EdiVal's tables of chains of two turns."""

    def tables(self, results: Results) -> list[Table]:
        return tables_of("multipass", "drop", results)


def chain_results(suite: Chains, editor: str, scores: Mapping[str, Sequence[Score]]) -> Results:
    """scores: item -> of instruction following and of both halves of consistency."""
    rows = []
    for item in suite.items:
        following, half = scores[item.id]
        parts = {"objects": half, "background": half}
        consistency = replace(half, parts=parts) if half.value is None else Score.of(half.value, parts=parts)
        labels = {**item.labels, "background": "kept"}
        rows.append(ResultRow(item.id, item.case, labels, {"if": following, "cc": consistency}))
    return Results(editor, rows, {"suite": "toy", "data_digest": suite.digest, "protocol": None, **RANGES})


def test_a_turn_that_was_not_followed_decides_its_chain_whatever_the_other_is():
    suite = Chains(count=2)
    followed = {item.id: (Score.of(1.0), Score.of(0.9)) for item in suite.items}
    scores = followed | {"0/1": (Score.of(0.0), Score.of(0.9)), "0/2": (DARK, Score.of(0.9))}
    board = ComputedTable.compute(suite_tables(suite, chain_results(suite, "a", scores))[0], None).cells["all"]
    assert (board["IF T2"].value, board["IF T2"].num_missing) == (50.0, 0)


def test_spoiled_failures_do_not_raise_edival_o() -> None:
    suite = Chains(count=40)
    failing = [item.id for number, item in enumerate(suite.items) if number % 3 == 0]
    honest = {item.id: (Score.of(float(item.id not in failing)), Score.of(0.9)) for item in suite.items}
    spoiled = honest | dict.fromkeys(failing[::2], (DARK, DARK))
    rival = {item.id: (Score.of(float(number % 4 != 0)), Score.of(0.9)) for number, item in enumerate(suite.items)}
    results = [chain_results(suite, "rival", rival), chain_results(suite, "editor", honest)]
    before = compared(*results, suite=suite)
    after = compared(results[0], chain_results(suite, "editor", spoiled), suite=suite)
    column = "O T2"
    assert places(before, column) == places(after, column) == {"rival": 1.0, "editor": 2.0}
    value = before.leaderboard.rows["editor"][column].value
    bounded = after.leaderboard.rows["editor"][column]
    assert bounded.lowest.value <= value < bounded.highest.value
    assert not [one for one in after.differences if one.is_significant and one.column == column]


def test_the_lowest_of_a_part_is_not_above_what_a_part_has():
    suite = Chains(count=12)
    half = {"bad": Score.of(-0.4), "gone": GONE, "dark": DARK}
    following = {item.id: (Score.of(1.0), Score.of(0.8)) for item in suite.items}
    results = []
    for name, objects in half.items():
        plain, cc = chain_results(suite, name, following), {"objects": objects, "background": Score.of(0.8)}
        rows = [replace(row, scores={**row.scores, "cc": Score.of(0.5, parts=cc)}) for row in plain.rows]
        results.append(replace(plain, rows=rows))
    assert places(compared(*results, suite=suite), "CC T1") == {"bad": 1.0, "gone": 1.0, "dark": 1.0}


def test_statistics_that_do_not_grow_with_their_values_have_no_bounds():
    suite = Toy(count=2)

    class Difference(Toy):
        def tables(self, results: Results) -> list[Table]:
            one, two = (results.mean(results.filter(turn=turn), self._of("guards")) for turn in (1, 2))
            row = {"drop": Statistic.combine(lambda a, b: b - a, one, two, monotone=False), "mean": one}
            return [Table("leaderboard", "Toy", list(row), {"all": row})]

    (table,) = suite_tables(Difference(count=2), toy_results(suite, "a", [Score.of(0.5), DARK]))
    assert table.rows["all"]["drop"].lowest is None
    assert table.rows["all"]["mean"].lowest is not None


# -- items without an output ------------------------------------------------------------------------------------------


def test_an_editor_that_makes_nothing_of_what_it_cannot_is_not_better_beyond_chance():
    suite = Toy(count=40)
    honest = toy_results(suite, "honest", valued(*[0.8] * 20, *[0.7] * 20))
    refuser = toy_results(suite, "refuser", valued(*[0.9] * 40))
    refuser = without_outputs(refuser, {str(case) for case in range(20, 40)})
    comparison = compared(honest, refuser, suite=suite)
    assert places(comparison) == {"honest": 1.0, "refuser": 2.0}
    assert {difference.cases for difference in comparison.differences} == {20}
    assert not any(difference.is_significant for difference in comparison.differences)
    assert not compare_results(honest, refuser).metrics[0].is_significant


class Dimensions(Toy):
    """I2I-Bench's tables of two dimensions of one source, half of the items each."""

    dimensions = ("instruction-following", "world-knowledge")

    def tables(self, results: Results) -> list[Table]:
        return i2ibench_tables(results, lambda row, name: name == self.dimensions[int(row.case) % 2])


def test_a_dimension_without_any_output_is_not_left_out():
    suite = Dimensions(count=24)
    labels, rows = {"half": "single", "category": "local-editing"}, []
    for item in suite.items:
        odd = int(item.case) % 2
        rows.append(ResultRow(item.id, item.case, labels, {suite.dimensions[odd]: Score.of((0.8, 0.3)[odd])}))
    ranges = {RANGES_ENTRY: dict.fromkeys(suite.dimensions, (0.0, 1.0))}
    provenance = {"suite": "toy", "data_digest": suite.digest, "protocol": None, **ranges}
    honest = Results("honest", rows, provenance)
    skips = without_outputs(replace(honest, editor="skips"), {str(case) for case in range(1, 24, 2)})
    comparison = compared(skips, honest, suite=suite)
    assert places(comparison, "Single") == {"honest": 1.0, "skips": 2.0}
    board = ComputedTable.compute(comparison.leaderboard, None)
    assert board.cells["skips"]["Single"].lowest == pytest.approx(0.4)
    nothing = without_outputs(replace(honest, editor="nothing"), set(suite.cases))
    for order in ([nothing, honest], [honest, nothing], [nothing]):
        assert compared(*order, suite=suite).computed


def test_a_verdict_rests_on_the_cases_of_its_column():
    class Types(Toy):
        def tables(self, results: Results) -> list[Table]:
            figures = {
                name: results.mean([row for row in results.rows if (int(row.case) < 3) == rare], self._of("guards"))
                for name, rare in (("rare", True), ("common", False))
            }
            mean = Statistic.combine(lambda a, b: (a + b) / 2, *figures.values())
            return [Table("leaderboard", "Toy", ["rare", "common", "mean"], {"all": {**figures, "mean": mean}})]

    suite = Types(count=40)
    one, other = toy_results(suite, "a", valued(*[1.0] * 40)), toy_results(suite, "b", valued(*[0.0] * 40))
    by_column = {difference.column: difference for difference in compared(one, other, suite=suite).differences}
    assert [by_column[name].is_significant for name in ("rare", "common", "mean")] == [False, True, False]
