"""What the rest of a suite's run would take, from a few of its cases. The cases are scored as the run would score them,
and their rows and answers stay in its journal: the run asks nothing about them again, but for those that failed."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from ...reward import EditSample, Expert, Reward, Score
from ...reward.experts.judge_adapters import JudgeAdapter
from ...reward.queries import ExpertDown
from ..common.errors import InputError
from ..suites.results import ResultRow
from .cost_estimate import Block, Figure, MeasuredCosts, Work, extrapolate, rounded
from .run_budget import BudgetLimits, ProgressCallback, Usage, ignore_progress
from .run_config import RunConfig
from .run_journal import SINGLE_PROCESS, Rendezvous, RowJournal, is_reusable_row, total_usage
from .runner import WorkerShard, utc_timestamp
from .suite_loading import CombinedMetric

T = TypeVar("T")

BLOCKS = 8
"""Blocks that groups are measured in, at most. More make surer intervals, and fewer edits at a time."""

_ENGINE_COUNTS = ("queries", "calls", "failed", "seconds")


def edit_groups(samples: Iterable[EditSample]) -> list[list[EditSample]]:
    """The samples of each source and instruction, in order."""
    groups: dict[str, list[EditSample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    return list(groups.values())


def measure_costs(
    reward: Reward,
    samples: Sequence[EditSample],
    edits_from: str,
    on_score: Callable[[Score], None] = lambda score: None,
) -> MeasuredCosts:
    """Score the samples, in blocks of groups, and measure: every question is asked, after all experts are loaded. There
    are as many blocks as keep the connections of a served expert busy in most of the work. Raises `InputError` if an
    expert cannot be loaded, or if most scores fail, with the reason."""
    reward = Reward(reward.metric, reward.experts, on_failures="none")
    used = reward.used_experts
    load_all(used)
    meter = UsageMeter(used)
    outcomes = Outcomes()

    def work(edits: Sequence[EditSample]) -> Work:
        before, start = reward.engine.stats(), time.perf_counter()
        meter.start()
        for score in reward.stream(edits):
            outcomes.add(score.status, score.reason)
            on_score(score)
        seconds = time.perf_counter() - start
        return Work(len(edits), seconds, meter.counts(reward.engine.stats().since(before)["experts"]))

    groups = edit_groups(samples)
    most = max(len(groups), len(samples) - len(groups))
    at_a_time = max((expert.concurrency for expert in used.values()), default=1)
    blocks = []
    for part in split_evenly(groups, max(1, min(BLOCKS, most // at_a_time))):
        first = work([group[0] for group in part])
        further = [edit for group in part for edit in group[1:]]
        blocks.append(Block(len(part), first, work(further) if further else None))
        outcomes.require_scores()
    return _measured(reward.known_signature, used, blocks, edits_from, outcomes)


def _measured(
    reward: str, experts: Mapping[str, Expert], blocks: Sequence[Block], edits_from: str, outcomes: Outcomes
) -> MeasuredCosts:
    roles: dict[str, list[str]] = {}
    for role, expert in experts.items():
        roles.setdefault(expert.id, []).append(role)
    statuses, devices = dict(outcomes.statuses), accelerators(experts.values())
    return MeasuredCosts(reward, roles, blocks, devices, edits_from, statuses, machine(), utc_timestamp())


@dataclass
class Outcomes:
    """What became of the edits that are measured."""

    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, status: str, reason: str) -> None:
        self.statuses[status] += 1
        if status == "failed":
            self.reasons[reason] += 1

    def require_scores(self) -> None:
        """Raise `InputError` with the most common reason if most have failed."""
        total, failed = sum(self.statuses.values()), self.statuses["failed"]
        if failed > total / 2:
            reason, count = self.reasons.most_common(1)[0]
            raise InputError(
                f"{failed} of {total} edits have no score, so that nothing can be measured; {count} times: {reason}"
            )


class UsageMeter:
    """The experts' own counters, between two moments. An expert that asks another one, such as `judge-reader` the
    judge, reports that one's counters: they count once, there."""

    def __init__(self, experts: Mapping[str, Expert]) -> None:
        asked: dict[int, Expert] = {}
        for expert in _distinct(experts):
            if isinstance(expert, JudgeAdapter):
                asked.setdefault(id(expert.judge_expert), expert)
        asked |= {id(expert): expert for expert in _distinct(experts) if not isinstance(expert, JudgeAdapter)}
        self._experts = list(asked.values())
        self._began: list[Mapping[str, float]] = []

    def start(self) -> None:
        self._began = [dict(expert.usage()) for expert in self._experts]

    def counts(self, of_engine: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """Since `start`, by id, with what an engine counted; experts that did nothing are left out."""
        counts = {name: {unit: one[unit] for unit in _ENGINE_COUNTS} for name, one in of_engine.items()}
        for expert, began in zip(self._experts, self._began, strict=True):
            used = {unit: count - began.get(unit, 0.0) for unit, count in expert.usage().items()}
            if expert.id in counts or any(used.values()):
                counts[expert.id] = {**dict.fromkeys(_ENGINE_COUNTS, 0.0), **counts.get(expert.id, {}), **used}
        return counts


def load_all(experts: Mapping[str, Expert]) -> None:
    """Load the models. Raises `InputError` if one is not available."""
    try:
        for expert in _distinct(experts):
            expert.load()
    except ExpertDown as error:
        raise InputError(f"an expert is not available, so that nothing can be measured: {error}") from None


def split_evenly(items: Sequence[T], parts: int) -> list[Sequence[T]]:
    """At most so many parts of about the same size, in order."""
    count = min(parts, len(items))
    ends = [len(items) * number // count for number in range(count + 1)]
    return [items[start:end] for start, end in pairwise(ends)]


def _distinct(experts: Mapping[str, Expert]) -> list[Expert]:
    return list({id(expert): expert for expert in experts.values()}.values())


def accelerators(experts: Iterable[Expert]) -> list[str]:
    """The devices other than the CPU that hold weights of loaded experts, such as cuda:0."""
    devices = {device for expert in experts for device in getattr(expert, "devices", ())}
    return sorted(device for device in devices if not device.startswith("cpu"))


def machine() -> dict[str, str]:
    """Hardware, and the versions of the libraries that the time depends on."""
    facts = {"processor": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version()}
    torch = sys.modules.get("torch")  # imported by the experts, if they need it
    if torch is not None and torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name(0)
    for package in ("editcritic", "torch", "transformers"):
        with suppress(PackageNotFoundError):
            facts[package] = version(package)
    return facts


@dataclass(frozen=True)
class CaseEstimate:
    """figures: of the cases that are left, `remaining` of them, those that failed among them. spent: in this and
    earlier runs of the journal. stop_reason: why measuring ended early, or empty."""

    costs: MeasuredCosts
    figures: Sequence[Figure]
    remaining: int
    spent: Usage
    stop_reason: str

    @property
    def failed(self) -> int:
        """Cases with a failed score, of those that were measured."""
        return self.costs.statuses.get("failed", 0)

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
    """Score so many of the pending cases, spread over the suite, and estimate the others; None if none was left. Raises
    `InputError` if the journal is of another run, if an expert cannot be loaded, or if most cases fail."""
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
                counts = meter.counts(statistics["engine_stats"]["experts"])
                counts = _with_spending(counts, shard.budget.usage, used, config.settings.prices)
                blocks.append(Block(len(rows), Work(len(rows), statistics["seconds"], counts)))
            for row in rows:
                scores = ResultRow.from_json(row).scores.values()
                reason = next((score.reason for score in scores if score.status == "failed"), "")
                outcomes.add("scored" if is_reusable_row(row) else "failed", reason)
            outcomes.require_scores()
            if stop_reason:
                break
    if not blocks:
        raise InputError(f"no case could be scored: {stop_reason}")
    metrics = f"the metrics {', '.join(config.metric_set.metrics)}"
    costs = _measured(metrics, used, blocks, config.suite.name, outcomes)
    remaining = len(pending) - outcomes.statuses["scored"]
    figures = extrapolate(costs, remaining) if remaining else []
    return CaseEstimate(costs, figures, remaining, total_usage(journal), stop_reason)


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
