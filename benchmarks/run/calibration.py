"""A short run of a reward that measures what its edits take, for `cost_estimate`."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import TypeVar

from ...reward import EditSample, Expert, Reward, Score
from ...reward.queries import ExpertDown
from ..common.errors import InputError
from .cost_estimate import Block, Calibration, Work
from .runner import utc_timestamp

T = TypeVar("T")

BLOCKS = 8
"""Blocks that groups are measured in, if there are enough. More make surer intervals, and smaller batches."""


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
    before. Experts load first, outside of what is measured. Raises `InputError` if an
    expert cannot be loaded, or if most scores fail, with the reason.
    """
    reward = Reward(reward.metric, reward.experts, on_failures="none")
    try:
        for expert in _distinct(reward.used_experts):
            expert.load()
    except ExpertDown as error:
        raise InputError(f"an expert is not available, so that nothing can be measured: {error}") from None
    statuses: Counter[str] = Counter()
    reasons: Counter[str] = Counter()

    def work(edits: Sequence[EditSample]) -> Work:
        before, start = reward.engine.stats(), time.perf_counter()
        for score in reward.stream(edits):
            statuses[score.status] += 1
            if score.status == "failed":
                reasons[score.reason] += 1
            on_score(score)
        seconds = time.perf_counter() - start
        return Work(len(edits), seconds, reward.engine.stats().since(before)["experts"])

    blocks = []
    for groups in split_evenly(edit_groups(samples), BLOCKS):
        first = work([group[0] for group in groups])
        further = [edit for group in groups for edit in group[1:]]
        blocks.append(Block(len(groups), first, work(further) if further else None))
        if statuses["failed"] > sum(statuses.values()) / 2:
            reason, count = reasons.most_common(1)[0]
            raise InputError(
                f"{statuses['failed']} of {sum(statuses.values())} edits have no score, so that nothing can be "
                f"measured; {count} times: {reason}"
            )
    roles: dict[str, list[str]] = {}
    for role, expert in reward.used_experts.items():
        roles.setdefault(expert.id, []).append(role)
    return Calibration(
        reward.known_signature,
        roles,
        blocks,
        accelerators(_distinct(reward.used_experts)),
        edits_from,
        dict(statuses),
        machine(),
        utc_timestamp(),
    )


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
    for package in ("editcritic", "torch", "transformers", "vllm"):
        with suppress(PackageNotFoundError):
            facts[package] = version(package)
    return facts
