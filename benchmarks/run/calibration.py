"""A short run of a reward that measures what its edits take, for `cost_estimate`."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import TypeVar

from ...reward import EditSample, Expert, Reward, Score
from ...reward.experts.judge_adapters import JudgeAdapter
from ...reward.queries import ExpertDown
from ..common.errors import InputError
from .cost_estimate import Block, Calibration, Work
from .runner import utc_timestamp

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


def calibrate(
    reward: Reward,
    samples: Sequence[EditSample],
    edits_from: str,
    on_score: Callable[[Score], None] = lambda score: None,
) -> Calibration:
    """Score the samples, in blocks of groups, and measure.

    Every question is asked: the reward has no answer log, and no question of these samples was asked of its engine
    before. Experts load first, outside of what is measured. There are as many blocks as keep the connections of a
    served expert busy in most of the work. Raises `InputError` if an expert cannot be loaded, or if most scores fail,
    with the reason.
    """
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
    return Calibration(
        reward.known_signature,
        roles_by_expert(used),
        blocks,
        accelerators(used.values()),
        edits_from,
        dict(outcomes.statuses),
        machine(),
        utc_timestamp(),
    )


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


def roles_by_expert(experts: Mapping[str, Expert]) -> dict[str, list[str]]:
    """The roles of each expert, by its id."""
    roles: dict[str, list[str]] = {}
    for role, expert in experts.items():
        roles.setdefault(expert.id, []).append(role)
    return roles


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
