"""What suites have in common: items of one source image are one case, and what is refused."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.suite_loading import load_suite
from editcritic.benchmarks.suites.bootstrap import bootstrap_weights
from editcritic.benchmarks.suites.complexedit.suite import ComplexEdit
from editcritic.benchmarks.suites.dlebench.suite import DleBench
from editcritic.benchmarks.suites.edival.suite import EdiVal
from editcritic.benchmarks.suites.edival.tables import tables_of
from editcritic.benchmarks.suites.gedit.suite import GEditBench
from editcritic.benchmarks.suites.i2ibench.suite import I2IBench
from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.suite import Suite, SuiteItem, share_cases
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import Score

from .complexedit import layout as complexedit
from .dlebench import layout as dlebench
from .edival import layout as edival
from .gedit import layout as gedit
from .i2ibench import layout as i2ibench
from .imgedit import layout as imgedit
from .tiny_suite import Toy, picture


def with_source(item: SuiteItem, number: int) -> SuiteItem:
    return replace(item, sample=replace(item.sample, sources=(picture(number),)))


def test_items_of_one_source_picture_are_one_case():
    items = [with_source(item, {"0": 7, "1": 8, "2": 7, "3": 9}[item.case]) for item in Toy(count=4).items]
    assert [item.case for item in share_cases(items)] == ["0", "0", "1", "1", "0", "0", "3", "3"]
    assert [item.id for item in share_cases(items)] == [item.id for item in items]


def test_items_of_one_case_stay_together_and_bring_their_pictures():
    items = [with_source(item, number) for number, item in enumerate(Toy(count=3).items)]
    items[4] = with_source(items[4], 1)  # the picture of case 0, turn 2
    assert [item.case for item in share_cases(items)] == ["0", "0", "1", "1", "0", "0"]


def test_chains_of_one_base_picture_are_separate_chains_of_one_case():
    items = share_cases([with_source(item, 7) for item in Toy(count=2).items])
    followed = {"0/1": 1.0, "0/2": 1.0, "1/1": 1.0, "1/2": 0.0}
    rows = [ResultRow(item.id, item.case, item.labels, {"if": Score.of(followed[item.id])}) for item in items]
    (board, *_) = tables_of("multipass", "drop", Results("x", rows))
    cells = ComputedTable.compute(board, bootstrap_weights(1, 50)).cells["all"]
    assert (cells["IF T1"].value, cells["IF T2"].value, cells["IF T2"].count) == (100.0, 50.0, 2)


MADE: dict[str, tuple[type[Suite], Callable[[Path], Path], str]] = {
    "complex-edit": (ComplexEdit, complexedit.on_hub, "paper, numeric, token_probability, expected"),
    "dlebench": (DleBench, dlebench.written, "oracle, tools, plain, paper"),
    "edival": (EdiVal, lambda folder: edival.write_data(folder, edival.chains(2)), "paper, official, official-fixed"),
    "gedit": (GEditBench, gedit.on_hub, "fixed, official"),
    "i2ibench": (I2IBench, lambda folder: i2ibench.written(folder, i2ibench.rows()), "judge-only, paper"),
    "imgedit": (ImgEditBench, imgedit.repository, "fixed, official"),
}


@pytest.mark.parametrize("name", MADE)
def test_a_suite_is_sent_to_another_process_and_refuses_what_there_is_not(tmp_path: Path, name: str) -> None:
    kind, write, protocols = MADE[name]
    suite = kind(write(tmp_path / "data"))  # type: ignore[call-arg]
    sent = pickle.loads(pickle.dumps(suite))
    assert (sent.digest, [item.id for item in sent.items]) == (suite.digest, [item.id for item in suite.items])
    assert [item.sample.source for item in sent.items] == [item.sample.source for item in suite.items]
    with pytest.raises(InputError, match=f"{name} has no protocol 'magic'.*: expected one of {protocols}"):
        suite.metrics("magic")
    with pytest.raises(InputError, match=f"{name} needs .*--data"):
        kind()


@pytest.mark.parametrize("name", ["complex-edit", "dlebench", "edival", "gedit", "imgedit"])
def test_a_suite_without_data_says_where_to_get_them(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name} needs its data.* give --data .*`editcritic bench prepare {name}`"):
        load_suite(name)
