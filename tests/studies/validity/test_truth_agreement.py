"""Agreement with a truth: numbers worked out by hand, and what must hold for any."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Score
from studies.validity.truth_agreement import Coverage, accuracy, auc, complete_pairs, coverage, kappa, spearman

VALUES = st.integers(0, 8).map(lambda eighths: eighths / 8)
PAIRS = st.lists(st.tuples(VALUES, VALUES), max_size=30)


def test_pairs_without_a_value_or_a_truth_are_left_out():
    assert complete_pairs([0.5, None, 1.0, 0.25], [True, True, None, False]) == [(0.5, 1.0), (0.25, 0.0)]
    with pytest.raises(ValueError, match="argument"):
        complete_pairs([1.0], [])


def test_scores_without_a_value_are_counted_by_their_status():
    scores = [Score.of(1), Score.of(0), Score.abstained("?"), Score.not_applicable("-"), Score.failed("!")]
    assert coverage(scores) == Coverage(scored=2, abstained=1, not_applicable=1, failed=1)
    assert coverage(scores).total == 5


def test_numbers_worked_out_by_hand():
    pairs = [(0.9, 1.0), (0.6, 1.0), (0.5, 0.0), (0.1, 0.0), (0.2, 1.0)]
    assert accuracy(pairs) == pytest.approx(3 / 5)
    # Three of five values and of truths are a yes: chance agrees in 13 of 25.
    assert kappa(pairs) == pytest.approx((3 / 5 - 13 / 25) / (1 - 13 / 25))
    # Of six pairs of a yes and a no: 0.9 and 0.6 win both times, 0.2 wins once.
    assert auc(pairs) == pytest.approx(5 / 6)
    assert spearman([(1, 1), (2, 3), (3, 2), (4, 4)]) == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_ties_count_half():
    assert auc([(0.5, 1.0), (0.5, 0.0)]) == 0.5
    assert auc([(1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]) == pytest.approx((1 + 0.5) / 2)


def test_a_graded_truth_is_cut_in_two():
    assert auc([(0.1, 0.5), (0.9, 0.51)]) == 1.0


@pytest.mark.parametrize("number", [accuracy, kappa, spearman, auc])
def test_without_pairs_nothing_is_defined(number):
    assert number([]) is None


def test_a_constant_side_leaves_nothing_to_correlate():
    constant = [(0.5, 0.0), (0.5, 1.0)]
    assert [kappa(constant), spearman(constant), auc(constant)] == [None, None, 0.5]
    assert [kappa([(0.1, 1.0), (0.9, 1.0)]), auc([(0.1, 1.0), (0.9, 1.0)])] == [None, None]


def test_missing_scipy_is_told_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(InputError, match=r"editcritic\[bench\]"):
        spearman([(0.1, 0.2), (0.3, 0.4)])


@given(PAIRS)
def test_agreement_lies_in_its_range(pairs):
    for number, low in ((accuracy, 0), (kappa, -1), (spearman, -1), (auc, 0)):
        value = number(pairs)
        assert value is None or low - 1e-9 <= value <= 1 + 1e-9


@given(PAIRS)
def test_a_truth_agrees_with_itself_and_disagrees_with_its_mirror(pairs):
    same = [(truth, truth) for _, truth in pairs]
    mirrored = [(-truth, truth) for _, truth in pairs]
    for number, worst in ((spearman, -1.0), (auc, 0.0)):
        if (best := number(same)) is not None:
            assert best == pytest.approx(1.0)
            assert number(mirrored) == pytest.approx(worst)
    if kappa(same) is not None:
        assert [accuracy(same), kappa(same)] == [1.0, pytest.approx(1.0)]


@given(PAIRS)
def test_ranks_alone_decide_correlation_and_auc(pairs):
    stretched = [(value**3 + 7, truth) for value, truth in pairs]
    assert spearman(stretched) == pytest.approx(spearman(pairs)) if spearman(pairs) is not None else True
    assert auc(stretched) == auc(pairs)


@given(PAIRS)
def test_auc_is_what_counting_every_pair_of_yes_and_no_gives(pairs):
    yes = [value for value, truth in pairs if truth > 0.5]
    no = [value for value, truth in pairs if truth <= 0.5]
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in yes for b in no]
    assert auc(pairs) == (pytest.approx(sum(wins) / len(wins)) if wins else None)
