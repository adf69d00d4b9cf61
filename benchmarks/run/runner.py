"""Run a suite: rows are journalled one by one, results are written when all items are done.

    from editcritic.benchmarks import run_suite
    results = run_suite(suite, Path("outputs"), editor="mine", experts={"judge": "…"}, out=Path("results/mine"))

The same call resumes an interrupted run.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...reward import Expert, default_experts, load_experts
from ...reward.queries.specs import Spec
from ..common.errors import InputError
from ..common.problems import num_problems
from ..suites.missing_values import suite_tables
from ..suites.results import OUTPUTS_ENTRY, RESULT_FILE, ResultRow, Results
from ..suites.suite import Suite
from ..suites.tables import ComputedTable
from .editor_outputs import Outputs
from .output_generation import read_generation_records
from .provenance import run_provenance
from .rendezvous import SINGLE_PROCESS, ProcessRank, Rendezvous, ShardResult
from .result_files import case_weights, status_counts, write_results, write_run_file
from .result_rows import missing_row, row_line
from .run_config import ExecutionOptions, RunConfig
from .run_journal import JOURNAL_FOLDER, RowJournal, read_json, require_same_settings
from .suite_metric import has_failed
from .worker_shard import WorkerShard

__all__ = ["ExecutionOptions", "RunConfig", "RunIncomplete", "RunResult", "execute", "run_suite"]


class RunIncomplete(RuntimeError):
    """A run ended early; the message has the reason and what to do. results: scored rows, the others missing."""

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


@dataclass(frozen=True)
class RunResult:
    """The outcome of a run. stop_reason: why it ended early, or empty. tables: empty for a run without results."""

    results: Results
    stop_reason: str
    tables: Sequence[ComputedTable]
    run_facts: Mapping[str, Any]
    journal: Path | None

    @property
    def failed(self) -> int:
        """Items with a failed score."""
        return sum(any(map(has_failed, row.scores.values())) for row in self.results.rows)

    @property
    def missing(self) -> int:
        """Items that were not scored."""
        return sum(bool(row.missing_reason) for row in self.results.rows)

    @property
    def exit_code(self) -> int:
        """0 if complete; 1 if scores failed, items are missing, or the run ended early."""
        return int(bool(self.stop_reason or self.failed or self.missing))


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
    options: ExecutionOptions | None = None,
) -> Results:
    """Score an editor's outputs for a suite.

    experts: role -> expert or its spec; by default those that need no download. out: the result folder; None writes
    nothing. journal: folder of the resume state; by default in `out`. Other arguments as in `RunConfig` and
    `ExecutionOptions`.

    Items without an image become rows with a `missing_reason`. Raises `InputError` for invalid input, `RunIncomplete`
    if the run ended early and partial results are not allowed.
    """
    bound_experts = default_experts() if experts is None else load_experts(experts)
    config = RunConfig(suite, outputs, editor, bound_experts, protocol, tuple(metrics), reproducible)
    result = execute(config, options or ExecutionOptions(), out=out, journal=journal)
    assert result is not None  # this process is the only one
    if result.stop_reason and not (options and options.allow_partial):
        raise RunIncomplete(result.stop_reason, result.results)
    return result.results


def execute(
    config: RunConfig,
    options: ExecutionOptions,
    *,
    out: Path | None = None,
    journal: Path | None = None,
    process: ProcessRank = SINGLE_PROCESS,
) -> RunResult | None:
    """As `run_suite`, but return the outcome instead of raising `RunIncomplete`.

    process: rank among the processes of one machine that run the same; only rank 0 gets a result, the others None.
    """
    started_at = utc_timestamp()
    journal_folder = journal or (None if out is None else out / JOURNAL_FOLDER)
    check_folders(out, config)
    if journal_folder is None:
        if process.world_size > 1:
            raise InputError("several processes need a shared folder: give out or journal")
        shard = WorkerShard(config, options, None, config.suite.items)
        row_lines = shard.run()
        return finish_run(
            config,
            options,
            out,
            journal_folder,
            row_lines,
            shard.stop_reason,
            {"started_at": started_at, "processes": [shard.statistics()]},
        )
    with RowJournal(journal_folder, process.rank) as row_journal, Rendezvous(journal_folder, process) as rendezvous:
        row_journal.require_settings(config.run_settings)
        shard = WorkerShard(config, options, row_journal, process.items(config.suite), process=process)
        own_result = ShardResult(shard.run(), shard.stop_reason, shard.statistics())
        if process.rank:
            rendezvous.submit(own_result)
            return None
        results = [own_result, *rendezvous.collect(shard.report_progress)]
        row_lines = {name: line for result in results for name, line in result.row_lines.items()}
        stop_reason = "; ".join(dict.fromkeys(result.stop_reason for result in results if result.stop_reason))
        run_facts = {"started_at": started_at, "processes": [result.statistics for result in results]}
        return finish_run(config, options, out, journal_folder, row_lines, stop_reason, run_facts)


def check_folders(out: Path | None, config: RunConfig) -> None:
    """Raise `InputError` if there are no outputs, or the folder contains results of other settings."""
    Outputs(config.suite, config.outputs)
    if out is not None and (out / RESULT_FILE).exists():
        recorded = read_json(out / RESULT_FILE).get("provenance", {})
        require_same_settings({name: recorded.get(name) for name in config.run_settings}, config.run_settings, str(out))


def finish_run(
    config: RunConfig,
    options: ExecutionOptions,
    out: Path | None,
    journal: Path | None,
    row_lines: Mapping[str, str],
    stop_reason: str,
    run_facts: Mapping[str, Any],
) -> RunResult:
    """Make results of the rows; write them if complete, or if partial results are allowed."""
    items = config.suite.items
    stop_message = (
        _stop_message(stop_reason, len(row_lines), len(items), journal) if len(row_lines) < len(items) else ""
    )
    all_lines = [
        row_lines.get(item.id) or row_line(missing_row(item, "not scored: the run ended early")) for item in items
    ]
    rows = [ResultRow.from_json(json.loads(line)) for line in all_lines]
    complete = len(row_lines) == len(items)
    provenance = run_provenance(
        config.run_settings, config.suite, config.metric_set, rows, config.bootstrap_samples, config.seed, complete
    )
    if facts := config.suite.output_facts(config.outputs):
        provenance[OUTPUTS_ENTRY] = dict(facts)
    results = Results(config.editor, rows, provenance)
    run_facts = {
        **run_facts,
        "finished_at": utc_timestamp(),
        "stop_reason": stop_message,
        "complete": complete,
        "counts": status_counts(results),
        "problems": [str(problem) for problem in config.suite.problems],
        "num_problems": num_problems(config.suite.problems),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "invocation": dict(options.invocation),
        "generation_seconds": {
            name: row["seconds"]
            for name, row in read_generation_records(config.outputs).items()
            if row.get("file") and "seconds" in row  # the file may come from other tools
        },
    }
    tables: Sequence[ComputedTable] = ()
    if complete or options.allow_partial:
        if out is not None:
            tables = write_results(out, config.suite, results, all_lines, config.bootstrap_samples, config.seed)
        else:
            weights = case_weights(results, config.bootstrap_samples, config.seed)
            tables = [ComputedTable.compute(table, weights) for table in suite_tables(config.suite, results)]
    if out is not None:
        write_run_file(out, run_facts)
    return RunResult(results, stop_message, tables, run_facts, journal)


def _stop_message(stop_reason: str, num_scored: int, num_items: int, journal: Path | None) -> str:
    """Why a run ended early, and how to resume it."""
    where = "nothing was saved: there is no journal" if journal is None else f"finished items are in {journal}"
    return (
        f"stopped: {stop_reason or 'not all items were scored'}; {num_scored} of {num_items} items are done, {where}: "
        "the same command resumes, and --allow-partial writes results of the finished items"
    )


def utc_timestamp() -> str:
    """Current time, ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
