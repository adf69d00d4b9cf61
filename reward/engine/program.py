"""How a metric asks: programs are generators that yield `Ask` or `Gather` and are sent what came of it.

    def subject_removed(s: EditSample) -> Asks[Score]:
        before, after = yield from ask(Detect(s.source, (name,)), Detect(s.edited, (name,)))
        ...

A question that was not answered raises `Failed` or `Abstained` at the place where it was asked. Both are
BaseExceptions, so that a program cannot swallow them by accident; let them pass, and the score is failed or abstained
with the expert's reason.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from .forms import Reply
from .outcomes import Abstention, Failure
from .query import Judge, Outcome, Query
from .score import Score

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions a program waits for. `role` overrides the role each query names."""

    queries: tuple[Query[Any], ...]
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    """Programs to run side by side; each ends in a Score of its own."""

    programs: tuple[Generator[Any, Any, Score], ...]


Asks = Generator[Ask | Gather, Any, T]
"""A program that returns T."""


class Unanswered(BaseException):
    """A question came back without an answer. `outcomes` holds what the questions beside it were answered."""

    def __init__(self, reason: str, outcomes: Sequence[Outcome]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcomes = tuple(outcomes)


class Failed(Unanswered):
    """An expert could not answer."""


class Abstained(Unanswered):
    """An expert cannot know."""


@overload
def ask(q1: Query[A], /, *, role: str | None = ...) -> Asks[A]: ...
@overload
def ask(q1: Query[A], q2: Query[B], /, *, role: str | None = ...) -> Asks[tuple[A, B]]: ...
@overload
def ask(q1: Query[A], q2: Query[B], q3: Query[C], /, *, role: str | None = ...) -> Asks[tuple[A, B, C]]: ...
@overload
def ask(
    q1: Query[A], q2: Query[B], q3: Query[C], q4: Query[D], /, *, role: str | None = ...
) -> Asks[tuple[A, B, C, D]]: ...
def ask(*queries: Query[Any], role: str | None = None) -> Asks[Any]:
    """Ask one question and get its answer, or several at once and get a tuple of answers.

    Raises `Failed` if any of them failed, else `Abstained` if any was abstained on.
    """
    answers = yield from ask_each(queries, role=role)
    return answers[0] if len(queries) == 1 else answers


def ask_each(queries: Sequence[Query[A]], *, role: str | None = None) -> Asks[tuple[A, ...]]:
    """Ask any number of questions at once, and always get a tuple."""
    if not queries:
        return ()
    outcomes = cast("tuple[Outcome, ...]", (yield Ask(tuple(queries), role)))
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise Failed(f"{outcome.expert}: {outcome.reason}" if outcome.expert else outcome.reason, outcomes)
    for outcome in outcomes:
        if isinstance(outcome, Abstention):
            raise Abstained(outcome.reason, outcomes)
    return cast("tuple[A, ...]", outcomes)


def value_of(question: Judge, reply: Reply) -> Any:
    """What a reply is worth by the form of its question: see `value` of `YesNo`, `Levels`, `Grade`, `Json`.

    Raises `Failed`, which a program lets pass, where that cannot be told.
    """
    try:
        return question.form.value(reply)
    except ValueError as error:
        raise unreadable(f"{question.topic or 'the judge'}: {error}", reply) from None


def unreadable(why: str, reply: Reply) -> Failed:
    """What a program raises where a judge answered, but not the question; the score keeps the judge's words."""
    return Failed(why, (Failure(why, raw=reply.text),))


def gather(programs: Sequence[Asks[Score]]) -> Asks[tuple[Score, ...]]:
    """Run scoring programs side by side. A part that fails or abstains is a failed or abstained Score of its own."""
    if not programs:
        return ()
    return cast("tuple[Score, ...]", (yield Gather(tuple(programs))))
