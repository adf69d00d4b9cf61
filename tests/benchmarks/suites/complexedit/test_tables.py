"""The paper's overall scores, from its own tables, by the function that ours are made by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from editcritic.benchmarks.suites.complexedit.suite import overall
from editcritic.benchmarks.suites.suite import published_figures

WITHIN = 0.011


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    tables: dict[str, Any] = published_figures("complexedit")["tables"]
    return tables


def rows(printed: dict[str, Any]) -> Iterator[tuple[str, list[float]]]:
    for table in ("table4_real", "table5_synthetic"):
        for model, levels in printed[table].items():
            yield from ((f"{table}, {model}, {level}", row) for level, row in levels.items())
    yield from ((f"table 3, {model}", row) for model, row in printed["table3_C8_real"].items())


def test_o_is_the_arithmetic_mean_of_the_three_in_every_printed_row(printed: dict[str, Any]) -> None:
    printed_rows = list(rows(printed))
    assert len(printed_rows) == 2 * 4 + 2 * 5 + 6
    off = [name for name, (*parts, o) in printed_rows if overall(*parts) != pytest.approx(o, abs=WITHIN)]
    assert not off


def test_the_geometric_mean_is_not_what_was_printed(printed: dict[str, Any]) -> None:
    off = [
        name for name, (*parts, o) in rows(printed) if overall(*parts, mean="geometric") != pytest.approx(o, abs=WITHIN)
    ]
    assert len(off) > 15


def test_imagen3_at_c1_follows_from_its_differences(printed: dict[str, Any]) -> None:
    """By hand: 6.55 + 2.38 = 8.93 and 7.26 + 0.90 = 8.16; with the mean of three the rest of O is 15.55."""
    _, ip_c8, _, o_c8 = printed["table3_C8_real"]["Imagen3"]
    _, ip_drop, _, o_drop = printed["table4_real_Imagen3_C8_minus_C1"]
    ip_c1, o_c1 = ip_c8 - ip_drop, o_c8 - o_drop
    assert (ip_c1, o_c1) == pytest.approx((8.93, 8.16))
    assert 3 * o_c1 - ip_c1 == pytest.approx(15.55), "IF + PQ"


def test_tables_3_and_4_are_of_the_same_grades_but_for_rounding(printed: dict[str, Any]) -> None:
    for model, levels in printed["table4_real"].items():
        assert levels["C8"] == pytest.approx(printed["table3_C8_real"][model], abs=WITHIN), model
