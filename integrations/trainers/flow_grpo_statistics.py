"""Lets the statistics tracker of Flow-GRPO, Edit-R1 and DiffusionNFT leave out edits without a value.

    from flow_grpo.stat_tracking import PerPromptStatTracker
    from editcritic.integrations.trainers.flow_grpo_statistics import leave_out_missing

    PerPromptStatTracker = leave_out_missing(PerPromptStatTracker)

Their `PerPromptStatTracker` takes means and standard deviations with numpy, over a group or over all rows: one NaN
makes each advantage of them NaN, and then the weights. The class here is theirs and computes with their code, on the
rows that have a value.

Read: `flow_grpo/stat_tracking.py` of github.com/yifan123/flow_grpo (94e23ee), github.com/PKU-YuanGroup/Edit-R1
(4217f25, 2026-01-24) and github.com/NVlabs/DiffusionNFT (24af555, 2025-09-22), on 2026-11-23. They differ in their
arguments and results: `update(prompts, rewards, dists=None, type="grpo")` returns advantages, `update(prompts, rewards,
exp=False)` of DiffusionNFT too, and that of Edit-R1 advantages, standard deviations and means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Rows = NDArray[np.bool_]
"""N, true for the rows that have a value."""


def leave_out_missing(tracker: type[T]) -> type[T]:
    """A subclass of a `PerPromptStatTracker` of the same name, whose `update` leaves out rows with a NaN.

    rewards: N, or N x timesteps. The results of the other rows, the statistics that the tracker keeps, and its counts
    are as if the rows were not in the batch; the missing rows have 0 in each result: an advantage of 0, and in Edit-R1
    a standard deviation of 0, with which `ban_prompt` masks their loss. Without a NaN nothing differs, but that
    `get_mean_of_top_rewards` of no rewards is NaN in place of 0.

    Edit-R1 bans a prompt for good whose rewards are all high: not here in an update in which some of its rows are
    missing, since one row that is left has no spread either.

    The types `dpo` and `gardo` (scripts for text-to-image) need two rows with a value in each group.
    """
    base: Any = tracker

    class Tracker(base):
        def update(self, prompts: Sequence[str], rewards: Any, *args: Any, **kwargs: Any) -> Any:
            values = np.array(rewards, dtype=np.float64)
            kept: Rows = np.asarray(~np.isnan(values.reshape(len(values), -1)).any(axis=1))
            if kept.all():
                return super().update(prompts, rewards, *args, **kwargs)
            names = np.array(prompts)
            banned: set[str] = getattr(self, "banned_prompts", set())
            banned_before = set(banned)
            result = super().update(
                names[kept],
                values[kept],
                *(_rows(value, kept) for value in args),
                **{name: _rows(value, kept) for name, value in kwargs.items()},
            )
            banned -= set(names[~kept].tolist()) - banned_before
            if isinstance(result, tuple):
                return tuple(_scattered(part, kept) for part in result)
            return _scattered(result, kept)

        if hasattr(tracker, "get_mean_of_top_rewards"):

            def get_mean_of_top_rewards(self, top_percentage: float) -> float:
                return super().get_mean_of_top_rewards(top_percentage) if self.stats else math.nan

    Tracker.__name__, Tracker.__qualname__ = tracker.__name__, tracker.__qualname__
    subclass: type[T] = Tracker
    return subclass


def _rows(value: Any, kept: Rows) -> Any:
    """The kept rows of an argument that has one per edit, as `dists`; another as it is, as `type`."""
    is_per_row = hasattr(value, "__len__") and not isinstance(value, str) and len(value) == len(kept)
    return np.asarray(value)[kept] if is_per_row else value


def _scattered(part: NDArray[Any], kept: Rows) -> NDArray[np.float64]:
    """The rows of a result where they belong, and 0 elsewhere."""
    whole = np.zeros((len(kept), *part.shape[1:]))
    whole[kept] = part
    return whole
