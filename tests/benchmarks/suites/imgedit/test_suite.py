"""ImgEdit-Bench end to end: published layouts, an editor's outputs, a judge, tables."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.annotation_plan import QuestionType
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from editcritic.benchmarks.run.run_settings import RunSettings
from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench, write_official_files
from editcritic.benchmarks.suites.missing_values import suite_tables
from editcritic.benchmarks.suites.results import ResultRow, Results, load_results
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import Score
from editcritic.reward.metrics.imgedit.metrics import CRITERIA, EDIT_TYPES

from ..table_values import values
from ..tiny_suite import picture
from .layout import PER_TYPE, TURNS, Grading, archive, basic_rows, outputs, repository, uge_rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imgedit")
    archive(repository(folder / "data"))
    return folder / "data"


def judged(suite: ImgEditBench, folder: Path, judge: Grading, protocol: str | None = None) -> Results:
    made = outputs(folder / "made", suite)
    options = RunSettings(on_failures="none")
    run_suite(suite, made, experts={"judge": judge}, protocol=protocol, out=folder / "out", options=options)
    return load_results(folder / "out")


def test_items_are_the_rows_and_share_cases_by_their_picture(data: Path) -> None:
    suite = ImgEditBench(data)
    assert not suite.problems
    assert [item.id for item in suite.items] == list(basic_rows())
    assert [item.labels["type"] for item in suite.items] == [kind for kind in EDIT_TYPES for _ in range(PER_TYPE)]
    first = suite.items[0]
    assert (first.output_path, first.sample.instruction) == ("1000", basic_rows()["1000"]["prompt"])
    assert len(suite.cases) == len({row["id"] for row in basic_rows().values()}) < len(suite.items)


def test_it_runs_from_the_published_layout_to_the_published_table(data: Path, tmp_path: Path) -> None:
    suite = ImgEditBench(data)
    judge = Grading(log=str(tmp_path / "log"))
    results = judged(suite, tmp_path, judge)
    assert len((tmp_path / "log").read_text().split()) == len(suite.items), "one question an edit"
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


def test_a_reply_without_grades_is_missing_with_its_bounds_and_its_reason(data: Path, tmp_path: Path) -> None:
    suite = ImgEditBench(data)
    results = judged(suite, tmp_path, Grading(failing=basic_rows()["1001"]["prompt"]))
    failed = next(row for row in results.rows if row.id == "1001").scores["imgedit"]
    assert (failed.status, failed.value) == ("failed", None)
    board = suite_tables(suite, results)[0]
    cell = ComputedTable.compute(board, None).cells["all"]["Add"]
    assert (cell.count, cell.num_missing) == (1, 1)
    other = next(row for row in results.rows if row.id == "1000").value("imgedit")
    assert (cell.value, cell.lowest, cell.highest) == (other, ((other or 0) + 1) / 2, ((other or 0) + 5) / 2)
    assert any("imgedit: 1 of 18 without a value (1 failed)" in note for note in board.notes)


def test_official_counts_grades_as_given_and_says_what_was_odd(data: Path, tmp_path: Path) -> None:
    suite = ImgEditBench(data)
    results = judged(suite, tmp_path, Grading(failing=basic_rows()["1001"]["prompt"]), "official")
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


def test_means_of_types_are_rounded_as_the_released_script_rounds_them(tmp_path: Path) -> None:
    values = [3.67, 4.33, 5.0, 4.67, 3.67, 4.67]  # their mean is 4.335, a tie
    rows = [ResultRow(str(n), str(n), {"type": "add"}, {"imgedit": Score.of(value)}) for n, value in enumerate(values)]
    write_official_files(Results("mine", rows), "imgedit", tmp_path)
    written = json.loads((tmp_path / "imgedit" / "typescore.json").read_text())
    assert written == {"add": round(sum(values) / len(values), 2)}


@pytest.mark.parametrize("protocol", ["fixed", "official"])
def test_hard_instructions_have_one_mean(data: Path, tmp_path: Path, protocol: str) -> None:
    suite = ImgEditBench(data, part="uge")
    assert [item.id for item in suite.items] == list(uge_rows())
    results = judged(suite, tmp_path, Grading(), protocol)
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


def test_conversations_have_chains_of_turns_for_people_and_no_metric(data: Path, tmp_path: Path) -> None:
    suite = ImgEditBench(data, part="multi-turn")
    chain = [item for item in suite.items if item.id.startswith("content-memory-1/")]
    assert [(item.id, item.previous, item.output_path, dict(item.labels)) for item in chain] == [
        ("content-memory-1/1", "", "content-memory/1_turn1", {"kind": "content-memory", "turn": 1}),
        ("content-memory-1/2", "content-memory-1/1", "content-memory/1_turn2", {"kind": "content-memory", "turn": 2}),
        ("content-memory-1/3", "content-memory-1/2", "content-memory/1_turn3", {"kind": "content-memory", "turn": 3}),
    ]
    assert [item.sample.instruction for item in chain] == list(TURNS)
    assert len(suite.items) == 3 * (3 + 2)
    assert suite.protocols == {}
    with pytest.raises(InputError, match="editcritic judge label 'imgedit\\?part=multi-turn'"):
        suite.metrics()
    editors = {name: outputs(tmp_path / name, suite) for name in ("one", "two")}
    pool = SuitePool(suite, editors)
    questions = pool.questions([QuestionType("yes-no", "following")])
    assert len(questions) == 2 * len(suite.items)
    assert not pool.skipped
    last = pool.sample("one", "content-memory-1/3")
    assert [turn.instruction for turn in last.turns] == list(TURNS)
    assert last.source == picture(2000, 1), "a turn is shown with what the turn before made"
    (editors["two"] / "content-memory" / "1_turn2.png").unlink()
    partial = SuitePool(suite, editors)
    assert len(partial.questions([QuestionType("pair", "overall")])) == len(suite.items) - 2


def test_options_decide_what_is_asked_and_are_part_of_results(data: Path, tmp_path: Path) -> None:
    (tmp_path / "add.txt").write_text("Theirs: {instruction}")
    suite = ImgEditBench(data, extract_source=True, prompts=str(tmp_path), protocol="official")
    (spec,) = suite.metrics().values()
    assert spec == {"use": "imgedit", "protocol": "official", "extract_source": True, "prompts": str(tmp_path)}
    assert suite.metrics("fixed")["imgedit"]["protocol"] == "fixed"  # type: ignore[index]
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
def test_options_that_mean_nothing_are_refused(data: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ImgEditBench(data, **options)


def test_a_picture_that_cannot_be_read_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    folder = repository(tmp_path / "data")
    broken = folder / "Benchmark" / "singleturn" / basic_rows()["1005"]["id"]
    broken.write_bytes(b"no picture")
    suite = ImgEditBench(folder)
    users = [key for key, row in basic_rows().items() if row["id"] == basic_rows()["1005"]["id"]]
    assert [item.id for item in suite.items] == [key for key in basic_rows() if key not in users]
    assert len(suite.problems) == len(users)


def test_names_of_criteria_are_parts_of_scores() -> None:
    assert set(CRITERIA) == set(EDIT_TYPES)
    assert all(len(set(names)) == 3 for names in CRITERIA.values())
