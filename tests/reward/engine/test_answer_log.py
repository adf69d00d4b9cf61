"""The answer log stores answers exactly, for all processes; other files are refused."""

import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import AnswerLog, Box, EditPlan, Engine, Image, PlannedOperation, Score, Target, ask
from editcritic.reward.engine.answer_log import SCHEMA, LogError
from editcritic.reward.engine.expert_queue import Stats
from editcritic.reward.queries import (
    Abstention,
    Detect,
    Detections,
    Measure,
    Measurement,
    Plan,
    Rate,
    ReadText,
    RecognizedText,
    Reply,
)
from editcritic.reward.queries.answers import Answer, TextLine
from editcritic.reward.queries.kinds import Query

from ..fakes import PICTURE, Fake, alone, asks, known, mixed, picture, question, run_all, verdict

ROOT = Path(__file__).parents[3]
BOX = Box(1 / 3, 0.1 + 0.2, 1e-9, 1.0, 0.9, "Tasse “blau”")
ANSWERS: list[tuple[Query[Any], Answer | Abstention]] = [
    (Detect(PICTURE, ("cup",)), Detections((BOX, BOX), 0.05)),
    (Detect(PICTURE, ("plate",)), Detections(())),
    (question(1), Measurement(0.1 + 0.2, 1 / 3)),
    (Measure("ssim", (PICTURE, PICTURE)), Measurement(None, 0.0)),
    (verdict(1), Reply("Ja, 是的\n\0", {"yes": 1 / 3, "no": 2 / 3})),
    (ReadText(PICTURE), RecognizedText((TextLine("OPEN", BOX),))),
    (question(2), Abstention("who could know")),
    (Plan((PICTURE,), "Remove cup"), EditPlan((PlannedOperation("subject_remove", target=Target("cup")),))),
]
OPENING = """
import sys, time
from editcritic.reward import AnswerLog
folder, start = sys.argv[1], float(sys.argv[2])
for number in range(60):
    while time.time() < start + 0.02 * number:
        pass
    AnswerLog(f"{folder}/{number}").close()
"""
CROP = '["crop", 0, 0, 4, 4]'


def rows(path, table):
    with sqlite3.connect(path) as db:
        records = db.execute(f"select * from {table}").fetchall()
    db.close()
    return records


def test_answers_come_back_as_they_were(tmp_path):
    queries = [query for query, _ in ANSWERS]
    with AnswerLog(tmp_path / "log") as log:
        log.put("judge@1", ANSWERS)
        assert len(log) == len(ANSWERS)
    with AnswerLog(tmp_path / "log") as log:
        assert log.get("judge@1", [*queries, question(99)]) == {query.digest: answer for query, answer in ANSWERS}
        assert log.get("judge@2", queries) == {}
    queries = [question(number) for number in range(2500)]
    with AnswerLog(tmp_path / "large") as log:
        log.put("e", [(query, Measurement(0.5)) for query in queries])
        assert (len(log.get("e", queries)), log.get("e", [])) == (2500, {})


def test_answers_of_a_batch_are_kept_together_or_not_at_all_and_the_first_to_a_question_stays(tmp_path):
    with AnswerLog(tmp_path / "log") as log:
        with pytest.raises(ValueError, match="not JSON compliant"):
            log.put("e", [(question(1), Measurement(1.0)), (question(2), Measurement(float("nan")))])
        assert len(log) == 0
        log.put("e", [(question(1), Measurement(1.0))])
        log.put("e", [(question(1), Measurement(2.0)), (question(2), Measurement(2.0))])
        assert list(log.get("e", [question(1), question(2)]).values()) == [Measurement(1.0), Measurement(2.0)]


def test_processes_may_make_a_log_at_the_same_moment(tmp_path):
    command = [sys.executable, "-c", OPENING, str(tmp_path), str(time.time() + 1)]
    runs = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [run.communicate(timeout=60)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], errors


def text_file(path):
    path.write_text("not a database at all, but long enough to be taken for one" * 20)


def another_database(path):
    with sqlite3.connect(path) as db:
        db.execute("create table people (name text)")
    db.close()


def newer(path):
    with AnswerLog(path) as log:
        log.meta("schema", str(SCHEMA + 1))


def older(path):
    with sqlite3.connect(path) as db:  # as version 2 made it
        db.execute("create table meta (key text primary key, value text not null) without rowid")
        db.execute("create table answers (expert_number integer, query_digest blob, answer text)")
        db.execute("insert into meta values ('schema', '2')")
    db.close()


def folder(path):
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (text_file, "cannot be used as an answer log: file is not a database"),
        (folder, "cannot be used as an answer log: it is not a regular file"),
        (another_database, "is a database of something else: give a new file"),
        (newer, f"has schema {SCHEMA + 1}, this version reads {SCHEMA}: use a new file"),
        (older, f"has schema 2, this version reads {SCHEMA}: use a new file"),
    ],
)
def test_what_is_no_answer_log_is_refused_and_left_as_it_is(make, says, tmp_path):
    path = tmp_path / "log"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LogError, match=f"{path} {says}"):
        AnswerLog(path)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_place_that_cannot_be_written_is_named_and_an_empty_file_becomes_a_log(tmp_path):
    path = tmp_path / "nowhere" / "log"
    with pytest.raises(LogError, match=f"{path} cannot be used as an answer log: unable to open database file"):
        AnswerLog(path)
    (tmp_path / "log").touch()
    with AnswerLog(tmp_path / "log") as log:
        assert len(log) == 0


def test_a_log_that_may_only_be_read_is_named(tmp_path, monkeypatch):
    AnswerLog(tmp_path / "log").close()
    connect = sqlite3.connect
    # Simulates a read-only file, since the tests may run as root.
    monkeypatch.setattr(
        sqlite3, "connect", lambda path, **options: connect(f"file:{path}?mode=ro", **{**options, "uri": True})
    )
    with pytest.raises(LogError, match="log cannot be used as an answer log: attempt to write a readonly database"):
        AnswerLog(tmp_path / "log")


def damaged(path, statements):
    with sqlite3.connect(path) as db:
        for statement in statements.split(";"):
            assert db.execute(statement).rowcount
    db.close()


def stored(path, numbers=(1, 2)):
    with AnswerLog(path) as log, Engine(log=log) as engine:
        run_all(engine, [asks(*numbers)], Fake(known))


@pytest.mark.parametrize(
    "statement",
    [
        """update answers set answer = replace(answer, '"value": 0.', '"value": 0.1')""",
        "update answers set answer = '{}'",
        "update answers set answer = x'80'",
        "update answers set answer = 7.5",
        "update answers set checksum = ''",
        """create temp table old as select * from answers;
        update answers set (answer, checksum) = (select answer, checksum from old
        where expert_number = answers.expert_number and query_digest != answers.query_digest)""",
        """update experts set id = 'x' where number = 2;
        update experts set id = 'other' where number = 1; update experts set id = 'fake' where number = 2""",
    ],
    ids=["another number", "no answer", "no text", "no string", "no checksum", "swapped rows", "swapped experts"],
)
def test_a_damaged_answer_counts_as_not_stored_and_is_said_and_replaced(statement, tmp_path):
    path = tmp_path / "log"
    stored(path)
    with AnswerLog(path) as log, Engine(log=log) as engine:  # another expert, with other answers
        run_all(engine, [asks(1, 2)], Fake(lambda _: Measurement(0.25), name="other"))
    damaged(path, statement)
    expected = alone(asks(1, 2), known)
    with AnswerLog(path) as log, Engine(log=log, cache_bytes=1) as engine:
        expert = Fake(known)
        with pytest.warns(RuntimeWarning, match=f"the answer log {path} is damaged") as warned:
            assert run_all(engine, [asks(1, 2)], expert) == [expected]
        assert (len(warned), expert.calls) == (1, [2])
        stats = engine.stats().since(Stats())
        assert (stats["rejected"], stats["unique"], stats["cache_hits"]) == (2, 2, 0)
    again = Fake(known)
    with AnswerLog(path) as log, Engine(log=log) as engine:
        assert run_all(engine, [asks(1, 2)], again) == [expected]
    assert again.calls == []


def test_an_answer_of_another_kind_counts_as_not_stored(tmp_path):
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:
        log.put("fake", [(question(1), Detections(()))])
        expert = Fake(known)
        with pytest.warns(RuntimeWarning, match="rate expects Measurement, got Detections"):
            assert run_all(engine, [asks(1)], expert) == [alone(asks(1), known)]
        assert (expert.calls, engine.stats().rejected) == ([1], 1)
        assert log.get("fake", [question(1)]) == {question(1).digest: known(question(1))}


def test_no_flipped_bit_changes_a_score(tmp_path):
    """One bit anywhere in the file: the score is the same, or the file is refused."""
    numbers = tuple(range(36))
    stored(tmp_path / "log", numbers)
    intact = (tmp_path / "log").read_bytes()
    expected = alone(asks(*numbers), known)
    used = [place for place, byte in enumerate(intact) if byte]  # most of a small file is unused
    rng = random.Random(0)
    refused = rejected = 0
    for trial in range(300):
        content = bytearray(intact)
        content[rng.choice(used)] ^= 1 << rng.randrange(8)
        path = tmp_path / f"log{trial}"
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                log = AnswerLog(path)
            except LogError:
                refused += 1
                continue
            with log, Engine(log=log) as engine:
                assert run_all(engine, [asks(*numbers)], Fake(known)) == [expected]
                rejected += engine.stats().rejected
    assert rejected > 50
    assert refused < 150


def test_a_damaged_row_of_the_index_of_files_is_decoded_again(tmp_path):
    picture(1).pil().save(tmp_path / "a.png")
    path = tmp_path / "log"
    for column, value in (("width", 9), ("image_digest", "'0'"), ("height", "'x'")):
        with AnswerLog(path) as log:
            Image.open(tmp_path / "a.png", index=log.files)
        damaged(path, f"update image_files set {column} = {value}")
        with AnswerLog(path) as log:
            assert dict(log.files) == {}
            assert Image.open(tmp_path / "a.png", index=log.files).size == (8, 8)
            assert [entry for _, entry in log.files.items()] == [(picture(1).digest, (8, 8))]


@pytest.mark.parametrize(
    ("table", "column", "read"),
    [
        ("meta", "value", lambda log: log.meta("reward")),
        ("samples", "sample", lambda log: log.samples()),
        ("derived_images", "image_digest", lambda log: log.derived_digest(picture(1).digest, CROP)),
        ("derived_images", "operation", lambda log: log.derived_digest(picture(1).digest, CROP + "1")),
        ("answers", "answer", lambda log: log.verify()),
        ("answers", "expert_number", lambda log: log.verify()),
        ("image_files", "width", lambda log: log.verify()),
    ],
)
def test_what_cannot_be_asked_again_is_an_error_when_it_is_damaged(table, column, read, tmp_path):
    path = tmp_path / "log"
    picture(1).pil().save(tmp_path / "a.png")
    with AnswerLog(path, record_queries=True) as log, Engine(log=log) as engine:
        log.meta("reward", "edival-if")
        log.add_sample("a sample")
        Image.open(tmp_path / "a.png", index=log.files)
        run_all(engine, [rates(picture(1).crop(0, 0, 4, 4))], Fake(known))
        log.verify()
        read(log)
    condition = "where key = 'reward'" if table == "meta" else ""
    damaged(path, f"update {table} set {column} = {column} || '1' {condition}")
    with AnswerLog(path) as log:
        with pytest.raises(LogError, match=f"{path} is damaged"):
            read(log)
        with pytest.raises(LogError, match=f"{path} is damaged"):
            log.verify()


def rates(image):
    yield from ask(Rate(image))
    return Score.of(1)


def test_a_log_that_describes_keeps_questions_and_where_crops_came_from(tmp_path):
    image = picture(1)
    crop = image.crop(0, 0, 4, 4).resized(2, 2)
    with AnswerLog(tmp_path / "log", record_queries=True) as log, Engine(log=log) as engine:
        run_all(engine, [rates(crop), asks(1)], Fake(known))
    described = {(query.hex(), kind): json.loads(text) for query, kind, text in rows(tmp_path / "log", "queries")}
    assert described == {(query.digest, "rate"): query.describe() for query in (Rate(crop), question(1))}
    with AnswerLog(tmp_path / "log", read_only=True) as log:
        unseen = Image.from_digest(image.digest, image.size, log.derived_digest)
        assert unseen.crop(0, 0, 4, 4) == image.crop(0, 0, 4, 4)
        assert unseen.crop(0, 0, 4, 4).resized(2, 2) == crop


def test_a_log_that_only_caches_keeps_answers_alone(tmp_path):
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:
        run_all(engine, [rates(picture(1).crop(0, 0, 4, 4))], Fake(known))
    assert [len(rows(tmp_path / "log", table)) for table in ("answers", "queries", "derived_images")] == [1, 0, 0]


def test_notes_and_samples_are_kept_in_order(tmp_path):
    with AnswerLog(tmp_path / "log") as log:
        assert log.meta("reward") is None
        log.meta("reward", "edival-if")
        log.meta("reward", "edival-cc")
        for sample in ("b", "a", "b"):
            log.add_sample(sample)
    with AnswerLog(tmp_path / "log") as log:
        assert (log.meta("reward"), log.samples()) == ("edival-cc", ["b", "a", "b"])


def test_the_index_of_files_is_a_mapping_that_lasts(tmp_path):
    picture(1).pil().save(tmp_path / "a.png")
    with AnswerLog(tmp_path / "log") as log:
        first = Image.open(tmp_path / "a.png", index=log.files)
        ((file, entry),) = log.files.items()
        assert entry == (first.digest, (8, 8))
    with AnswerLog(tmp_path / "log") as log:
        assert Image.open(tmp_path / "a.png", index=log.files) == first
        assert (len(log.files), list(log.files), file in log.files, log.files.get("x")) == (1, [file], True, None)
        del log.files[file]
        assert len(log.files) == 0
        with pytest.raises(KeyError):
            _ = log.files[file]


def test_threads_share_a_log(tmp_path):
    with AnswerLog(tmp_path / "log") as log:

        def work(worker):
            for number in range(100):
                log.put(f"e{worker % 2}", [(question(number), Measurement(float(number)))])
                assert log.get(f"e{worker % 2}", [question(number)])

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(log) == 200


def test_failures_are_never_kept(tmp_path):
    expert = Fake(mixed)
    with AnswerLog(tmp_path / "log", record_queries=True) as log, Engine(log=log) as engine:
        scores = run_all(engine, [asks(number) for number in range(60)], expert)
        failed = sum(score.status == "failed" for score in scores)
        assert 0 < failed < 60
        assert len(log) == 60 - failed
    assert len(rows(tmp_path / "log", "queries")) == 60 - failed
