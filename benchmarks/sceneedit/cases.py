"""Cases: edits with their truth, as the validity report and later parts use them."""

from __future__ import annotations

from dataclasses import dataclass

from ...reward import EditSample
from ...reward.sample import TaskType
from .truth import Truth


@dataclass(frozen=True, slots=True)
class Case:
    """An edit whose truth is known.

    mode: the way in which it is flawed; empty for an honest one. severity: how far, in (0, 1]; 0 for an honest one.
    hack: whether the mode tries to please a scorer instead of doing the work.
    """

    sample: EditSample
    truth: Truth
    task: TaskType
    mode: str = ""
    severity: float = 0.0
    hack: bool = False
