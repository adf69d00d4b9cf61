"""How many of the edits made by hand have a score, and of these how many a right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Reward, Score

from .hand_edits import HAND_EDITS, HandEdit

THRESHOLD = 0.5
"""An honest edit is to have at least this, a wrong one less."""


@dataclass(frozen=True)
class HandScore:
    """An edit with its score. boxed: whether it was scored with its boxes."""

    edit: HandEdit
    boxed: bool
    score: Score

    @property
    def is_right(self) -> bool | None:
        """None without a value."""
        return None if self.score.value is None else (self.score.value >= THRESHOLD) == self.edit.is_honest

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.edit.id,
            "instruction": self.edit.instruction,
            "fault": self.edit.fault,
            "boxed": self.boxed,
            "value": self.score.value,
            "right": self.is_right,
            "status": self.score.status,
            "reason": self.score.reason,
        }


def hand_scores(reward: Reward) -> list[HandScore]:
    """Each edit without boxes, then with them."""
    rows = []
    for boxed in (False, True):
        for edit in HAND_EDITS:
            (score,) = reward([edit.sample(boxed=boxed)])
            rows.append(HandScore(edit, boxed, score))
            echo(edit.id)
    return rows


def hand_figures(rows: Sequence[HandScore]) -> dict[str, dict[str, int]]:
    """Counts without and with boxes: edits, scored, right, honest ones that are scored, right honest ones."""
    figures = {}
    for title, boxed in (("without boxes", False), ("with boxes", True)):
        some = [row for row in rows if row.boxed == boxed]
        scored = [row for row in some if row.is_right is not None]
        honest = [row for row in scored if row.edit.is_honest]
        figures[title] = {
            "edits": len(some),
            "scored": len(scored),
            "right": sum(row.is_right is True for row in scored),
            "honest scored": len(honest),
            "honest right": sum(row.is_right is True for row in honest),
        }
    return figures
