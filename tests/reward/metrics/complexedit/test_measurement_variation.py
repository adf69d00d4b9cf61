"""How much four means differ, by how many measurements each is of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.human_eval.measurement_variance import variation, variations

GRADES = st.lists(st.integers(0, 10), min_size=4, max_size=40)


def test_it_is_half_the_range_of_four_means():
    assert variation([1, 3, 5, 7, 2, 2, 9, 1], 2) == (6 - 2) / 2
    assert variation([4, 9, 1, 5], 1) == 4.0
    assert variation([4, 9, 1, 5, 0, 0], 1) == 4.0


def test_equal_grades_do_not_vary():
    assert variations([7] * 12) == {1: 0.0, 2: 0.0, 3: 0.0}


@given(GRADES)
def test_there_is_one_for_every_k_that_has_enough_and_never_more_than_half_the_range(grades):
    result = variations(grades)
    assert list(result) == list(range(1, len(grades) // 4 + 1))
    assert all(0 <= value <= (max(grades) - min(grades)) / 2 + 1e-9 for value in result.values())


@given(GRADES, st.integers(1, 10))
def test_it_does_not_depend_on_where_the_grades_start(grades, shift):
    shifted = [grade + shift for grade in grades]
    assert variations(shifted) == pytest.approx(variations(grades))


@pytest.mark.parametrize(("k", "says"), [(0, "at least one measurement"), (3, "need 12 grades, got 8: measure more")])
def test_too_few_measurements_are_refused(k, says):
    with pytest.raises(ValueError, match=says):
        variation([5] * 8, k)
