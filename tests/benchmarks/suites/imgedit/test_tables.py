"""The printed tables of ImgEdit-Bench: Overall follows from the types by our formula, but for listed rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.suites.bootstrap import plain_mean
from editcritic.benchmarks.suites.imgedit.suite import COLUMNS, OVERALL, TYPE_COUNTS
from editcritic.benchmarks.suites.suite import published_figures

ROUNDING = 0.0051
"""Of the printed Overall, half a unit of its last digit."""

DIFFERING = {
    ("leaderboard", "Kontext-dev"): 3.727,
    ("leaderboard", "Ovis-U1"): 3.992,
    ("leaderboard", "GPT-4o-Image"): 4.244,
    ("ovis_u1", "GPT-4o"): 4.244,
    ("ovis_u1", "MagicBrush"): 1.828,
    ("ovis_u1", "Ovis-U1"): 4.023,
}
"""Rows whose printed Overall is not the mean of their types, and that mean."""


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return published_figures("imgedit")


def rows(figures: dict[str, Any]) -> list[tuple[str, str, list[float]]]:
    tables = figures["tables"]
    return [(name, model, row) for name in ("leaderboard", "ovis_u1") for model, row in tables[name].items()]


def test_the_columns_are_ours(figures: dict[str, Any]) -> None:
    assert figures["tables"]["columns"] == [*COLUMNS.values(), OVERALL]


def test_overall_is_the_plain_mean_of_the_types_but_where_it_is_listed(figures: dict[str, Any]) -> None:
    off = {}
    for name, model, (*types, overall) in rows(figures):
        mean = float(plain_mean(*(np.array([value]) for value in types))[0])
        if abs(mean - overall) > ROUNDING:
            off[name, model] = round(mean, 3)
    assert off == DIFFERING
    assert len(rows(figures)) == 24
    listed = figures["notes"][0]
    assert all(f"{model} {row[-1]:g} ({DIFFERING[name, model]:.3f})" in listed
               for name, model, row in rows(figures) if (name, model) in DIFFERING)  # fmt: skip


def test_weights_by_type_explain_one_of_them(figures: dict[str, Any]) -> None:
    by_name: dict[str, int] = {str(kind): count for kind, count in TYPE_COUNTS.items()}
    counts = [by_name[kind] for kind in COLUMNS]
    weighted = {
        (name, model): round(float(np.average(types, weights=counts)), 3) for name, model, (*types, _) in rows(figures)
    }
    assert {pair: weighted[pair] for pair in DIFFERING} == {
        ("leaderboard", "Kontext-dev"): 3.684,
        ("leaderboard", "Ovis-U1"): 3.955,
        ("leaderboard", "GPT-4o-Image"): 4.191,
        ("ovis_u1", "GPT-4o"): 4.191,
        ("ovis_u1", "MagicBrush"): 1.894,
        ("ovis_u1", "Ovis-U1"): 4.004,
    }


def test_what_the_two_tables_say_of_one_editor_is_listed_where_it_differs(figures: dict[str, Any]) -> None:
    ours, theirs = figures["tables"]["leaderboard"], figures["tables"]["ovis_u1"]
    differing = {model for model in ours.keys() & theirs.keys() if ours[model] != theirs[model]}
    assert differing == {"MagicBrush", "BAGEL", "Ovis-U1"}
    assert all(model in figures["notes"][2] for model in differing)
    assert ours["MagicBrush"][:-1] == theirs["MagicBrush"][:-1]
