"""What the rest of a suite's run would take, from a few of its cases.

The cases are scored as the run would score them, and their rows and answers stay in its journal: the run asks nothing
about them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.errors import InputError
from .calibration import BLOCKS, accelerators, machine, split_evenly
from .cost_estimate import Block, Calibration, Figure, Work, estimate
from .estimate_table import rounded
from .rendezvous import SINGLE_PROCESS, Rendezvous
from .run_budget import JUDGE, BudgetLimits, Usage
from .run_config import ExecutionOptions, RunConfig
from .run_journal import RowJournal, total_usage
from .runner import utc_timestamp
from .worker_shard import WorkerShard


@dataclass(frozen=True)
class CaseEstimate:
    """figures: of the cases that are left, `remaining` of them. spent: in this and earlier runs of the journal.
    stop_reason: why measuring ended early, or empty."""

    calibration: Calibration
    figures: Sequence[Figure]
    remaining: int
    spent: Usage
    stop_reason: str

    def exceeded(self, limits: BudgetLimits) -> list[str]:
        """The limits of a budget that the rest of the run would reach, as messages."""
        judged = {name for name, roles in self.calibration.experts.items() if any(map(_is_judge, roles))}
        expected = {
            "judge_calls": self.spent.judge_calls
            + sum(one.value for one in self.figures if one.name == "queries" and one.expert in judged),
            "cost": self.spent.cost + sum(one.value for one in self.figures if one.name == "cost"),
            "seconds": sum(3600 * one.value for one in self.figures if one.name == "hours on 1 replica"),
        }
        return [
            f"{name.replace('_', ' ')} would be about {rounded(total)}, and the budget allows {limit:,g}"
            for name, total in expected.items()
            if (limit := getattr(limits, name)) is not None and total > limit
        ]


def estimate_cases(config: RunConfig, options: ExecutionOptions, journal: Path, cases: int) -> CaseEstimate | None:
    """Score so many of the pending cases, spread over the suite, and estimate the others; None if none are left then.

    Raises `InputError` if the journal is of another run, or if no case could be scored.
    """
    with Rendezvous(journal, SINGLE_PROCESS):
        with RowJournal(journal) as row_journal:
            row_journal.require_settings(config.run_settings)
            pending = WorkerShard(config, options, row_journal, config.suite.items).pending_items()
        if not pending:
            return None
        count = min(cases, len(pending))
        chosen = [pending[len(pending) * number // count] for number in range(count)]
        roles: dict[str, list[str]] = {}
        for role, expert in config.experts.items():
            roles.setdefault(expert.id, []).append(role)
        statuses: Counter[str] = Counter()
        blocks, stop_reason = [], ""
        for items in split_evenly(chosen, BLOCKS):
            with RowJournal(journal) as row_journal:  # each block is a run of its own, whose usage adds up there
                shard = WorkerShard(config, replace(options, spent=None), row_journal, items)
                done = len(shard.run())
            statistics = shard.statistics()
            stop_reason = shard.stop_reason
            if done:
                counts = _with_prices(statistics["engine_stats"]["experts"], roles, options.prices)
                blocks.append(Block(done, Work(done, statistics["seconds"], counts)))
                statuses["done"] += done
            if stop_reason:
                break
    if not blocks:
        raise InputError(f"no case could be scored: {stop_reason}")
    reward = f"the metrics {', '.join(config.metric_set.metrics)}"
    calibration = Calibration(
        reward,
        roles,
        blocks,
        accelerators(config.experts.values()),
        config.suite.name,
        dict(statuses),
        machine(),
        utc_timestamp(),
    )
    remaining = len(pending) - statuses["done"]
    figures = estimate(calibration, remaining) if remaining else []
    return CaseEstimate(calibration, figures, remaining, total_usage(journal), stop_reason)


def _with_prices(
    counts: Mapping[str, Mapping[str, float]], roles: Mapping[str, Sequence[str]], prices: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """The counts with the cost of experts that have a price per call, as `usd`."""
    priced = {}
    for expert, one in counts.items():
        names = [name for role in roles.get(expert, ()) for name in (role, role.partition(".")[0])]
        price = next((prices[name] for name in names if name in prices), None)
        priced[expert] = dict(one) if price is None else {**one, "usd": price * one["queries"]}
    return priced


def _is_judge(role: str) -> bool:
    return role.partition(".")[0] == JUDGE
