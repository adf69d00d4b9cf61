"""Agreement of scores with a truth, on the pairs that have both.

Each number is None where it is undefined: without pairs, or where one side is constant. `human_eval` has the same
numbers with intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.human_eval import weighted_statistics
from editcritic.benchmarks.human_eval.weighted_statistics import PairedObservations

Value = float | bool | None
Pairs = Sequence[tuple[float, float]]
"""(value, truth) of each sample that has both."""


def complete_pairs(values: Iterable[Value], truths: Iterable[Value]) -> list[tuple[float, float]]:
    """The pairs that have both. Raises ValueError where the numbers of values and truths differ."""
    both = zip(values, truths, strict=True)
    return [(float(value), float(truth)) for value, truth in both if value is not None and truth is not None]


def accuracy(pairs: Pairs) -> float | None:
    """Share of pairs on one side of 0.5: both at it or above, or both below."""
    if not pairs:
        return None
    return sum((value >= 0.5) == (truth >= 0.5) for value, truth in pairs) / len(pairs)


def kappa(pairs: Pairs) -> float | None:
    """Cohen's kappa (1960) of the two sides of 0.5, in [-1, 1]: 0 for chance agreement.

    None where either side is constant.
    """
    decisions = [(0, float(value >= 0.5), float(truth >= 0.5)) for value, truth in pairs]
    return weighted_statistics.kappa(PairedObservations.of(decisions, 1)).value


def spearman(pairs: Pairs) -> float | None:
    """Spearman's rank correlation, in [-1, 1]; ties have their mean rank."""
    values, truths = [value for value, _ in pairs], [truth for _, truth in pairs]
    if len(set(values)) < 2 or len(set(truths)) < 2:
        return None
    return float(bench_library("scipy.stats").spearmanr(values, truths).statistic)


def auc(pairs: Pairs) -> float | None:
    """Probability that a pair with a truth above 0.5 has the higher value than one with a truth at it or
    below.

    In [0, 1]; ties count half. None where one of the two classes is missing. A yes is 1.0 and a no 0.0.
    """
    yes = [value for value, truth in pairs if truth > 0.5]
    no = [value for value, truth in pairs if truth <= 0.5]
    if not yes or not no:
        return None
    higher = float(bench_library("scipy.stats").mannwhitneyu(yes, no, method="asymptotic").statistic)
    return higher / (len(yes) * len(no))
