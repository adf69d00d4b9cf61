"""Reasons of missing values, counted by their kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_MOST = 400  # characters of an example


def reason_pattern(reason: str) -> str:
    """A reason without the parts that differ between samples: numbers and quoted text."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+(\.\d+)?", "*", reason)


def most_common_reason(reasons: Sequence[str]) -> str:
    """An example of the most frequent kind of reason, and how often it occurs unless it is the only one."""
    patterns = [reason_pattern(reason) for reason in reasons]
    pattern, count = Counter(patterns).most_common(1)[0]
    example = reasons[patterns.index(pattern)]
    shown = example if len(example) <= _MOST else f"{example[:_MOST]}…"
    return shown + (f" ({count} of {len(reasons)})" if count < len(reasons) else "")
