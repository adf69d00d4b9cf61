"""The numbers of a training run that are monitored, when they alarm, and what to do then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np

_LOOK = "compare edits of the last steps with the first ones"
_GO_BACK = "continue from a checkpoint before it"
_ADD_QUALITY = f"{_LOOK}; add a part for image quality to the reward, or a stronger KL penalty, and {_GO_BACK}"
_ABOUT_DIFFERENCE = (
    f"{_LOOK}; if the source is copied, put guards before the reward; if more is redrawn than was asked for, add a "
    f"part for preservation; {_GO_BACK}"
)
_ABOUT_ABSTAINED = f"{_LOOK} and read the reasons of scores without a value; keep `abstained` at lowest"
_ABOUT_DIVERSITY = f"{_LOOK}; use a stronger KL penalty, a lower learning rate or more noise, and {_GO_BACK}"
_GAMED = "the policy looks for what the reward pays and guards do not allow"
LOGARITHMIC = ("difference", "diversity")
"""Numbers that are compared as natural logarithms."""
_OTHER_ACTIONS: Mapping[str, str] = {
    "divergence": "stop and look at edits that the trained reward pays most; add guards or other judges to it, and "
    f"{_GO_BACK}",
    "probe/heldout": f"stop, {_LOOK}, and {_GO_BACK}",
    "probe/divergence": f"stop and look at edits that the trained reward pays most, and {_GO_BACK}",
    "hack": "run `editcritic audit` on edits of the last steps and look at its pairs; if the edits are good, add a "
    "guard, a part or another judge that scores this hack lower before the policy finds it; if they are not, the "
    f"policy has become worse: {_GO_BACK}",
}
"""What to do about other alarms, by name; `hack` is for all hacks."""


@dataclass(frozen=True, slots=True)
class MonitoredQuantity:
    """A monitored number. side: 1 where only a rise alarms, -1 where only a fall does, 0 for both.

    min_drift: the smallest drift that can alarm, in the number's units (for `LOGARITHMIC` ones as a natural logarithm).
    action: what to do about an alarm. rise_meaning, fall_meaning: the possible cause of a rise or fall.
    """

    description: str
    min_drift: float
    side: int
    action: str
    rise_meaning: str = ""
    fall_meaning: str = ""


MONITORED: Mapping[str, MonitoredQuantity] = {
    "edge_density": MonitoredQuantity(
        "edge density beyond the source's", 0.02, 0, _ADD_QUALITY,
        "images are sharpened, or noisy", "images are blurred, or empty",
    ),
    "saturation": MonitoredQuantity(
        "saturation beyond the source's", 0.02, 0, _ADD_QUALITY, "colours are exaggerated", "colours fade"
    ),
    "exposure_1": MonitoredQuantity(
        "the 1 % quantile of luminance beyond the source's", 0.03, 0, _ADD_QUALITY, "haze", "crushed shadows"
    ),
    "exposure_50": MonitoredQuantity(
        "median luminance beyond the source's", 0.03, 0, _ADD_QUALITY, "images get lighter", "images get darker"
    ),
    "exposure_99": MonitoredQuantity(
        "the 99 % quantile of luminance beyond the source's", 0.03, 0, _ADD_QUALITY, "blown highlights", "haze"
    ),
    "difference": MonitoredQuantity(
        "the difference to the source", 0.5, 0, _ABOUT_DIFFERENCE,
        "more of the image is changed than before", "the source is copied",
    ),
    "unscored": MonitoredQuantity(
        "the fraction of edits that could not be scored", 0.15, 1,
        "read the reasons of scores without a value, and check the experts and the data",
        "an expert is down, or the rows are no edits",
    ),
    "abstained": MonitoredQuantity(
        "the fraction of edits that nobody could judge", 0.15, 1, _ABOUT_ABSTAINED,
        "edits that nobody can judge, such as unrecognisable ones",
    ),
    "degenerate": MonitoredQuantity(
        "the fraction of degenerate groups", 0.2, 1,
        "look at the scores of a group; use a finer reward, harder prompts or more exploration",
        "the policy has lost its diversity, or this reward has no signal left",
    ),
    "rejected": MonitoredQuantity(
        "the fraction of edits that a guard rejects", 0.15, 1,
        f"see which guard rejects, in the parts of the scores, and look at these edits; {_GO_BACK}", _GAMED,
    ),
    "heldout_rejected": MonitoredQuantity(
        "the fraction of edits that a guard of the held-out reward rejects", 0.15, 1,
        f"put these guards before the trained reward, and {_GO_BACK}", _GAMED,
    ),
    "diversity": MonitoredQuantity(
        "the difference between edits of a group", 0.7, -1, _ABOUT_DIVERSITY,
        "", "the edits of a group look alike: the policy has lost its diversity",
    ),
    "agreement": MonitoredQuantity(
        "agreement with the held-out reward (Kendall's tau)", 0.2, -1,
        "look at edits on which the rewards differ most; train on a mean of several judges, or with guards",
        "", "the held-out reward ranks the edits of a group differently",
    ),
}  # fmt: skip
"""By name; `divergence` is monitored in addition."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A number of a training run has moved as it does when a reward is hacked.

    Args:
        name: Of the number (`MONITORED`), `divergence`, `probe/...`, or `hack/...`.
        value: Z-score, beyond `z_limit`.
        message: The change, its size, and its possible cause.
        since: The first step that it is about, if not that of the last `patience` steps.
    """

    step: int
    name: str
    value: float
    z_limit: float
    message: str
    since: int | None = None

    @property
    def action(self) -> str:
        """What to do about it."""
        if self.name in MONITORED:
            return MONITORED[self.name].action
        return _OTHER_ACTIONS.get(self.name) or _OTHER_ACTIONS[self.name.partition("/")[0]]

    def began(self, patience: int) -> int:
        """About the step since which it is so, by a monitor's patience."""
        return max(self.step - patience + 1, 0) if self.since is None else self.since


@dataclass(slots=True)
class DriftTracker:
    """State of one monitored number.

    baseline: its values in the first steps. weights: the amount of data behind each, in any unit. streak: number of
    consecutive steps beyond the limit, negative below the baseline. alarmed: whether an alarm is active.
    """

    baseline: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    streak: int = 0
    alarmed: bool = False

    def z_score(self, value: float, min_std: float, weight: float = 1.0) -> float:
        """Robust z-score: difference to the baseline's median, divided by its `robust_std` or `min_std`.

        A value with less data than the baseline is scaled down by the square root of its relative weight.
        """
        confidence = math.sqrt(min(1.0, weight / max(median(self.weights), 1e-9)))
        return confidence * (value - median(self.baseline)) / max(robust_std(self.baseline), min_std)

    def update(self, z: float, side: int, limit: float, patience: int) -> bool:
        """Add a step's z-score. Returns whether to alarm: beyond the limit, on one side, for `patience` steps.

        side: 1 where only a rise counts, -1 where only a fall does, 0 for both. True once, until the z-score has
        returned within half the limit.
        """
        beyond = 0 if abs(z) <= limit or z * side < 0 else 1 if z > 0 else -1
        self.streak = self.streak + beyond if self.streak * beyond > 0 else beyond
        if abs(z) < limit / 2:
            self.alarmed = False
        if abs(self.streak) < patience or self.alarmed:
            return False
        self.alarmed = True
        return True


def robust_std(values: Sequence[float]) -> float:
    """A robust estimate of the standard deviation of a few values.

    The larger of the median and the mean absolute deviation from the median, each scaled to the standard deviation of a
    normal distribution. The median alone is often far too small for twenty values, which would cause false alarms.
    """
    center = median(values)
    deviations = [abs(value - center) for value in values]
    return max(1.4826 * median(deviations), 1.2533 * fmean(deviations))


def within_group_kendall_tau(rows: Sequence[tuple[float, float, str]]) -> tuple[float | None, int]:
    """Kendall's tau-b of two values per row, over pairs of rows in the same group, in [-1, 1]; and the number of pairs
    without ties.

    rows: (first value, second value, group). None where one of the values is constant within every group.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for first, second, group in rows:
        groups.setdefault(group, []).append((first, second))
    concordance = first_untied = second_untied = num_pairs = 0
    for pairs in groups.values():
        values = np.array(pairs)
        x, y = (np.sign(values[:, None, column] - values[None, :, column]).astype(int) for column in (0, 1))
        concordance += int((x * y).sum())
        first_untied += int(np.abs(x).sum())
        second_untied += int(np.abs(y).sum())
        num_pairs += int(np.abs(x * y).sum()) // 2
    tau = concordance / math.sqrt(first_untied * second_untied) if first_untied and second_untied else None
    return tau, num_pairs
