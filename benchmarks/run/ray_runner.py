"""Score a suite on many machines with Ray Data: actors score cases, the driver writes the rows to its journal. Data,
outputs and this package need the same paths on every machine. Each machine keeps its own answer log, so that a resumed
run reuses its answers."""

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
from .ray_cluster import NodeLogs, actor_results, connected, ray_library
from .run_budget import ProgressCallback, RunProgress, Usage, ignore_progress
from .run_config import RunConfig
from .run_journal import ANSWER_LOG_FILE, SINGLE_PROCESS, Rendezvous, RowJournal, ShardResult, total_usage
from .run_settings import BudgetSettings, RunSettings
from .runner import RunResult, WorkerShard, check_folders, finish_run, row_line, utc_timestamp

_MAX_CASES_PER_BATCH = 16
"""Maximum cases of a batch: rows are returned by batches."""


def execute_with_ray(settings: RunSettings, on_progress: ProgressCallback = ignore_progress) -> RunResult:
    """As `runner.execute`, on the cluster of `settings.ray`. The suite is built again on each machine. Raises
    `InputError` if Ray is not installed, or the cluster cannot be reached."""
    ray_library("ray.data")
    started_at, start = utc_timestamp(), time.monotonic()
    paths = {name: path.resolve() for name in ("data", "outputs") if (path := getattr(settings, name)) is not None}
    settings = settings.overridden(paths)
    config, folder = RunConfig.build(settings), settings.journal_folder
    assert settings.ray is not None
    assert folder is not None
    workers = settings.ray.workers
    check_folders(config)
    with RowJournal(folder) as journal, Rendezvous(folder, SINGLE_PROCESS):
        journal.require_settings(config.identity)
        local = WorkerShard(config, journal, config.suite.items)
        pending = local.pending_items()
        reused, usage = len(local.row_lines), Usage()
        shards = [ShardResult(dict(local.row_lines), "", local.statistics({}))]
        done = reused
        shards[0].stop_reason = _exhausted_limit(settings, total_usage(folder)) if pending else ""
        is_left = pending and not shards[0].stop_reason
        for batch in _scored_batches(settings, folder, pending, start) if is_left else ():
            for key, row in batch["rows"]:
                journal.append(key, row)
            statistics = batch["statistics"]
            share = f" (the share of one of {workers} workers)" if batch["budget_exhausted"] else ""
            if batch["stop_reason"] and not shards[0].stop_reason:
                shards[0].stop_reason = batch["stop_reason"] + share
            shards.append(ShardResult({row["id"]: row_line(row) for _, row in batch["rows"]}, "", statistics))
            usage += Usage.from_json(statistics["usage"])
            done += len(batch["rows"])
            journal.save_usage(usage, done, reused)
            on_progress(RunProgress(done, len(config.suite.items), reused, time.monotonic() - start, usage))
            if batch["stop_reason"] and settings.on_failures != "none" and not batch["budget_exhausted"]:
                break  # experts are down; answers of the other batches are in the logs of the machines
        journal.save_usage(usage, done, reused, now=True)
        return finish_run(config, started_at, shards)


def _scored_batches(
    settings: RunSettings, folder: Path, pending: Sequence[SuiteItem], start: float
) -> Iterator[dict[str, Any]]:
    cluster = settings.ray
    assert cluster is not None
    with connected(cluster) as ray:
        cases: dict[str, list[str]] = {}
        for item in pending:
            cases.setdefault(item.case, []).append(item.id)
        seconds = settings.limits.seconds
        blocks = min(len(cases), max(4 * cluster.workers, -(-len(cases) // _MAX_CASES_PER_BATCH)))
        actor_config = {
            "settings": settings.overridden({"budget": _share_of_limits(settings, total_usage(folder))}),
            "deadline": None if seconds is None else time.time() - (time.monotonic() - start) + seconds,
            "logs": NodeLogs.of(ray, folder / ANSWER_LOG_FILE),
            "trusted": trusted_names(),
        }
        batches = [{"items": json.dumps(ids)} for ids in cases.values()]
        for row in actor_results(cluster, ScoringActor, actor_config, batches, blocks):
            yield json.loads(row["result"])


class ScoringActor:
    """Scores cases on one machine. actor_config: see `_scored_batches`."""

    def __init__(self, actor_config: Mapping[str, Any]) -> None:
        self.deadline: float | None = actor_config["deadline"]
        with trusting(*actor_config["trusted"]):  # as by the driver, on whose environment a cluster knows nothing
            self.config = RunConfig.build(actor_config["settings"])
        self.usage = Usage()
        identity = json.dumps(self.config.identity, sort_keys=True)
        self.log = actor_config["logs"].here(hashlib.sha256(identity.encode()).hexdigest()[:16])

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """Score a batch of cases, each a JSON list of item ids; return rows and statistics as JSON."""
        config = self.config
        items = [config.suite.by_id[name] for ids in batch["items"] for name in json.loads(str(ids))]
        if self.deadline is not None:
            budget = config.settings.budget.model_copy(update={"seconds": max(1e-9, self.deadline - time.time())})
            config = replace(config, settings=config.settings.model_copy(update={"budget": budget}))
        shard = WorkerShard(config, None, items, before=self.usage, log=self.log)
        scored = shard.run()
        self.usage += shard.budget.usage
        result = {
            "rows": [(shard.sample_keys.get(name, ""), json.loads(line)) for name, line in scored.row_lines.items()],
            "stop_reason": scored.stop_reason,
            "budget_exhausted": bool(shard.budget.exhausted),
            "statistics": scored.statistics,
        }
        return {"result": [json.dumps(result)]}


def _share_of_limits(settings: RunSettings, before: Usage) -> BudgetSettings:
    assert settings.ray is not None
    limits, workers = settings.budget, settings.ray.workers
    left: dict[str, Any] = {}
    if limits.judge_calls is not None:
        left["judge_calls"] = (limits.judge_calls - before.judge_calls) // workers
    if limits.cost is not None:
        left["cost"] = (limits.cost - before.cost) / workers
    return limits.model_copy(update=left)


def _exhausted_limit(settings: RunSettings, before: Usage) -> str:
    limits = settings.limits
    assert settings.ray is not None
    if limits.judge_calls is not None and limits.judge_calls - before.judge_calls < settings.ray.workers:
        return f"the budget of {limits.judge_calls} judge calls is spent ({before.judge_calls} by now)"
    if limits.cost is not None and before.cost >= limits.cost:
        return f"the budget of {limits.cost:g} cost is spent ({before.cost:g} by now)"
    return ""
