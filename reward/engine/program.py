"""Programs: generators that yield `Ask`, `Gather` or `RunOnce` and receive the outcomes.

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

from ..image import ImageError
from ..queries.answers import Outcome
from ..queries.kinds import Judge, Query
from ..queries.outcomes import Abstention, Failure
from ..queries.response_formats import Reply
from ..score import Evidence, Score

S = TypeVar("S")
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


@dataclass(frozen=True, slots=True, eq=False)
class RunOnce:
    """The program `part(subject)`, run once for all programs of a score. Equal for equal parts of the same object."""

    part: Callable[[Any], Generator[Any, Any, Any]]
    subject: object

    def __post_init__(self) -> None:
        hash(self.part)  # an error is the program's, not the engine's

    def program(self) -> Program[Any]:
        """The program."""
        return (yield from self.part(self.subject))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunOnce) and self.subject is other.subject and self.part == other.part

    def __hash__(self) -> int:
        return hash((self.part, id(self.subject)))


Program = Generator[Ask | Gather | RunOnce, Any, T]
"""A program that returns T."""


def map_asks(program: Program[T], change: Callable[[Ask], Ask]) -> Program[T]:
    """The program with every `Ask` changed, also those of the programs that it gathers or shares."""
    outcomes = None
    while True:
        try:
            request = program.send(outcomes)
        except StopIteration as stop:
            result: T = stop.value
            return result
        if isinstance(request, Gather):
            request = Gather(tuple(map_asks(inner, change) for inner in request.programs))
        elif isinstance(request, RunOnce):
            request = RunOnce(_WithMappedAsks(request.part, change), request.subject)
        else:
            request = change(request)
        outcomes = yield request


@dataclass(frozen=True, slots=True)
class _WithMappedAsks:
    """A shared program with every `Ask` changed, which is another one than without, or with another change."""

    part: Callable[[Any], Program[Any]]
    change: Callable[[Ask], Ask]

    def __call__(self, subject: Any) -> Program[Any]:
        return map_asks(self.part(subject), self.change)


class Unanswered(BaseException):
    """A query has no answer.

    Args:
        outcomes: Those of all queries of the same `Ask`.
    """

    def __init__(self, reason: str, outcomes: Sequence[Outcome]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcomes = tuple(outcomes)


class Failed(Unanswered):
    """An expert could not answer."""


class Abstained(Unanswered):
    """An expert cannot determine an answer."""


def score_without_value(error: Unanswered | ImageError) -> Score:
    """The score of a program that ends with this exception."""
    reason = str(error) or type(error).__name__
    if isinstance(error, ImageError):
        return Score.failed(reason)
    failures = [outcome for outcome in error.outcomes if isinstance(outcome, Failure)]
    abstains = any(isinstance(outcome, Abstention) for outcome in error.outcomes)
    evidence = [Evidence("raw output", text=failure.raw) for failure in failures if failure.raw]
    if not isinstance(error, Failed):
        return Score.abstained(reason, evidence=evidence)
    infrastructure = bool(failures) and not abstains and all(failure.infrastructure for failure in failures)
    return Score.failed(reason, evidence=evidence, cause="infrastructure" if infrastructure else "")


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
            raise Failed(f"{outcome.reason} ({outcome.expert})" if outcome.expert else outcome.reason, outcomes)
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


def run_once(part: Callable[[S], Program[T]], subject: S) -> Program[T]:
    """The value of `part(subject)`, which runs once for all programs of a score, however many of them need it. Raises
    what it raises: `Failed`, `Abstained` or ImageError. As an answer to a query, a value is kept while the score is
    computed, and so is an abstention; a failure reaches those who wait for it, and who comes later runs it anew.
    """
    (outcome,) = yield RunOnce(part, subject)
    if isinstance(outcome, Unanswered | ImageError):
        raise outcome.with_traceback(None)
    return cast("T", outcome)
