"""ImgEdit-Bench end to end: published layouts, an editor's outputs, a judge, tables."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.problems import Problems
from editcritic.benchmarks.human_eval.annotation_schedule import QuestionType
from editcritic.benchmarks.human_eval.annotation_session import AnnotationSession
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from editcritic.benchmarks.run.run_settings import RunSettings
from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.human_labels import read_labels
from editcritic.benchmarks.suites.imgedit.suite import (
    TYPE_COUNTS,
    ImgEditBench,
    ImgEditRow,
    Part,
    read_part,
    write_official_files,
)
from editcritic.benchmarks.suites.missing_values import suite_tables
from editcritic.benchmarks.suites.results import ResultRow, Results, load_results
from editcritic.benchmarks.suites.rows import DataProblem
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import Score
from editcritic.reward.metrics.imgedit.metrics import EDIT_TYPES

from ..table_values import values
from ..tiny_suite import Replying, outputs, picture
from .layout import PER_TYPE, TURNS, archive, basic_rows, draw, grading, repository, turn_rows, uge_rows


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imgedit")
    archive(repository(folder / "data"))
    return folder / "data"


@pytest.fixture(scope="module")
def suite(data):
    return ImgEditBench(data)


def judged(suite: ImgEditBench, folder: Path, judge: Replying, protocol: str | None = None) -> Results:
    made = outputs(folder / "made", suite)
    options = RunSettings(on_failures="none")
    run_suite(suite, made, experts={"judge": judge}, protocol=protocol, out=folder / "out", options=options)
    return load_results(folder / "out")


def test_items_are_the_rows_and_share_cases_by_their_picture(suite):
    assert not suite.problems
    assert [item.id for item in suite.items] == list(basic_rows())
    assert [item.labels["type"] for item in suite.items] == [kind for kind in EDIT_TYPES for _ in range(PER_TYPE)]
    first = suite.items[0]
    assert (first.output_path, first.sample.instruction) == ("1000", basic_rows()["1000"]["prompt"])
    assert len(suite.cases) == len({row["id"] for row in basic_rows().values()}) < len(suite.items)


def test_it_runs_from_the_published_layout_to_the_published_table(suite, tmp_path):
    judge = grading()
    results = judged(suite, tmp_path, judge)
    digests = {query.digest for query in judge.queries}
    assert len(digests) == len(judge.queries) == len(suite.items), "one question an edit"
    scores = {row.id: row.scores["imgedit"] for row in results.rows}
    assert {score.status for score in scores.values()} == {"scored"}
    given = {row.id: list(scores[row.id].evidence[0].numbers.values()) for row in results.rows}
    counted = {key: [min(grade, grades[0]) for grade in grades] for key, grades in given.items()}
    assert any(counted[key] != given[key] for key in given)
    means = [fmean(fmean(counted[row.id]) for row in results.filter(type=kind)) for kind in EDIT_TYPES]
    board = values(suite, results, "leaderboard")["all"]
    assert list(board) == [
        *("Add", "Adjust", "Extract", "Replace", "Remove", "Background", "Style", "Hybrid", "Action", "Overall")
    ]
    assert list(board.values()) == pytest.approx([*means, fmean(means)])
    by_criterion = values(suite, results, "criteria")
    for number in range(3):
        style = fmean(counted[row.id][number] for row in results.filter(type="style"))
        assert by_criterion["Style"][f"criterion {number + 1}"] == pytest.approx(style)
    lowered = [any(counted[row.id][n] < given[row.id][n] for n in range(3)) for row in results.filter(type="add")]
    assert values(suite, results, "replies")["Add"]["grades lowered"] == pytest.approx(100 * fmean(lowered))
    notes = suite.tables(results)[0].notes
    assert notes[0] == "Overall is the plain mean of the means of 9 types"
    assert "the data have 18 of 737 instructions: add 2 of 95, adjust 2 of 94, extract 2 of 117" in notes[1]


def test_a_reply_without_grades_is_missing_with_its_bounds_and_its_reason(suite, tmp_path):
    results = judged(suite, tmp_path, grading(failing=basic_rows()["1001"]["prompt"]))
    failed = next(row for row in results.rows if row.id == "1001").scores["imgedit"]
    assert (failed.status, failed.value) == ("failed", None)
    board = suite_tables(suite, results)[0]
    cell = ComputedTable.compute(board, None).cells["all"]["Add"]
    assert (cell.count, cell.num_missing) == (1, 1)
    other = next(row for row in results.rows if row.id == "1000").value("imgedit")
    assert (cell.value, cell.lowest, cell.highest) == (other, ((other or 0) + 1) / 2, ((other or 0) + 5) / 2)
    assert any("imgedit: 1 of 18 without a value (1 failed)" in note for note in board.notes)


def test_official_counts_grades_as_given_and_says_what_was_odd(suite, tmp_path):
    results = judged(suite, tmp_path, grading(failing=basic_rows()["1001"]["prompt"]), "official")
    assert results.rows[1].scores["imgedit"].status == "failed", "the released code leaves it out of all means"
    assert not results.rows[0].scores["imgedit"].parts
    names = ("result", "average_score", "typescore")
    replies, averages, types = (
        json.loads((tmp_path / "out" / "imgedit" / f"{name}.json").read_text()) for name in names
    )
    assert list(replies) == list(averages) == [key for key in basic_rows() if key != "1001"]
    grades = {key: [int(line.rpartition(": ")[2]) for line in text.splitlines()[1:]] for key, text in replies.items()}
    assert averages == {key: round(fmean(of_key), 2) for key, of_key in grades.items()}
    board = values(suite, results, "leaderboard")["all"]
    assert {kind: round(board["Hybrid" if kind == "compose" else kind.capitalize()] or 0, 2) for kind in types} == types
    assert values(suite, results, "replies")["Add"] == {"other than 3 numbers": 0.0, "numbers outside of 1 to 5": 0.0}
    assert [table.name for table in suite.tables(results)] == ["leaderboard", "replies"]


def test_means_of_types_are_rounded_as_the_released_script_rounds_them(tmp_path):
    values = [3.67, 4.33, 5.0, 4.67, 3.67, 4.67]  # their mean is 4.335, a tie
    rows = [ResultRow(str(n), str(n), {"type": "add"}, {"imgedit": Score.of(value)}) for n, value in enumerate(values)]
    write_official_files(Results("mine", rows), "imgedit", tmp_path)
    written = json.loads((tmp_path / "imgedit" / "typescore.json").read_text())
    assert written == {"add": round(sum(values) / len(values), 2)}


@pytest.mark.parametrize("protocol", ["fixed", "official"])
def test_hard_instructions_have_one_mean(data, tmp_path, protocol):
    suite = ImgEditBench(data, part="uge")
    assert [item.id for item in suite.items] == list(uge_rows())
    results = judged(suite, tmp_path, grading(), protocol)
    expected = []
    for row in results.rows:
        item = row.scores["imgedit-uge"].evidence[0]
        lines = item.text.splitlines()
        grade = int(lines[2].removeprefix("Score: "))
        expected.append(min(grade, 3) if protocol == "fixed" and lines[1].endswith(" changed") else grade)
    assert values(suite, results, "leaderboard") == {"all": {"UGE": pytest.approx(fmean(expected))}}
    assert suite.tables(results)[0].notes == ["the data have 4 of 47 instructions"]
    assert [table.name for table in suite.tables(results)] == ["leaderboard", "replies"]
    written = sorted(path.name for path in (tmp_path / "out" / "imgedit").iterdir())
    assert written == ["average_score.json", "result.json"]


def test_conversations_have_chains_of_turns_for_people_and_no_metric(data, tmp_path):
    suite = ImgEditBench(data, part="multi-turn")
    chain = [item for item in suite.items if item.id.startswith("content-memory-1/")]
    labels = {"kind": "content-memory"}
    assert [(item.id, item.previous, item.output_path, dict(item.labels)) for item in chain] == [
        ("content-memory-1/1", "", "content-memory/1_turn1", labels | {"turn": 1}),
        ("content-memory-1/2", "content-memory-1/1", "content-memory/1_turn2", labels | {"turn": 2}),
        ("content-memory-1/3", "content-memory-1/2", "content-memory/1_turn3", labels | {"turn": 3}),
    ]
    assert [item.sample.instruction for item in chain] == list(TURNS)
    assert (len(suite.items), suite.protocols) == (3 * (3 + 2), {})
    with pytest.raises(InputError, match="editcritic judge label 'imgedit\\?part=multi-turn'"):
        suite.metrics()
    editors = {name: outputs(tmp_path / name, suite) for name in ("one", "two")}
    pool = SuitePool(suite, editors)
    assert len(pool.questions([QuestionType("yes-no", "following")])) == 2 * len(suite.items)
    assert not pool.skipped
    last = pool.sample("one", "content-memory-1/3")
    assert [turn.instruction for turn in last.turns] == list(TURNS)
    assert last.source == picture(1000, 1), "a turn is shown with what the turn before made"
    (editors["two"] / "content-memory" / "1_turn2.png").unlink()
    assert len(SuitePool(suite, editors).questions([QuestionType("pair", "overall")])) == len(suite.items) - 2


def test_options_decide_what_is_asked_and_are_part_of_results(data, tmp_path):
    (tmp_path / "add.txt").write_text("Theirs: {instruction}")
    suite = ImgEditBench(data, extract_source=True, prompts=str(tmp_path), protocol="official")
    (spec,) = suite.metrics().values()
    expected = {"use": "imgedit", "protocol": "official", "extract_source": True, "prompts": str(tmp_path)}
    assert spec == expected
    assert suite.metrics("fixed")["imgedit"] == {**expected, "protocol": "fixed"}
    assert list(suite.protocols) == ["official", "fixed"]
    assert {**suite.options, "prompts": ""} == {"part": "basic", "extract_source": "true", "prompts": ""}
    assert ImgEditBench(data, part="uge").options == {"part": "uge"}
    assert len({ImgEditBench(data, part=part).digest for part in ("basic", "uge", "multi-turn")}) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "hard"}, "imgedit has no part 'hard': expected one of basic, uge, multi-turn"),
        ({"protocol": "paper"}, "imgedit has no protocol 'paper': expected one of fixed, official"),
        ({"part": "uge", "extract_source": True}, "extract_source is an option of the part basic"),
        ({"part": "multi-turn", "protocol": "official"}, "people judge the part multi-turn"),
        ({"prompts": "/nowhere"}, "prompt pack '/nowhere' is not a folder"),
    ],
)
def test_options_that_mean_nothing_are_refused(data, options, message):
    with pytest.raises(InputError, match=message):
        ImgEditBench(data, **options)


def test_a_picture_that_cannot_be_read_is_named_and_the_others_are_used(tmp_path):
    folder, broken = repository(tmp_path / "data"), basic_rows()["1005"]["id"]
    (folder / "Benchmark" / "singleturn" / broken).write_bytes(b"no picture")
    suite = ImgEditBench(folder)
    others = [key for key, row in basic_rows().items() if row["id"] != broken]
    assert [item.id for item in suite.items] == others
    assert len(suite.problems) == len(basic_rows()) - len(others)


def test_a_person_sees_the_whole_conversation_and_the_answer_is_kept(data, tmp_path):
    suite = ImgEditBench(data, part="multi-turn")
    pool, file = SuitePool(suite, {"mine": outputs(tmp_path / "made", suite)}), tmp_path / "labels.jsonl"
    memory = pool.questions([QuestionType("yes-no", "content-memory")])
    session = AnnotationSession(pool, memory, file, practice_questions=0, recheck_share=0)
    seen = {}
    for number in range(3):
        question: Any = session.question("ann")
        assert question.definition.startswith("Does the last edit keep to what earlier instructions set")
        seen[question.instruction] = [shown.role for shown in question.pictures]
        if len(question.pictures) == 4:
            assert [shown.image for shown in question.pictures][1:] == [picture(1000, turn) for turn in range(3)]
        session.submit("ann", number, "yes", 1)
    two, three = ("\n".join(f"{n}. {text}" for n, text in enumerate(TURNS[:many], 1)) for many in (2, 3))
    first, last = ["source", "after turn 1"], ["edited"]
    assert seen == {two: [*first, *last], three: [*first, "after turn 2", *last]}
    labels = read_labels([file])
    names = sorted(name for label in labels for _, name in label.item_keys)
    assert names == ["content-memory-1/2", "content-memory-1/3", "content-memory-2/2"], "from the second turn on"
    assert {(label.dimension, label.label) for label in labels} == {("content-memory", "yes")}


# -- data -------------------------------------------------------------------------------------------------------------


def read(folder: Path, part: Part = "basic") -> tuple[list[ImgEditRow], list[str]]:
    problems: Problems[DataProblem] = Problems()
    return read_part(folder, part, problems), [str(problem) for problem in problems]


def instructions(part: Part, folder: Path) -> list[tuple[str, tuple[str, ...], str]]:
    rows, problems = read(folder, part)
    assert not problems
    assert all(row.picture.is_file() for row in rows)
    return [(row.key, row.instructions, row.kind) for row in rows]


def test_the_repository_and_the_archive_hold_the_same_basic_instructions(tmp_path):
    assert sorted(TYPE_COUNTS.values(), reverse=True) == [117, 100, 95, 94, 94, 92, 86, 36, 23], "737 in all"
    top = archive(tmp_path / "extracted") / "Benchmark"
    expected = [(key, (row["prompt"],), row["edit_type"]) for key, row in basic_rows().items()]
    single = top / "singleturn"
    for folder in (repository(tmp_path / "repository"), top.parent, top, single, single / "singleturn.json"):
        assert instructions("basic", folder) == expected


def test_hard_instructions_are_one_object_or_one_a_line(tmp_path):
    lines = tmp_path / "lines"
    draw(lines / "hard", *(row["id"] for row in uge_rows().values()))
    (lines / "UGE_edit.jsonl").write_text("".join(json.dumps(row) + "\n" for row in uge_rows().values()))
    for folder in (repository(tmp_path / "repository"), lines):
        found = [(key, prompts) for key, prompts, _ in instructions("uge", folder)]
        assert found == [(key, (row["prompt"],)) for key, row in uge_rows().items()]


def test_conversations_have_a_file_for_each_kind_of_lines_or_of_an_object(tmp_path):
    rows = instructions("multi-turn", archive(tmp_path / "archive"))
    kinds = ["content-memory", "content-understanding", "version-backtracking"]
    turns = (("1", TURNS), ("2", TURNS[:2]))
    assert rows == [(key, texts, kind) for kind in kinds for key, texts in turns]
    (tmp_path / "object").mkdir()
    draw(tmp_path / "object", "000000000.jpg")
    (tmp_path / "object" / "version_backtracking.json").write_text(json.dumps({"7": turn_rows()[0]}))
    assert instructions("multi-turn", tmp_path / "object") == [("7", TURNS, "version-backtracking")]


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
def test_a_row_that_cannot_be_used_is_named_and_the_others_are_read(tmp_path, change, message):
    folder, rows = repository(tmp_path / "repository"), basic_rows()
    rows["1003"] |= change
    (folder / "basic_edit.json").write_text(json.dumps(rows))
    read_rows, (problem,) = read(folder)
    assert len(read_rows) == len(rows) - 1
    assert "basic_edit.json, 1003: " in problem
    assert message in problem


@pytest.mark.parametrize("key", ["a/b", "..", "x" * 300, "a\nb"])
def test_a_key_that_is_no_name_of_a_picture_or_comes_twice_is_refused(tmp_path, key):
    folder, rows = repository(tmp_path / "repository"), basic_rows()
    (folder / "basic_edit.json").write_text(json.dumps({**rows, key: rows["1000"]}))
    read_rows, (problem,) = read(folder)
    assert len(read_rows) == len(rows)
    (tmp_path / "twice").mkdir()
    draw(tmp_path / "twice", "000000001.jpg")
    (tmp_path / "twice" / "UGE_edit.jsonl").write_text(f"{json.dumps({'key': '1', **uge_rows(1)['1']})}\n" * 2)
    read_rows, (problem,) = read(tmp_path / "twice", "uge")
    assert (len(read_rows), "the id '1' is also that of" in problem) == (1, True)


def test_a_conversation_lacks_no_turn(tmp_path):
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


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("basic", "has no instructions of imgedit's part basic: expected basic_edit.json in it"),
        ("uge", "expected UGE_edit.json in it, with its pictures beside it or in hard/"),
        ("multi-turn", "expected multiturn/content_memory/annotation.json, multiturn/content_understand"),
    ],
)
def test_a_folder_without_instructions_is_told_what_belongs_there(tmp_path, part, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, part)
    (tmp_path / "basic_edit.json").write_text("no JSON")
    with pytest.raises(InputError, match=r"no usable instructions of imgedit's part basic: .*basic_edit\.json:1"):
        read(tmp_path)
