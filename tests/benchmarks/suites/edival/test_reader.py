"""EdiVal's instruction file: the published layout, and problems of invalid files."""

import csv
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.problems import Problems
from editcritic.benchmarks.suites.edival.reader import (
    COLUMNS,
    CSV,
    EdiValTurn,
    InstructionFile,
    find_base_images,
    read_instruction_file,
)
from editcritic.benchmarks.suites.rows import DataProblem
from editcritic.benchmarks.suites.split_files import extracted_folder
from editcritic.reward import Image, Pools
from editcritic.reward.sample import TASK_TYPES
from tests.benchmarks.suites.edival.layout import png
from tests.benchmarks.suites.tiny_suite import picture
from tests.edival_chains import CHAINS, write_chains

ROW = {
    "image_index": "7",
    "turns": "1",
    "task_type": "['subject_remove']",
    "instructions": "['Remove the cup']",
    "format_instructions": "['Remove [cup]']",
    "bg_consistency": "True",
    "unchanged_objects": "['table']",
    "available_objects": "['table']",
    "all_objects": "['cup', 'table']",
}
SECOND = ROW | {
    "turns": "2",
    "task_type": "['subject_remove', 'count_change']",
    "instructions": "['Remove the cup', '\"Change the count of table to 3\"']",
    "format_instructions": "['Remove [cup]', '\"Change the count of [table] to [3]\"']",
    "unchanged_objects": "[]",
}

THIRD = SECOND | {
    "turns": "3",
    "task_type": "['subject_remove', 'count_change', 'subject_remove']",
    **{name: f"{SECOND[name][:-1]}, 'x']" for name in ("instructions", "format_instructions")},
}


def chains(folder: Path, *rows: Mapping[str, str], columns: tuple[str, ...] = COLUMNS) -> InstructionFile:
    with (folder / CSV).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return read_instruction_file(folder / CSV)


def problem_messages(instruction_file: InstructionFile, folder: Path) -> list[str]:
    return [str(problem).replace(str(folder / CSV), "FILE") for problem in instruction_file.problems]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Five chains in the published layout, every type among them."""
    return read_instruction_file(write_chains(tmp_path_factory.mktemp("edival") / CSV))


def every_turn(instruction_file: InstructionFile) -> list[EdiValTurn]:
    return [turn for turns in instruction_file.turns.values() for turn in turns]


def test_a_file_in_the_published_layout_is_read_as_it_was_written(whole):
    assert (whole.rows, list(whole.turns), list(whole.problems)) == (15, [0, 1, 3, 4, 5], [])
    assert {turn.type for turn in every_turn(whole)} == set(TASK_TYPES)
    for index, rows in CHAINS.items():
        assert [turn.number for turn in whole.turns[index]] == [1, 2, 3]
        for turn, row in zip(whole.turns[index], rows, strict=True):
            read = (turn.type, turn.instructions[-1], turn.formats[-1])
            assert read == (row.type, row.instruction, row.published_format)
            assert turn.pools == Pools(row.all, row.available, row.unchanged, row.background)


def test_every_instruction_has_a_task_of_its_type_without_its_literal_quotes(whole):
    assert all(task is not None and task.type == turn.type for turn in every_turn(whole) for task in turn.tasks[-1:])
    quoted = [turn for turn in every_turn(whole) if turn.instructions[-1].startswith('"')]
    assert Counter(turn.type for turn in quoted) == {"count_change": 1, "position_change": 1}
    assert not any(sentence.startswith('"') for turn in every_turn(whole) for sentence in turn.unquoted_instructions)


def test_all_columns_that_are_missing_are_named_at_once(tmp_path):
    lacking = tuple(name for name in COLUMNS if name not in ("turns", "all_objects"))
    with pytest.raises(InputError, match=r"lacks the columns turns, all_objects: expected .*; it has image_index, "):
        chains(tmp_path, ROW, columns=lacking)


@pytest.mark.parametrize(
    ("column", "text", "what"),
    [
        ("image_index", "seven", "expected an integer of at least 0, got 'seven'"),
        ("turns", "0", "expected an integer of at least 1, got '0'"),
        ("bg_consistency", "yes", "expected True or False, got 'yes'"),
        ("all_objects", "['cup'", "expected a Python list of strings, got \"['cup'\""),
        ("all_objects", "__import__('os').listdir()", "expected a Python list of strings"),
        ("instructions", "'Remove the cup'", "expected a Python list of strings"),
        ("instructions", "['Remove the cup', 'Remove the cat']", "expected one element per turn, 1, got 2"),
        ("task_type", "['style_change']", "expected subject_add, subject_remove,"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_by_line_and_column(tmp_path, column, text, what):
    instruction_file = chains(tmp_path, ROW, {**ROW, "image_index": "8", column: text})
    (problem,) = problem_messages(instruction_file, tmp_path)
    assert problem.startswith(f"FILE:3, {column}: {what}")
    assert list(instruction_file.turns) == [7]


@pytest.mark.parametrize(
    ("rows", "turns", "problems"),
    [
        (
            [ROW | {"image_index": "8", "task_type": "nothing", "all_objects": "3"}, ROW, ROW],
            [1],
            ["FILE:2, task_type: expected", "FILE:2, all_objects: expected", "FILE:4, turns: "],
        ),
        ([ROW, THIRD], [1], ["", "FILE, image 7: turn 2 is missing or invalid, so turns 3 are left out"]),
        (
            [ROW | {"instructions": "['Make it nicer']", "format_instructions": "['Make it nicer']"}],
            [1],
            ["FILE:2, instructions: 'Make it nicer' cannot be parsed as subject_remove: it has no instruction"],
        ),
        (
            [ROW, SECOND | {"instructions": "['Remove the cat', 'Change the count of table to 3']"}],
            [1, 2],
            ["FILE:3, instructions: does not begin with the instructions of turn 1, in line 2"],
        ),
    ],
)
def test_problems_of_all_rows_are_reported_and_what_comes_before_is_kept(tmp_path, rows, turns, problems):
    instruction_file = chains(tmp_path, *rows)
    assert [turn.number for turn in instruction_file.turns[7]] == turns
    found = problem_messages(instruction_file, tmp_path)
    assert len(found) == len(problems)
    assert all(one.startswith(start) for one, start in zip(found, problems, strict=True)), found


def test_a_file_that_is_not_there_or_no_text_is_one_plain_error(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*none\.csv: No such file"):
        read_instruction_file(tmp_path / "none.csv")
    (tmp_path / CSV).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a CSV file in UTF-8"):
        read_instruction_file(tmp_path / CSV)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "editcritic" / "edival"


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("DOT", "."), data)
    return path


def test_a_nested_zip_is_unpacked_once_for_all_processes(tmp_path, cache):
    path = zipped(tmp_path / "in.zip", a__b__4_input_rawDOTpng=png(picture(4)), a__readmeDOTtxt=b"hello")
    problems: Problems[DataProblem] = Problems()
    images = find_base_images(path, problems)
    assert (list(images), list(problems)) == ([4], [])
    assert Image.open(images[4]) == picture(4)
    written = images[4].stat().st_mtime_ns
    assert find_base_images(path, problems) == images
    assert images[4].stat().st_mtime_ns == written
    assert [place.name for place in cache.iterdir()] == [images[4].parent.name], "nothing half-made is left"


def test_two_pictures_of_one_index_are_said_unless_they_are_the_same(tmp_path):
    problems: Problems[DataProblem] = Problems()
    same = {"a__4_input_rawDOTpng": png(picture(4)), "b__4_input_rawDOTpng": png(picture(4))}
    first = find_base_images(zipped(tmp_path / "same.zip", **same), problems)
    assert not problems
    other = {**same, "c__4_input_rawDOTpng": png(picture(5))}
    second = find_base_images(zipped(tmp_path / "other.zip", **other), problems)
    assert Image.open(first[4]) == Image.open(second[4]) == picture(4)
    assert "c/4_input_raw.png: differs from a/4_input_raw.png" in str(problems[0])
    third = find_base_images(zipped(tmp_path / "third.zip", **{"4_input_rawDOTpng": png(picture(5))}), Problems())
    assert Image.open(third[4]) == picture(5)


def test_of_two_processes_at_it_the_first_to_finish_has_unpacked(cache):
    def quick(folder: Path) -> None:
        (folder / "picture").write_text("first")

    def slow(folder: Path) -> None:
        extracted_folder("edival", "k" * 64, quick)
        (folder / "picture").write_text("second")

    extracted = extracted_folder("edival", "k" * 64, slow)
    assert (extracted / "picture").read_text() == "first"
    assert list(cache.iterdir()) == [extracted]


def test_paths_of_a_zip_are_not_followed(tmp_path):
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../../4_input_raw.png", png(picture(4)))
    (image_path,) = find_base_images(path, Problems()).values()
    assert image_path.is_relative_to(tmp_path / "cache")
    assert not list(tmp_path.parent.glob("4_input_raw.png"))


def test_a_folder_is_searched_at_any_depth(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    picture(1).pil().save(tmp_path / "deep" / "er" / "12_input_raw.jpg")
    picture(1).pil().save(tmp_path / "deep" / "12_input_raw_turn_1.png")
    assert find_base_images(tmp_path, Problems()) == {12: tmp_path / "deep" / "er" / "12_input_raw.jpg"}


def test_a_damaged_zip_and_a_missing_one_are_plain_errors(tmp_path, cache):
    with pytest.raises(InputError, match="does not exist"):
        find_base_images(tmp_path / "none.zip", Problems())
    (tmp_path / "no.zip").write_bytes(b"nothing")
    with pytest.raises(InputError, match="neither a folder nor a zip"):
        find_base_images(tmp_path / "no.zip", Problems())
    path = zipped(tmp_path / "bad.zip", **{"4_input_rawDOTpng": png(picture(4))})
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF  # within the picture: its checksum does not fit any more
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"cannot be extracted: .*; extract it yourself"):
        find_base_images(path, Problems())
    assert not list(cache.iterdir()), "nothing half-made is left"


def test_who_has_no_cache_to_write_to_is_told_how_to_name_one(tmp_path, monkeypatch):
    path = zipped(tmp_path / "in.zip", **{"4_input_rawDOTpng": png(picture(4))})
    (tmp_path / "cache").write_bytes(b"")  # a file: that a folder is read-only means nothing to root
    with pytest.raises(InputError, match=r"edival is not writable \(.+\): set the environment variable XDG_CACHE_HOME"):
        find_base_images(path, Problems())

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(InputError, match=r"has no home folder: set the environment variable XDG_CACHE_HOME"):
        find_base_images(path, Problems())
