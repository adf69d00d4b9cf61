"""A reward for EditScore's OmniGen2-RL, and its statistics with edits that have no value: docs/trainers/omnigen2_rl.md
has the lines. Read in `examples/OmniGen2-RL` of github.com/VectorSpaceLab/EditScore (6e0f1b9, 2025-11-09).

`train.py` calls `evaluate_images` in the main process, once a step, with the edits of all: `OmniGen2Reward` may take
its place, or a judge server that of the trainer's. `process_grpo_rewards` replaces the trainer's, where a NaN reaches
its group or the whole batch. Edits are grouped by instruction: give the images of a data set different ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...reward import EditSample, Score
from ...reward.queries.specs import Spec
from ...reward.training.advantages import advantages, without_score
from ...reward.training.judge_variance import JudgeVariance
from ..dataset_rows import build_samples, images_from_batch, parse_metadata
from .trainer_reward import LOGGED_PARTS, ScoreFn, TrainerReward, checked_word, part_value

if TYPE_CHECKING:
    import torch

SCORE_KEY = "editcritic_score"
"""In `meta_data` of an answer: the score of the edit."""

_MAX_REASON = 300

Evaluation = tuple[Any, ...]
"""Scores, rewards, reasons and `meta_data`."""


class OmniGen2Reward:
    """An `evaluate_images`; returns (scores, rewards, reasoning, meta_data), each with one item per edit.

    Raises ValueError for lists of different lengths and for metadata that is no JSON object, `UnscoredError`, and what
    the reward raises.

    Args:
        reward: See `TrainerReward`. scores are the rewards: no pass mark is made up. reasoning: a text with status,
            parts and reason. meta_data: see `evaluation`.
        options: See `reward`.
    """

    def __init__(self, reward: ScoreFn | Spec, **options: Any) -> None:
        self.reward = TrainerReward(reward, **options)

    def __call__(
        self,
        input_images: Sequence[Sequence[Any] | None],
        output_image: Sequence[Any],
        meta_datas: Sequence[Any],
        proxy_host: str = "",
        proxy_port: int = 0,
        server_type: str = "vlm",
    ) -> Evaluation:
        """input_images: for each edit its sources. meta_datas: JSON texts or dicts with `instruction`; `editcritic` in
        them as in all adapters. The rest is of the client that this replaces, and ignored.
        """
        rows = [parse_metadata(row) for row in meta_datas]
        if not all(isinstance(row, Mapping) for row in rows):
            raise ValueError("meta_datas must be JSON texts or dicts with the edit's `instruction`")
        samples = build_samples(
            [row.get("instruction", "") for row in rows],
            images_from_batch(output_image),
            [images_from_batch(sources or []) for sources in input_images],
            rows,
        )
        scored = self.reward(samples)
        seconds = scored.columns["judge_seconds"][0] if samples else 0.0
        answer = evaluation(samples, scored.scores, scored.values, seconds, self.reward.logged_parts)
        for row, alarms in zip(answer["meta_data"], scored.columns.get("alarms", ()), strict=False):
            row[SCORE_KEY]["alarms"] = alarms
        return tuple(answer[name] for name in ("scores", "rewards", "reasoning", "meta_data"))


def evaluation(
    samples: Sequence[EditSample | str],
    scores: Sequence[Score],
    values: Sequence[float],
    seconds: float,
    logged_parts: Sequence[str] = LOGGED_PARTS,
) -> dict[str, list[Any]]:
    """The answer of the trainer's reward server: lists with one item per edit. values: NaN for an edit without one.
    seconds: of the whole call. `meta_data` has `original_index`, `instruction`, and the numbers of the score that there
    are.
    """
    lacking = without_score(
        [None if isinstance(sample, str) else score for sample, score in zip(samples, scores, strict=True)]
    )
    return {
        "scores": list(values),
        "rewards": list(values),
        "strict_rewards": list(values),
        "reasoning": [_reasoning(score, value, logged_parts) for score, value in zip(scores, values, strict=True)],
        "meta_data": [
            {
                "original_index": row,
                "instruction": "" if isinstance(sample, str) else sample.instruction,
                SCORE_KEY: {
                    **({} if math.isnan(value) else {"reward": value}),
                    **_known_parts(score, logged_parts),
                    **{name: column[row] for name, column in lacking.items()},
                    "judge_seconds": seconds,
                },
            }
            for row, (sample, score, value) in enumerate(zip(samples, scores, values, strict=True))
        ],
    }


def _known_parts(score: Score, names: Sequence[str]) -> dict[str, float]:
    return {name: part for name in names if (part := part_value(score, name)) is not None}


def _reasoning(score: Score, value: float, logged_parts: Sequence[str]) -> str:
    lines = [f"status: {score.status}", f"reward: {'none' if math.isnan(value) else format(value, '.4g')}"]
    lines += [f"{name}: {part:.4g}" for name, part in _known_parts(score, logged_parts).items()]
    lines += [f"reason: {score.reason[:_MAX_REASON]}"] if score.reason else []
    return "".join(f"{line}\n" for line in lines)


def log_scores(accelerator: Any, meta_data: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over the edits of all processes that have the number, to log, as `editcritic/following`. What no edit has
    is left out.

    Args:
        meta_data: Of this process's edits, as `evaluate_images` returned them. Every process must call it.
    """
    from accelerate.utils import gather_object

    rows = gather_object([dict(row[SCORE_KEY]) for row in meta_data])
    names = dict.fromkeys(name for row in rows for name in row)  # in order, each once
    return {f"editcritic/{name}": fmean(row[name] for row in rows if name in row) for name in names}


def process_grpo_rewards(
    rewards: torch.Tensor,
    prompts: list[str],
    accelerator: Any,
    std_level: str = "group",
    *,
    judge_std: float | JudgeVariance = 0.0,
    logs: dict[str, float] | None = None,
) -> tuple[torch.Tensor, dict[str, dict[str, float]]]:
    """The advantages of this process's edits, and the statistics of each prompt's rewards, over all processes.

    Args:
        rewards: Floats (N,), NaN for an edit without a value: its advantage is 0, and it is in no statistics, those of
            the whole batch included.
        prompts: N.
        std_level: `group` or `batch`, whose standard deviation divides. Without NaN it is the trainer's own function. A
            prompt without any value has no statistics.
        judge_std: The judge's noise, in units of the reward, or what `measure_judge_variance` gives. Above 0 the
            advantages are those of `advantages` with `scale_rewards=std_level`: a group whose spread the noise explains
            has none. Standard deviations are then with n - 1, and that of the batch is about the means of its groups.
        logs: Gets `editcritic/frac_within_noise` and `editcritic/noise_variance_share` of these (see `Advantages`), of
            all processes.

    Raises:
        ValueError: For another std_level, and for a judge_std below 0 or not finite.
    """
    import torch
    from accelerate.utils import gather_object

    scale: Literal["group", "batch"] = checked_word("std_level", std_level, Literal["group", "batch"])
    all_prompts: list[str] = gather_object(prompts)
    all_rewards = [None if math.isnan(reward) else reward for reward in accelerator.gather(rewards).tolist()]
    by_prompt: dict[str, list[float]] = defaultdict(list)
    for prompt, reward in zip(all_prompts, all_rewards, strict=True):
        if reward is not None:
            by_prompt[prompt].append(reward)
    statistics: dict[str, Any] = {"min": np.min, "max": np.max, "mean": np.mean, "std": np.std}
    prompt_stats = {
        prompt: {name: float(function(group)) for name, function in statistics.items()}
        for prompt, group in by_prompt.items()
    }
    noise = judge_std.std if isinstance(judge_std, JudgeVariance) else judge_std
    if noise:
        corrected = advantages(all_rewards, all_prompts, judge_std=noise, scale_rewards=scale)
        if logs is not None:
            names = ("frac_within_noise", "noise_variance_share")
            logs |= {f"editcritic/{name}": corrected.metrics[name] for name in names}
        start = accelerator.process_index * len(prompts)
        return rewards.new_tensor(corrected.values[start : start + len(prompts)]), prompt_stats
    batch_std = np.std([reward for group in by_prompt.values() for reward in group]) if by_prompt else 0.0
    result = torch.zeros_like(rewards)
    for row, (prompt, reward) in enumerate(zip(prompts, rewards.tolist(), strict=True)):
        if not math.isnan(reward):
            stats = prompt_stats[prompt]
            std = stats["std"] if std_level == "group" else batch_std
            result[row] = float((reward - stats["mean"]) / (std + 1e-8))
    return result, prompt_stats
