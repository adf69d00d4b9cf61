"""Query a judge until its reply is valid, for many images concurrently; rejected replies are recorded with reasons.

A pipeline is a program for each image. The engine runs the programs concurrently and deduplicates queries; the answer
log makes runs resumable. After an invalid reply the query is repeated with another `draw`. Validation is by rule, so
the same replies give the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ....reward import Engine, Expert, Image, Program, Score, ask
from ....reward.queries import FreeText, Judge, Message

T = TypeVar("T")

MAX_ATTEMPTS = 3
"""Replies to one query before the image is rejected."""


class ConstructionRejected(Exception):
    """No data can be constructed from this image; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """An invalid reply, or, with `attempt` None, a rejected image or object.

    stage: of the pipeline, e.g. `edival/objects`.
    """

    id: str
    stage: str
    reason: str
    attempt: int | None = None
    reply: str = ""

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"id": self.id, "stage": self.stage, "reason": self.reason}
        return row if self.attempt is None else {**row, "attempt": self.attempt, "reply": self.reply}


@dataclass
class RejectionLog:
    """Rejections of one image, in order."""

    id: str
    rejects: list[Rejection] = field(default_factory=list)

    def add(self, stage: str, reason: str, attempt: int | None = None, reply: str = "") -> None:
        self.rejects.append(Rejection(self.id, stage, reason, attempt, reply))


@dataclass(frozen=True, slots=True)
class ProgramResult(Generic[T]):
    """The outcome for one image: a `value`, or rejected (see `rejects`), or unanswered (`failed` has the reason)."""

    id: str
    value: T | None
    rejects: tuple[Rejection, ...] = ()
    failed: str = ""


ConstructionProgram = Callable[[RejectionLog], Program[T]]
"""Constructs data from one image. Raises `ConstructionRejected`."""


def ask_until_valid(
    notes: RejectionLog,
    stage: str,
    prompt: str,
    image: Image | Sequence[str | Image] | None,
    parse: Callable[[str], T],
    *,
    temperature: float,
    max_tokens: int = 256,
    slots: Mapping[str, str] | None = None,
    max_attempts: int = MAX_ATTEMPTS,
    seed: int = 0,
) -> Program[T]:
    """Query the judge until `parse` accepts its reply; `parse` raises ValueError with the reason otherwise.

    image: shown before the prompt, one image, or several with text between. seed: another seed repeats the query anew.
    An unanswered query is not an attempt: it ends the program as failed.
    Raises `ConstructionRejected` after `max_attempts`.
    """
    images = () if image is None else (image,) if isinstance(image, Image) else tuple(image)
    reason = ""
    for attempt in range(max_attempts):
        query = Judge(
            (Message((*images, prompt)),),
            FreeText(max_tokens=max_tokens, temperature=temperature),
            topic=f"making/{stage}",
            slots=tuple((slots or {}).items()),
            draw=seed * max_attempts + attempt,
        )
        reply = yield from ask(query)
        try:
            return parse(reply.text)
        except ValueError as error:
            reason = str(error)
            notes.add(stage, reason, attempt, reply.text)
    raise ConstructionRejected(f"no valid reply in {max_attempts} attempts; the last: {reason}")


def run_programs(
    programs: Iterable[tuple[str, ConstructionProgram[T]]], engine: Engine, experts: Mapping[str, Expert]
) -> Iterator[ProgramResult[T]]:
    """The results of the programs, in order; as many run concurrently as fit the engine's window."""
    results: dict[str, tuple[T | None, RejectionLog]] = {}
    order: list[str] = []

    def score_programs() -> Iterator[tuple[Program[Score], None]]:
        for name, program in programs:
            order.append(name)
            yield _as_score_program(program, RejectionLog(name), results), None

    for number, score in enumerate(engine.run(score_programs(), experts)):
        name = order[number]
        if score.status == "scored":
            value, notes = results.pop(name)
            yield ProgramResult(name, value, tuple(notes.rejects))
        else:
            yield ProgramResult(name, None, failed=score.reason)


def _as_score_program(
    program: ConstructionProgram[T], notes: RejectionLog, results: dict[str, tuple[T | None, RejectionLog]]
) -> Program[Score]:
    """The program in the form that the engine runs: one that returns a score."""
    try:
        value: T | None = yield from program(notes)
    except ConstructionRejected as error:
        value = None
        notes.add("rejected", str(error))
    results[notes.id] = value, notes
    return Score.of(1.0)


@dataclass(frozen=True)
class ConstructionReport:
    """num_constructed, num_rejected: images (or questions, prompts). failures: unanswered ones, with the reason."""

    num_constructed: int
    num_rejected: int
    failures: Mapping[str, str]
    files: tuple[Path, ...]
    stats: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """1 if queries were not answered: the same command retries them."""
        return int(bool(self.failures))

    def to_json(self) -> dict[str, Any]:
        return {
            "constructed": self.num_constructed,
            "rejected": self.num_rejected,
            "failed": dict(self.failures),
            "files": [str(path) for path in self.files],
            "stats": dict(self.stats),
        }
