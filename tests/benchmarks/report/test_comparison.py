"""Comparisons of two results."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.report.comparison import ResultsComparison, compare_results, mcnemar, render_comparison
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.reward import Score

from .synthetic_results import Drawn, scored


def results(editor: str, *scores: Score | None, **provenance: object) -> Results:
    """A case a score; None was not judged."""
    rows = [
        ResultRow(
            f"{n}", f"{n}", {}, {} if score is None else {"followed": score}, "" if score else "gone", f"picture {n}"
        )
        for n, score in enumerate(scores)
    ]
    return Results(editor, rows, {"suite": "drawn", **provenance})


def values(*numbers: float) -> list[Score]:
    return [Score.of(value) for value in numbers]


def text(comparison: ResultsComparison, max_items: int = 10) -> str:
    written = io.StringIO()
    Console(width=200, file=written).print(render_comparison(comparison, max_items))
    return written.getvalue()


def test_what_flipped_is_told_by_direction_and_tested() -> None:
    before, after = values(*[0.0] * 9, 1.0, 1.0, 0.0), values(*[1.0] * 9, 0.0, 1.0, 0.0)
    comparison = compare_results(results("a", *before), results("b", *after)).metrics[0]
    assert [one.id for one in comparison.crossed_up] == [str(n) for n in range(9)]
    assert [one.id for one in comparison.crossed_down] == ["9"]
    assert comparison.mcnemar == pytest.approx(0.021484375)
    assert comparison.both == 12
    assert comparison.significance.value == pytest.approx(8 / 12)
    assert comparison.is_significant


@pytest.mark.parametrize(("gained", "lost", "p"), [(0, 0, 1.0), (5, 5, 1.0), (0, 5, 0.0625), (10, 2, 0.03857421875)])
def test_mcnemar_is_exact(gained: int, lost: int, p: float) -> None:
    assert mcnemar(gained, lost) == mcnemar(lost, gained) == p


def test_graded_scores_have_no_mcnemar_and_the_furthest_first() -> None:
    comparison = compare_results(results("a", *values(0.4, 0.5, 0.9)), results("b", *values(0.45, 0.1, 0.9))).metrics[0]
    assert comparison.mcnemar is None
    assert [one.id for one in comparison.largest_changes] == ["1", "0"]
    assert [one.id for one in comparison.crossed_down] == ["1"]


def test_scores_that_are_no_shares_cross_nothing() -> None:
    comparison = compare_results(results("a", *values(-2.0, 7.0)), results("b", *values(3.0, 7.0))).metrics[0]
    assert (comparison.is_share, comparison.crossed_up, comparison.crossed_down) == (False, [], [])
    assert comparison.largest_changes[0].delta == 5.0


def test_grades_that_happen_to_be_0_and_1_are_no_shares() -> None:
    ranges = {"metric_ranges": {"followed": [0, 10]}}
    sides = results("a", *values(0.0, 1.0), **ranges), results("b", *values(1.0, 1.0), **ranges)
    compared = compare_results(*sides)
    assert (compared.metrics[0].is_share, compared.metrics[0].mcnemar) == (False, None)
    row = next(line for line in text(compared, 0).splitlines() if line.lstrip().startswith("followed"))
    assert row.split()[-4:] == ["–", "–", "–", "0"]


def test_statuses_that_changed_are_told_and_are_in_no_mean() -> None:
    one = results("a", Score.of(1.0), Score.failed("down"), Score.of(0.5))
    other = results("b", Score.abstained("nobody knows"), None, Score.of(0.5))
    comparison = compare_results(one, other).metrics[0]
    assert [change.statuses for change in comparison.status_changes] == [("scored", "abstained"), ("failed", "missing")]
    assert (comparison.both, comparison.significance.value, comparison.is_significant) == (1, 0.0, False)


RANGES = {"metric_ranges": {"followed": [0.0, 1.0]}}


def test_a_run_is_not_better_because_its_bad_edits_have_no_value() -> None:
    dark = Score.abstained("too dark to tell")
    before = results("a", *values(*[0.5, 0.7] * 10), **RANGES)
    spoiled = results("b", *values(*[0.9, 0.8] * 5), *[dark] * 10, **RANGES)
    comparison = compare_results(before, spoiled).metrics[0]
    assert comparison.both == 10
    assert comparison.significance.value == pytest.approx(0.25)
    assert comparison.significance.adjusted_p == 1.0
    assert not comparison.is_significant
    honest = results("b", *values(*[0.9, 0.8] * 9), dark, dark, **RANGES)
    assert compare_results(before, honest).metrics[0].is_significant


def test_what_an_edit_made_undecidable_is_its_lowest_value() -> None:
    gone = Score.abstained("the cup is gone", cause="edit")
    comparison = compare_results(
        results("a", *values(*[1.0] * 12), **RANGES), results("b", *[gone] * 12, **RANGES)
    ).metrics[0]
    assert (comparison.both, comparison.significance.value, comparison.is_significant) == (12, -1.0, True)


def test_equal_results_do_not_differ() -> None:
    one = results("a", *values(0.0, 1.0, 1.0))
    comparison = compare_results(one, one)
    assert comparison.names == ("a (A)", "a (B)")
    assert (comparison.provenance, comparison.same_output, comparison.metrics[0].is_significant) == ({}, 3, False)
    assert "The provenance of both is the same" in text(comparison)


def test_provenance_and_items_that_differ_are_told() -> None:
    one = results("a", *values(0.0, 1.0), experts={"judge": "x@1"}, seed=1)
    other = results("a", *values(0.0, 1.0, 1.0), experts={"judge": "x@2"}, seed=1)
    comparison = compare_results(one, other)
    assert comparison.provenance == {"experts.judge": ("x@1", "x@2")}
    assert (comparison.common, comparison.unmatched) == (2, (0, 1))
    printed = text(comparison)
    assert re.search(r"experts\.judge +x@1 +x@2", printed)
    assert "1 only in B" in printed


def test_a_setting_that_would_fill_the_screen_is_shortened() -> None:
    one, other = (results("a", *values(0.0, 1.0), outputs={"unlisted": [*range(count)]}) for count in (20_000, 19_999))
    printed = text(compare_results(one, other))
    assert len(printed) < 6_000
    assert " … " in printed


def test_the_leaderboard_is_compared_where_the_suite_is_known() -> None:
    suite = Drawn()
    one, other = scored(suite, "bad", 0.3), scored(suite, "good", 0.9)
    comparison = compare_results(one, other, suite=suite, count=200)
    last = next(difference for difference in comparison.tables if difference.column == "following turn 3")
    board = [{row.id: row.value("following") for row in each.filter(turn=3)} for each in (one, other)]
    means = [
        sum(v for v in each.values() if v is not None) / sum(v is not None for v in each.values()) for each in board
    ]
    assert last.value == pytest.approx(100 * (means[1] - means[0]))
    assert "following turn 3" in text(comparison)


def test_results_of_different_protocols_can_be_compared_but_not_of_different_suites() -> None:
    one = results("a", *values(1.0, 0.0), protocol="official")
    assert compare_results(one, results("a", *values(1.0, 0.0), protocol="paper")).provenance
    with pytest.raises(InputError, match="different suites: drawn and other"):
        compare_results(one, results("a", Score.of(1.0), suite="other"))


def test_results_without_a_common_item_are_refused() -> None:
    one = results("a", Score.of(1.0))
    other = replace(one, rows=[replace(one.rows[0], id="else")])
    with pytest.raises(InputError, match="no common items"):
        compare_results(one, other)


def test_no_items_are_named_where_none_are_wanted() -> None:
    comparison = compare_results(results("a", *values(0.0, 1.0)), results("b", *values(1.0, 0.0)))
    assert "crossed" in text(comparison)
    assert "crossed" not in text(comparison, 0)
    assert comparison.to_json(0)["metrics"][0]["largest_changes"] == []
