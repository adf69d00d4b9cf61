"""The averages of the paper's tables from the cells beside them, by the functions that the suite's tables use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.suites.bootstrap import plain_mean
from editcritic.benchmarks.suites.dlebench.reader import TYPES
from editcritic.benchmarks.suites.dlebench.suite import AVERAGE
from editcritic.benchmarks.suites.suite import published_figures

WITHIN = 0.011


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    tables: dict[str, Any] = published_figures("dlebench")["tables"]
    return tables


def test_types_and_their_counts_are_the_papers(published: dict[str, Any]) -> None:
    assert dict(TYPES) == published["counts_table2"]


def test_samples_of_one_target_and_of_several_are_the_papers_1889(published: dict[str, Any]) -> None:
    targets = published["targets_section3_2"]
    assert targets["one"] + targets["several"] == 1889
    assert sum(published["counts_table2"].values()) == 1909  # the paper's table 2 does not add up to that


@pytest.mark.parametrize("criterion", ["IF", "VC"])
def test_averages_over_the_types(published: dict[str, Any], criterion: str) -> None:
    cells = published["table4"][criterion]
    for model, printed in cells[AVERAGE].items():
        computed = plain_mean(*(np.array([cells[kind][model]]) for kind in TYPES))
        assert computed[0] == pytest.approx(printed, abs=WITHIN), model


def test_table_1_is_the_mean_of_both_criteria_of_table_4(published: dict[str, Any]) -> None:
    following, consistency = (published["table4"][name] for name in ("IF", "VC"))
    seen = 0
    for kind in (*TYPES, AVERAGE):
        for model, printed in published["table1_mean_of_if_vc"][kind].items():
            computed = plain_mean(np.array([following[kind][model]]), np.array([consistency[kind][model]]))
            assert computed[0] == pytest.approx(printed, abs=WITHIN), (kind, model)
            seen += 1
    assert seen == 80
