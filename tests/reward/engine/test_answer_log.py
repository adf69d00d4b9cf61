"""The answer log stores answers exactly, for all processes; other files are refused."""

import json
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from editcritic.reward import AnswerLog, Box, Engine, Image, Score, ask
from editcritic.reward.engine.answer_log import SCHEMA, LogError
from editcritic.reward.queries import (
    Abstention,
    Detections,
    Embeddings,
    Mask,
    Measurement,
    Rate,
    RecognizedText,
    Reply,
)
from editcritic.reward.queries.kinds import Answer, TextLine

from ..fakes import Fake, asks, known, mixed, picture, question, run_all

ROOT = Path(__file__).parents[3]
BOX = Box(1 / 3, 0.1 + 0.2, 1e-9, 1.0, 0.9, "Tasse “blau”")
ANSWERS: list[Answer | Abstention] = [
    Detections((BOX, BOX), 0.05),
    Detections(()),
    Measurement(0.1 + 0.2, 1 / 3),
    Measurement(None, 0.0),
    Reply("Ja, 是的\n\0", {"yes": 1 / 3, "no": 2 / 3}),
    RecognizedText((TextLine("OPEN", BOX),)),
    Abstention("who could know"),
]


def rows(path, table):
    with sqlite3.connect(path) as db:
        records = db.execute(f"select * from {table}").fetchall()
    db.close()
    return records


def test_answers_come_back_as_they_were_when_the_log_is_opened_again(tmp_path):
    queries = [question(number) for number in range(len(ANSWERS))]
    with AnswerLog(tmp_path / "log") as log:
        log.put("judge@1", list(zip(queries, ANSWERS, strict=True)))
        assert len(log) == len(ANSWERS)
    with AnswerLog(tmp_path / "log") as log:
        digests = [query.digest for query in queries]
        assert log.get("judge@1", [*digests, question(99).digest]) == dict(zip(digests, ANSWERS, strict=True))
        assert log.get("judge@2", digests) == {}


def test_vectors_come_back_to_the_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    with AnswerLog(tmp_path / "log") as log:
        log.put("features", [(question(1), Embeddings(values, np.arange(3)))])
        (embeddings,) = log.get("features", [question(1).digest]).values()
    assert isinstance(embeddings, Embeddings)
    assert (embeddings.values.tobytes(), embeddings.patches.tolist()) == (values.tobytes(), [0, 1, 2])


def test_masks_come_back_as_they_were(tmp_path):
    values = np.random.default_rng(0).random((17, 23)) > 0.5
    with AnswerLog(tmp_path / "log") as log:
        log.put("segmenter", [(question(1), Mask(values, 0.1 + 0.2))])
        (mask,) = log.get("segmenter", [question(1).digest]).values()
    assert isinstance(mask, Mask)
    assert (mask.values.tolist(), mask.score) == (values.tolist(), 0.1 + 0.2)


def test_any_number_of_answers_is_looked_up(tmp_path):
    queries = [question(number) for number in range(2500)]
    with AnswerLog(tmp_path / "log") as log:
        log.put("e", [(query, Measurement(0.5)) for query in queries])
        assert len(log.get("e", [query.digest for query in queries])) == 2500
        assert log.get("e", []) == {}


def test_the_first_answer_to_a_question_stays(tmp_path):
    with AnswerLog(tmp_path / "log") as log:
        log.put("e", [(question(1), Measurement(1.0))])
        log.put("e", [(question(1), Measurement(2.0)), (question(2), Measurement(2.0))])
        assert list(log.get("e", [question(1).digest, question(2).digest]).values()) == [
            Measurement(1.0),
            Measurement(2.0),
        ]


def test_answers_of_a_batch_are_kept_together_or_not_at_all(tmp_path):
    with AnswerLog(tmp_path / "log") as log:
        with pytest.raises(ValueError, match="not JSON compliant"):
            log.put("e", [(question(1), Measurement(1.0)), (question(2), Measurement(float("nan")))])
        assert len(log) == 0
        log.put("e", [(question(1), Measurement(1.0))])
        assert len(log) == 1


def test_threads_share_a_log(tmp_path):
    with AnswerLog(tmp_path / "log") as log:

        def work(worker):
            for number in range(100):
                log.put(f"e{worker % 2}", [(question(number), Measurement(float(number)))])
                assert log.get(f"e{worker % 2}", [question(number).digest])

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(log) == 200


OPENING = """
import sys, time
from editcritic.reward import AnswerLog
folder, start = sys.argv[1], float(sys.argv[2])
for number in range(60):
    while time.time() < start + 0.02 * number:
        pass
    AnswerLog(f"{folder}/{number}").close()
"""


def test_processes_may_make_a_log_at_the_same_moment(tmp_path):
    command = [sys.executable, "-c", OPENING, str(tmp_path), str(time.time() + 1)]
    runs = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [run.communicate(timeout=60)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], errors


# -- invalid files ----------------------------------------------------------------------------------------------------


def text_file(path):
    path.write_text("not a database at all, but long enough to be taken for one" * 20)


def another_database(path):
    with sqlite3.connect(path) as db:
        db.execute("create table people (name text)")
    db.close()


def newer(path):
    with AnswerLog(path) as log:
        log.meta("schema", str(SCHEMA + 1))


def folder(path):
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (text_file, "cannot be used as an answer log: file is not a database"),
        (folder, "cannot be used as an answer log: unable to open database file"),
        (another_database, "is a database of something else: give a new file"),
        (newer, f"has schema {SCHEMA + 1}, this version reads {SCHEMA}: use a new file"),
    ],
)
def test_what_is_no_answer_log_is_refused_and_left_as_it_is(make, says, tmp_path):
    path = tmp_path / "log"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LogError, match=f"{path} {says}"):
        AnswerLog(path)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "nowhere" / "log"
    with pytest.raises(LogError, match=f"{path} cannot be used as an answer log: unable to open database file"):
        AnswerLog(path)


def test_a_log_that_may_only_be_read_is_named(tmp_path, monkeypatch):
    AnswerLog(tmp_path / "log").close()
    connect = sqlite3.connect
    # Simulates a read-only file, since the tests may run as root.
    monkeypatch.setattr(
        sqlite3, "connect", lambda path, **options: connect(f"file:{path}?mode=ro", uri=True, **options)
    )
    with pytest.raises(LogError, match="log cannot be used as an answer log: attempt to write a readonly database"):
        AnswerLog(tmp_path / "log")


def test_an_empty_file_becomes_a_log(tmp_path):
    (tmp_path / "log").touch()
    with AnswerLog(tmp_path / "log") as log:
        assert len(log) == 0


# -- recordings -------------------------------------------------------------------------------------------------------


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
    with AnswerLog(tmp_path / "log") as log:
        log.load_derivations()
    unseen = Image.from_digest(image.digest, image.size)
    assert unseen.crop(0, 0, 4, 4) == image.crop(0, 0, 4, 4)
    assert unseen.crop(0, 0, 4, 4).resized(2, 2) == crop


def test_a_log_that_only_caches_keeps_answers_alone(tmp_path):
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:
        run_all(engine, [rates(picture(1).crop(0, 0, 4, 4))], Fake(known))
    assert [len(rows(tmp_path / "log", table)) for table in ("answers", "queries", "derived_images")] == [1, 0, 0]


def test_failures_are_never_kept(tmp_path):
    expert = Fake(mixed)
    with AnswerLog(tmp_path / "log", record_queries=True) as log, Engine(log=log) as engine:
        scores = run_all(engine, [asks(number) for number in range(60)], expert)
        failed = sum(score.status == "failed" for score in scores)
        assert 0 < failed < 60
        assert len(log) == 60 - failed
    assert len(rows(tmp_path / "log", "queries")) == 60 - failed


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
