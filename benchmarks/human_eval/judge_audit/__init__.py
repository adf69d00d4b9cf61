"""How good is this judge: an audit of its faults, each with its size, its cost and what to do about it.

from editcritic.benchmarks.human_eval.judge_audit import audit

print(audit(judge, samples).markdown())
"""

from .runner import audit

__all__ = ["audit"]
