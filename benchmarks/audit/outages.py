"""Whether it makes sense to go on with an audit: not where the last scores all failed for want of an expert."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ...reward import Score
from ...reward.audit import AuditRun

_OUTAGE = 16
"""The last scores that have to fail for reasons of infrastructure for the audit to end."""
_FEWEST = 4
"""Of them, where there are few edits: a single time-out is no outage."""


def latest_scores(run: AuditRun) -> list[Score]:
    """The last scores of pictures that can be read: of others, an expert may crash without an outage."""
    readable = {family.name for family in run.maker.families if family.relation != "no_number"}
    variants = (trial.variant for trial in reversed(run.trials) if trial.family in readable)
    return [*run.edits[-_OUTAGE:], *reversed([*islice(variants, _OUTAGE)])]


def outage(scores: Sequence[Score], all_known: int = _OUTAGE) -> str:
    """Why the last scores all failed, if that is a matter of infrastructure: nothing more can be found out then.

    all_known: fewer scores are enough where there are so few edits.
    """
    count = max(_FEWEST, min(_OUTAGE, all_known))
    last = scores[-count:]
    if len(last) == count and all(score.cause == "infrastructure" for score in last):
        return f"the last {len(last)} scores failed: {last[-1].reason}"
    return ""
