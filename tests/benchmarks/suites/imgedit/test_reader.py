"""ImgEdit-Bench's published files: both layouts, rows that cannot be used, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.problems import Problems
from editcritic.benchmarks.suites.imgedit.suite import TYPE_COUNTS, ImgEditRow, Part, read_part
from editcritic.benchmarks.suites.rows import DataProblem

from .layout import TURNS, archive, basic_rows, draw, repository, turn_rows, uge_rows


def read(data: Path, part: Part = "basic") -> tuple[list[ImgEditRow], list[str]]:
    problems: Problems[DataProblem] = Problems()
    return read_part(data, part, problems), [str(problem) for problem in problems]


def test_the_published_counts_are_those_of_737_instructions() -> None:
    assert sum(TYPE_COUNTS.values()) == 737
    assert sorted(TYPE_COUNTS.values(), reverse=True) == [117, 100, 95, 94, 94, 92, 86, 36, 23]


def test_the_repository_and_the_archive_hold_the_same_basic_instructions(tmp_path: Path) -> None:
    rows, problems = read(repository(tmp_path / "repository"))
    extracted, _ = read(archive(tmp_path / "extracted"))
    assert not problems
    expected = [(key, (row["prompt"],), row["edit_type"]) for key, row in basic_rows().items()]
    for found in (rows, extracted, read(tmp_path / "extracted" / "Benchmark")[0],
                  read(tmp_path / "extracted" / "Benchmark" / "singleturn")[0],
                  read(tmp_path / "extracted" / "Benchmark" / "singleturn" / "singleturn.json")[0]):  # fmt: skip
        assert [(row.key, row.instructions, row.kind) for row in found] == expected
        assert all(row.picture.is_file() for row in found)


def test_hard_instructions_are_one_object_or_one_a_line(tmp_path: Path) -> None:
    rows, _ = read(repository(tmp_path / "repository"), "uge")
    lines = tmp_path / "lines"
    draw(lines / "hard", *(row["id"] for row in uge_rows().values()))
    (lines / "UGE_edit.jsonl").write_text("".join(json.dumps(row) + "\n" for row in uge_rows().values()))
    by_line, problems = read(lines, "uge")
    assert not problems
    for found in (rows, by_line):
        assert [(row.key, row.instructions) for row in found] == [
            (key, (row["prompt"],)) for key, row in uge_rows().items()
        ]


def test_conversations_have_a_file_for_each_kind(tmp_path: Path) -> None:
    rows, problems = read(archive(tmp_path), "multi-turn")
    assert not problems
    kinds = ["content-memory", "content-understanding", "version-backtracking"]
    assert [(row.kind, row.key) for row in rows] == [(kind, key) for kind in kinds for key in ("1", "2")]
    assert [row.instructions for row in rows[:2]] == [TURNS, TURNS[:2]]
    assert {row.picture.parent.name for row in rows} == {"content_memory", "content_understand", "version_backtrace"}


def test_conversations_may_be_an_object_of_rows_named_after_their_kind(tmp_path: Path) -> None:
    draw(tmp_path, "000000000.jpg")
    (tmp_path / "version_backtracking.json").write_text(json.dumps({"7": turn_rows()[0]}))
    rows, _ = read(tmp_path, "multi-turn")
    assert [(row.kind, row.key, row.instructions) for row in rows] == [("version-backtracking", "7", TURNS)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "animal/none.jpg"}, "there is no image 'animal/none.jpg', neither in"),
        ({"id": 3}, "expected text in 'id', got 3"),
        ({"prompt": "  "}, "expected text in 'prompt', got '  '"),
        ({"prompt": None}, "expected text in 'prompt', got None"),
        ({"edit_type": "hybrid"}, "unknown edit_type 'hybrid': expected one of add, adjust"),
        ({"edit_type": None}, "expected text in 'edit_type', got None"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_the_others_are_read(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder, rows = repository(tmp_path / "repository"), basic_rows()
    rows["1003"] |= change
    (folder / "basic_edit.json").write_text(json.dumps(rows))
    read_rows, (problem,) = read(folder)
    assert len(read_rows) == len(rows) - 1
    assert "basic_edit.json, 1003: " in problem
    assert message in problem


@pytest.mark.parametrize("key", ["a/b", "..", "x" * 300, "a\nb"])
def test_a_key_that_is_no_name_of_a_picture_is_refused(tmp_path: Path, key: str) -> None:
    folder, rows = repository(tmp_path / "repository"), basic_rows()
    (folder / "basic_edit.json").write_text(json.dumps({**rows, key: rows["1000"]}))
    read_rows, problems = read(folder)
    assert len(read_rows) == len(rows)
    assert len(problems) == 1


def test_a_conversation_lacks_no_turn(tmp_path: Path) -> None:
    archive(tmp_path)
    path = tmp_path / "Benchmark" / "multiturn" / "content_memory" / "annotation.json"
    row = turn_rows()[0]
    path.write_text(
        "\n".join([json.dumps({**row, "turn2": ""}), json.dumps({"id": row["id"]}), "[]", "{", json.dumps(row)])
    )
    rows, problems = read(tmp_path, "multi-turn")
    assert [row.key for row in rows if row.kind == "content-memory"] == ["5"]
    assert [problem.partition(": ")[2] for problem in problems][:3] == [
        "expected text in 'turn2', got ''",
        "has 0 turns: expected turn1, turn2, … up to 10",
        "is list: one object per line is expected",
    ]


def test_a_key_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    draw(tmp_path, "000000001.jpg")
    row = {"key": "1", **uge_rows(1)["1"]}
    (tmp_path / "UGE_edit.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    rows, (problem,) = read(tmp_path, "uge")
    assert len(rows) == 1
    assert "the id '1' is also that of" in problem


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("basic", "has no instructions of imgedit's part basic: expected basic_edit.json in it"),
        ("uge", "expected UGE_edit.json in it, with its pictures beside it or in hard/"),
        ("multi-turn", "expected multiturn/content_memory/annotation.json, multiturn/content_understand"),
    ],
)
def test_a_folder_without_instructions_is_told_what_belongs_there(tmp_path: Path, part: Part, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, part)


def test_a_file_without_a_usable_row_is_refused_with_the_reasons(tmp_path: Path) -> None:
    (tmp_path / "basic_edit.json").write_text("no JSON")
    with pytest.raises(InputError, match=r"no usable instructions of imgedit's part basic: .*basic_edit\.json:1"):
        read(tmp_path)
