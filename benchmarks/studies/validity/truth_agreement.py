"""How well scores agree with a truth, on the pairs that have both.

Each number is None where it is undefined: without pairs, or where one side is constant. `people.weighted` has the same
numbers with intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..reward import Score
from ..reward.score import Status
from .extras import bench

Value = float | bool | None
Pairs = Sequence[tuple[float, float]]
"""(value, truth) of each sample that has both."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many scores have which status."""

    scored: int = 0
    abstained: int = 0
    not_applicable: int = 0
    failed: int = 0

    @staticmethod
    def of(statuses: Iterable[Status]) -> Coverage:
        counts = Counter(statuses)
        return Coverage(counts["scored"], counts["abstained"], counts["not_applicable"], counts["failed"])

    @property
    def total(self) -> int:
        return self.scored + self.abstained + self.not_applicable + self.failed


def coverage(scores: Iterable[Score]) -> Coverage:
    """Of scores."""
    return Coverage.of(score.status for score in scores)


def paired(values: Iterable[Value], truths: Iterable[Value]) -> list[tuple[float, float]]:
    """Those that have both. Raises ValueError where there are more of one than of the other."""
    both = zip(values, truths, strict=True)
    return [(float(value), float(truth)) for value, truth in both if value is not None and truth is not None]


def accuracy(pairs: Pairs, *, cut: float = 0.5) -> float | None:
    """Share of pairs that lie on one side of the cut: both at it or above, or both below."""
    if not pairs:
        return None
    return sum((value >= cut) == (truth >= cut) for value, truth in pairs) / len(pairs)


def kappa(pairs: Pairs, *, cut: float = 0.5) -> float | None:
    """Cohen's kappa (1960) of the two sides of the cut, in [-1, 1]: 0 for what chance would reach.

    None where either side is constant: then chance agrees as well as anybody could.
    """
    yes_value = sum(value >= cut for value, _ in pairs)
    yes_truth = sum(truth >= cut for _, truth in pairs)
    count = len(pairs)
    if yes_value in (0, count) or yes_truth in (0, count):
        return None
    observed = sum((value >= cut) == (truth >= cut) for value, truth in pairs) / count
    chance = (yes_value * yes_truth + (count - yes_value) * (count - yes_truth)) / count**2
    return (observed - chance) / (1 - chance)


def spearman(pairs: Pairs) -> float | None:
    """Spearman's rank correlation, in [-1, 1]; ties have their mean rank."""
    values, truths = [value for value, _ in pairs], [truth for _, truth in pairs]
    if len(set(values)) < 2 or len(set(truths)) < 2:
        return None
    return float(bench("scipy.stats").spearmanr(values, truths).statistic)


def pearson(pairs: Pairs) -> float | None:
    """Pearson's linear correlation (PLCC), in [-1, 1]."""
    values, truths = [value for value, _ in pairs], [truth for _, truth in pairs]
    if len(set(values)) < 2 or len(set(truths)) < 2:
        return None
    return float(bench("scipy.stats").pearsonr(values, truths).statistic)


def mae(pairs: Pairs) -> float | None:
    """Mean absolute error, in the unit of the values."""
    return sum(abs(value - truth) for value, truth in pairs) / len(pairs) if pairs else None


def f1(pairs: Pairs, *, cut: float = 0.5) -> float | None:
    """Harmonic mean of precision and recall of what lies at the cut or above, in [0, 1]; None where nothing does."""
    both = sum(value >= cut and truth >= cut for value, truth in pairs)
    either = sum(value >= cut for value, _ in pairs) + sum(truth >= cut for _, truth in pairs)
    return 2 * both / either if either else None


def auc(pairs: Pairs, *, cut: float = 0.5) -> float | None:
    """Chance that a pair with a truth above the cut has the higher value than one with a truth at it or below.

    In [0, 1]; ties count half. None where one of the two kinds is missing. A yes is 1.0 and a no 0.0.
    """
    yes = [value for value, truth in pairs if truth > cut]
    no = [value for value, truth in pairs if truth <= cut]
    if not yes or not no:
        return None
    return float(bench("scipy.stats").mannwhitneyu(yes, no, method="asymptotic").statistic) / (len(yes) * len(no))
