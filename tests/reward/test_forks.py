"""Rewards, engines, logs and experts made before a fork work in the child, and go on in the parent."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import AnswerLog, Box, EditSample, Engine, Reward, Score, ask
from editcritic.reward import image as images
from editcritic.reward.engine import workers
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.experts.judging.sent_images import Base64ImageCache
from editcritic.reward.experts.loading import checkpoint, cpu_cores
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.experts.upscalers import BestAvailableUpscaler
from editcritic.reward.lru_cache import FeatureCache
from editcritic.reward.queries import Judge, Message, YesNo

from ..forked import SOON, forked, needs_fork
from .experts.http_server import Answer, completion, serving
from .fakes import Fake, Says, alone, asks, known, picture, run_all, sample

ROOT = Path(__file__).parents[2]
pytestmark = needs_fork
EXITING = """
import os, sys
from editcritic.reward import Reward
from tests.reward.fakes import Fake, Says, known, sample

reward = Reward(Says(number=1), {"preference": Fake(known)})
reward([sample()])
child = os.fork()
values = reward([sample()]).values
print(len(values), flush=True)
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(0)
"""


def rewarded(*numbers: int) -> list[float | None]:
    return [alone(asks(number), known).value for number in numbers]


def test_a_reward_works_in_the_child_but_not_scores_begun_before():
    reward = Reward(Says(number=1), {"preference": Fake(known)})
    expected = reward([sample()]).values
    assert forked(lambda: reward([sample(), sample("t")]).values) == expected * 2
    assert reward([sample()]).values == expected
    reward = Reward(Says(number=1), {"preference": Fake(known, jitter_s=0.01)})
    stream = reward.stream(sample(str(number)) for number in range(1000))
    first = next(stream)

    def go_on() -> str:
        with pytest.raises(RuntimeError) as raised:
            next(stream)
        return str(raised.value)

    assert "begun before this process was forked" in forked(go_on)
    assert next(stream).value == first.value


def test_an_engine_in_the_child_begins_anew_and_a_closed_one_stays_closed() -> None:
    expert = Fake(known)

    def scored() -> tuple[float | None, int]:
        (score,) = run_all(engine, [asks(1)], expert)
        return score.value, engine.stats().programs

    with Engine() as engine:
        first = scored()
        assert forked(scored) == first
        assert forked(engine.wait_for_cancelled) is None
    with pytest.raises(RuntimeError, match="this engine is closed"):
        scored()
    with pytest.raises(AssertionError, match="this engine is closed"):
        forked(scored)


def test_a_child_that_is_forked_while_the_engine_works_does_not_wait_for_the_parents_threads(tmp_path: Path) -> None:
    """Forks again and again while four threads score with a log, so that locks of all kinds are held."""
    expert = Fake(known, batch=3, concurrency=2, jitter_s=0.001)
    done = threading.Event()
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:

        def work(first: int) -> None:
            number = first
            while not done.is_set():
                number += 1
                run_all(engine, [asks(number, number + 1)], expert)

        def score_all(programs: list[int]) -> list[Score]:
            return run_all(engine, [asks(number) for number in programs], expert)

        threads = [threading.Thread(target=work, args=(1000 * first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        try:
            for number in range(20):
                programs = [10_000 + number, 1000 + number]
                scores = forked(partial(score_all, programs))
                assert [score.value for score in scores] == rewarded(*programs)
        finally:
            done.set()
            for thread in threads:
                thread.join(SOON)
        log.verify()


def test_parent_and_children_share_one_log(tmp_path: Path) -> None:
    expert = Fake(known)
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:

        def score(number: int) -> None:
            run_all(engine, [asks(1, number)], expert)

        run_all(engine, [asks(1)], expert)
        for number in (2, 3, 4):
            forked(partial(score, number))
            assert len(log) == number
        run_all(engine, [asks(1, 2, 3, 4, 5)], expert)
        assert expert.calls == [1, 1], "only the first query, before the forks, and the last one"
        log.verify()
    assert forked(lambda: len(AnswerLog(tmp_path / "log"))) == 5


def test_a_log_is_of_parent_and_child_with_no_connection_at_the_fork(tmp_path):
    with AnswerLog(tmp_path / "log") as log:
        log.meta("who", "parent")
        assert forked(lambda: (log.meta("who"), log.meta("who", "child"))) == ("parent", "child")
        assert log.meta("who") == "child"
    with pytest.raises(AssertionError, match="is closed"):
        forked(lambda: log.meta("who"))
    with pytest.raises(sqlite3.ProgrammingError, match="is closed"):
        log.meta("who")


def test_no_connection_to_a_log_is_open_while_the_process_forks(tmp_path: Path) -> None:
    """SQLite would count the parent's locks as the child's own, and the last one to close deletes the journal."""
    with AnswerLog(tmp_path / "log") as log:
        log.meta("who", "parent")
        assert (tmp_path / "log-wal").exists()

        def is_last() -> bool:
            with sqlite3.connect(tmp_path / "log") as db:
                db.execute("pragma journal_mode = delete")  # succeeds for the only connection
            return not (tmp_path / "log-wal").exists()

        assert forked(is_last)


def rated(judge: OpenAIJudge, engine: Engine, draw: int) -> str:
    def program() -> Any:
        yield from ask(Judge((Message(("Is it good?", picture(1))),), YesNo(), draw=draw))
        return Score.of(1)

    return engine.submit(program(), {"judge": judge}).result(SOON).status


def test_a_served_judge_works_in_the_child_with_connections_of_its_own() -> None:
    with serving(lambda *_: Answer(completion())) as server, Engine() as engine:
        judge = OpenAIJudge("m", server.url, timeout_s=20.0)
        assert rated(judge, engine, 0) == "scored"
        for draw in range(1, 4):
            assert forked(partial(rated, judge, engine, draw)) == "scored"
            assert rated(judge, engine, 10 + draw) == "scored"
        assert len(server.requests) == 7
        assert judge.usage()["requests"] == 4


def guarded_sample() -> EditSample:
    boxes = {"thing": (Box(0.5, 0.5, 0.25, 0.25),)}
    return EditSample("s", "Remove thing", (picture(1, 64, 64),), picture(2, 64, 64), boxes=boxes)


def test_experts_on_pixels_and_ocr_work_in_the_child() -> None:
    """OpenCV and onnxruntime have threads of their own."""
    from editcritic.reward.experts.rapid_ocr import RapidOcr

    pytest.importorskip("rapidocr")
    experts: dict[str, Any] = dict(Reward.of("edit-balanced").experts)
    experts["reader"] = RapidOcr(threads=2)
    reward = Reward.of("edit-balanced", experts)
    guards = Reward.of("guards", experts)

    def scored() -> list[Any]:
        return [one([guarded_sample()])[0].to_json() for one in (reward, guards)]

    expected = scored()
    assert forked(scored) == expected


def locks() -> dict[str, tuple[Any, Callable[[], object]]]:
    """Locks, and what takes each of them."""
    judge, crop, sent = OpenAIJudge("m", "http://127.0.0.1:9/v1"), picture(3).crop(0, 0, 4, 4), picture(4)
    reward, other = (Reward(Says(number=1), {"preference": Fake(known)}) for _ in "ab")
    one, parent = checkpoint.Checkpoint("m", "AutoModel"), os.getpid()
    cache: FeatureCache[int] = FeatureCache(100, lambda _: 1)
    expert, encoded, pool = Annotated(), Base64ImageCache(), judge.endpoint.addresses
    best = BestAvailableUpscaler(real_esrgan="", swin2sr="")
    best.wrapped = Fake(known)
    return {
        "features": (cache._lock, lambda: cache.get_or_compute({"a": 1}, lambda items: items)),
        "pixels": (images._cache._lock, lambda: crop.pixels.shape),
        "derivations": (images._derivations._lock, lambda: crop.digest),
        "annotated": (expert._lock, lambda: expert._index(picture(1, 64, 64)).pixels),
        "served": (judge.endpoint.usage._lock, judge.usage),
        "addresses": (pool._lock, lambda: pool.use("a group").__enter__()),
        "encoding": (encoded._locks[int(sent.digest[0], 16)], lambda: encoded._once(sent)),
        "upscaler": (best._choosing, lambda: best.id),
        "cores": (cpu_cores._CHANGED, lambda: cpu_cores.run_in_turn(lambda: 1)),
        "attaching": (checkpoint._ATTACHING, lambda: one.shared_weights is None),
        "weights": (one.lock, one.unload),
        "identity": (one._weights.identity_lock, one.unload),
        "engine of a reward": (reward._engine_lock, lambda: reward([sample()]).values),
        "submissions": (other.engine._scheduler.submit_lock, lambda: other([sample()]).values),
        # In the parent it would stop the engines that other tests share.
        "threads": (workers._stops_lock, lambda: os.getpid() != parent and workers._stop_all()),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("features", "pixels", "derivations", "annotated", "served", "addresses", "encoding", "upscaler", "cores"),
        *("attaching", "weights", "identity", "engine of a reward", "submissions", "threads"),
    ],
)
def test_a_lock_that_a_thread_of_the_parent_holds_is_free_in_the_child(name: str) -> None:
    lock, use = locks()[name]
    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            release.wait(SOON)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(SOON)
    try:
        forked(lambda: use() and None)
    finally:
        release.set()
        thread.join(SOON)
    use()


def test_parent_and_child_end_in_the_usual_way() -> None:
    start = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", EXITING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SOON,
    )
    assert (run.returncode, run.stdout.split(), run.stderr) == (0, ["1", "1"], "")
    assert time.monotonic() - start < SOON / 2
