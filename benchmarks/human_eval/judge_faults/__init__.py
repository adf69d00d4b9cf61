"""How good is this judge: a measurement of its faults, each with its size, its cost and what to do about it.

from editcritic.benchmarks.human_eval.judge_faults import measure_faults

print(measure_faults(judge, samples).markdown())
"""

from .runner import measure_faults

__all__ = ["measure_faults"]
