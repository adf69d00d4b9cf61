"""Offline scoring: samples are streamed, each score is written as soon as it is next in order. If a run ends early, all
finished scores are written first."""

from __future__ import annotations

import io
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
from rich.table import Table
from rich.text import Text

from ...reward import Card, EditSample, Program, Reward, Score, TooManyFailures
from ...reward.atomic_files import named_if_full
from ...reward.engine import gather
from ...reward.engine.expert_queue import ExpertStats
from ...reward.metrics import Metric
from ...reward.metrics.compose import score_with_signature
from ...reward.metrics.edival.task_parser import task_of
from ...reward.missing_inputs import asks_for_fields, for_rows
from ...reward.score import Status
from ..common.inputs import SampleEntry
from ..common.interruption import interrupted_code
from ..common.problems import Problems
from ..common.reasons import reason_pattern
from ..common.terminal import plain_table

QUANTILES = {"min": 0.0, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "max": 1.0}


@dataclass
class ScoreSummary:
    """Accumulates scores one by one, without keeping them."""

    counts: Counter[str] = field(default_factory=Counter)
    values: list[float] = field(default_factory=list)
    reasons: dict[tuple[Status, str], tuple[int, str]] = field(default_factory=dict)

    def add(self, score: Score) -> None:
        self.counts[score.status] += 1
        if score.value is not None:
            self.values.append(score.value)
        else:
            key = (score.status, reason_pattern(score.reason))
            count, example = self.reasons.get(key, (0, score.reason))
            self.reasons[key] = (count + 1, example)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def grouped(self) -> list[tuple[Status, int, str]]:
        """Status, count and an example of each reason for a missing value, the most frequent first."""
        groups = [(status, count, example) for (status, _), (count, example) in self.reasons.items()]
        return sorted(groups, key=lambda item: (-item[1], item[0], item[2]))

    def to_json(self) -> dict[str, Any]:
        """Counts by status; mean and quantiles (null without values); reasons."""
        quantiles = (
            {name: float(np.quantile(self.values, quantile)) for name, quantile in QUANTILES.items()}
            if self.values
            else None
        )
        return {
            "samples": self.total,
            "counts": {status: self.counts[status] for status in get_args(Status)},
            "mean": float(np.mean(self.values)) if self.values else None,
            "quantiles": quantiles,
            "unscored": [
                {"status": status, "count": count, "reason": reason} for status, count, reason in self.grouped
            ],
        }

    def table(self, title: str) -> Table:
        """The summary as a rich table."""
        data = self.to_json()
        table = plain_table(Text(title))
        counts = [f"{count} {status.replace('_', ' ')}" for status, count in data["counts"].items() if count]
        table.add_row("samples", Text(f"{self.total}: {', '.join(counts)}" if counts else "0"))
        if self.values:
            table.add_row("mean", f"{data['mean']:.4f}")
            table.add_row("values", "  ".join(f"{name} {value:.4f}" for name, value in data["quantiles"].items()))
        for status, count, reason in self.grouped[:_MAX_REASONS_SHOWN]:
            table.add_row(status.replace("_", " "), Text(f"{count} x {for_rows(reason)}"))
        if len(self.grouped) > _MAX_REASONS_SHOWN:
            table.add_row("", f"and {len(self.grouped) - _MAX_REASONS_SHOWN} other reasons")
        return table


def profile_table(stats: Mapping[str, Any]) -> Table:
    """Engine statistics: queries, cache hits, and usage of experts."""
    table = plain_table("queries")
    for name in ("queries", "unique", "cache_hits", "coalesced", "rejected"):
        table.add_row(name, str(stats.get(name, 0)))
    for name, expert in stats.get("experts", {}).items():
        line = "{queries} queries in {calls} calls, {failed} failed, {seconds:.2f} s".format(**expert)
        table.add_row(Text(name), line)
        if usage := _usage_line(expert):
            table.add_row("", usage)
    return table


def _usage_line(expert: Mapping[str, Any]) -> str:
    """What an expert counts itself (see `Expert.usage`), and has any of."""
    counts = {name: count for name, count in expert.items() if name not in _ENGINE_COUNTS and count}
    usd = counts.pop("usd", None)
    parts = [f"{count:,.12g} {name.replace('_', ' ')}" for name, count in counts.items()]
    return ", ".join([*parts, *([] if usd is None else [f"{usd:,.6f} USD"])])


_ENGINE_COUNTS = {field.name for field in fields(ExpertStats)}


_MAX_REASONS_SHOWN = 12


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

    on_score: called with id and score, in order. on_problem: with each problem of the input that is kept, and its
    location. on_sample: with each sample to be scored. Neither too many failures nor an interruption is raised: the
    report has them. A sample whose instruction a metric cannot parse is a problem, and its score is written.
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
    object, since rows of a table may have equal ids."""

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
    """Why the score or one of its parts is not applicable for want of fields; empty if none is. A plan that keeps
    nothing, or asks for what the source shows, is no problem of the input."""
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
    """Open a scores file for writing, in UTF-8; `-` is standard output. Raises OSError. A lone surrogate, valid in JSON
    but not in UTF-8, becomes its JSON escape."""
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
