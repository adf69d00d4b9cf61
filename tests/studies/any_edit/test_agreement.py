"""Statistics of a reward over a pool, on scores made by hand."""

from __future__ import annotations

import pytest

from editcritic.benchmarks.sceneedit.cases import Case, cases
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.reward.score import Status
from studies.any_edit.comparison import PoolScores
from studies.any_edit.pool import EditScore, PoolEdit, statuses

(CASE,) = cases(1, seed=1, size=32)


def edit(editor, prompt, followed, unchanged):
    case = Case(CASE.sample, GroundTruth(followed, None, unchanged), "subject_add")
    return PoolEdit(editor, prompt, case, unchanged)


def score(value, *, following=None, preservation=None, rejected=False):
    status: Status = "abstained" if value is None else "scored"
    return EditScore(value, status, rejected, following, preservation, "")


EDITS = [
    edit("a", "1/0", True, 1.0),
    edit("b", "1/0", True, 0.5),
    edit("c", "1/0", False, 1.0),
    edit("a", "2/0", True, 0.9),
    edit("b", "2/0", False, 0.8),
    edit("c", "2/0", True, 0.4),
]


def test_values_in_the_order_of_the_truth_agree():
    scores = PoolScores(EDITS, [score(one.worth) for one in EDITS])
    assert scores.spearman(scores.values()).value == pytest.approx(1.0)
    assert scores.pair_order(scores.values()).value == 1.0
    assert scores.editor_tau(scores.values()).value == 1.0
    assert scores.inversions(scores.values()) == []


def test_a_tie_is_half_a_pair_and_equal_truths_are_none():
    scores = PoolScores(EDITS[:3], [score(1.0), score(1.0), score(0.0)])
    order = scores.pair_order(scores.values())
    assert order.value == pytest.approx(2.5 / 3)
    assert order.count == 3
    assert scores.pair_order(scores.values(), margin=0.5).count == 1  # more than the margin, not as much
    followed = scores.pair_order(scores.values(), followed_only=True)
    assert (followed.value, followed.count) == (0.5, 1)


def test_what_has_no_value_counts_as_the_lowest_or_not_at_all():
    scores = PoolScores(EDITS[:3], [score(None), score(0.5), score(0.2)])
    assert scores.pair_order(scores.values()).value == pytest.approx(1 / 3)
    left_out = scores.pair_order(scores.values("left out"))
    assert (left_out.value, left_out.count) == (1.0, 1)


def test_true_parts_replace_one_part_at_a_time():
    scores = PoolScores(
        EDITS[:3], [score(0.3, following=0.6, preservation=0.5), score(0.0, rejected=True), score(None)]
    )
    assert scores.with_true_following() == [0.5, 0.0, 0.0]
    assert scores.with_true_preservation() == [0.6, 0.0, 0.0]
    assert scores.with_true_preservation(verdict=True) == [1.0, 0.0, 0.0]
    assert scores.with_verdicts() == [0.5, 0.0, 0.0]
    assert statuses(scores.scores) == {"scored": 1, "rejected": 1, "abstained": 1, "failed": 0, "not_applicable": 0}


def test_an_editor_above_a_better_one_is_named():
    values = [0.2, 0.4, 0.1, 0.2, 0.4, 0.1]
    scores = PoolScores(EDITS, [score(value) for value in values])
    assert ("b", "a") in scores.inversions(scores.values())


def test_seeds_are_apart():
    scores = PoolScores(EDITS, [score(0.5)] * len(EDITS))
    assert [one.prompt for one in scores.of_seed(2).edits] == ["2/0"] * 3
    assert scores.prompts == ["1/0", "2/0"]
    with pytest.raises(ValueError, match="one score for each edit"):
        PoolScores(EDITS, [])
