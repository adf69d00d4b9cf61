"""Offline scoring: samples are streamed, each score is written as soon as it is next in order.

If a run ends early, all finished scores are written first.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from ...reward import Card, EditSample, Program, Reward, Score, TooManyFailures
from ...reward.atomic_files import named_if_full
from ...reward.engine import gather
from ...reward.metrics import Metric
from ...reward.metrics.compose import score_with_signature
from ...reward.metrics.edival.task_parser import task_of
from ...reward.missing_inputs import asks_for_fields
from ..common.inputs import SampleEntry
from ..common.interruption import interrupted_code
from ..common.problems import Problems
from .score_summary import ScoreSummary


@dataclass
class ScoringReport:
    """The outcome of a run. problems: messages about invalid input. stop_reason: why it ended early, or empty."""

    summary: ScoreSummary = field(default_factory=ScoreSummary)
    problems: Problems[str] = field(default_factory=Problems)
    stop_reason: str = ""
    interrupted: bool = False
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 done, 1 some scores failed, 2 some input was invalid, 130 or 143 interrupted."""
        if self.interrupted:
            return interrupted_code()
        if self.problems:
            return 2
        return 1 if self.stop_reason or self.summary.counts["failed"] else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "summary": self.summary.to_json(),
            "problems": list(self.problems),
            "num_problems": self.problems.total,
            "stop_reason": self.stop_reason,
            "interrupted": self.interrupted,
        }


def score_entries(
    reward: Reward,
    entries: Iterable[SampleEntry],
    on_score: Callable[[str, Score], None],
    *,
    on_problem: Callable[[str], None],
    on_sample: Callable[[EditSample], None] = lambda sample: None,
) -> ScoringReport:
    """Score all valid entries, and report the others.

    on_score: called with id and score, in the order of the entries. on_problem: called with each problem of the input
    that is kept (see `Problems`), and its location. on_sample: called with each sample that will be scored. Neither too
    many failures nor an interruption is raised: the report has them. A sample whose instruction a metric cannot parse
    is reported as a problem, and its score (without a value) is written.
    """
    report = ScoringReport()
    ready: dict[int, Score] = {}
    waiting: deque[_PendingSample] = deque()
    recorder = Reward(
        _ScoreRecorder(reward.metric, ready),
        reward.experts,
        engine=reward.engine,
        max_failure_rate=reward.max_failure_rate,
        on_failures=reward.on_failures,
        outage_timeout_s=reward.outage_timeout_s,
    )

    def problem(location: str, message: str) -> None:
        text = f"{location}: {message}"
        if report.problems.append(text):
            on_problem(text)

    def samples() -> Iterator[EditSample]:
        for entry in entries:
            sample = entry.sample
            if sample is None:
                problem(entry.location, entry.problem)
            elif missing := reward.missing_fields(sample):
                problem(entry.location, f"{reward.card.name} needs {', '.join(missing)}, which {sample.id!r} lacks")
            else:
                on_sample(sample)
                parsed = all(task_of(turn) is not None for turn in sample.turns)
                waiting.append(_PendingSample(sample, entry.location, parsed))
                yield sample

    def add_score(pending: _PendingSample, score: Score) -> None:
        on_score(pending.sample.id, score)
        report.summary.add(score)
        if not pending.parsed and (reason := _lacking_fields(score)):
            problem(pending.location, f"{pending.sample.id}: {reason}")

    before = reward.engine.stats()
    try:
        for score in recorder.stream(samples()):
            pending = waiting.popleft()  # first, so that an interruption cannot write it twice
            add_score(pending, score)
            del ready[id(pending.sample)]
    except TooManyFailures as error:
        report.stop_reason = str(error)
    except KeyboardInterrupt:
        report.interrupted = True
    finally:
        for pending in waiting:
            if id(pending.sample) in ready:
                add_score(pending, ready[id(pending.sample)])
        report.stats = reward.engine.stats().since(before)
    return report


@dataclass(frozen=True, slots=True)
class _PendingSample:
    sample: EditSample
    location: str
    parsed: bool


@dataclass(frozen=True)
class _ScoreRecorder:
    """A metric that stores each score in `ready` as soon as it is computed, whatever the order: by the sample as an
    object, since rows of a table may have equal ids.
    """

    metric: Metric
    ready: dict[int, Score]

    @cached_property
    def card(self) -> Card:
        return self.metric.card

    def __call__(self, sample: EditSample) -> Program[Score]:
        (score,) = yield from gather([score_with_signature(self.metric, sample)])  # `gather` turns errors into scores
        self.ready[id(sample)] = score
        return score


def _lacking_fields(score: Score) -> str:
    """Why the score or one of its parts is not applicable for want of fields; empty if none is.

    A plan that keeps nothing, or asks for what the source shows, is no problem of the input.
    """
    if score.status == "not_applicable" and asks_for_fields(score.reason):
        return score.reason
    reasons = (_lacking_fields(part) for part in (*score.parts.values(), *score.credits.values()))
    return next(filter(None, reasons), "")


def format_score(name: str, score: Score) -> str:
    """A score as one line of text."""
    value = score.status.replace("_", " ") if score.value is None else f"{score.value:.4f}"
    return f"{name}  {value}  {score.reason}".rstrip()


@contextmanager
def open_scores_file(path: Path) -> Iterator[IO[str]]:
    """Open a scores file for writing, in UTF-8; `-` is standard output. Raises OSError.

    A lone surrogate, valid in JSON but not in UTF-8, becomes its JSON escape.
    """
    if path == Path("-"):
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        yield sys.stdout
    else:
        with named_if_full(path), path.open("w", encoding="utf-8", errors="backslashreplace") as file:
            yield file


@contextmanager
def forward_warnings(on_warning: Callable[[str], None]) -> Iterator[list[str]]:
    """Pass warnings of all threads to `on_warning` as they occur, and yield a list of them."""
    messages: list[str] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        messages.append(str(message))
        on_warning(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = show
        yield messages
