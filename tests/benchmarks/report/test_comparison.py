"""Two results against each other."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.suite_report.comparison import Comparison, compared, mcnemar, shown
from editcritic.benchmarks.suites.results import Results, Row
from editcritic.reward import Score

from .scored import Drawn, scored


def results(editor: str, *scores: Score | None, **provenance: object) -> Results:
    """A case a score; None was not judged."""
    rows = [
        Row(f"{n}", f"{n}", {}, {} if score is None else {"followed": score}, "" if score else "gone", f"picture {n}")
        for n, score in enumerate(scores)
    ]
    return Results(editor, rows, {"suite": "drawn", **provenance})


def values(*given: float) -> list[Score]:
    return [Score.of(value) for value in given]


def text(found: Comparison, most: int = 10) -> str:
    written = io.StringIO()
    Console(width=200, file=written).print(shown(found, most))
    return written.getvalue()


def test_what_flipped_is_told_by_direction_and_tested() -> None:
    before, after = values(*[0.0] * 9, 1.0, 1.0, 0.0), values(*[1.0] * 9, 0.0, 1.0, 0.0)
    found = compared(results("a", *before), results("b", *after)).metrics[0]
    assert [one.id for one in found.gained] == [str(n) for n in range(9)]
    assert [one.id for one in found.lost] == ["9"]
    assert found.mcnemar == pytest.approx(0.021484375)
    assert found.both == 12
    assert found.tested.value == pytest.approx(8 / 12)
    assert found.matters


@pytest.mark.parametrize(("gained", "lost", "p"), [(0, 0, 1.0), (5, 5, 1.0), (0, 5, 0.0625), (10, 2, 0.03857421875)])
def test_mcnemar_is_exact(gained: int, lost: int, p: float) -> None:
    assert mcnemar(gained, lost) == mcnemar(lost, gained) == p


def test_graded_scores_have_no_mcnemar_and_the_furthest_first() -> None:
    found = compared(results("a", *values(0.4, 0.5, 0.9)), results("b", *values(0.45, 0.1, 0.9))).metrics[0]
    assert found.mcnemar is None
    assert [one.id for one in found.moved] == ["1", "0"]
    assert [one.id for one in found.lost] == ["1"]


def test_scores_that_are_no_shares_cross_nothing() -> None:
    found = compared(results("a", *values(-2.0, 7.0)), results("b", *values(3.0, 7.0))).metrics[0]
    assert (found.gained, found.lost) == ([], [])
    assert found.moved[0].by == 5.0


def test_statuses_that_changed_are_told_and_are_in_no_mean() -> None:
    one = results("a", Score.of(1.0), Score.failed("down"), Score.of(0.5))
    other = results("b", Score.abstained("nobody knows"), None, Score.of(0.5))
    found = compared(one, other).metrics[0]
    assert [change.states for change in found.states] == [("scored", "abstained"), ("failed", "not judged")]
    assert (found.both, found.tested.value, found.matters) == (1, 0.0, False)


def test_equal_results_do_not_differ() -> None:
    one = results("a", *values(0.0, 1.0, 1.0))
    found = compared(one, one)
    assert found.names == ("a (A)", "a (B)")
    assert (found.provenance, found.same, found.metrics[0].matters) == ({}, 3, False)
    assert "no entry of their provenance differs" in text(found)


def test_provenance_and_items_that_differ_are_told() -> None:
    one = results("a", *values(0.0, 1.0), experts={"judge": "x@1"}, seed=1)
    other = results("a", *values(0.0, 1.0, 1.0), experts={"judge": "x@2"}, seed=1)
    found = compared(one, other)
    assert found.provenance == {"experts.judge": ("x@1", "x@2")}
    assert (found.both, found.only) == (2, (0, 1))
    said = text(found)
    assert "experts.judge" in said
    assert "1 only in B" in said


def test_the_leaderboard_is_compared_where_the_suite_is_known() -> None:
    suite = Drawn()
    one, other = scored(suite, "bad", 0.3), scored(suite, "good", 0.9)
    found = compared(one, other, suite=suite, count=200)
    last = next(difference for difference in found.tables if difference.column == "following turn 3")
    board = [{row.id: row.value("following") for row in each.where(turn=3)} for each in (one, other)]
    means = [
        sum(v for v in each.values() if v is not None) / sum(v is not None for v in each.values()) for each in board
    ]
    assert last.value == pytest.approx(100 * (means[1] - means[0]))
    assert "following turn 3" in text(found)


def test_results_of_different_protocols_can_be_compared_but_not_of_different_suites() -> None:
    one = results("a", *values(1.0, 0.0), protocol="official")
    assert compared(one, results("a", *values(1.0, 0.0), protocol="paper")).provenance
    with pytest.raises(InputError, match="different suites: drawn and other"):
        compared(one, results("a", Score.of(1.0), suite="other"))


def test_results_without_a_common_item_are_refused() -> None:
    one = results("a", Score.of(1.0))
    other = replace(one, rows=[replace(one.rows[0], id="else")])
    with pytest.raises(InputError, match="no item in common"):
        compared(one, other)


def test_no_items_are_named_where_none_are_wanted() -> None:
    found = compared(results("a", *values(0.0, 1.0)), results("b", *values(1.0, 0.0)))
    assert "crossed" in text(found)
    assert "crossed" not in text(found, 0)
    assert found.to_json(0)["metrics"][0]["moved"] == []
