"""Audit of a reward: how would it be hacked? Metamorphic tests on edits of the user's own.

from editcritic.reward.audit import audit

report = audit("any-edit", samples, experts="cpu")
report.overall.value, report.best_hack, [finding.rate for finding in report.findings]
"""

from .audited_reward import AuditedReward, reward_of_pictures
from .families import all_families, select_families
from .family import Family, Severity, Variant
from .findings import AuditReport, FamilyFinding
from .run_audit import AuditRun, audit
from .trials import Trial, TrialMaker

__all__ = [
    "AuditReport",
    "AuditRun",
    "AuditedReward",
    "Family",
    "FamilyFinding",
    "Severity",
    "Trial",
    "TrialMaker",
    "Variant",
    "all_families",
    "audit",
    "reward_of_pictures",
    "select_families",
]
