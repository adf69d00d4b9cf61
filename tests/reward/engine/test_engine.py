"""The engine affects only the timing: scores equal those of programs that run alone."""

import json
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward import AnswerLog, Engine, Image, Score, ask
from editcritic.reward.queries import Measurement, Rate

from ..fakes import Fake, Held, alone, asks, grown, known, mixed, question, run_all

ROOT = Path(__file__).parents[3]
SOON = 20.0  # seconds: timeout of immediate events, for slow machines
STEPS = st.lists(st.integers(0, 40), max_size=4).map(tuple)
TREE = st.recursive(
    st.lists(STEPS, max_size=3), lambda tree: st.lists(STEPS | st.lists(tree, max_size=3), max_size=3), max_leaves=6
)
TREES = st.lists(TREE, min_size=1, max_size=24)
JITTER_S = st.sampled_from([0.0, 0.0005])


@given(
    trees=TREES,
    order=st.randoms(use_true_random=False),
    window=st.integers(1, 30),
    batch=st.sampled_from([1, 2, 5, 64]),
    concurrency=st.integers(1, 4),
    jitter_s=JITTER_S,
    cache_bytes=st.sampled_from([1, 2000, 2**30]),
    reproducible=st.booleans(),
)
def test_scores_are_the_same_for_any_window_order_batch_timing_and_memory(
    trees, order, window, batch, concurrency, jitter_s, cache_bytes, reproducible
):
    expected = [alone(grown(tree), mixed) for tree in trees]
    numbers = list(range(len(trees)))
    order.shuffle(numbers)
    expert = Fake(mixed, batch=batch, concurrency=concurrency, jitter_s=jitter_s)
    with Engine(window=window, cache_bytes=cache_bytes, reproducible=reproducible) as engine:
        scores = list(engine.run(((grown(trees[number]), None) for number in numbers), {"preference": expert}))
        assert scores == [expected[number] for number in numbers]
        assert run_all(engine, [grown(tree) for tree in trees], expert) == expected
    assert max(expert.calls, default=0) <= (1 if reproducible else batch)


@given(trees=TREES, jitter_s=JITTER_S, concurrency=st.integers(1, 3))
def test_no_question_reaches_an_expert_twice(trees, jitter_s, concurrency):
    expert = Fake(known, batch=3, jitter_s=jitter_s, concurrency=concurrency)
    with Engine() as engine:
        for _ in range(2):
            run_all(engine, [grown(tree) for tree in trees], expert)
    assert set(expert.seen.values()) <= {1}


def test_a_question_that_is_on_its_way_is_joined():
    expert = Held()
    with Engine() as engine:
        first = engine.submit(asks(1), {"preference": expert})
        assert expert.begun.wait(SOON)
        others = [engine.submit(asks(1), {"preference": expert}) for _ in range(9)]
        while engine.stats().coalesced < 9:
            time.sleep(0.001)
        expert.go.set()
        assert [future.result(SOON) for future in others] == [first.result(SOON)] * 9
        stats = engine.stats()
    assert (stats.queries, stats.unique, stats.cache_hits, stats.coalesced) == (10, 1, 0, 9)
    assert list(expert.seen.values()) == [1]


@settings(max_examples=30)
@given(trees=TREES, cache_bytes=st.sampled_from([1, 2**30]), describe=st.booleans())
def test_scores_are_the_same_without_a_log_with_a_cold_and_with_a_warm_one(trees, cache_bytes, describe):
    expected = [alone(grown(tree), mixed) for tree in trees]
    questions, answered = [question(number) for number in range(41)], set[str]()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            expert = Fake(mixed)
            with (
                AnswerLog(Path(folder) / "log", record_queries=describe) as log,
                Engine(log=log, cache_bytes=cache_bytes) as engine,
            ):
                assert run_all(engine, [grown(tree) for tree in trees], expert) == expected
                assert not answered & expert.seen.keys(), "a logged query reached the expert"
                answered |= log.get("fake", questions).keys()


def test_run_takes_programs_as_there_is_room():
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    window, max_alive = 8, 0

    def programs():
        nonlocal max_alive
        for number in range(500):
            program = asks(number, number + 1000)
            alive.add(program)
            max_alive = max(max_alive, len(alive))
            yield program, None

    with Engine(window=window) as engine:
        assert len(list(engine.run(programs(), {"preference": Fake(known, jitter_s=0.0005)}))) == 500
    # Plus one that the scheduler is releasing, and one that it has finished.
    assert window - 1 <= max_alive <= window + 2


def test_a_slow_first_sample_does_not_stop_the_others():
    others = threading.Event()

    def patient(query):
        assert query.prompt != "0" or others.wait(SOON)
        return known(query)

    def programs():
        for number in range(20):
            yield asks(number), None
        others.set()

    expert = Fake(patient, batch=1, concurrency=2)
    with Engine(window=4) as engine:
        assert list(engine.run(programs(), {"preference": expert})) == [alone(asks(n), known) for n in range(20)]


def test_no_picture_is_held_when_its_sample_is_done(tmp_path):
    picture = Image.of(np.zeros((8, 8, 3), np.uint8))
    pixels = weakref.ref(picture.pixels)

    def program(picture):
        yield from ask(Rate(picture))
        return Score.of(1)

    with AnswerLog(tmp_path / "log", record_queries=True) as log, Engine(log=log) as engine:
        future = engine.submit(program(picture), {"preference": Fake(known)})
        del picture
        assert future.result(SOON).value == 1
        assert engine.submit(asks(), {}).result(SOON).value == 0  # the scheduler has come round
        assert pixels() is None


def test_many_threads_submit_at_once():
    expert = Fake(known, batch=5, jitter_s=0.0005)
    with Engine() as engine, ThreadPoolExecutor(8) as pool:

        def submit(worker):
            return [engine.submit(asks(n, n + worker), {"preference": expert}).result(60) for n in range(40)]

        scores = list(pool.map(submit, range(8)))
    assert scores == [[alone(asks(n, n + worker), known) for n in range(40)] for worker in range(8)]
    assert set(expert.seen.values()) == {1}


def started_by(action):
    """The result of an action, and the threads that it started."""
    before = set(threading.enumerate())
    result = action()
    return result, set(threading.enumerate()) - before


def all_end(threads):
    for thread in threads:
        thread.join(SOON)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("close", [Engine.close, lambda engine: None], ids=["closed", "dropped"])
def test_an_engine_that_is_closed_or_dropped_ends_its_threads(close):
    def use():
        engine = Engine()
        run_all(engine, [asks(1), asks(2)], Fake(known))
        close(engine)
        close(engine)

    before = set(threading.enumerate())
    use()
    assert all_end(set(threading.enumerate()) - before)


def test_engines_last_until_their_programs_are_done(tmp_path):
    future, threads = started_by(lambda: Engine().submit(asks(1), {"preference": Fake(known, jitter_s=0.05)}))
    assert future.result(SOON) == alone(asks(1), known)
    assert all_end(threads)
    log = AnswerLog(tmp_path / "log")
    with Engine(log=log) as engine:
        expert = Fake(known)
        log.close()
        with pytest.warns(RuntimeWarning, match="continuing without the answer log"):
            assert run_all(engine, [asks(1)], expert) == [alone(asks(1), known)]
        assert run_all(engine, [asks(2)], expert) == [alone(asks(2), known)]


def test_close_fails_what_is_in_flight_and_ends_busy_threads_when_they_are_done():
    engine, expert = Engine(), Held()

    def start():
        future = engine.submit(asks(1), {"preference": expert})
        assert expert.begun.wait(SOON)
        return future

    future, threads = started_by(start)
    engine.close()
    score = future.result(SOON)
    assert (score.status, score.value, score.reason) == ("failed", None, "the engine was closed before this was scored")
    with pytest.raises(RuntimeError, match="this engine is closed"):
        engine.submit(asks(2), {"preference": Fake(known)})
    expert.go.set()
    assert all_end(threads)


def test_a_future_that_is_cancelled_in_time_never_starts():
    busy, go = threading.Event(), threading.Event()

    def first():
        busy.set()
        assert go.wait(SOON)
        return (yield from asks(1))

    begun = []

    def second():
        begun.append(True)
        return (yield from asks(2))

    experts = {"preference": Fake(known)}
    with Engine() as engine:
        blocking = engine.submit(first(), experts)
        assert busy.wait(SOON)
        cancelled, last = engine.submit(second(), experts), engine.submit(asks(3), experts)
        assert cancelled.cancel()
        go.set()
        assert (blocking.result(SOON), last.result(SOON)) == (alone(asks(1), known), alone(asks(3), known))
    assert not begun


@pytest.mark.parametrize("options", [{"window": 0}, {"breaker": 0}])
def test_an_impossible_engine_is_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be at least 1, got 0"):
        Engine(**options)


SECOND = """
import json, sys, time
from pathlib import Path
from typing import Any
from editcritic.reward import AnswerLog, Engine
from tests.reward.fakes import Fake, asks, mixed, run_all

folder, me, many = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
(folder / f"{me} is here").touch()
while len(list(folder.glob("* is here"))) < 2:
    time.sleep(0.001)
expert = Fake(mixed, batch=7, jitter_s=0.002)
with AnswerLog(folder / "log") as log, Engine(log=log, window=5) as engine:
    scores = run_all(engine, [asks(number, number + 1, 2 * number) for number in range(many)], expert)
print(json.dumps([[score.to_json() for score in scores], dict(expert.seen)]))
"""


def python(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_share_a_log_that_both_write_at_once(tmp_path):
    many = 150
    runs = [python(SECOND, tmp_path, me, many) for me in ("one", "two")]
    results = [json.loads(run.communicate(timeout=120)[0]) for run in runs]
    expected = [alone(asks(number, number + 1, 2 * number), mixed) for number in range(many)]
    questions = (question(number) for number in range(2 * many))
    answerable = {query.digest for query in questions if isinstance(mixed(query), Measurement)}
    for scores, seen in results:
        assert [Score.from_json(score) for score in scores] == expected
        assert {count for digest, count in seen.items() if digest in answerable} <= {1}
    expert = Fake(mixed)
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:
        programs = [asks(number, number + 1, 2 * number) for number in range(many)]
        assert run_all(engine, programs, expert) == expected
    assert not answerable & expert.seen.keys(), "both processes logged all their answers"


def test_nothing_is_dropped_while_a_result_is_there_and_not_yet_announced(monkeypatch):
    future: Any = Future
    announce, put = future._invoke_callbacks, Engine._put

    def announce_late(future):
        time.sleep(0.02)
        announce(future)

    def put_and_look_late(engine, tasks):
        put(engine, tasks)
        time.sleep(0.01)

    monkeypatch.setattr(Future, "_invoke_callbacks", announce_late)
    monkeypatch.setattr(Engine, "_put", put_and_look_late)
    with Engine(window=1) as engine:
        assert len(list(engine.run(((asks(), None) for _ in range(5)), {}))) == 5


def test_an_engine_that_the_exit_has_stopped_keeps_nobody_waiting():
    engine = Engine()
    assert engine.submit(asks(1), {"preference": Fake(known)}).result(SOON).status == "scored"
    engine._scheduler.stop()  # as at the exit
    assert not engine.is_open
    with pytest.raises(RuntimeError, match="this engine is closed"):
        engine.submit(asks(2), {"preference": Fake(known)})
