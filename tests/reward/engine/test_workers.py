"""A faulty expert fails the programs that query it and no others; invalid answers are not stored."""

import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import AnswerLog, Box, EditPlan, Engine, PlannedOperation, Score, Target, ask, queries
from editcritic.reward.queries.answers import TextLine
from editcritic.reward.queries.kinds import Query

from ..fakes import PICTURE, Fake, alone, asks, known, question, run_all, verdict

ROOT = Path(__file__).parents[3]
POISON = 13
NAN = float("nan")
BOX = Box(0.5, 0.5, 0.1, 0.1, 0.9, "cup")
EMBED, DETECT = queries.Embed(PICTURE, (queries.Region(),)), queries.Detect(PICTURE, ("cup",))
MEASURE, READ = queries.Measure("l1", (PICTURE, PICTURE)), queries.ReadText(PICTURE)
PLAN = queries.Plan((PICTURE,), "Remove the cup")
HUNG = """
import threading
from editcritic.reward import Engine
from tests.reward.fakes import Fake, asks, known, run_all

def hang(query):
    threading.Event().wait()

engine = Engine()
print(run_all(engine, [asks(1)], Fake(hang, name="hung", deadline_s=0.2))[0].reason)
print(run_all(engine, [asks(2)], Fake(known, name="well"))[0].status)
"""
LEAVES = """
import time
from editcritic.reward import Engine
from tests.reward.fakes import Fake, asks, known, run_all

class Weights:
    def __del__(self):
        time.sleep(0.3)  # needs the interpreter afterwards, in the thread that releases it last
        print("let go", flush=True)

def score():
    expert = Fake(known, name="well")
    expert.weights = Weights()
    print(run_all(Engine(), [asks(2)], expert)[0].status)

score()
"""


def is_poison(query):
    return query.digest == question(POISON).digest


def raises(error):
    def whole(queries):
        if any(map(is_poison, queries)):
            raise error
        return [known(query) for query in queries]

    return whole


def spoils(change):
    def whole(queries):
        answers = [known(query) for query in queries]
        return change(answers) if any(map(is_poison, queries)) else answers

    return whole


def answers(answer):
    return lambda queries: [answer if is_poison(query) else known(query) for query in queries]


# One query makes the expert misbehave; the others of its batch are answered.
MISBEHAVIOURS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "raises": (raises(ValueError("no such picture")), "ValueError: no such picture"),
    "raises without a word": (raises(KeyError()), "KeyError"),
    "runs out of memory": (raises(MemoryError()), "MemoryError"),
    "exits": (raises(SystemExit(3)), "SystemExit: 3"),
    "returns too few": (spoils(lambda answers: answers[:-1]), "expected a sequence of 1 answers, got 0 answers"),
    "returns too many": (
        spoils(lambda answers: [*answers, answers[0]]),
        "expected a sequence of 1 answers, got 2 answers",
    ),
    "returns nothing": (spoils(lambda answers: None), "expected a sequence of 1 answers, got NoneType"),
    "returns a generator": (spoils(iter), "expected a sequence of 1 answers, got list_iterator"),
    "returns an array": (spoils(lambda answers: np.zeros(len(answers))), "1 answers, got ndarray"),
    "returns one answer bare": (spoils(lambda answers: answers[0]), "1 answers, got Measurement"),
    "answers None": (answers(None), "rate expects Measurement, got NoneType"),
    "answers a number": (answers(0.5), "rate expects Measurement, got float"),
    "answers another question": (answers(queries.Reply("yes")), "rate expects Measurement, got Reply"),
    "answers NaN": (
        answers(queries.Measurement(float("nan"))),
        "rate expects finite floats, got Measurement(value=nan",
    ),
    "answers infinity": (
        answers(queries.Measurement(float("inf"))),
        "rate expects finite floats, got Measurement(value=inf",
    ),
    "answers no value": (answers(queries.Measurement(None)), "rate expects a number, got None"),
    "fails": (answers(queries.Failure("lost for words")), "lost for words"),
    "fails for no reason": (answers(queries.Failure("")), "Failure without a reason"),
    "abstains for no reason": (answers(queries.Abstention("")), "Abstention without a reason"),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_one_poisoned_question_among_64_fails_alone(name, tmp_path):
    whole, reason = MISBEHAVIOURS[name]
    expert = Fake(whole=whole)
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:
        scores = list(engine.run(((asks(number), None) for number in range(64)), {"preference": expert}))
        for number, score in enumerate(scores):
            if number == POISON:
                assert (score.status, score.value) == ("failed", None)
                assert score.reason.endswith(" (fake)")
                assert reason in score.reason
            else:
                assert score == alone(asks(number), known)
        assert not engine.down_experts()
        assert len(log) == 63
        assert log.get("fake", [question(POISON)]) == {}
        before = expert.seen[question(POISON).digest]
        assert run_all(engine, [asks(POISON)], expert)[0].status == "failed"
        assert expert.seen[question(POISON).digest] == before + 1, "failures are not cached: the query is repeated"


@given(many=st.integers(1, 128), poison=st.integers(0, 127))
def test_finding_the_poisoned_question_takes_a_logarithm_of_calls(many, poison):
    def whole(queries):
        if any(query.prompt == str(poison) for query in queries):
            raise ValueError("poisoned")
        return [known(query) for query in queries]

    expert = Fake(whole=whole, batch=128)
    with Engine() as engine:
        (score,) = run_all(engine, [asks(*range(many))], expert)
    assert score.status == ("failed" if poison < many else "scored")
    assert len(expert.calls) <= 1 + 2 * (many - 1).bit_length()


def vectors(values=((1.0, 2.0),), patches=(4,), dtype=np.float32):
    return queries.Embeddings(np.array(values, dtype), np.array(patches))


WRONG: list[tuple[Query[Any], Any]] = [
    (DETECT, queries.RecognizedText(())),
    (DETECT, queries.Detections(None)),  # type: ignore[arg-type]
    (DETECT, queries.Detections([BOX])),  # type: ignore[arg-type]
    (DETECT, queries.Detections((None,))),  # type: ignore[arg-type]
    (DETECT, queries.Detections((Box(0.5, 0.5, 0.1, 0.1, 0.9, None),))),  # type: ignore[arg-type]
    (DETECT, queries.Detections((BOX,), NAN)),
    (DETECT, queries.Detections((BOX,), None)),  # type: ignore[arg-type]
    (EMBED, vectors(((1.0, NAN),))),
    (EMBED, vectors(((1.0, float("inf")),))),
    (EMBED, vectors(((1.0,), (2.0,)))),
    (EMBED, vectors((1.0, 2.0))),
    (EMBED, vectors(patches=(4, 4))),
    (EMBED, vectors(patches=(4.0,))),
    (EMBED, vectors(dtype=np.float64)),
    (EMBED, queries.Embeddings([[1.0]], [4])),  # type: ignore[arg-type]
    (MEASURE, queries.Measurement(NAN)),
    (MEASURE, queries.Measurement(0.5, NAN)),
    (MEASURE, queries.Measurement(np.float32(0.5))),  # type: ignore[arg-type]
    (MEASURE, queries.Measurement("0.5")),  # type: ignore[arg-type]
    (queries.Rate(PICTURE), queries.Measurement(None)),
    (verdict(0), queries.Reply("yes", {"yes": NAN})),
    (verdict(0), queries.Reply("yes", {"yes": 1.5})),
    (verdict(0), queries.Reply("yes", {"yes": -0.5})),
    (verdict(0), queries.Reply("yes", {"yes": np.float32(0.5)})),  # type: ignore[dict-item]
    (verdict(0), queries.Reply("yes", {1: 0.5})),  # type: ignore[dict-item]
    (verdict(0), queries.Reply("yes", None)),  # type: ignore[arg-type]
    (verdict(0), queries.Reply(None)),  # type: ignore[arg-type]
    (READ, queries.RecognizedText(None)),  # type: ignore[arg-type]
    (READ, queries.RecognizedText(("cup",))),  # type: ignore[arg-type]
    (READ, queries.RecognizedText((TextLine(None, BOX),))),  # type: ignore[arg-type]
    (READ, queries.RecognizedText((TextLine("cup", None),))),  # type: ignore[arg-type]
    (PLAN, queries.RecognizedText(())),
    (PLAN, EditPlan((PlannedOperation("other", count=True),))),
    (PLAN, EditPlan((PlannedOperation("other", words=b"cup"),))),  # type: ignore[arg-type]
    (PLAN, EditPlan((PlannedOperation("other", target=Target("cup", place="up")),))),  # type: ignore[arg-type]
]


def asking(query):
    yield from ask(query)
    return Score.of(1)


@pytest.mark.parametrize(("query", "answer"), WRONG, ids=lambda value: f"{value!r:.60}")
def test_an_answer_with_a_fault_anywhere_in_it_is_no_answer(query, answer, tmp_path):
    expert = Fake(lambda received: answer if received is query else known(received))
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:
        (score,) = run_all(engine, [asking(query)], expert)
        assert (score.status, score.value) == ("failed", None)
        assert expert.calls == [1], "the query is not repeated"
        assert len(log) == 0
        assert run_all(engine, [asks(1)], expert) == [alone(asks(1), known)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (queries.ExpertDown("no GPU"), "no GPU"),
        (queries.ExpertDown(), "down"),
        (ConnectionRefusedError("port 80"), "ConnectionRefusedError: port 80"),
        (TimeoutError("10 s"), "TimeoutError: 10 s"),
    ],
    ids=repr,
)
def test_an_expert_that_is_down_fails_its_batch_at_once(error, reason):
    def whole(queries):
        raise error

    expert = Fake(whole=whole)
    with Engine() as engine:
        scores = list(engine.run(((asks(number), None) for number in range(32)), {"preference": expert}))
        assert engine.down_experts() == {"fake": reason}
    assert {score.status for score in scores} == {"failed"}
    assert scores[0].reason == f"{reason} (fake)"
    assert len(expert.calls) == 1, "no bisection, and no further calls while it is down"


class Loading(Fake):
    """Records the threads that load it, and raises `error`."""

    def __init__(self, error: BaseException | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.error = error
        self.loaded: list[threading.Thread] = []

    def load(self) -> None:
        self.loaded.append(threading.current_thread())
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (queries.ExpertDown("give a token"), "give a token"),
        (ImportError("pip install it"), "could not be loaded: ImportError: pip install it"),
        (SystemExit(1), "could not be loaded: SystemExit: 1"),
    ],
    ids=repr,
)
def test_an_expert_that_cannot_be_loaded_is_down_and_comes_back_when_it_can(error, reason):
    expert = Loading(error)
    with Engine() as engine:
        assert run_all(engine, [asks(1)], expert)[0].reason == f"{reason} (fake)"
        assert run_all(engine, [asks(1)], expert)[0].reason == f"not asked, the expert is down: {reason} (fake)"
        assert (len(expert.loaded), expert.calls) == (1, [])
        expert.error = None
        engine.reset_circuit(expert)
        assert run_all(engine, [asks(1), asks(2)], expert) == [alone(asks(1), known), alone(asks(2), known)]


def test_an_expert_is_loaded_once_in_each_thread_that_asks_it():
    expert = Loading(batch=1, concurrency=3, jitter_s=0.005)
    with Engine() as engine:
        run_all(engine, [asks(*range(30))], expert)
    assert 1 <= len(expert.loaded) <= 3
    assert len(set(expert.loaded)) == len(expert.loaded)
    assert threading.main_thread() not in expert.loaded


class Hanging(Fake):
    """Hangs on the poisoned query until `go` is set."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self.hang, batch=1, deadline_s=0.2, **options)
        self.go = threading.Event()

    def hang(self, query: Any) -> Any:
        if is_poison(query):
            self.go.wait(60)
        return known(query)


def test_an_expert_that_hangs_fails_who_asked_it_and_counts_as_dead_until_it_is_reloaded(tmp_path):
    hanging, well = Hanging(name="hanging"), Fake(name="well")
    with AnswerLog(tmp_path / "log") as log, Engine(log=log, cooldown_s=0.0) as engine:
        stuck = engine.submit(asks(POISON), {"preference": hanging})
        assert run_all(engine, [asks(1)], well) == [alone(asks(1), known)]
        score = stuck.result(60)
        assert (score.status, score.value, score.reason) == ("failed", None, "no answer within 0.2 s (hanging)")
        (score,) = run_all(engine, [asks(2)], hanging)
        assert "not asked, the expert is down: no answer within 0.2 s" in score.reason
        assert len(hanging.calls) == 1
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "editcritic hanging")
        hanging.go.set()  # answers after the deadline are ignored
        thread.join(60)
        assert not thread.is_alive()
        assert run_all(engine, [asks(2)], hanging)[0].status == "failed"
        assert log.get("hanging", [question(POISON)]) == {}
        engine.reset_circuit(hanging)
        assert run_all(engine, [asks(POISON)], hanging) == [alone(asks(POISON), known)]
        assert engine.down_experts() == {}


def test_one_hung_connection_of_several_does_not_stop_the_others():
    expert = Hanging(concurrency=3)
    with Engine() as engine:
        scores = list(engine.run(((asks(number), None) for number in range(40)), {"preference": expert}))
        expert.go.set()
        assert engine.down_experts() == {}
    assert [number for number, score in enumerate(scores) if score.status == "failed"] == [POISON]
    assert [score.value for score in scores if score.value is not None] == [
        alone(asks(number), known).value for number in range(40) if number != POISON
    ]


def test_a_deadline_is_for_each_half_of_a_batch_and_may_be_none():
    def slow(queries):
        if len(queries) > 1:
            raise ValueError("one by one, please")
        time.sleep(0.04)
        return [known(query) for query in queries]

    expert = Fake(whole=slow, deadline_s=0.5)
    with Engine() as engine:
        assert run_all(engine, [asks(*range(16))], expert) == [alone(asks(*range(16)), known)]
    with Engine() as engine:
        assert run_all(engine, [asks(1)], Fake(deadline_s=float("inf"))) == [alone(asks(1), known)]


def test_a_process_with_a_hung_expert_ends_by_itself():
    run = subprocess.run([sys.executable, "-c", HUNG], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "no answer within 0.2 s (hung)\nscored\n"), run.stderr


def test_a_process_ends_after_its_experts_have_let_go_of_what_they_hold():
    run = subprocess.run([sys.executable, "-c", LEAVES], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "scored\nlet go\n"), run.stderr


@pytest.mark.parametrize("torch_now", [None, types.ModuleType("torch")], ids=["absent", "half imported"])
def test_torch_is_not_needed(torch_now, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_now)
    with Engine() as engine:
        assert run_all(engine, [asks(1)], Fake()) == [alone(asks(1), known)]
