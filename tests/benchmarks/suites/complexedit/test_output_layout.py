"""Which picture of a folder is which row's."""

from __future__ import annotations

from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.complexedit.output_layout import images_by_row, level_folder

from ..tiny_suite import picture


def named(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        picture(1, size=4).pil().save(folder / name)
    return folder


def names_by_row(folder: Path, rows: int) -> dict[int, str]:
    return {number: path.name for number, path in images_by_row(folder, rows).items()}


def test_names_that_are_numbers_of_rows_say_whose_they_are(tmp_path: Path) -> None:
    assert names_by_row(named(tmp_path, "0002.png", "0000.png"), 3) == {0: "0000.png", 2: "0002.png"}
    assert names_by_row(named(tmp_path / "plain", "10.png", "9.png"), 11) == {9: "9.png", 10: "10.png"}


def test_other_names_count_in_their_order(tmp_path: Path) -> None:
    assert names_by_row(named(tmp_path, "b.jpg", "a.png", "c.png"), 3) == {0: "a.png", 1: "b.jpg", 2: "c.png"}


def test_numbers_that_do_not_begin_at_0_count_in_the_order_of_numbers(tmp_path: Path) -> None:
    numbers = [f"{number}.png" for number in range(1, 12)]
    assert names_by_row(named(tmp_path, *numbers), 11) == dict(enumerate(numbers))


def test_a_wrong_number_of_pictures_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"contains 2 images for 3 rows, and a\.png is not named after a row: give one"
    ):
        images_by_row(named(tmp_path, "a.png", "b.png"), 3)
    with pytest.raises(InputError, match="several images of row 0"):
        images_by_row(named(tmp_path / "twice", "0000.png", "0.png"), 3)


def test_a_folder_that_grows_is_read_anew(tmp_path: Path) -> None:
    assert names_by_row(named(tmp_path, "0000.png"), 3) == {0: "0000.png"}
    assert names_by_row(named(tmp_path, "0001.png"), 3) == {0: "0000.png", 1: "0001.png"}
    assert names_by_row(tmp_path / "none", 3) == {}


def test_one_level_may_lie_flat_or_in_its_folder(tmp_path: Path) -> None:
    assert level_folder(tmp_path, 3, alone=True) == tmp_path
    assert level_folder(tmp_path, 3, alone=False) == tmp_path / "C3"
    (tmp_path / "C3").mkdir()
    assert level_folder(tmp_path, 3, alone=True) == tmp_path / "C3"
