"""Scoring as it is done offline: samples stream through, each score is written as soon as it is its turn.

Nothing computed is lost: whatever ends a run early, the scores that were ready are written first.
"""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..reward import Asks, Card, EditSample, Metric, Reward, Score, TooManyFailures, gather
from ..reward.compose import signed
from ..reward.edival.instructions import task_of
from ..reward.score import SCHEMA
from .inputs import Entry
from .summary import Summary


@dataclass
class Outcome:
    """What became of a run. `problems`: input that was wrong, in words. `ended`: why it ended early, if it did."""

    summary: Summary = field(default_factory=Summary)
    problems: list[str] = field(default_factory=list)
    ended: str = ""
    interrupted: bool = False
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 done, 1 some scores failed, 2 some input was wrong, 130 interrupted."""
        if self.interrupted:
            return 130
        if self.problems:
            return 2
        return 1 if self.ended or self.summary.counts["failed"] else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "summary": self.summary.to_json(),
            "problems": self.problems,
            "ended": self.ended,
            "interrupted": self.interrupted,
        }


def run(
    reward: Reward,
    entries: Iterable[Entry],
    write: Callable[[str, Score], None],
    *,
    complain: Callable[[str], None],
    taken: Callable[[EditSample], None] = lambda sample: None,
) -> Outcome:
    """Score what can be scored, and say what cannot.

    write: is given each id and score, in the order of the entries. complain: is told each problem with the input, with
    its place. taken: is shown each sample that will be scored. Neither too many failures nor an interruption is raised:
    the outcome tells. A sample a metric cannot understand is complained about, and its (valueless) score written.
    """
    outcome = Outcome()
    ready: dict[str, Score] = {}
    waiting: deque[_Waiting] = deque()
    noting = Reward(
        _Noting(reward.metric, ready),
        reward.experts,
        engine=reward.engine,
        max_failed=reward.max_failed,
        on_failures=reward.on_failures,
        patience_s=reward.patience_s,
    )

    def problem(where: str, what: str) -> None:
        outcome.problems.append(f"{where}: {what}")
        complain(outcome.problems[-1])

    def samples() -> Iterator[EditSample]:
        for entry in entries:
            sample = entry.sample
            if sample is None:
                problem(entry.where, entry.problem)
            elif missing := reward.missing(sample):
                problem(entry.where, f"{reward.card.name} needs {', '.join(missing)}, and {sample.id!r} has none")
            else:
                taken(sample)
                understood = all(task_of(turn) is not None for turn in sample.turns)
                waiting.append(_Waiting(sample.id, entry.where, understood))
                yield sample

    def put(one: _Waiting, score: Score) -> None:
        write(one.id, score)
        outcome.summary.add(score)
        if not one.understood and (reason := _not_applicable(score)):
            problem(one.where, f"{one.id}: {reason}")

    before = reward.engine.stats()
    try:
        for score in noting.stream(samples()):
            one = waiting.popleft()  # first, so that an interruption cannot write it twice
            put(one, score)
            del ready[one.id]
    except TooManyFailures as error:
        outcome.ended = str(error)
    except KeyboardInterrupt:
        outcome.interrupted = True
    finally:
        for one in waiting:
            if one.id in ready:
                put(one, ready[one.id])
        outcome.stats = reward.engine.stats().since(before)
    return outcome


@dataclass(frozen=True, slots=True)
class _Waiting:
    id: str
    where: str
    understood: bool


@dataclass(frozen=True)
class _Noting:
    """A metric that leaves its score in `ready` the moment it is known, be it that of a sample far behind the first."""

    metric: Metric
    ready: dict[str, Score]

    @property
    def card(self) -> Card:
        return self.metric.card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        (score,) = yield from gather([signed(self.metric, sample)])  # which has a score for what raises, too
        self.ready[sample.id] = score
        return score


def _not_applicable(score: Score) -> str:
    """Why the score or a part of it does not apply; empty if all of it does."""
    if score.status == "not_applicable":
        return score.reason
    found = (_not_applicable(part) for part in (*score.parts.values(), *score.credits.values()))
    return next(filter(None, found), "")


def row_of(name: str, score: Score) -> str:
    """A line of a scores file."""
    return json.dumps({"schema": SCHEMA, "id": name, **score.to_json()}, ensure_ascii=False, allow_nan=False) + "\n"


def line_of(name: str, score: Score) -> str:
    """A score in a line, for a person."""
    value = score.status.replace("_", " ") if score.value is None else f"{score.value:.4f}"
    return f"{name}  {value}  {score.reason}".rstrip()


@contextmanager
def rows_to(path: Path) -> Iterator[IO[str]]:
    """A scores file to write to, in UTF-8 wherever it goes; `-` is standard output. Raises OSError.

    A lone surrogate, which JSON may hold and UTF-8 may not, becomes its JSON escape.
    """
    if path == Path("-"):
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        yield sys.stdout
    else:
        with path.open("w", encoding="utf-8", errors="backslashreplace") as opened:
            yield opened


@contextmanager
def warnings_to(tell: Callable[[str], None]) -> Iterator[list[str]]:
    """Warnings are told as they come, from whatever thread, and listed."""
    told: list[str] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        told.append(str(message))
        tell(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = show
        yield told
