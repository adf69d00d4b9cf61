"""What the rest of a suite's run would take, from a few of its cases.

The cases are scored as the run would score them, and their rows and answers stay in its journal: the run asks nothing
about them again, but for those that failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...reward import Expert, Reward
from ..common.errors import InputError
from ..suites.results import ResultRow
from .calibration import BLOCKS, Outcomes, UsageMeter, accelerators, load_all, machine, roles_by_expert, split_evenly
from .cost_estimate import Block, Calibration, Figure, Work, estimate
from .estimate_table import rounded
from .run_budget import BudgetLimits, Usage
from .run_config import RunConfig
from .run_journal import SINGLE_PROCESS, Rendezvous, RowJournal, is_reusable_row, total_usage
from .run_progress import ProgressCallback, ignore_progress
from .runner import WorkerShard, utc_timestamp
from .suite_loading import CombinedMetric


@dataclass(frozen=True)
class CaseEstimate:
    """figures: of the cases that are left, `remaining` of them, those that failed among them. spent: in this and
    earlier runs of the journal. stop_reason: why measuring ended early, or empty."""

    calibration: Calibration
    figures: Sequence[Figure]
    remaining: int
    spent: Usage
    stop_reason: str

    @property
    def failed(self) -> int:
        """Cases with a failed score, of those that were measured."""
        return self.calibration.statuses.get("failed", 0)

    def exceeded(self, limits: BudgetLimits) -> list[str]:
        """The limits of a budget that the rest of the run would reach, as messages."""
        values = {one.name: one.value for one in self.figures if not one.expert}
        expected = {
            "judge_calls": self.spent.judge_calls + values.get("judge calls", 0.0),
            "cost": self.spent.cost + values.get("cost", 0.0),
            "seconds": 3600 * values.get("hours on 1 replica", 0.0),
        }
        return [
            f"{name.replace('_', ' ')} would be about {rounded(total)}, and the budget allows {limit:,g}"
            for name, total in expected.items()
            if (limit := getattr(limits, name)) is not None and total > limit
        ]


def estimate_cases(
    config: RunConfig, journal: Path, cases: int, on_progress: ProgressCallback = ignore_progress
) -> CaseEstimate | None:
    """Score so many of the pending cases, spread over the suite, and estimate the others; None if none was left.

    Raises `InputError` if the journal is of another run, if an expert cannot be loaded, or if most cases fail.
    """
    with Rendezvous(journal, SINGLE_PROCESS):
        with RowJournal(journal) as row_journal:
            row_journal.require_settings(config.identity)
            pending = WorkerShard(config, row_journal, config.suite.items).pending_items()
        if not pending:
            return None
        metric = CombinedMetric(config.suite, config.metric_set.metrics, lambda: False)
        used = Reward(metric, config.experts).used_experts
        load_all(used)
        meter, outcomes = UsageMeter(used), Outcomes()
        # Most scores that fail are told below, with what was measured by then in the journal.
        config = replace(config, settings=config.settings.overridden({"on_failures": "none"}))
        count = min(cases, len(pending))
        chosen = [pending[len(pending) * number // count] for number in range(count)]
        at_a_time = max((expert.concurrency for expert in used.values()), default=1)
        blocks, stop_reason = [], ""
        for items in split_evenly(chosen, max(1, min(BLOCKS, count // at_a_time))):
            with RowJournal(journal) as row_journal:  # each block is a run of its own, whose usage adds up there
                shard = WorkerShard(config, row_journal, items, on_progress=on_progress)
                meter.start()
                scored = shard.run()
            rows = [json.loads(line) for line in scored.row_lines.values()]
            statistics, stop_reason = scored.statistics, scored.stop_reason
            if rows:
                counts = _with_spending(
                    meter.counts(statistics["engine_stats"]["experts"]),
                    shard.budget.usage,
                    used,
                    config.settings.prices,
                )
                blocks.append(Block(len(rows), Work(len(rows), statistics["seconds"], counts)))
            for row in rows:
                outcomes.add("scored" if is_reusable_row(row) else "failed", _failure(row))
            outcomes.require_scores()
            if stop_reason:
                break
    if not blocks:
        raise InputError(f"no case could be scored: {stop_reason}")
    calibration = Calibration(
        f"the metrics {', '.join(config.metric_set.metrics)}",
        roles_by_expert(used),
        blocks,
        accelerators(used.values()),
        config.suite.name,
        dict(outcomes.statuses),
        machine(),
        utc_timestamp(),
    )
    remaining = len(pending) - outcomes.statuses["scored"]
    figures = estimate(calibration, remaining) if remaining else []
    return CaseEstimate(calibration, figures, remaining, total_usage(journal), stop_reason)


def _with_spending(
    counts: Mapping[str, Mapping[str, float]], usage: Usage, experts: Mapping[str, Expert], prices: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """The counts, with judge calls and cost as the budget counts them. An expert whose cost is known has `usd` of 0:
    it is in that of all."""
    priced = {expert.id for role, expert in experts.items() if {role, role.partition(".")[0]} & prices.keys()}
    told = {name: {**one, "usd": 0.0} if name in priced or "usd" in one else dict(one) for name, one in counts.items()}
    spent = {"judge_calls": float(usage.judge_calls)}
    if any("usd" in one for one in told.values()):
        spent["usd"] = usage.cost
    return {**told, "": spent}


def _failure(row: Mapping[str, object]) -> str:
    """Why a row has a failed score; empty if it has none."""
    scores = ResultRow.from_json(row).scores.values()
    return next((score.reason for score in scores if score.status == "failed"), "")
