"""Score a suite on many machines with Ray Data: actors score cases, the driver writes the rows to its journal.

Data, outputs and this package need the same paths on every machine. Each machine keeps its own answer log, so that a
resumed run reuses its answers.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...reward.trust import trusted_names, trusting
from ..suites.suite import SuiteItem
from .ray_cluster import NodeLogs, RayCluster, connected, ray_library
from .rendezvous import SINGLE_PROCESS, Rendezvous
from .result_rows import row_line
from .run_budget import BudgetLimits, Usage
from .run_config import ExecutionOptions, RunConfig
from .run_journal import ANSWER_LOG_FILE, JOURNAL_FOLDER, RowJournal, total_usage
from .run_progress import RunProgress, ignore_progress
from .run_spec import RunSpec
from .runner import RunResult, check_folders, finish_run, utc_timestamp
from .worker_shard import WorkerShard

_MAX_CASES_PER_BATCH = 16
"""Maximum cases of a batch: rows are returned by batches."""


def execute_with_ray(
    spec: RunSpec, options: ExecutionOptions, cluster: RayCluster, *, out: Path, journal: Path | None = None
) -> RunResult:
    """As `runner.execute`. Raises `InputError` if Ray is not installed, or the cluster cannot be reached."""
    ray_library("ray.data")
    started_at, start = utc_timestamp(), time.monotonic()
    spec = replace(spec, data=None if spec.data is None else spec.data.resolve(), outputs=spec.outputs.resolve())
    config = spec.build()
    journal_folder = journal or out / JOURNAL_FOLDER
    check_folders(out, config)
    with RowJournal(journal_folder) as row_journal, Rendezvous(journal_folder, SINGLE_PROCESS):
        row_journal.require_settings(config.run_settings)
        local_shard = WorkerShard(
            config, replace(options, on_progress=ignore_progress), row_journal, config.suite.items
        )
        pending = local_shard.pending_items()
        row_lines, statistics = dict(local_shard.row_lines), [local_shard.statistics()]
        usage = Usage()
        stop_reason = (
            _exhausted_limit(options.limits, total_usage(row_journal.folder), cluster.workers) if pending else ""
        )
        for batch in (
            _scored_batches(spec, options, cluster, row_journal, pending, start) if pending and not stop_reason else ()
        ):
            for key, row in batch["rows"]:
                row_journal.append(key, row)
                row_lines[row["id"]] = row_line(row)
            usage += Usage.from_json(batch["statistics"]["usage"])
            statistics.append(batch["statistics"])
            share = f" (the share of one of {cluster.workers} workers)" if batch["budget_exhausted"] else ""
            stop_reason = stop_reason or (batch["stop_reason"] and batch["stop_reason"] + share)
            row_journal.save_usage(usage, len(row_lines), len(local_shard.row_lines))
            progress = RunProgress(
                len(row_lines), len(config.suite.items), len(local_shard.row_lines), time.monotonic() - start, usage
            )
            options.on_progress(progress)
            if batch["stop_reason"] and options.on_failures != "none" and not batch["budget_exhausted"]:
                break  # experts are down; answers of the other batches are in the logs of the machines
        row_journal.save_usage(usage, len(row_lines), len(local_shard.row_lines), now=True)
        return finish_run(
            config,
            options,
            out,
            journal_folder,
            row_lines,
            stop_reason,
            {"started_at": started_at, "processes": statistics},
        )


def _scored_batches(
    spec: RunSpec,
    options: ExecutionOptions,
    cluster: RayCluster,
    row_journal: RowJournal,
    pending: Sequence[SuiteItem],
    start: float,
) -> Iterator[dict[str, Any]]:
    """The actors' results, batch by batch."""
    with connected(cluster) as ray:
        data = ray_library("ray.data")
        cases: dict[str, list[str]] = {}
        for item in pending:
            cases.setdefault(item.case, []).append(item.id)
        seconds = options.limits.seconds
        blocks = min(len(cases), max(4 * cluster.workers, -(-len(cases) // _MAX_CASES_PER_BATCH)))
        actor_config = {
            "spec": spec,
            "options": replace(
                options,
                on_progress=ignore_progress,
                limits=_split_limits(options.limits, total_usage(row_journal.folder), cluster.workers),
            ),
            "deadline": None if seconds is None else time.time() - (time.monotonic() - start) + seconds,
            "logs": NodeLogs.of(ray, row_journal.folder / ANSWER_LOG_FILE, cluster),
            "trusted": trusted_names(),
        }
        batches = data.from_items([{"items": json.dumps(ids)} for ids in cases.values()], override_num_blocks=blocks)
        batches = batches.map_batches(
            ScoringActor,
            fn_constructor_kwargs={"actor_config": actor_config},
            batch_size=None,
            compute=data.ActorPoolStrategy(size=min(cluster.workers, blocks)),
            num_cpus=cluster.cpus,
            num_gpus=cluster.gpus,
        )
        for row in batches.iter_rows():
            yield json.loads(row["result"])


class ScoringActor:
    """Scores cases on one machine. actor_config: see `_scored_batches`."""

    def __init__(self, actor_config: Mapping[str, Any]) -> None:
        self.options: ExecutionOptions = actor_config["options"]
        self.deadline: float | None = actor_config["deadline"]
        with trusting(*actor_config["trusted"]):  # as by the driver, on whose environment a cluster knows nothing
            self.config: RunConfig = actor_config["spec"].build()
        self.usage = Usage()
        settings = json.dumps(self.config.run_settings, sort_keys=True)
        self.log = actor_config["logs"].here(hashlib.sha256(settings.encode()).hexdigest()[:16])

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """Score a batch of cases, each a JSON list of item ids; return rows and statistics as JSON."""
        items = [self.config.suite.by_id[name] for ids in batch["items"] for name in json.loads(str(ids))]
        limits = self.options.limits
        if self.deadline is not None:
            limits = replace(limits, seconds=max(1e-9, self.deadline - time.time()))
        options = replace(self.options, limits=limits)
        shard = WorkerShard(self.config, options, None, items, before=self.usage, log=self.log)
        row_lines = shard.run()
        self.usage += shard.budget.usage
        result = {
            "rows": [(shard.sample_keys.get(name, ""), json.loads(line)) for name, line in row_lines.items()],
            "stop_reason": shard.stop_reason,
            "budget_exhausted": bool(shard.budget.exhausted),
            "statistics": shard.statistics(),
        }
        return {"result": [json.dumps(result)]}


def _split_limits(limits: BudgetLimits, before: Usage, workers: int) -> BudgetLimits:
    """The remaining budget, divided evenly."""
    judge_calls, cost = limits.judge_calls, limits.cost
    return replace(
        limits,
        judge_calls=None if judge_calls is None else (judge_calls - before.judge_calls) // workers,
        cost=None if cost is None else (cost - before.cost) / workers,
    )


def _exhausted_limit(limits: BudgetLimits, before: Usage, workers: int) -> str:
    """The exhausted limit, as a message; empty if budget is left."""
    if limits.judge_calls is not None and limits.judge_calls - before.judge_calls < workers:
        return f"the budget of {limits.judge_calls} judge calls is spent ({before.judge_calls} by now)"
    if limits.cost is not None and before.cost >= limits.cost:
        return f"the budget of {limits.cost:g} cost is spent ({before.cost:g} by now)"
    return ""
