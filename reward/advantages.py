"""Advantages: how much better an edit is than others of the same source by the same instruction.

from editcritic.reward.advantages import advantages
found = advantages(reward(samples), [sample.group for sample in samples], noise=judge_noise(reward, some).std)

Each edit is compared with its own group (GRPO: Shao et al. 2024, arXiv 2402.03300, section 4.1), and a group is a
source *and* an instruction: edits of another picture by the same words say nothing about this one. An edit without a
score has no advantage and takes no part in anybody else's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .score import Score

Scale = Literal["group", "batch", "none"]
"""By what the difference to the group's mean is divided."""

Noisy = Literal["shrink", "floor"]
"""What is done about a judge's noise."""

_ROUNDING = 1e-9  # sums in another order differ by so much of their size: no spread, whatever a division makes of it

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Advantages:
    """values: (N,), in the order of the rows, 0 where there is nothing to say. scored: (N,), the rows with a score.

    telling: (N,), the scored rows of groups that are not degenerate and not lost in noise; the others may as well be
    left out of a training step.

    unscored: share of the rows without a score. degenerate: share of the groups that teach nothing: fewer than two
    scored rows, or all worth the same. lost: share of the groups that have a spread, but no more than noise explains;
    0 for `floor`, which keeps them. std: mean over groups of the standard deviation within (n - 1), in units of the
    score, over groups with two scored rows or more. noise_share: of the variance within groups (pooled), how much
    noise explains, in [0, 1].
    """

    values: Numbers
    scored: NDArray[np.bool_]
    telling: NDArray[np.bool_]
    unscored: float
    degenerate: float
    lost: float
    std: float
    noise_share: float

    @property
    def numbers(self) -> dict[str, float]:
        """What is worth logging, by name."""
        return {name: getattr(self, name) for name in ("unscored", "degenerate", "lost", "std", "noise_share")}


def advantages(
    scores: Sequence[Score | float | None],
    groups: Sequence[str],
    *,
    noise: float = 0.0,
    scale: Scale = "group",
    noisy: Noisy = "shrink",
    clip: float | None = None,
) -> Advantages:
    """Advantages within groups.

    scores: N of them, such as `Scores` or plain values; None for an unscored row. groups: the group of each row
    (`EditSample.group`), in any order. A group has to be here as a whole: processes that each hold a part gather first.
    clip: advantages end at plus and minus so much; what is clipped need not have a mean of 0.

    scale: `group` divides by the group's standard deviation (n - 1). `batch` divides by one for the whole batch: that
    of the rows about the means of their groups, pooled; how the groups differ does not count. `none` does not divide
    (Dr. GRPO: Liu et al. 2025, arXiv 2503.20783, section 3): groups that differ more weigh more.

    noise: standard deviation of what the judge would say of one edit if it were asked again, in units of the score
    (`judge_noise(...).std`). Dividing by the standard deviation gives every group the same weight, also one whose
    edits are all alike and only the judge wavers. Of a variance V within a group, S = max(0, V - noise^2) is the edits'
    own. `shrink` gives the advantage that a judge without noise would have given, as well as it can be told from what
    this one said (the linear estimate of least squared error, with V and S in place of the true variances): (r - mean)
    times sqrt(S) / V where it is divided, times S / V where it is not. A group whose spread is no more than noise has
    the advantage 0. No advantage is enlarged, and none exceeds |r - mean| / (2 noise). `floor` divides by
    max(std, noise) instead: a group lost in noise keeps advantages of about 1, and `none` is left as it is.

    Raises ValueError for scores that are no finite numbers, and for options that mean nothing.
    """
    _check(len(scores), len(groups), noise, scale, noisy, clip)
    given = [score.value if isinstance(score, Score) else score for score in scores]
    scored = np.array([value is not None for value in given], bool)
    values = np.array([0.0 if value is None else value for value in given], np.float64)
    if not np.isfinite(values).all():
        raise ValueError("scores are finite numbers, or None for a row without one; got a NaN or an infinity")
    names, group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    rows = len(names)
    count = np.bincount(group[scored], minlength=rows)
    mean = np.bincount(group[scored], values[scored], rows) / np.maximum(count, 1)
    apart = np.where(scored, values - mean[group], 0.0)
    squares = np.bincount(group, apart**2, rows)
    variance = squares / np.maximum(count - 1, 1)
    compared = (count >= 2) & (variance > 0) & _spread(values, scored, group, rows)
    pooled = float(squares[compared].sum() / max(1, (count - 1)[count >= 2].sum()))

    against = np.full(rows, pooled) if scale == "batch" else np.where(compared, variance, 0.0)
    weight = np.where(compared, _weights(against, noise, scale, noisy), 0.0)
    telling = scored & (weight > 0)[group]
    found = np.where(telling, apart * weight[group], 0.0)
    return Advantages(
        found if clip is None else np.clip(found, -clip, clip),
        scored,
        telling,
        unscored=float(1 - scored.mean()) if len(scored) else 0.0,
        degenerate=float(1 - compared.mean()) if rows else 0.0,
        lost=float((compared & (weight == 0)).mean()) if rows else 0.0,
        std=float(np.sqrt(np.where(compared, variance, 0.0)[count >= 2]).mean()) if (count >= 2).any() else 0.0,
        noise_share=min(1.0, noise**2 / pooled) if pooled else float(noise > 0),
    )


def credit_advantages(
    scores: Sequence[Score],
    groups: Sequence[str],
    *,
    noise: float = 0.0,
    scale: Scale = "group",
    noisy: Noisy = "shrink",
    clip: float | None = None,
) -> dict[str, Advantages]:
    """Advantages of each operation or turn by itself, from the `credits` of scores; name -> N of them, in order.

    A batch may hold several instructions: a credit counts in the groups in which any row has it, and its shares are
    about these. A row there that has a value but no such credit was rejected before it was asked, as `Gate` does: its
    value stands in, or a cheat would be spared what an honest failure pays. One whose credit has no value is unscored
    for this credit only. noise: of one credit. The rest is as for `advantages`.
    """
    names = dict.fromkeys(name for score in scores for name in score.credits)
    if len(scores) != len(groups):
        raise ValueError(f"each score has a group, got {len(scores)} scores and {len(groups)} groups")
    found: dict[str, Advantages] = {}
    for name in names:
        having = {group for score, group in zip(scores, groups, strict=True) if name in score.credits}
        rows = [row for row, group in enumerate(groups) if group in having]
        credits = [scores[row].credits.get(name, scores[row]) for row in rows]
        part = advantages(credits, [groups[row] for row in rows], noise=noise, scale=scale, noisy=noisy, clip=clip)
        found[name] = _among(part, rows, len(scores))
    return found


def _among(part: Advantages, rows: list[int], count: int) -> Advantages:
    """The advantages of some rows as those of all, which say nothing of the others."""
    values, scored, telling = np.zeros(count), np.zeros(count, bool), np.zeros(count, bool)
    values[rows], scored[rows], telling[rows] = part.values, part.scored, part.telling
    return Advantages(values, scored, telling, **part.numbers)


def _weights(variance: Numbers, noise: float, scale: Scale, noisy: Noisy) -> Numbers:
    """By what the difference to the group's mean is multiplied; 0 where nothing is left of a variance.

    The quotient noise^2 / variance is what matters: on scales where squares vanish it is still a number.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        std = np.sqrt(variance)
        if noisy == "floor":
            return np.ones_like(std) if scale == "none" else np.asarray(1 / np.maximum(std, noise))
        own = np.maximum(0.0, 1 - (noise / std) ** 2)
        return np.asarray(own if scale == "none" else np.sqrt(own) / std)


def _spread(values: Numbers, scored: NDArray[np.bool_], group: NDArray[np.intp], rows: int) -> NDArray[np.bool_]:
    """Which groups have scores that differ by more than rounding does."""
    low, high = np.full(rows, np.inf), np.full(rows, -np.inf)
    np.minimum.at(low, group[scored], values[scored])
    np.maximum.at(high, group[scored], values[scored])
    size = np.where(np.isfinite(high), np.maximum(np.abs(low), np.abs(high)), 0.0)
    return np.asarray(high - low > _ROUNDING * size)


def _check(scores: int, groups: int, noise: float, scale: str, noisy: str, clip: float | None) -> None:
    if scores != groups:
        raise ValueError(f"each score has a group, got {scores} scores and {groups} groups")
    if not (noise >= 0 and math.isfinite(noise)):
        raise ValueError(f"noise is a standard deviation, 0 or more, got {noise}")
    if scale not in get_args(Scale):
        raise ValueError(f"scale is one of {', '.join(get_args(Scale))}, got {scale!r}")
    if noisy not in get_args(Noisy):
        raise ValueError(f"noisy is one of {', '.join(get_args(Noisy))}, got {noisy!r}")
    if clip is not None and not clip > 0:
        raise ValueError(f"clip is a positive number, or None not to clip, got {clip}")
