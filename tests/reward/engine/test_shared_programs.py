"""What several programs of a score need is run once, and each gets what it would have got alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from editcritic.reward import Engine, ImageError, Program, Score, ask
from editcritic.reward.engine import ask_many, gather
from editcritic.reward.engine.program import map_asks, run_once
from editcritic.reward.queries import Abstention, Failure, Measurement, Rate
from editcritic.reward.queries.answers import Outcome

from ..fakes import Fake, alone, asks, known, question, run_all


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


class Subject:
    """What a shared program is about. runs: how often it was begun."""

    def __init__(self) -> None:
        self.runs = 0


def measured(subject: Subject) -> Program[float]:
    subject.runs += 1
    first = yield from ask(question(1))
    rest = yield from ask_many([question(2), question(3)])
    return (first.value or 0.0) + sum(answer.value or 0.0 for answer in rest)


def one_part(subject: Subject, weight: float = 1.0) -> Program[Score]:
    value = yield from run_once(measured, subject)
    return Score.of(weight * value)


def whole(*parts: Program[Score], then: Callable[[], Program[Score]] | None = None) -> Program[Score]:
    """Several parts at once, and then another one."""
    scores = yield from gather(parts)
    after = () if then is None else (yield from gather([then()]))
    return Score.of(1.0, parts={str(number): score for number, score in enumerate((*scores, *after))})


def test_a_program_that_several_need_runs_once_for_each_score(engine):
    expert, subject = Fake(jitter_s=0.01), Subject()
    (score,) = run_all(
        engine, [whole(*[one_part(subject, w) for w in (1, 2)], then=partial(one_part, subject))], expert
    )
    assert subject.runs == 1
    assert engine.stats().queries == 3
    unshared = Subject()
    assert score == alone(whole(*[one_part(unshared, w) for w in (1, 2)], then=partial(one_part, unshared)), known)
    assert unshared.runs == 3
    subjects = Subject(), Subject()
    programs = [whole(*[one_part(subject) for subject in subjects], one_part(subjects[0])) for _ in range(3)]
    assert len(set(map(str, run_all(engine, programs, Fake())))) == 1
    assert [subject.runs for subject in subjects] == [3, 3]


@pytest.mark.parametrize(
    "outcome",
    [Failure("lost for words", raw="hm"), Failure("timed out", infrastructure=True), Abstention("who could know")],
)
def test_what_it_has_no_answer_for_reaches_every_part_with_its_reason(outcome: Outcome, engine) -> None:
    expert = Fake(lambda query: outcome if query.digest == question(2).digest else known(query))
    shared, unshared = Subject(), Subject()
    (score,) = run_all(engine, [whole(one_part(shared), one_part(shared), asks(4))], expert)

    def unshared_part() -> Program[Score]:
        return Score.of((yield from measured(unshared)))

    (expected,) = run_all(engine, [whole(unshared_part(), unshared_part(), asks(4))], expert)
    assert score == expected
    assert (score.parts["0"].evidence != ()) is (isinstance(outcome, Failure) and bool(outcome.raw))
    assert (shared.runs, unshared.runs) == (1, 2)


def test_a_failure_is_not_kept_and_an_abstention_is(engine) -> None:
    down = [True]

    def recovers(query: Rate) -> Outcome:
        return Failure("down", infrastructure=True) if down else Measurement(0.5)

    def up(subject: Subject) -> Program[Score]:
        down.clear()
        return one_part(subject)

    subject = Subject()
    (score,) = run_all(engine, [whole(one_part(subject), then=partial(up, subject))], Fake(recovers))
    assert [(part.status, part.value) for part in score.parts.values()] == [("failed", None), ("scored", 1.5)]
    assert subject.runs == 2
    abstained = Subject()
    (score,) = run_all(
        engine,
        [whole(one_part(abstained), then=partial(one_part, abstained))],
        Fake(lambda _: Abstention("who could know"), name="abstaining"),
    )
    assert {part.status for part in score.parts.values()} == {"abstained"}
    assert abstained.runs == 1


def test_a_picture_that_cannot_be_read_fails_every_part(engine) -> None:
    def unreadable(subject: Subject) -> Program[float]:
        subject.runs += 1
        raise ImageError("cup.png is gone")
        yield

    def part(subject: Subject) -> Program[Score]:
        return Score.of((yield from run_once(unreadable, subject)))

    subject = Subject()
    (score,) = run_all(engine, [whole(part(subject), part(subject))], Fake())
    assert list(score.parts.values()) == [Score.failed("cup.png is gone")] * 2
    assert subject.runs == 1


def not_a_program(subject: Subject) -> Any:
    return 7


def has_a_bug(subject: Subject) -> Program[float]:
    yield from ask(question(1))
    raise ValueError("a bug in the metric")


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, subject: Subject) -> Program[float]:
        return measured(subject)


@pytest.mark.parametrize(
    ("part", "error"), [(has_a_bug, ValueError), (not_a_program, TypeError), (Unhashable(), TypeError)]
)
def test_a_bug_in_it_reaches_who_submitted_the_whole_and_the_engine_lives(part, error, engine) -> None:
    def needs(subject: Subject) -> Program[Score]:
        return Score.of((yield from run_once(part, subject)))

    subject = Subject()
    with pytest.raises(error):
        run_all(engine, [whole(needs(subject), asks(5), needs(subject))], Fake())
    assert run_all(engine, [asks(1, 2)], Fake()) == [alone(asks(1, 2), known)]


def test_what_it_asks_is_changed_with_the_rest_and_shared_only_among_equal_changes(engine) -> None:
    def shift(by: int, request: Any) -> Any:
        return replace(request, queries=tuple(question(int(query.prompt) + by) for query in request.queries))

    subject = Subject()
    changes = [partial(shift, 10), partial(shift, 20)]
    mapped = [map_asks(whole(one_part(subject), one_part(subject)), change) for change in changes]
    (score,) = run_all(engine, [whole(*mapped, one_part(subject))], Fake())
    assert subject.runs == 3
    sums = [sum(known(question(by + number)).value or 0.0 for number in (1, 2, 3)) for by in (10, 20)]
    assert [[part.value for part in score.parts[str(number)].parts.values()] for number in (0, 1)] == [
        [sums[0]] * 2,
        [sums[1]] * 2,
    ]


def test_programs_that_nobody_wants_do_not_wait_for_it(engine) -> None:
    wanted = [True]

    def answered_too_late(query: Rate) -> Outcome:
        wanted.clear()
        return known(query)

    expert, subject = Fake(answered_too_late), Subject()
    future = engine.submit(
        whole(one_part(subject), one_part(subject)), {"preference": expert}, is_wanted=lambda: bool(wanted)
    )
    score = future.result(20)
    assert (score.status, score.cause) == ("failed", "infrastructure")
    assert "no longer needed" in score.reason
