"""Group-relative advantages of edits of the same source by the same instruction.

    from editcritic.reward.training.advantages import advantages

    judge_std = measure_judge_variance(reward, some_samples).std
    result = advantages(reward(samples), [sample.group for sample in samples], judge_std=judge_std)

Each edit is compared with its own group (GRPO: Shao et al. 2024, arXiv 2402.03300, section 4.1). A group is a source
*and* an instruction, since scores of the same instruction on another image are not comparable.

An edit whose score failed for reasons of infrastructure has no advantage and does not influence the others. One that no
expert could judge, or that a judge refused, counts as its group's lowest value: otherwise a policy would gain by making
bad edits unrecognisable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..score import Score

ScaleRewards = Literal["group", "batch", "none"]
"""The divisor of the difference to the group's mean."""
NoiseCorrection = Literal["shrink", "floor"]
"""The correction for a judge's noise."""
AbstainedPolicy = Literal["lowest", "exclude"]
"""The value of an edit that may itself be the reason why it has no score: its group's lowest, or none."""
_ROUNDING = 1e-9  # relative: smaller differences are rounding errors of summation, not spread
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Advantages:
    """Advantages of N rows, and what became of their groups.

    Args:
        values: (N,), in the order of the rows, 0 for rows that are not informative.
        scored: (N,), the rows with a score, or with a value in place of it (see `training_values`).
        informative: (N,), the scored rows of groups that are neither degenerate nor lost in noise; a training step may
            drop the others.
        unscored: Fractions of the rows, see `without_score`.
        abstained: Fractions of the rows, see `without_score`.
        mean: Of the rows in `scored`; None without any.
        degenerate_groups: Fraction of groups without a training signal: fewer than two scored rows, or equal scores.
        lost: Fraction of groups whose spread noise explains completely; 0 for `floor`, which keeps them.
        std: Mean over groups of the standard deviation within (n - 1), in units of the score, over groups with two or
            more scored rows.
        noise_variance_share: Fraction of the pooled variance within groups that noise explains, in [0, 1].
    """

    values: FloatArray
    scored: NDArray[np.bool_]
    informative: NDArray[np.bool_]
    unscored: float
    abstained: float
    mean: float | None
    degenerate_groups: float
    lost: float
    std: float
    noise_variance_share: float

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers to log, by name."""
        return ({} if self.mean is None else {"reward": self.mean}) | {
            "unscored": self.unscored,
            "abstained": self.abstained,
            "frac_reward_zero_std": self.degenerate_groups,
            "frac_within_noise": self.lost,
            "reward_std": self.std,
            "noise_variance_share": self.noise_variance_share,
        }

    def of_rows(self, rows: slice) -> Advantages:
        """Those of some rows, as of one process; the fractions, `std` and `noise_variance_share` stay those of all."""
        return replace(self, values=self.values[rows], scored=self.scored[rows], informative=self.informative[rows])


def training_values(
    scores: Sequence[Score | float | None],
    groups: Sequence[str],
    *,
    abstained: AbstainedPolicy = "lowest",
    lowest: float | None = None,
) -> list[float | None]:
    """The value that each row has in training; None: it takes no part.

    An abstained score, and a failed one that the edit may have caused (its `cause` is not `infrastructure`), counts as
    `lowest`, the lower bound of the reward's range (`reward.card.range[0]`), or if None as the lowest value of its
    group, which then has to be complete; in a group without any value it has none. Below a bad edit's own value, as
    `lowest` is, an abstention never has a higher advantage than the edit would have; the lowest of the others in its
    group may be above it. abstained: `exclude` leaves these rows out. Infrastructure failures, scores that are not
    applicable, and None never have a value.
    """
    if abstained not in get_args(AbstainedPolicy):
        raise ValueError(f"abstained is one of {', '.join(get_args(AbstainedPolicy))}, got {abstained!r}")
    values = [score.value if isinstance(score, Score) else score for score in scores]
    if abstained == "exclude":
        return values
    group_lowest: dict[str, float] = {} if lowest is None else dict.fromkeys(groups, lowest)
    if lowest is None:
        for value, group in zip(values, groups, strict=True):
            if value is not None:
                group_lowest[group] = min(value, group_lowest.get(group, value))
    return [
        group_lowest.get(group) if isinstance(score, Score) and _may_be_by_edit(score) else value
        for score, value, group in zip(scores, values, groups, strict=True)
    ]


def _may_be_by_edit(score: Score) -> bool:
    return score.status == "abstained" or (score.status == "failed" and score.cause != "infrastructure")


def without_score(scores: Sequence[Score | float | None]) -> dict[str, list[float]]:
    """Which of N rows have no score of their own, and why, 1.0 or 0.0 each: the columns that every trainer logs, whose
    means are fractions of all rows. No row is in both.

    `abstained`: the edit may be the reason, since no expert could judge it or a judge refused. Whatever the policy: by
    default such a row has a value in training, the lowest, and with `exclude` none. `unscored`: the edit is not the
    reason, since infrastructure failed, the metric does not apply, or the row is no edit (None). It has no value.
    """
    abstained = [isinstance(score, Score) and _may_be_by_edit(score) for score in scores]
    lacking = [(score.value if isinstance(score, Score) else score) is None for score in scores]
    return {
        "unscored": [float(lacks and not by_edit) for lacks, by_edit in zip(lacking, abstained, strict=True)],
        "abstained": list(map(float, abstained)),
    }


def advantages(
    scores: Sequence[Score | float | None],
    groups: Sequence[str],
    *,
    abstained: AbstainedPolicy = "lowest",
    lowest: float | None = None,
    judge_std: float = 0.0,
    scale_rewards: ScaleRewards = "group",
    noise_correction: NoiseCorrection = "shrink",
    max_abs: float | None = None,
) -> Advantages:
    """Advantages within groups.

    Args:
        scores: N of them, such as `Scores` or plain values; None for an unscored row.
        groups: The group of each row (`EditSample.group`), in any order. Groups must be complete, and for `batch` all
            groups of a step must be there: distributed processes gather their scores first, as in TRL and Flow-GRPO.
        abstained: See `training_values`.
        lowest: See `training_values`.
        judge_std: Standard deviation of repeated scores of one edit, in units of the score
            (`measure_judge_variance(...).std`). Dividing by the standard deviation gives every group the same weight,
            even a group of equal edits whose spread is the judge's noise.
        scale_rewards: `group` divides by the group's standard deviation (n - 1). `batch` divides by one standard
            deviation for the batch: of the rows about the means of their groups, pooled, without differences between
            groups. `none` does not divide (Dr. GRPO: Liu et al. 2025, arXiv 2503.20783, section 3): groups with more
            spread have more weight.
        noise_correction: Of a variance V within a group, S = max(0, V - judge_std^2) is due to the edits. `shrink`
            estimates the advantage under a judge without noise (the linear estimate of least squared error, with V and
            S in place of the true variances): (r - mean) times sqrt(S) / V with division, times S / V without. A group
            whose spread noise explains has the advantage 0. No advantage is enlarged, and none exceeds
            |r - mean| / (2 judge_std). `floor` divides by max(std, judge_std) instead: a group lost in noise keeps
            advantages of about 1, and `none` is unchanged.
        max_abs: Clips advantages to [-max_abs, max_abs]; clipped advantages may have a mean other than 0.

    Raises:
        ValueError: For scores that are not finite, and for invalid options.
    """
    _check(len(scores), len(groups), judge_std, scale_rewards, noise_correction, max_abs)
    optional_values = training_values(scores, groups, abstained=abstained, lowest=lowest)
    scored = np.array([value is not None for value in optional_values], bool)
    values = np.array([0.0 if value is None else value for value in optional_values], np.float64)
    if not np.isfinite(values).all():
        raise ValueError("scores are finite numbers, or None for a row without one; got a NaN or an infinity")
    names, group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    num_groups = len(names)
    count = np.bincount(group[scored], minlength=num_groups)
    mean = np.bincount(group[scored], values[scored], num_groups) / np.maximum(count, 1)
    deviations = np.where(scored, values - mean[group], 0.0)
    squares = np.bincount(group, deviations**2, num_groups)
    variance = squares / np.maximum(count - 1, 1)
    has_signal = (count >= 2) & (variance > 0) & _has_spread(values, scored, group, num_groups)
    pooled = float(squares[has_signal].sum() / max(1, (count - 1)[count >= 2].sum()))

    scale_variance = np.full(num_groups, pooled) if scale_rewards == "batch" else np.where(has_signal, variance, 0.0)
    weight = np.where(has_signal, _weights(scale_variance, judge_std, scale_rewards, noise_correction), 0.0)
    informative = scored & (weight > 0)[group]
    result = np.where(informative, deviations * weight[group], 0.0)
    return Advantages(
        result if max_abs is None else np.clip(result, -max_abs, max_abs),
        scored,
        informative,
        **{name: sum(rows) / max(1, len(rows)) for name, rows in without_score(scores).items()},
        mean=float(values[scored].mean()) if scored.any() else None,
        degenerate_groups=float(1 - has_signal.mean()) if num_groups else 0.0,
        lost=float((has_signal & (weight == 0)).mean()) if num_groups else 0.0,
        std=float(np.sqrt(np.where(has_signal, variance, 0.0)[count >= 2]).mean()) if (count >= 2).any() else 0.0,
        noise_variance_share=min(1.0, judge_std**2 / pooled) if pooled else float(judge_std > 0),
    )


def credit_advantages(
    scores: Sequence[Score],
    groups: Sequence[str],
    *,
    abstained: AbstainedPolicy = "lowest",
    lowest: float | None = None,
    judge_std: float = 0.0,
    scale_rewards: ScaleRewards = "group",
    noise_correction: NoiseCorrection = "shrink",
    max_abs: float | None = None,
) -> dict[str, Advantages]:
    """Advantages of each operation or turn, from the `credits` of scores; name -> N of them, in order.

    A batch may hold several instructions: a credit counts in the groups in which any row has it, and its fractions
    refer to these. A row there with a value but without the credit was rejected before its operations were scored, as
    by `Gate`: its value is used instead, so that reward hacking is not penalised less than an honest failure. A row
    whose credit has no value is treated so for this credit only. lowest, judge_std: of one credit. Otherwise as
    `advantages`.
    """
    names = dict.fromkeys(name for score in scores for name in score.credits)
    if len(scores) != len(groups):
        raise ValueError(f"scores and groups differ in length, got {len(scores)} scores and {len(groups)} groups")
    result: dict[str, Advantages] = {}
    for name in names:
        groups_with_credit = {group for score, group in zip(scores, groups, strict=True) if name in score.credits}
        rows = [row for row, group in enumerate(groups) if group in groups_with_credit]
        credits = [scores[row].credits.get(name, scores[row]) for row in rows]
        of_rows = advantages(
            credits,
            [groups[row] for row in rows],
            abstained=abstained,
            lowest=lowest,
            judge_std=judge_std,
            scale_rewards=scale_rewards,
            noise_correction=noise_correction,
            max_abs=max_abs,
        )
        values, scored, informative = np.zeros(len(scores)), np.zeros(len(scores), bool), np.zeros(len(scores), bool)
        values[rows], scored[rows], informative[rows] = of_rows.values, of_rows.scored, of_rows.informative
        result[name] = replace(of_rows, values=values, scored=scored, informative=informative)
    return result


def _weights(
    variance: FloatArray, judge_std: float, scale_rewards: ScaleRewards, noise_correction: NoiseCorrection
) -> FloatArray:
    """The factor of the difference to the group's mean; 0 where noise explains all the variance.

    Computed from the quotient judge_std / std, which is finite even where the squares underflow.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        std = np.sqrt(variance)
        if noise_correction == "floor":
            return np.ones_like(std) if scale_rewards == "none" else np.asarray(1 / np.maximum(std, judge_std))
        signal_share = np.maximum(0.0, 1 - (judge_std / std) ** 2)
        return np.asarray(signal_share if scale_rewards == "none" else np.sqrt(signal_share) / std)


def _has_spread(
    values: FloatArray, scored: NDArray[np.bool_], group: NDArray[np.intp], num_groups: int
) -> NDArray[np.bool_]:
    low, high = np.full(num_groups, np.inf), np.full(num_groups, -np.inf)
    np.minimum.at(low, group[scored], values[scored])
    np.maximum.at(high, group[scored], values[scored])
    magnitude = np.where(np.isfinite(high), np.maximum(np.abs(low), np.abs(high)), 0.0)
    return np.asarray(high - low > _ROUNDING * magnitude)


def _check(
    num_scores: int, num_groups: int, judge_std: float, scale_rewards: str, noise_correction: str, max_abs: float | None
) -> None:
    if num_scores != num_groups:
        raise ValueError(f"scores and groups differ in length, got {num_scores} scores and {num_groups} groups")
    if not (judge_std >= 0 and math.isfinite(judge_std)):
        raise ValueError(f"judge_std is a standard deviation, 0 or more, got {judge_std}")
    if scale_rewards not in get_args(ScaleRewards):
        raise ValueError(f"scale_rewards is one of {', '.join(get_args(ScaleRewards))}, got {scale_rewards!r}")
    if noise_correction not in get_args(NoiseCorrection):
        raise ValueError(f"noise_correction is one of {', '.join(get_args(NoiseCorrection))}, got {noise_correction!r}")
    if max_abs is not None and not max_abs > 0:
        raise ValueError(f"max_abs is a positive number, or None for no clipping, got {max_abs}")
