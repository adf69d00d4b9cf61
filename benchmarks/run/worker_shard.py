"""A subset of a suite's items, scored in one process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ...reward import AnswerLog, EditSample, Engine, Reward, Score, TooManyFailures
from ...reward.engine.expert_queue import Stats
from ..suites.suite import SuiteItem
from .editor_outputs import MissingOutput, Outputs, sample_key
from .rendezvous import SINGLE_PROCESS, ProcessRank
from .result_rows import missing_row, result_row, row_line
from .run_budget import BudgetTracker, Usage
from .run_config import ExecutionOptions, RunConfig
from .run_journal import ANSWER_LOG_FILE, RowJournal, is_reusable_row, total_usage
from .run_progress import RunProgress
from .suite_metric import CombinedMetric

_POLL_INTERVAL_S = 0.5
"""Interval at which the files of other processes are read."""


class WorkerShard:
    """A subset of a suite's items, scored in this process. journal: None keeps nothing. process: shares the budget.

    stop_reason: why it ended early, or empty. row_lines: rows as JSON by item. sample_keys: of the items scored now.
    """

    def __init__(
        self,
        config: RunConfig,
        options: ExecutionOptions,
        journal: RowJournal | None,
        items: Sequence[SuiteItem],
        *,
        process: ProcessRank = SINGLE_PROCESS,
        before: Usage | None = None,
        log: Path | None = None,
    ) -> None:
        self.config = config
        self.options = options
        self.journal = journal
        self.items = items
        self.process = process
        self.stop_reason = ""
        self.row_lines: dict[str, str] = {}
        self.sample_keys: dict[str, str] = {}
        before = before or options.spent
        if before is None:
            before = Usage() if journal is None else total_usage(journal.folder)
        self.budget = BudgetTracker(
            config.experts, options.prices, options.limits, before, 1 / process.world_size, options.spent_s
        )
        self._log = log or options.answer_log or (None if journal is None else journal.folder / ANSWER_LOG_FILE)
        self._reused = 0
        self._started_at = time.monotonic()
        self._stats: dict[str, Any] = {}
        self._peers: tuple[float, tuple[int, int, Usage]] = (0.0, (0, 0, Usage()))

    def run(self) -> dict[str, str]:
        """Score the pending items. Returns rows as JSON by item, without those of unfinished items."""
        if self.journal is not None:
            self.journal.save_usage(Usage(), 0, 0, now=True)
        metric = CombinedMetric(self.config.suite, self.config.metric_set.metrics, lambda: bool(self.budget.exhausted))
        log = None if self._log is None else AnswerLog(self._log)
        engine = Engine(window=self.options.window, log=log, reproducible=self.config.reproducible)
        reward = Reward(
            metric,
            self.budget.experts,
            engine=engine,
            max_failure_rate=self.options.max_failure_rate,
            on_failures=self.options.on_failures,
            outage_timeout_s=self.options.outage_timeout_s,
        )
        outputs = Outputs(self.config.suite, self.config.outputs, {} if log is None else log.files)
        waiting: deque[tuple[SuiteItem, str, str]] = deque()
        try:
            for score in reward.stream(self._samples(outputs, waiting)):
                self._add_score(*waiting.popleft(), score)
        except TooManyFailures as error:
            for score in error.scores[-1:]:
                self._add_score(*waiting.popleft(), score)
            self.stop_reason = str(error)
        finally:
            self._stats = engine.stats().since(Stats())
            engine.close()
            if self.journal is not None:
                self.journal.save_usage(self.budget.usage, len(self.row_lines), self._reused, now=True)
        if log is not None:  # an interrupted engine may use it until the process ends
            log.close()
        self.stop_reason = self.stop_reason or self.budget.exhausted
        return self.row_lines

    def pending_items(self) -> list[SuiteItem]:
        """The items without a finished row."""
        waiting: deque[tuple[SuiteItem, str, str]] = deque()
        with nullcontext() if self._log is None else AnswerLog(self._log) as log:
            outputs = Outputs(self.config.suite, self.config.outputs, {} if log is None else log.files)
            deque(self._samples(outputs, waiting), maxlen=0)
        return [item for item, _, _ in waiting]

    def statistics(self) -> dict[str, Any]:
        """Statistics for `run.json`."""
        return {
            "items": len(self.items),
            "reused": self._reused,
            "seconds": round(time.monotonic() - self._started_at, 3),
            "usage": self.budget.usage.to_json(),
            "engine_stats": self._stats,
        }

    def _samples(self, outputs: Outputs, waiting: deque[tuple[SuiteItem, str, str]]) -> Iterator[EditSample]:
        finished = {} if self.journal is None else self.journal.rows()
        for item in self.items:
            try:
                sample = outputs.sample(item)
            except MissingOutput as error:
                self._add_row(item, row_line(missing_row(item, str(error))), reused=True)
                continue
            key = sample_key(sample, item)
            row = next(
                (
                    row
                    for row_key, row in reversed(finished.get(item.id, ()))
                    if row_key == key and is_reusable_row(row)
                ),
                None,
            )
            if row is not None:
                self._add_row(item, row_line(row), reused=True)
                continue
            if self.budget.exhausted:
                continue  # later items may need no calls
            waiting.append((item, key, sample.edited.digest))
            yield sample

    def _add_score(self, item: SuiteItem, key: str, edited_digest: str, score: Score) -> None:
        row = result_row(item, edited_digest, score.parts).to_json()
        if self.budget.exhausted and not is_reusable_row(row):
            return  # it failed because the budget is exhausted: not scored
        if self.journal is not None:
            self.journal.append(key, row)
        self.sample_keys[item.id] = key
        self._add_row(item, row_line(row))

    def _add_row(self, item: SuiteItem, line: str, *, reused: bool = False) -> None:
        self.row_lines[item.id] = line
        self._reused += reused
        if self.journal is not None:
            self.journal.save_usage(self.budget.usage, len(self.row_lines), self._reused)
        self.report_progress()

    def report_progress(self) -> None:
        """Report progress; rank 0 of several processes reports that of all."""
        done, reused, usage = len(self.row_lines), self._reused, self.budget.usage
        if self.process.world_size > 1 and self.journal is not None:
            if time.monotonic() - self._peers[0] > _POLL_INTERVAL_S:
                self._peers = time.monotonic(), self.journal.peer_progress(self.process.world_size)
            peers = self._peers[1]
            done, reused, usage = done + peers[0], reused + peers[1], usage + peers[2]
        total = len(self.config.suite.items) if self.process.world_size > 1 else len(self.items)
        self.options.on_progress(RunProgress(done, total, reused, time.monotonic() - self._started_at, usage))
