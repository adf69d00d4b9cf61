"""Figures: means, what is made of them, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from editcritic.benchmarks.suites.figures import Figure, draws
from editcritic.benchmarks.suites.tables import Computed, Table


def ratio(*values: float | None) -> Figure:
    counts = np.array([value is not None for value in values], np.float64)
    sums = np.array([value or 0.0 for value in values])
    return Figure.ratio(sums, counts, without=values.count(None))


def test_a_mean_leaves_out_what_has_no_value_and_counts_it() -> None:
    found = ratio(1.0, None, 0.0, 1.0)
    assert found.value == pytest.approx(2 / 3)
    assert (found.count, found.without) == (3, 1)


def test_nothing_to_average_is_no_number() -> None:
    found = ratio(None, None)
    assert found.value is None
    assert found.interval(draws(2)) is None


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=400)
    low, high = ratio(*values).interval(draws(400, 4000)) or (0, 0)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.08)


def test_a_difference_of_two_on_the_same_cases_is_paired() -> None:
    one = np.random.default_rng(0).normal(size=200)
    apart = Figure.of(lambda a, b: a - b, ratio(*(one + 0.1)), ratio(*one))
    low, high = apart.interval(draws(200)) or (0, 0)
    assert (low, high) == pytest.approx((0.1, 0.1))


def test_draws_are_the_same_for_the_same_seed() -> None:
    assert np.array_equal(draws(9, 5, seed=3), draws(9, 5, seed=3))
    assert not np.array_equal(draws(9, 5, seed=3), draws(9, 5, seed=4))


def test_a_table_is_written_three_ways() -> None:
    row = {"A": ratio(1.0, 0.0, 1.0, 1.0), "B_1": ratio(None, None, None, None)}
    table = Table("t", "Title", ["A", "B_1"], {"an & editor": row}, scale=100, unit="percent", notes=["read this"])
    found = Computed.of(table, draws(4))
    assert "| an & editor | 75.00 (25.00 to 100.00) | none of 4 |" in found.markdown()
    assert found.csv().splitlines()[1].startswith("an & editor,A,75.0,25.0,100.0,4,0")
    assert r"an \& editor & 75.00 &  \\" in found.latex()
