"""Asking a judge until it gives something usable, for many pictures at a time; why what it gave was not is kept.

A pipeline is a program (`reward.asking`) for each picture. The engine runs them side by side and asks each question
once; answers are in its log, so that running again asks nothing that was answered. A question is repeated with another
`draw` where the answer was read and found wanting. Whether it was is decided by rule, so the same answers make the
same data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ...reward import Asks, Engine, Expert, FreeText, Image, Judge, Message, Score, ask

T = TypeVar("T")

TRIES = 3
"""Answers to one question, before the picture is given up."""


class Rejected(Exception):
    """No data can be made of this picture; the message says why."""


@dataclass(frozen=True, slots=True)
class Reject:
    """One answer that could not be used (`said`), or, with `attempt` None, a picture or an object given up.

    stage: what was asked for, as in `edival/objects`.
    """

    id: str
    stage: str
    reason: str
    attempt: int | None = None
    said: str = ""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "stage": self.stage, "reason": self.reason}
        return found if self.attempt is None else {**found, "attempt": self.attempt, "said": self.said}


@dataclass
class Notes:
    """What went wrong with one picture, in order."""

    id: str
    rejects: list[Reject] = field(default_factory=list)

    def note(self, stage: str, reason: str, attempt: int | None = None, said: str = "") -> None:
        self.rejects.append(Reject(self.id, stage, reason, attempt, said))


@dataclass(frozen=True, slots=True)
class Made(Generic[T]):
    """What became of one picture: a `value`, or given up (see `rejects`), or not answered (`failed` says why)."""

    id: str
    value: T | None
    rejects: tuple[Reject, ...] = ()
    failed: str = ""


Program = Callable[[Notes], Asks[T]]
"""Makes something of one picture. Raises `Rejected`."""


def insist(
    notes: Notes,
    stage: str,
    words: str,
    image: Image | Sequence[str | Image] | None,
    read: Callable[[str], T],
    *,
    temperature: float,
    max_tokens: int = 256,
    slots: Mapping[str, str] | None = None,
    tries: int = TRIES,
    seed: int = 0,
) -> Asks[T]:
    """Ask the judge until `read` takes what it says; `read` raises ValueError with the reason where it does not.

    image: what the judge sees before the words, one picture, or several with words between. seed: another one asks the
    same question anew. An unanswered question is not a try: it ends the program as failed.
    Raises `Rejected` after so many tries.
    """
    seen = () if image is None else (image,) if isinstance(image, Image) else tuple(image)
    reason = ""
    for attempt in range(tries):
        question = Judge(
            (Message((*seen, words)),),
            FreeText(max_tokens=max_tokens, temperature=temperature),
            topic=f"making/{stage}",
            slots=tuple((slots or {}).items()),
            draw=seed * tries + attempt,
        )
        reply = yield from ask(question)
        try:
            return read(reply.text)
        except ValueError as error:
            reason = str(error)
            notes.note(stage, reason, attempt, reply.text)
    raise Rejected(f"nothing usable in {tries} answers; the last: {reason}")


def make_all(
    programs: Iterable[tuple[str, Program[T]]], engine: Engine, experts: Mapping[str, Expert]
) -> Iterator[Made[T]]:
    """What each program made, in their order; as many run at a time as the engine's window holds."""
    made: dict[str, tuple[T | None, Notes]] = {}
    order: list[str] = []

    def started() -> Iterator[tuple[Asks[Score], None]]:
        for name, program in programs:
            order.append(name)
            yield _kept(program, Notes(name), made), None

    for number, score in enumerate(engine.run(started(), experts)):
        name = order[number]
        if score.status == "scored":
            value, notes = made.pop(name)
            yield Made(name, value, tuple(notes.rejects))
        else:
            yield Made(name, None, failed=score.reason)


def _kept(program: Program[T], notes: Notes, made: dict[str, tuple[T | None, Notes]]) -> Asks[Score]:
    """The program as the engine wants it: one that ends in a score."""
    try:
        value: T | None = yield from program(notes)
    except Rejected as error:
        value = None
        notes.note("given up", str(error))
    made[notes.id] = value, notes
    return Score.of(1.0)
