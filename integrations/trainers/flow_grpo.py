"""A reward for Flow-GRPO, and for trainers of editors with its calling convention, such as Edit-R1: docs/trainers/ has
the lines.

    patch_flow_grpo("http://127.0.0.1:8321", missing="nan")  # or Reward.of(...), a spec, a RemoteReward
    config.reward_fn = {"editcritic": 1.0, "pickscore": 0.2}

The scripts look up `multi_score(device, config.reward_fn)` in `flow_grpo.rewards` and call its result from eight
threads. Read on 2026-11-23: github.com/yifan123/flow_grpo (54809b5, 74db691), github.com/PKU-YuanGroup/Edit-R1
(4217f25) and github.com/NVlabs/DiffusionNFT (24af555), which passes no `ref_images`. Groups are the trainers', by
decoded prompts, in Edit-R1 without the image: make the prompts of a dataset different.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...reward import Image
from ...reward.queries.specs import Spec
from ..dataset_rows import build_samples, images_from_batch, with_requirement
from .trainer_reward import ScoreFn, TrainerCode, TrainerReward

REWARD_KEY = "editcritic"

Details = dict[str, list[float]]
RewardFn = Callable[..., tuple[Mapping[str, Sequence[float]], Mapping[str, Any]]]


def patch_flow_grpo(reward: ScoreFn | Spec, **options: Any) -> FlowGRPOReward:
    """Replace two things in the package `flow_grpo` of this process, Flow-GRPO's, Edit-R1's or a fork's:
    `rewards.multi_score`, which then also knows the name `editcritic` (`FlowGRPOReward.combined_with`), and `update` of
    `stat_tracking.PerPromptStatTracker`, which then leaves out edits without a value (`leave_out_missing`).

    Raises `UnknownTrainerError`, with nothing replaced, if either is not what was read, and what `TrainerReward`
    raises.

    Args:
        reward: See `TrainerReward`.
        options: See `TrainerReward`.

    Returns:
        The reward.
    """
    own = FlowGRPOReward(reward, **options)
    multi_score = CODE.attribute("flow_grpo.rewards", "multi_score")
    CODE.check(sys.modules["flow_grpo.rewards"], "multi_score", ("device", "score_dict"))
    leave_out_missing(CODE.attribute("flow_grpo.stat_tracking", "PerPromptStatTracker"))
    setattr(sys.modules["flow_grpo.rewards"], "multi_score", own.combined_with(multi_score))  # noqa: B010
    return own


class FlowGRPOReward:
    """A reward function of Flow-GRPO; returns ({"editcritic": values, "editcritic_<column>": ..., "avg": values}, {}).

    The columns are the `filled_columns` of `TrainerScores`, which the scripts average for the log, such as
    `editcritic_following` and `editcritic_unscored`; the values have NaN where there is none.

    Raises ValueError for calls without sources, `UnscoredError`, and what the reward raises.

    Args:
        reward: See `TrainerReward`. Thread-safe.
        options: See `TrainerReward`. Thread-safe.
    """

    def __init__(self, reward: ScoreFn | Spec, **options: Any) -> None:
        self.reward = TrainerReward(reward, **options)

    @property
    def __name__(self) -> str:
        return self.reward.__name__

    def __call__(
        self,
        images: Any,
        prompts: Sequence[str],
        metadata: Sequence[Any] | None = None,
        ref_images: Any = None,
        only_strict: bool = True,
    ) -> tuple[Details, dict[str, Any]]:
        """images: floats N x C x H x W in [0, 1], uint8 N x H x W x C, or a list of PIL images. metadata: one mapping
        per row, or None; Edit-R1's `requirement` in it is the sample's hint.

        ref_images: the source images, one or several per row. only_strict: of GenEval; ignored.
        """
        if ref_images is None:
            raise ValueError(
                "an edit is scored against its source: pass ref_images, as Flow-GRPO's and Edit-R1's scripts for "
                "editors do; DiffusionNFT and the other scripts train text-to-image models, whose images are no edits"
            )
        rows = [with_requirement(row) for row in metadata] if isinstance(metadata, list | tuple) else None
        samples = build_samples(list(prompts), images_from_batch(images), _sources(ref_images), rows)
        scored = self.reward(samples)
        columns = {f"{REWARD_KEY}_{name}": column for name, column in scored.filled_columns.items()}
        return {REWARD_KEY: scored.values, **columns, "avg": list(scored.values)}, {}

    def combined_with(self, multi_score: Callable[[Any, Mapping[str, float]], RewardFn]) -> Callable[..., RewardFn]:
        """A `multi_score` with `editcritic`: its weight times this reward, plus the weighted sum of the others. An edit
        without a value has none in the sum either, unless the weight is 0.
        """

        def combined(device: Any, score_dict: Mapping[str, float]) -> RewardFn:
            weight = score_dict.get(REWARD_KEY)
            other_weights = {name: value for name, value in score_dict.items() if name != REWARD_KEY}
            other_rewards = multi_score(device, other_weights) if other_weights else None
            if weight is None:
                return self if other_rewards is None else other_rewards

            def both(*args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
                own, _ = self(*args, **kwargs)
                average = [weight * value if weight else 0.0 for value in own[REWARD_KEY]]
                if other_rewards is None:
                    return {**own, "avg": average}, {}
                others, _ = other_rewards(*args, **kwargs)
                average = [sum(pair) for pair in zip(average, others["avg"], strict=True)]
                return {**others, **own, "avg": average}, {}

            return both

        return combined


def _sources(ref_images: Any) -> list[list[Image | str]]:
    if isinstance(ref_images, list | tuple):
        return [images_from_batch(row if isinstance(row, list | tuple) else [row]) for row in ref_images]
    return [[image] for image in images_from_batch(ref_images)]


CODE: Final = TrainerCode(
    "flow_grpo", "Flow-GRPO at 54809b5 and 94e23ee, Edit-R1 at 4217f25, and DiffusionNFT at 24af555"
)

_PATCHED: Final = "_editcritic_leaves_out_missing"

T = TypeVar("T")
Rows = NDArray[np.bool_]
"""N, true for the rows that have a value."""


def leave_out_missing(tracker: type[T]) -> type[T]:
    """Let the `update` of a `PerPromptStatTracker` leave out rows with a NaN, in this process.

    rewards: N, or N x timesteps. The results of the other rows, the statistics that the tracker keeps, and its counts
    are as if the rows were not in the batch; the missing rows have 0 in each result: an advantage of 0, and in Edit-R1
    a standard deviation of 0, with which `ban_prompt` masks their loss. Without a NaN nothing differs, but that
    `get_mean_of_top_rewards` of no rewards is NaN in place of 0.

    Edit-R1 bans a prompt for good whose rewards are all high: not here in an update in which some of its rows are
    missing, since one row that is left has no spread either.

    The types `dpo` and `gardo` (scripts for text-to-image) need two rows with a value in each group.

    Returns:
        The class, which is changed; once is enough, and again changes nothing.

    Raises:
        UnknownTrainerError: If the class has another `update` than those that were read, or if that gives other
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
    whole = np.zeros((len(kept), *part.shape[1:]))
    whole[kept] = part
    return whole
