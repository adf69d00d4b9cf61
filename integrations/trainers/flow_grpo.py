"""A reward for Flow-GRPO, and for trainers of editors with its calling convention, such as Edit-R1.

    from editcritic.integrations.trainers import patch_flow_grpo
    patch_flow_grpo("http://127.0.0.1:8321", missing="nan")  # or Reward.of(...), a spec, a RemoteReward

    config.reward_fn = {"editcritic": 1.0, "pickscore": 0.2}

There is no registry: the scripts look up `multi_score(device, config.reward_fn)` in `flow_grpo.rewards` and call its
result from a pool of eight threads. docs/trainers/flow_grpo.md has the lines of a script that replace it as a diff. If
a script has a reward function of its own, use a `FlowGRPOReward` directly.

Read on 2026-11-23: `_fn` in `multi_score`, github.com/yifan123/flow_grpo, `flow_grpo/rewards.py` (54809b5), and its
calls in `scripts/train_flux_kontext.py` (74db691); the same calls in github.com/PKU-YuanGroup/Edit-R1,
`scripts/train_nft_qwen_image_edit.py` and `train_nft_kontext.py` (4217f25, 2026-01-24). DiffusionNFT
(github.com/NVlabs/DiffusionNFT, `scripts/train_nft_sd3.py`, 24af555, 2025-09-22), of which Edit-R1 is the fork for
editors, trains text-to-image models and passes no `ref_images`.

Groups are the trainers', by decoded prompts: Flow-GRPO's scripts for editors decode "prompt_image path", which is
right; Edit-R1's decode the prompt alone, so make the prompts of a dataset different.

An edit without a value ends the run with `missing="raise"`, where the trainer collects its rewards. With
`missing="nan"` it has NaN in `avg`, which the patched tracker leaves out (`flow_grpo_statistics`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...reward import Image
from ...reward.queries.specs import Spec
from ..dataset_rows import build_samples, images_from_batch, with_requirement
from .flow_grpo_statistics import CODE, leave_out_missing
from .trainer_reward import ScoreFn, TrainerReward

REWARD_KEY = "editcritic"

Details = dict[str, list[float]]
RewardFn = Callable[..., tuple[Mapping[str, Sequence[float]], Mapping[str, Any]]]


def patch_flow_grpo(reward: ScoreFn | Spec, **options: Any) -> FlowGRPOReward:
    """Replace two things in the package `flow_grpo` of this process, Flow-GRPO's, Edit-R1's or a fork's:
    `rewards.multi_score`, which then also knows the name `editcritic` (`FlowGRPOReward.combined_with`), and `update` of
    `stat_tracking.PerPromptStatTracker`, which then leaves out edits without a value (`leave_out_missing`).

    reward, options: see `TrainerReward`. Returns the reward. Raises `UnknownTrainerError`, with nothing replaced, if
    either is not what was read, and what `TrainerReward` raises.
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

    reward, options: see `TrainerReward`. Thread-safe. Raises ValueError for calls without sources, `UnscoredError`, and
    what the reward raises.
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
