"""Figures: means, what is made of them, and their intervals."""

from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.suites.bootstrap import Statistic, bootstrap_weights
from editcritic.benchmarks.suites.tables import ComputedTable, Table


def ratio(*values: float | None) -> Statistic:
    counts = np.array([value is not None for value in values], np.float64)
    sums = np.array([value or 0.0 for value in values])
    return Statistic.ratio(sums, counts, num_missing=values.count(None))


def test_a_mean_leaves_out_what_has_no_value_and_counts_it():
    statistic = ratio(1.0, None, 0.0, 1.0)
    assert statistic.value == pytest.approx(2 / 3)
    assert (statistic.count, statistic.num_missing) == (3, 1)
    nothing = ratio(None, None)
    assert nothing.value is None
    assert nothing.interval(bootstrap_weights(2)) is None
    first, again, other = (bootstrap_weights(9, 5, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    values = np.random.default_rng(0).normal(size=400)
    low, high = ratio(*values).interval(bootstrap_weights(400, 4000)) or (0, 0)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.08)


def test_a_difference_of_two_on_the_same_cases_is_paired():
    one = np.random.default_rng(0).normal(size=200)
    apart = Statistic.combine(lambda a, b: a - b, ratio(*(one + 0.1)), ratio(*one))
    low, high = apart.interval(bootstrap_weights(200)) or (0, 0)
    assert (low, high) == pytest.approx((0.1, 0.1))


def test_of_fewer_than_ten_cases_there_is_no_interval_and_the_table_says_why():
    table = Table("t", "Title", ["A"], {"few": {"A": ratio(*[6.0] * 9)}})
    few = ComputedTable.compute(table, bootstrap_weights(9))
    assert "| few | 6.00 |" in few.markdown()
    assert "- no interval of fewer than 10 cases (source images): it would be too narrow" in few.markdown()
    enough = ComputedTable.compute(replace(table, rows={"ten": {"A": ratio(*[6.0] * 10)}}), bootstrap_weights(10))
    assert "| ten | 6.00 (6.00 to 6.00) |" in enough.markdown()
    assert "no interval" not in enough.markdown()


def test_a_table_is_written_three_ways():
    row = {"A": ratio(*[1.0, 0.0, 1.0, 1.0] * 3), "B_1": ratio(*[None] * 12)}
    table = Table("t", "Title", ["A", "B_1"], {"an & editor": row}, scale=100, unit="percent", notes=["read this"])
    computed = ComputedTable.compute(table, bootstrap_weights(12))
    assert "| an & editor | 75.00 (50.00 to 100.00) | no mean: 12 missing |" in computed.markdown()
    assert computed.csv().splitlines()[1].startswith("an & editor,A,75.0,50.0,100.0,12,0")
    assert r"an \& editor & 75.00 (50.00 to 100.00) & no mean: 12 missing \\" in computed.latex()
    assert computed.latex().endswith("\\end{tabular}\n% read this\n")
