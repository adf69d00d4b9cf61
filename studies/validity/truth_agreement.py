"""Agreement of scores with a truth, on the pairs that have both.

Each number is None where it is undefined: without pairs, or where one side is constant. `human_eval` has the same
numbers with intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.human_eval import weighted_statistics
from editcritic.benchmarks.human_eval.weighted_statistics import PairedObservations
from editcritic.reward import Score
from editcritic.reward.score import Status

Value = float | bool | None
Pairs = Sequence[tuple[float, float]]
"""(value, truth) of each sample that has both."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of scores by status."""

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
    """The coverage of scores."""
    return Coverage.of(score.status for score in scores)


def complete_pairs(values: Iterable[Value], truths: Iterable[Value]) -> list[tuple[float, float]]:
    """The pairs that have both. Raises ValueError where the numbers of values and truths differ."""
    both = zip(values, truths, strict=True)
    return [(float(value), float(truth)) for value, truth in both if value is not None and truth is not None]


def accuracy(pairs: Pairs, *, threshold: float = 0.5) -> float | None:
    """Share of pairs on one side of the threshold: both at it or above, or both below."""
    if not pairs:
        return None
    return sum((value >= threshold) == (truth >= threshold) for value, truth in pairs) / len(pairs)


def kappa(pairs: Pairs, *, threshold: float = 0.5) -> float | None:
    """Cohen's kappa (1960) of the two sides of the threshold, in [-1, 1]: 0 for chance agreement.

    None where either side is constant.
    """
    decisions = [(0, float(value >= threshold), float(truth >= threshold)) for value, truth in pairs]
    return weighted_statistics.kappa(PairedObservations.of(decisions, 1)).value


def spearman(pairs: Pairs) -> float | None:
    """Spearman's rank correlation, in [-1, 1]; ties have their mean rank."""
    values, truths = [value for value, _ in pairs], [truth for _, truth in pairs]
    if len(set(values)) < 2 or len(set(truths)) < 2:
        return None
    return float(bench_library("scipy.stats").spearmanr(values, truths).statistic)


def auc(pairs: Pairs, *, threshold: float = 0.5) -> float | None:
    """Probability that a pair with a truth above the threshold has the higher value than one with a truth at it or
    below.

    In [0, 1]; ties count half. None where one of the two classes is missing. A yes is 1.0 and a no 0.0.
    """
    yes = [value for value, truth in pairs if truth > threshold]
    no = [value for value, truth in pairs if truth <= threshold]
    if not yes or not no:
        return None
    return float(bench_library("scipy.stats").mannwhitneyu(yes, no, method="asymptotic").statistic) / (
        len(yes) * len(no)
    )
