"""The paper's Overall and mean correlations from the columns beside them, by the functions that the tables use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.suites.bootstrap import pooled_mean
from editcritic.benchmarks.suites.i2ibench.reader import CATEGORIES
from editcritic.benchmarks.suites.i2ibench.suite import OVERALL, title_of
from editcritic.benchmarks.suites.suite import published_figures
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS

WITHIN = 0.005


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    tables: dict[str, Any] = published_figures("i2ibench")["tables"]
    return tables


@pytest.mark.parametrize(("table", "multi"), [("table1_single", False), ("table2_multi", True)])
def test_columns_and_quotas_are_the_papers(published: dict[str, Any], table: str, multi: bool) -> None:
    ours = {title_of(name): one.quota for name, one in DIMENSIONS.items() if one.multi == multi and one.in_overall}
    assert ours == published[table]["prompt_quota"]
    assert [*ours, OVERALL] == published[table]["columns"]


@pytest.mark.parametrize(("table", "rows"), [("table1_single", 9), ("table2_multi", 4)])
def test_overall_of_every_row_by_quota(published: dict[str, Any], table: str, rows: int) -> None:
    quotas = [np.array([float(quota)]) for quota in published[table]["prompt_quota"].values()]
    for model, (*values, printed) in published[table]["rows"].items():
        computed = pooled_mean([np.array([value]) for value in values], quotas)
        assert computed[0] == pytest.approx(printed, abs=WITHIN), model
    assert len(published[table]["rows"]) == rows


@pytest.mark.parametrize("half", ["single", "multi"])
@pytest.mark.parametrize("judge", ["ours", "lmm_baseline"])
def test_mean_correlations_are_plain_means(published: dict[str, Any], half: str, judge: str) -> None:
    *values, printed = published["table3_pearson"][half][judge]
    assert np.mean(values) == pytest.approx(printed, abs=0.0001)


def test_the_gaps_to_lmm4edit_are_those_of_table_6(published: dict[str, Any]) -> None:
    *theirs, mean = published["table6_pearson"]["single"]["lmm4edit"]
    *ours, _ = published["table3_pearson"]["single"]["ours"]
    assert np.mean(theirs) == pytest.approx(mean, abs=0.0001)
    gaps = dict(zip(published["table1_single"]["columns"], np.subtract(ours, theirs), strict=False))
    printed = {"Blending-Naturalness": 1.3434, "Spatial-Accuracy": -0.0352, "World-Knowledge": 0.6743}
    assert {name: gaps[name] for name in printed} == pytest.approx(printed)


def test_the_categories_of_figure_4_have_our_names(published: dict[str, Any]) -> None:
    titles = {category.title for category in CATEGORIES.values()}
    for editor, dimensions in published["figure4_categories"].items():
        table = next(table for table in published.values() if editor in table.get("rows", {}))
        assert dimensions.keys() <= set(table["columns"])
        assert {name for cells in dimensions.values() for name in cells} <= titles | {"highest", "lowest"}
