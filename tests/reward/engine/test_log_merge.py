"""Answer logs are merged: equal answers once, others as conflicts, damaged rows not at all; no log changes."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import AnswerLog, Engine
from editcritic.reward.engine.answer_log import LogError
from editcritic.reward.engine.log_merge import MergeReport, merge_logs
from editcritic.reward.queries import Measurement, Reply
from editcritic.reward.queries.answers import Answer
from editcritic.reward.queries.kinds import Query

from ..fakes import Fake, alone, asks, known, question, run_all, verdict

Answers = list[tuple[Query[Any], Answer]]


def numbers(*values: int) -> Answers:
    return [(question(value), known(question(value))) for value in values]


def write(path: Path, answers: Answers, expert: str = "fake@1", **options: Any) -> Path:
    with AnswerLog(path, **options) as log:
        log.put(expert, answers)
    return path


def stored(path: Path, *answers: int, expert: str = "fake@1") -> dict[str, Any]:
    with AnswerLog(path, read_only=True) as log:
        return log.get(expert, [question(number) for number in answers])


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def added(report: MergeReport) -> list[int]:
    return [log.added for log in report.logs]


def test_logs_of_two_machines_are_one_and_are_not_changed(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", numbers(1, 2, 3)), write(tmp_path / "b", numbers(3, 4))
    write(second, numbers(1), expert="other@1")
    before = digest(first), digest(second)
    report = merge_logs([first, second], tmp_path / "all")
    assert (report.answers, added(report), report.num_conflicts, report.damaged) == (5, [3, 2], 0, 0)
    assert stored(tmp_path / "all", 1, 2, 3, 4) == {query.digest: answer for query, answer in numbers(1, 2, 3, 4)}
    assert stored(tmp_path / "all", 1, expert="other@1") == stored(second, 1, expert="other@1")
    assert (digest(first), digest(second)) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "all", "b"]


def test_merging_again_changes_nothing_and_what_is_there_stays(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", numbers(1)), write(tmp_path / "b", numbers(2))
    merge_logs([first], tmp_path / "all")
    assert added(merge_logs([second], tmp_path / "all")) == [1, 1]
    again = merge_logs([first, second], tmp_path / "all")
    assert (again.answers, added(again), again.num_conflicts) == (2, [2, 0, 0], 0)


def test_answers_that_differ_are_conflicts_and_the_first_is_kept(tmp_path: Path) -> None:
    yes, no = (Reply(word, {"yes": share, "no": 1 - share}) for word, share in (("yes", 0.75), ("no", 0.25)))
    first = write(tmp_path / "a", [(verdict(1), yes)], "judge@1", record_queries=True)
    second = write(tmp_path / "b", [(verdict(1), no), (verdict(2), no)], "judge@1")
    third = write(tmp_path / "c", [(question(1), Measurement(0.0, 1.0))])
    fourth = write(tmp_path / "d", [(question(1), Measurement(1.0, 1.0))])
    report = merge_logs([first, second, third, fourth], tmp_path / "all")
    assert report.answers == 3
    assert report.counts == {("answer", "judge@1", "judge"): 1, ("answer", "fake@1", "value, share"): 1}
    conflict = report.conflicts[0]
    assert '"yes"' in conflict.first
    assert '"no"' in conflict.other
    assert conflict.other_log == str(second)
    with AnswerLog(tmp_path / "all", read_only=True) as log:
        assert log.get("judge@1", [verdict(1)]) == {verdict(1).digest: yes}


def test_none_of_the_answers_that_differ_may_be_kept(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / str(number), [(question(1), Measurement(float(number), 1.0)), *numbers(2)])
        for number in range(3)
    ]
    report = merge_logs(paths, tmp_path / "all", keep="none")
    assert report.num_conflicts == 1
    assert list(stored(tmp_path / "all", 1, 2)) == [question(2).digest]


def test_damaged_answers_are_left_out_and_another_log_has_them(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", numbers(1, 2)), write(tmp_path / "b", numbers(1))
    with closing(sqlite3.connect(first, isolation_level=None)) as db:
        db.execute("update answers set answer = replace(answer, 'value', 'valua') where query_digest = ?", key(1))
        db.execute("update answers set query_digest = x'00' where query_digest = ?", key(2))
    report = merge_logs([first, second], tmp_path / "all")
    assert (report.answers, report.damaged, report.num_conflicts) == (1, 2, 0)
    assert stored(tmp_path / "all", 1) == stored(second, 1)


def key(number: int) -> tuple[bytes]:
    return (bytes.fromhex(question(number).digest),)


def test_digests_of_files_are_merged(tmp_path: Path) -> None:
    for name, image in (("a", "1" * 64), ("b", "2" * 64)):
        with AnswerLog(tmp_path / name) as log:
            log.files["f" * 64] = (image, (8, 6))
            log.files[name * 64] = (image, (4, 4))
    report = merge_logs([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    assert report.counts == {("image file", "", ""): 1}  # a picture was decoded in two ways
    with AnswerLog(tmp_path / "all", read_only=True) as log:
        assert len(log.files) == 3
        assert log.files["f" * 64] == ("1" * 64, (8, 6))


def test_what_cannot_be_merged_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    good = write(tmp_path / "a", numbers(1))
    (tmp_path / "text").write_text("no database")
    foreign = tmp_path / "foreign"
    with closing(sqlite3.connect(foreign)) as db:
        db.execute("create table people (name text)")
    hostile = write(tmp_path / "hostile", numbers(2))
    with closing(sqlite3.connect(hostile)) as db:
        db.execute("create trigger t after insert on answers begin delete from answers; end")
    for other in (tmp_path / "text", foreign, hostile, tmp_path / "missing"):
        with pytest.raises(LogError, match=other.name):
            merge_logs([good, other], tmp_path / "all")
        assert not (tmp_path / "all").exists()
    with pytest.raises(LogError, match="one of the logs"):
        merge_logs([good], good)
    before = digest(good)
    with pytest.raises(LogError):
        merge_logs([good], tmp_path / "text")
    assert (tmp_path / "text").read_text() == "no database"
    assert digest(good) == before
    assert not list(tmp_path.glob(".*"))


def test_a_log_that_a_process_uses_is_not_replaced(tmp_path: Path) -> None:
    good = write(tmp_path / "a", numbers(1))
    with AnswerLog(tmp_path / "all") as used:
        used.put("fake@1", numbers(2))
        with pytest.raises(LogError, match="used by a process"):
            merge_logs([good], tmp_path / "all")
    assert added(merge_logs([good], tmp_path / "all")) == [1, 1]


def test_an_engine_with_the_merged_log_asks_nothing(tmp_path: Path) -> None:
    for name, asked in (("a", (1, 2)), ("b", (2, 3))):
        with AnswerLog(tmp_path / name) as log, Engine(log=log) as engine:
            run_all(engine, [asks(*asked)], Fake(known))
    merge_logs([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    with AnswerLog(tmp_path / "all") as log, Engine(log=log) as engine:
        expert = Fake(known)
        (score,) = run_all(engine, [asks(1, 2, 3)], expert)
    assert score == alone(asks(1, 2, 3), known)
    assert expert.calls == []
