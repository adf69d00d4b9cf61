"""What suites have in common: items of one source image are one case."""

from __future__ import annotations

from dataclasses import replace

from editcritic.benchmarks.suites.bootstrap import bootstrap_weights
from editcritic.benchmarks.suites.edival.tables import tables_of
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.suite import SuiteItem, share_cases
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import Score

from .tiny_suite import Toy, picture


def with_source(item: SuiteItem, number: int) -> SuiteItem:
    return replace(item, sample=replace(item.sample, sources=(picture(number),)))


def test_items_of_one_source_picture_are_one_case() -> None:
    items = [with_source(item, {"0": 7, "1": 8, "2": 7, "3": 9}[item.case]) for item in Toy(count=4).items]
    assert [item.case for item in share_cases(items)] == ["0", "0", "1", "1", "0", "0", "3", "3"]
    assert [item.id for item in share_cases(items)] == [item.id for item in items]


def test_items_of_one_case_stay_together_and_bring_their_pictures() -> None:
    items = [with_source(item, number) for number, item in enumerate(Toy(count=3).items)]
    items[4] = with_source(items[4], 1)  # the picture of case 0, turn 2
    assert [item.case for item in share_cases(items)] == ["0", "0", "1", "1", "0", "0"]


def test_chains_of_one_base_picture_are_separate_chains_of_one_case() -> None:
    items = share_cases([with_source(item, 7) for item in Toy(count=2).items])
    followed = {"0/1": 1.0, "0/2": 1.0, "1/1": 1.0, "1/2": 0.0}
    rows = [ResultRow(item.id, item.case, item.labels, {"if": Score.of(followed[item.id])}) for item in items]
    (board, *_) = tables_of("multipass", "drop", Results("x", rows))
    cells = ComputedTable.compute(board, bootstrap_weights(1, 50)).cells["all"]
    assert (cells["IF T1"].value, cells["IF T2"].value, cells["IF T2"].count) == (100.0, 50.0, 2)
