"""Programs: generators that yield `Ask` or `Gather` and receive the outcomes.

    def subject_removed(s: EditSample) -> Program[Score]:
        before, after = yield from ask(Detect(s.source, (name,)), Detect(s.edited, (name,)))
        ...

A query without an answer raises `Failed` or `Abstained` at the `yield`. Both are BaseExceptions, so that a program
cannot catch them by accident; uncaught, they make the score failed or abstained, with the expert's reason.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from ..queries.kinds import Judge, Outcome, Query
from ..queries.outcomes import Abstention, Failure
from ..queries.response_formats import Reply
from ..score import Score

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Ask:
    """Queries that a program waits for. `role` overrides the default role of each query."""

    queries: tuple[Query[Any], ...]
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    """Programs to run concurrently; each returns a Score."""

    programs: tuple[Generator[Any, Any, Score], ...]


Program = Generator[Ask | Gather, Any, T]
"""A program that returns T."""


def map_asks(program: Program[Score], change: Callable[[Ask], Ask]) -> Program[Score]:
    """The program with every `Ask` changed, also those of the programs that it gathers."""
    outcomes = None
    while True:
        try:
            request = program.send(outcomes)
        except StopIteration as stop:
            score: Score = stop.value
            return score
        if isinstance(request, Gather):
            request = Gather(tuple(map_asks(inner, change) for inner in request.programs))
        else:
            request = change(request)
        outcomes = yield request


class Unanswered(BaseException):
    """A query has no answer. outcomes: those of all queries of the same `Ask`."""

    def __init__(self, reason: str, outcomes: Sequence[Outcome]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcomes = tuple(outcomes)


class Failed(Unanswered):
    """An expert could not answer."""


class Abstained(Unanswered):
    """An expert cannot determine an answer."""


@overload
def ask(q1: Query[A], /, *, role: str | None = ...) -> Program[A]: ...
@overload
def ask(q1: Query[A], q2: Query[B], /, *, role: str | None = ...) -> Program[tuple[A, B]]: ...
@overload
def ask(q1: Query[A], q2: Query[B], q3: Query[C], /, *, role: str | None = ...) -> Program[tuple[A, B, C]]: ...
@overload
def ask(
    q1: Query[A], q2: Query[B], q3: Query[C], q4: Query[D], /, *, role: str | None = ...
) -> Program[tuple[A, B, C, D]]: ...
def ask(*queries: Query[Any], role: str | None = None) -> Program[Any]:
    """Send one query and return its answer, or several at once and return a tuple of answers.

    Raises `Failed` if any query failed, else `Abstained` if an expert abstained on any.
    """
    answers = yield from ask_many(queries, role=role)
    return answers[0] if len(queries) == 1 else answers


def ask_many(queries: Sequence[Query[A]], *, role: str | None = None) -> Program[tuple[A, ...]]:
    """Send any number of queries at once, and return a tuple of answers."""
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


def reply_value(query: Judge, reply: Reply) -> Any:
    """The value of a reply by the response format of its query: see `reply_value` of the formats.

    Raises `Failed` for a reply that cannot be parsed; a program need not catch it.
    """
    try:
        return query.form.reply_value(reply)
    except ValueError as error:
        raise unparsable_reply(f"{query.topic or 'the judge'}: {error}", reply) from None


def unparsable_reply(reason: str, reply: Reply) -> Failed:
    """The exception for a reply that cannot be parsed; the score's evidence keeps the reply's text."""
    return Failed(reason, (Failure(reason, raw=reply.text),))


def gather(programs: Sequence[Program[Score]]) -> Program[tuple[Score, ...]]:
    """Run scoring programs concurrently. A program that fails or abstains returns a failed or abstained Score."""
    if not programs:
        return ()
    return cast("tuple[Score, ...]", (yield Gather(tuple(programs))))
