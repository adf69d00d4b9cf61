"""Valid and invalid programs, and the circuit breaker of experts."""

import time
from dataclasses import replace

import pytest

from editcritic.reward import AnswerLog, Engine, Image, ImageError, Score, ask
from editcritic.reward.engine import Abstained, Failed, ask_many, gather
from editcritic.reward.engine.program import Ask
from editcritic.reward.queries import Abstention, Detect, Failure, Measurement, Rate
from editcritic.reward.queries.answers import Outcome

from ..fakes import PICTURE, Fake, alone, asks, known, question, run_all, sample, verdict

FAILING = Fake(lambda query: Failure("lost for words"), name="failing")
ABSTAINING = Fake(lambda query: Abstention("who could know"), name="abstaining")


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


def lives(engine):
    """Whether the engine still scores."""
    return run_all(engine, [asks(1, 2)], Fake()) == [alone(asks(1, 2), known)]


def returns_nothing():
    yield from asks(1)


def has_a_bug():
    yield from ask(question(1))
    raise ValueError("a bug in the metric")


def yields_rubbish():
    yield 7


def asks_rubbish():
    yield Ask(("where is the cup?",))  # type: ignore[arg-type]


def leaves():
    yield from ask(question(1))
    raise SystemExit(3)


def will_not_be_closed():
    try:
        yield 7
    finally:
        raise OSError("not now")


def gathers_rubbish():
    yield from gather([asks(1), 7])  # type: ignore[list-item]
    return Score.of(1)


def scores_nan():
    yield from ask(question(1))
    return Score.of(float("nan"))


@pytest.mark.parametrize(
    ("program", "error", "says"),
    [
        (returns_nothing(), TypeError, "a program must return a Score, got NoneType"),
        (has_a_bug(), ValueError, "a bug in the metric"),
        (yields_rubbish(), TypeError, "a program must yield Ask .* or Gather, got 7"),
        (asks_rubbish(), TypeError, "a program must yield Ask .of queries. or Gather"),
        (leaves(), SystemExit, "3"),
        (will_not_be_closed(), TypeError, "a program must yield"),
        (gathers_rubbish(), AttributeError, "'int' object has no attribute 'send'"),
        (scores_nan(), ValueError, "a scored Score needs a finite value, got nan"),
        (Score.of(1), AttributeError, "'Score' object has no attribute 'send'"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_program_with_a_bug_is_for_who_submitted_it(program, error, says, engine):
    wrong = engine.submit(program, {"preference": Fake()})
    right = engine.submit(asks(1, 2), {"preference": Fake()})
    with pytest.raises(error, match=says):
        wrong.result(20)
    assert right.result(20) == alone(asks(1, 2), known)
    assert lives(engine)


def test_a_bug_reaches_who_submitted_it(engine):
    closed = []

    def outer():
        try:
            yield from gather([asks(1), middle(), asks(2)])
        finally:
            closed.append("outer")
        return Score.of(1)

    def middle():
        yield from gather([asks(3), has_a_bug(), asks(4, 5)])
        return Score.of(1)

    with pytest.raises(ValueError, match="a bug in the metric"):
        run_all(engine, [outer()], Fake())
    assert closed == ["outer"]
    assert lives(engine)
    scores = engine.run([(asks(1), None), (has_a_bug(), None), (asks(2), None)], {"preference": Fake()})
    assert next(scores) == alone(asks(1), known)
    with pytest.raises(ValueError, match="a bug in the metric"):
        next(scores)
    assert lives(engine)


def test_unread_pictures_and_programs_that_cannot_tell(engine):
    def unreadable():
        raise ImageError("cup.png is gone")
        yield

    assert run_all(engine, [unreadable()], Fake()) == [Score.failed("cup.png is gone")]
    assert run_all(engine, [asking(Rate(Vanished()))], Fake()) == [Score.failed("cup.png has changed")]

    def cannot(kind, *reason):
        raise kind(*reason)
        yield

    assert run_all(engine, [cannot(Abstained, "too dark", ())], Fake()) == [Score.abstained("too dark")]
    assert run_all(engine, [cannot(Failed, "", ())], Fake()) == [Score.failed("Failed")]


class Vanished(Image):
    """An image whose file has changed."""

    def __init__(self):
        super().__init__((8, 8))

    @property
    def digest(self):
        raise ImageError("cup.png has changed")


def asking(*queries, role=None):
    yield from ask_many(queries, role=role)
    return Score.of(1)


@pytest.mark.parametrize(
    ("expert", "expected"),
    [(FAILING, Score.failed("lost for words (failing)")), (ABSTAINING, Score.abstained("who could know"))],
)
def test_a_question_without_an_answer_ends_the_program(expert, expected, engine):
    def swallows():
        try:
            yield from ask(question(1))
        except Exception:  # noqa: BLE001  (an error of a metric)
            return Score.of(1)
        return Score.of(1)

    assert run_all(engine, [asks(1), swallows()], expert) == [expected, expected]


def test_unanswered_questions_come_with_their_siblings_and_parts_fail_alone(engine):
    def looks():
        try:
            yield from ask(question(1), verdict(0), Detect(PICTURE, ("cup",)))
        except Failed as failed:
            outcomes.extend(failed.outcomes)
            raise

    outcomes: list[Outcome] = []
    experts = {"preference": Fake(), "judge": FAILING, "detector": ABSTAINING}
    assert engine.submit(looks(), experts).result(20) == Score.failed("lost for words (failing)")
    assert outcomes == [known(question(1)), Failure("lost for words", "failing"), Abstention("who could know")]

    def outer():
        parts = yield from gather([asks(1), asking(verdict(0)), asking(Detect(PICTURE, ("cup",))), asks(2)])
        return Score.of(len(parts), parts={str(slot): part for slot, part in enumerate(parts)})

    experts = {"preference": Fake(), "judge": FAILING, "detector": ABSTAINING}
    score = engine.submit(outer(), experts).result(20)
    assert list(score.parts.values()) == [
        alone(asks(1), known),
        Score.failed("lost for words (failing)"),
        Score.abstained("who could know"),
        alone(asks(2), known),
    ]


def test_gathers_nest_as_deep_as_one_likes(engine):
    def nested(depth):
        if depth == 0:
            return (yield from asks(1))
        below, _ = yield from gather([nested(depth - 1), asks(depth)])
        return below

    assert run_all(engine, [nested(2000)], Fake()) == [alone(asks(1), known)]


def test_roles_fall_back_and_wrong_or_missing_experts_fail(engine):
    general, special = (
        Fake(lambda _: Measurement(1.0), name="general"),
        Fake(lambda _: Measurement(2.0), name="special"),
    )

    def asking_role(role):
        answer = yield from ask(question(1), role=role)
        return Score.of(answer.value or 0.0)

    experts = {"preference": general, "preference.quality": special}
    roles = ("preference", "preference.quality", "preference.style")
    assert [engine.submit(asking_role(role), experts).result(20).value for role in roles] == [1.0, 2.0, 1.0]
    score = engine.submit(asks(1), {"judge": Fake(), "detector": Fake()}).result(20)
    assert score == Score.failed(
        "no expert is bound to the role 'preference' (bound: detector, judge)", cause="infrastructure"
    )
    assert engine.submit(asks(1), {}).result(20).reason.endswith("(bound: none)")

    class Judging(Fake):
        kinds = (type(verdict(0)),)

    expert = Judging(name="judging")
    (score,) = run_all(engine, [asks(1)], expert)
    reason = "judging answers judge, not rate: bind another expert to this role (judging)"
    assert score == Score.failed(reason, cause="infrastructure")
    assert expert.calls == []


@pytest.mark.parametrize("expert", ["a string", object(), type("Nameless", (), {})(), Fake])
def test_what_is_no_expert_fails_who_asks_it(expert, engine):
    score = engine.submit(asks(1), {"preference": expert}).result(20)
    assert (score.status, score.value) == ("failed", None)
    assert score.reason.startswith("the expert of role 'preference' cannot be used: ")
    assert lives(engine)


class Adapting(Fake):
    """Rewrites queries."""

    def __init__(self, rule, name="adapting"):
        super().__init__(name=name)
        self.adapted = rule

    def rewrite_query(self, query, sample):
        return self.adapted(query, sample)


def test_a_question_is_known_by_what_the_expert_made_of_it(engine):
    expert = Adapting(lambda query, sample: replace(query, prompt=sample.instruction, quality="q"))
    futures = [engine.submit(asks(number), {"preference": expert}, sample()) for number in range(5)]
    rewritten = Rate(PICTURE, "make it blue", "q")
    assert {future.result(20).value for future in futures} == {known(rewritten).value}
    assert expert.seen == {rewritten.digest: 1}
    expert = Adapting(lambda query, sample: Abstention("no box for it"), "abstaining")
    assert run_all(engine, [asks(1)], expert) == [Score.abstained("no box for it")]
    assert expert.calls == []


def broken(query, sample):
    raise KeyError("cup")


@pytest.mark.parametrize(("rule", "reason"), [(broken, "KeyError: 'cup'"), (lambda *_: None, "AttributeError: ")])
def test_an_expert_that_cannot_adapt_a_question_fails_who_asked_it(rule, reason, engine):
    (score,) = run_all(engine, [asks(1)], Adapting(rule))
    assert (score.status, score.value) == ("failed", None)
    assert score.reason.startswith(reason)
    assert score.reason.endswith(" (adapting)")
    assert lives(engine)


class Moody(Fake):
    """Raises until `well`."""

    def __init__(self, **options):
        super().__init__(self.answer, name="moody", **options)
        self.well = False

    def answer(self, query):
        if not self.well:
            raise RuntimeError("unwell")
        return known(query)


@pytest.mark.parametrize("batch", [1, 64])
def test_an_expert_that_always_raises_is_given_up_after_few_calls(batch):
    expert, well = Moody(batch=batch), Fake(name="well")
    with Engine(breaker=4, cooldown_s=3600) as engine:
        scores = list(engine.run(((asks(number), None) for number in range(500)), {"preference": expert}))
        assert {score.status for score in scores} == {"failed"}
        assert len(expert.calls) <= 4 + 6 + 3, "four single queries, and the bisected batches that contained them"
        assert engine.down_experts() == {"moody": "4 consecutive failures, the last: RuntimeError: unwell"}
        called = len(expert.calls)
        (score,) = run_all(engine, [asks(1000)], expert)
        assert score.reason == f"not asked, the expert is down: {engine.down_experts()['moody']} (moody)"
        assert len(expert.calls) == called
        assert run_all(engine, [asks(1)], well) == [alone(asks(1), known)]


def test_failures_with_answers_between_them_are_no_reason_to_give_up():
    def odd(query):
        if int(query.prompt) % 2:
            raise RuntimeError("unwell")
        return known(query)

    with Engine(breaker=4) as engine:
        scores = list(engine.run(((asks(number), None) for number in range(100)), {"preference": Fake(odd, batch=1)}))
        assert engine.down_experts() == {}
    assert [score.status for score in scores] == ["scored", "failed"] * 50


def test_an_expert_that_was_given_up_is_tried_by_one_batch_after_a_while():
    expert = Moody(batch=8)
    with Engine(breaker=1, cooldown_s=0.2) as engine:
        run_all(engine, [asks(*range(8))], expert)
        time.sleep(0.25)
        before = len(expert.calls)
        run_all(engine, [asks(*range(20))], expert)
        assert len(expert.calls) - before <= 4, "one batch of eight, halved down to a single question"
        expert.well = True
        time.sleep(0.25)
        assert run_all(engine, [asks(*range(20))], expert) == [alone(asks(*range(20)), known)]
        assert engine.down_experts() == {}
    expert = Moody(batch=1, concurrency=4)
    with Engine(breaker=1, cooldown_s=0.2) as engine:
        run_all(engine, [asks(*range(4))], expert)
        time.sleep(0.25)
        before = len(expert.calls)
        run_all(engine, [asks(*range(20))], expert)
        assert len(expert.calls) == before + 1


class Retrained(Fake):
    """Its weights, and its id, change during the first call."""

    def __call__(self, queries):
        self.id = "newer"
        return super().__call__(queries)


def test_an_answer_is_not_kept_for_an_expert_that_has_become_another_one(tmp_path):
    expert = Retrained(name="older")
    with AnswerLog(tmp_path / "answers") as log, Engine(log=log) as engine:
        for _ in range(3):
            assert run_all(engine, [asks(1)], expert) == [alone(asks(1), known)]
        assert expert.calls == [1, 1]
        assert log.get("older", [question(1)]) == {}
        assert log.get("newer", [question(1)]) == {question(1).digest: known(question(1))}


def test_stats_count_what_was_asked_and_what_it_took(engine):
    expert = Fake(lambda query: Failure("odd") if query.prompt == "3" else known(query), batch=2)
    before = engine.stats()
    run_all(engine, [asks(1, 2, 2)], expert)
    run_all(engine, [asks(2, 3)], expert)
    stats = engine.stats().since(before)
    seconds = stats["experts"]["fake"].pop("seconds")
    assert stats == {
        "programs": 2,
        "queries": 5,
        "unique": 3,
        "cache_hits": 1,
        "coalesced": 1,
        "rejected": 0,
        "experts": {"fake": {"queries": 3, "calls": 2, "failed": 1}},
    }
    assert seconds >= 0
    assert engine.stats().since(engine.stats())["experts"] == {}
    run_all(engine, [asks(1)], Fake(lambda query: time.sleep(1), name="slow", deadline_s=0.05))
    counts = engine.stats().experts["slow"]
    assert (counts.queries, counts.calls, counts.failed) == (1, 1, 1)
