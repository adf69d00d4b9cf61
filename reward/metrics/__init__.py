"""Metrics: programs that score one sample by queries, and their compositions."""

from .compose import Fallback, Gate, GeometricMean, Metric, Minimum, Product, Threshold, WeightedMean
from .guards import all_guards
from .pairwise import PairwiseJudge, PairwiseMetric

__all__ = [
    "Fallback",
    "Gate",
    "GeometricMean",
    "Metric",
    "Minimum",
    "PairwiseJudge",
    "PairwiseMetric",
    "Product",
    "Threshold",
    "WeightedMean",
    "all_guards",
]
