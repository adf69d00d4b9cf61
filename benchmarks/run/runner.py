"""Run a suite: rows are journalled one by one, results are written when all items are done.

    from editcritic.benchmarks import run_suite
    results = run_suite(suite, Path("outputs"), editor="mine", experts={"judge": "…"}, out=Path("results/mine"))

The same call resumes an interrupted run.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from ...reward import (
    AnswerLog,
    EditSample,
    Engine,
    Expert,
    Reward,
    Score,
    TooManyFailures,
    default_experts,
    load_experts,
)
from ...reward.engine.expert_queue import Stats
from ...reward.queries.specs import Spec
from ..common.errors import InputError
from ..common.problems import num_problems
from ..suites.missing_values import suite_tables
from ..suites.results import OUTPUTS_ENTRY, RESULT_FILE, ResultRow, Results
from ..suites.suite import Suite, SuiteItem
from ..suites.tables import ComputedTable
from .editor_outputs import MissingOutput, Outputs, sample_key
from .output_generation import read_generation_records
from .result_files import case_weights, status_counts, write_results, write_run_file
from .run_budget import BudgetTracker, ProgressCallback, RunProgress, Usage, ignore_progress
from .run_config import RunConfig
from .run_journal import (
    ANSWER_LOG_FILE,
    JOURNAL_FOLDER,
    SINGLE_PROCESS,
    ProcessRank,
    Rendezvous,
    RowJournal,
    ShardResult,
    is_reusable_row,
    read_json,
    require_no_links,
    require_same_settings,
    total_usage,
)
from .run_settings import RunSettings
from .suite_loading import CombinedMetric

__all__ = ["RunConfig", "RunIncomplete", "RunResult", "RunSettings", "execute", "run_suite"]

_POLL_INTERVAL_S = 0.5


class RunIncomplete(RuntimeError):
    """A run ended early; the message has the reason and what to do.

    Args:
        results: Scored rows, the others missing.
    """

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


@dataclass(frozen=True)
class RunResult:
    """The outcome of a run.

    Args:
        stop_reason: Why it ended early, or empty.
        tables: Empty for a run without results.
    """

    results: Results
    stop_reason: str
    tables: Sequence[ComputedTable]
    run_facts: Mapping[str, Any]

    @property
    def failed(self) -> int:
        """Items with a failed score."""
        return sum(any(score.status == "failed" for score in row.scores.values()) for row in self.results.rows)

    @property
    def missing(self) -> int:
        """Items that were not scored."""
        return sum(bool(row.missing_reason) for row in self.results.rows)

    @cached_property
    def without_value(self) -> Mapping[str, str]:
        """Metrics that abstained from every edit they apply to, with the reason of the first, e.g. for want of a
        judge."""
        counts = status_counts(self.results)["metrics"]
        void = {name for name, one in counts.items() if one["abstained"] and not one["scored"] + one["failed"]}
        scores = [(name, score) for row in reversed(self.results.rows) for name, score in row.scores.items()]
        return {name: score.reason for name, score in scores if name in void and score.status == "abstained"}

    @property
    def exit_code(self) -> int:
        """0 if complete; 1 if scores failed, items are missing, the run ended early, or no metric has any value."""
        metrics = {name for row in self.results.rows for name in row.scores}
        is_void = bool(metrics) and metrics == self.without_value.keys()
        return int(bool(self.stop_reason or self.failed or self.missing or is_void))


@dataclass(frozen=True)
class SharedSpending:
    """What the runs into one result folder share: the file of answers, and what counts against the budget. The folder
    may be a stranger's. Raises OSError for a link in it through which the runs would write."""

    out: Path
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        require_no_links(self.out)

    @property
    def usage(self) -> Usage:
        """Of all runs into the folder, of all suites."""
        return sum(map(total_usage, sorted(self.out.glob(f"*/{JOURNAL_FOLDER}"))), start=Usage())


def run_suite(
    suite: Suite,
    outputs: Path,
    *,
    editor: str = "editor",
    experts: Mapping[str, Expert | Spec] | None = None,
    protocol: str | None = None,
    metrics: Sequence[str] = (),
    out: Path | None = None,
    journal: Path | None = None,
    reproducible: bool = False,
    options: RunSettings | None = None,
) -> Results:
    """Score an editor's outputs for a suite.

    Items without an image become rows with a `missing_reason`.

    Args:
        experts: Role -> expert or its spec; by default those that need no download.
        out: The result folder; None writes nothing.
        journal: Folder of the resume state; by default in `out`.
        options: Further settings, such as `RunSettings(budget={"judge_calls": 100})`.

    Raises:
        InputError: For invalid input.
        RunIncomplete: If the run ended early and partial results are not allowed.
    """
    given = {
        "outputs": outputs,
        "editor_name": editor,
        "protocol": protocol,
        "metrics": tuple(metrics),
        "out": out,
        "journal": journal,
        "reproducible": reproducible,
    }
    settings = (options or RunSettings()).overridden(given, "run_suite")
    bound = default_experts() if experts is None else load_experts(experts)
    result = execute(RunConfig.build(settings, bound, suite))
    assert result is not None  # this process is the only one
    if result.stop_reason and not settings.allow_partial:
        raise RunIncomplete(result.stop_reason, result.results)
    return result.results


def execute(
    config: RunConfig,
    *,
    process: ProcessRank = SINGLE_PROCESS,
    shared: SharedSpending | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> RunResult | None:
    """As `run_suite`, but return the outcome instead of raising `RunIncomplete`. process: rank among the processes of
    one machine that run the same; only rank 0 gets a result, the others None."""
    started_at = utc_timestamp()
    folder = config.settings.journal_folder
    check_folders(config)
    if folder is None:
        if process.world_size > 1:
            raise InputError("several processes need a shared folder: give out or journal")
        shard = WorkerShard(config, None, config.suite.items, shared=shared, on_progress=on_progress)
        return finish_run(config, started_at, [shard.run()])
    with RowJournal(folder, process.rank) as journal, Rendezvous(folder, process) as rendezvous:
        journal.require_settings(config.identity)
        items = process.items(config.suite)
        shard = WorkerShard(config, journal, items, process=process, shared=shared, on_progress=on_progress)
        own = shard.run()
        if process.rank:
            rendezvous.submit(own)
            return None
        return finish_run(config, started_at, [own, *rendezvous.collect(shard.report_progress)])


def check_folders(config: RunConfig) -> None:
    """Raise `InputError` if there are no outputs, or the folder contains results of other settings."""
    Outputs(config.suite, config.outputs)
    out = config.settings.out
    if out is not None and (out / RESULT_FILE).exists():
        recorded = read_json(out / RESULT_FILE).get("provenance", {})
        require_same_settings({name: recorded.get(name) for name in config.identity}, config.identity, str(out))


class WorkerShard:
    """A subset of a suite's items, scored in this process. journal: None keeps nothing. process: shares the budget.
    shared: with other runs, by default the journal is the run's own. before, log: usage of earlier runs, and the file
    of answers, by default those of the journal. sample_keys: of the items scored now."""

    def __init__(
        self,
        config: RunConfig,
        journal: RowJournal | None,
        items: Sequence[SuiteItem],
        *,
        process: ProcessRank = SINGLE_PROCESS,
        shared: SharedSpending | None = None,
        on_progress: ProgressCallback = ignore_progress,
        before: Usage | None = None,
        log: Path | None = None,
    ) -> None:
        self.config = config
        self.journal = journal
        self.items = items
        self.process = process
        self.on_progress = on_progress
        self.row_lines: dict[str, str] = {}
        self.sample_keys: dict[str, str] = {}
        if shared is not None:
            before, log = shared.usage, shared.out / ANSWER_LOG_FILE
        elif journal is not None:
            before, log = total_usage(journal.folder), journal.folder / ANSWER_LOG_FILE
        settings = config.settings
        before_s = 0.0 if shared is None else time.monotonic() - shared.began
        self.budget = BudgetTracker(
            config.experts, settings.prices, settings.limits, before, 1 / process.world_size, before_s
        )
        self._log = log
        self._reused = 0
        self._started_at = time.monotonic()
        self._peers: tuple[float, tuple[int, int, Usage]] = (0.0, (0, 0, Usage()))

    def run(self) -> ShardResult:
        """Score the pending items. Unfinished items have no row."""
        settings = self.config.settings
        self._save_usage(now=True)
        metric = CombinedMetric(self.config.suite, self.config.metric_set.metrics, lambda: bool(self.budget.exhausted))
        log = None if self._log is None else AnswerLog(self._log)
        engine = Engine(window=settings.max_in_flight, log=log, reproducible=settings.reproducible)
        reward = Reward(
            metric,
            self.budget.experts,
            engine=engine,
            max_failure_rate=settings.max_failure_rate,
            on_failures=settings.on_failures,
            outage_timeout_s=settings.outage_timeout_s,
        )
        waiting: deque[tuple[SuiteItem, str, str]] = deque()
        stop_reason = ""
        try:
            for score in reward.stream(self._samples(log, waiting)):
                self._add_score(*waiting.popleft(), score)
        except TooManyFailures as error:
            for score in error.scores[-1:]:
                self._add_score(*waiting.popleft(), score)
            stop_reason = str(error)
        finally:
            stats = engine.stats().since(Stats())
            engine.close()
            self._save_usage(now=True)
        if log is not None:  # an interrupted engine may use it until the process ends
            log.close()
        return ShardResult(self.row_lines, stop_reason or self.budget.exhausted, self.statistics(stats))

    def pending_items(self) -> list[SuiteItem]:
        """The items without a finished row; the others' rows are in `row_lines`."""
        waiting: deque[tuple[SuiteItem, str, str]] = deque()
        with nullcontext() if self._log is None else AnswerLog(self._log) as log:
            deque(self._samples(log, waiting), maxlen=0)
        return [item for item, _, _ in waiting]

    def statistics(self, engine_stats: Mapping[str, Any]) -> dict[str, Any]:
        """Statistics for `run.json`."""
        return {
            "items": len(self.items),
            "reused": self._reused,
            "seconds": round(time.monotonic() - self._started_at, 3),
            "usage": self.budget.usage.to_json(),
            "engine_stats": engine_stats,
        }

    def _samples(self, log: AnswerLog | None, waiting: deque[tuple[SuiteItem, str, str]]) -> Iterator[EditSample]:
        outputs = Outputs(self.config.suite, self.config.outputs, {} if log is None else log.files)
        finished = {} if self.journal is None else self.journal.rows()
        for item in self.items:
            try:
                sample = outputs.sample(item)
            except MissingOutput as error:
                self._add_row(item, missing_row(item, str(error)), reused=True)
                continue
            key = sample_key(sample, item)
            rows = (row for row_key, row in reversed(finished.get(item.id, ())) if row_key == key)
            if (row := next(filter(is_reusable_row, rows), None)) is not None:
                self._add_row(item, row, reused=True)
            elif not self.budget.exhausted:  # else later items may need no calls
                waiting.append((item, key, sample.edited.digest))
                yield sample

    def _add_score(self, item: SuiteItem, key: str, edited_digest: str, score: Score) -> None:
        result = ResultRow(item.id, item.case, item.labels, score.parts, "", edited_digest, item.sample.instruction)
        row = result.to_json()
        if self.budget.exhausted and not is_reusable_row(row):
            return  # it failed because the budget is exhausted: not scored
        if self.journal is not None:
            self.journal.append(key, row)
        self.sample_keys[item.id] = key
        self._add_row(item, row)

    def _add_row(self, item: SuiteItem, row: Mapping[str, Any], *, reused: bool = False) -> None:
        self.row_lines[item.id] = row_line(row)
        self._reused += reused
        self._save_usage()
        self.report_progress()

    def _save_usage(self, *, now: bool = False) -> None:
        if self.journal is not None:
            self.journal.save_usage(self.budget.usage, len(self.row_lines), self._reused, now=now)

    def report_progress(self) -> None:
        """Report progress; rank 0 of several processes reports that of all."""
        done, reused, usage = len(self.row_lines), self._reused, self.budget.usage
        if self.process.world_size > 1 and self.journal is not None:
            if time.monotonic() - self._peers[0] > _POLL_INTERVAL_S:
                self._peers = time.monotonic(), self.journal.peer_progress(self.process.world_size)
            peers = self._peers[1]
            done, reused, usage = done + peers[0], reused + peers[1], usage + peers[2]
        total = len(self.config.suite.items) if self.process.world_size > 1 else len(self.items)
        self.on_progress(RunProgress(done, total, reused, time.monotonic() - self._started_at, usage))


def missing_row(item: SuiteItem, reason: str) -> dict[str, Any]:
    """The row of an item that was not scored, as JSON."""
    return ResultRow(item.id, item.case, item.labels, {}, reason, "", item.sample.instruction).to_json()


def row_line(row: Mapping[str, Any]) -> str:
    """The line of `scores.jsonl`, without its line break."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False)


def finish_run(config: RunConfig, started_at: str, shards: Sequence[ShardResult]) -> RunResult:
    """Make results of the rows; write them if complete, or if partial results are allowed."""
    settings, items, out = config.settings, config.suite.items, config.settings.out
    row_lines = {name: line for shard in shards for name, line in shard.row_lines.items()}
    complete = len(row_lines) == len(items)
    stop_message = ""
    if not complete:
        stop_reason = "; ".join(dict.fromkeys(shard.stop_reason for shard in shards if shard.stop_reason))
        folder = settings.journal_folder
        where = "nothing was saved: there is no journal" if folder is None else f"finished items are in {folder}"
        stop_message = (
            f"stopped: {stop_reason or 'not all items were scored'}; {len(row_lines)} of {len(items)} items are done, "
            f"{where}: the same command resumes, and --allow-partial writes results of the finished items"
        )
    all_lines = [
        row_lines.get(item.id) or row_line(missing_row(item, "not scored: the run ended early")) for item in items
    ]
    rows = [ResultRow.from_json(json.loads(line)) for line in all_lines]
    provenance = config.provenance(rows, complete)
    if facts := config.suite.output_facts(config.outputs):
        provenance[OUTPUTS_ENTRY] = dict(facts)
    results = Results(settings.editor, rows, provenance)
    run_facts = {
        "started_at": started_at,
        "processes": [shard.statistics for shard in shards],
        "finished_at": utc_timestamp(),
        "stop_reason": stop_message,
        "complete": complete,
        "counts": status_counts(results),
        "problems": [str(problem) for problem in config.suite.problems],
        "num_problems": num_problems(config.suite.problems),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "invocation": {} if out is None else settings.invocation(out),
        "generation_seconds": {
            name: row["seconds"]
            for name, row in read_generation_records(config.outputs).items()
            if row.get("file") and "seconds" in row  # the file may come from other tools
        },
    }
    tables: Sequence[ComputedTable] = ()
    if complete or settings.allow_partial:
        weights = case_weights(results, settings.bootstrap_samples, settings.seed)
        tables = [ComputedTable.compute(table, weights) for table in suite_tables(config.suite, results)]
        if out is not None:
            write_results(out, config.suite, results, all_lines, tables)
    if out is not None:
        write_run_file(out, run_facts)
    return RunResult(results, stop_message, tables, run_facts)


def utc_timestamp() -> str:
    """Current time, ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
