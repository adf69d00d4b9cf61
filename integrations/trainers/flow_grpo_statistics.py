"""Lets the statistics tracker of Flow-GRPO, Edit-R1 and DiffusionNFT leave out edits without a value.

`flow_grpo.patch_flow_grpo` does it with the rest; without a reward of ours in the process:

    from editcritic.integrations.trainers.flow_grpo_statistics import leave_out_missing
    leave_out_missing(PerPromptStatTracker)

Their `PerPromptStatTracker` takes means and standard deviations with numpy, over a group or over all rows: one NaN
makes each advantage of them NaN, and then the weights. Their `update` is called here on the rows that have a value, and
computes what it does. It is replaced in the class itself, which scripts have imported by name.

Read: `flow_grpo/stat_tracking.py` of github.com/yifan123/flow_grpo (94e23ee), github.com/PKU-YuanGroup/Edit-R1
(4217f25, 2026-01-24) and github.com/NVlabs/DiffusionNFT (24af555, 2025-09-22), on 2026-11-23. They differ in their
arguments and results: `update(prompts, rewards, dists=None, type="grpo")` returns advantages, `update(prompts, rewards,
exp=False)` of DiffusionNFT too, and that of Edit-R1 advantages, standard deviations and means.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from .trainer_reward import TrainerCode

CODE: Final = TrainerCode(
    "flow_grpo", "Flow-GRPO at 54809b5 and 94e23ee, Edit-R1 at 4217f25, and DiffusionNFT at 24af555"
)

_PATCHED: Final = "_editcritic_leaves_out_missing"

T = TypeVar("T")
Rows = NDArray[np.bool_]
"""N, true for the rows that have a value."""


def leave_out_missing(tracker: type[T]) -> type[T]:
    """Let the `update` of a `PerPromptStatTracker` leave out rows with a NaN, in this process. Returns the class, which
    is changed; once is enough, and again changes nothing.

    rewards: N, or N x timesteps. The results of the other rows, the statistics that the tracker keeps, and its counts
    are as if the rows were not in the batch; the missing rows have 0 in each result: an advantage of 0, and in Edit-R1
    a standard deviation of 0, with which `ban_prompt` masks their loss. Without a NaN nothing differs, but that
    `get_mean_of_top_rewards` of no rewards is NaN in place of 0.

    Edit-R1 bans a prompt for good whose rewards are all high: not here in an update in which some of its rows are
    missing, since one row that is left has no spread either.

    The types `dpo` and `gardo` (scripts for text-to-image) need two rows with a value in each group.

    Raises `UnknownTrainerError` if the class has another `update` than those that were read, or if that gives other
    advantages for three rows.
    """
    _check(tracker)
    patched: Any = tracker
    theirs: Any = patched.update
    if hasattr(theirs, _PATCHED):
        return tracker

    @functools.wraps(theirs)
    def update(self: Any, prompts: Sequence[str], rewards: Any, *args: Any, **kwargs: Any) -> Any:
        values = np.array(rewards, dtype=np.float64)
        kept: Rows = np.asarray(~np.isnan(values.reshape(len(values), -1)).any(axis=1))
        if kept.all():
            return theirs(self, prompts, rewards, *args, **kwargs)
        names = np.array(prompts)
        banned: set[str] = getattr(self, "banned_prompts", set())
        banned_before = set(banned)
        result = theirs(
            self,
            names[kept],
            values[kept],
            *(_rows(value, kept) for value in args),
            **{name: _rows(value, kept) for name, value in kwargs.items()},
        )
        banned -= set(names[~kept].tolist()) - banned_before
        if isinstance(result, tuple):
            return tuple(_scattered(part, kept) for part in result)
        return _scattered(result, kept)

    setattr(update, _PATCHED, True)
    patched.update = update
    if hasattr(tracker, "get_mean_of_top_rewards"):
        mean_of_top = patched.get_mean_of_top_rewards

        @functools.wraps(mean_of_top)
        def get_mean_of_top_rewards(self: Any, top_percentage: float) -> Any:
            return mean_of_top(self, top_percentage) if self.stats else math.nan

        patched.get_mean_of_top_rewards = get_mean_of_top_rewards
    return tracker


def _check(tracker: Any) -> None:
    CODE.check(tracker, "update", ("prompts", "rewards"))
    try:
        result = tracker().update(["a", "a", "b"], np.array([[0.0], [1.0], [0.5]]))
    except TypeError as error:
        raise CODE.unknown(f"has another {tracker.__name__} ({error})") from None
    parts = [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]
    if any(part.shape != (3, 1) for part in parts) or not parts[0][0] < 0 < parts[0][1]:
        raise CODE.unknown(f"has a {tracker.__name__} that compares rewards otherwise")


def _rows(value: Any, kept: Rows) -> Any:
    """The kept rows of an argument that has one per edit, as `dists`; another as it is, as `type`."""
    is_per_row = hasattr(value, "__len__") and not isinstance(value, str) and len(value) == len(kept)
    return np.asarray(value)[kept] if is_per_row else value


def _scattered(part: NDArray[Any], kept: Rows) -> NDArray[np.float64]:
    """The rows of a result where they belong, and 0 elsewhere."""
    whole = np.zeros((len(kept), *part.shape[1:]))
    whole[kept] = part
    return whole
