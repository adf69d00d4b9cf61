"""Truth: what an edit really did, from scene graphs and recipes. No expert is asked, and no pixel is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Truth:
    """followed: the instruction was carried out. kept: the share, in [0, 1], of what it leaves alone that is as it was.

    `objects` and `background` are the halves of `kept`; None where there is nothing to keep.
    """

    followed: bool
    objects: float | None
    background: float | None

    @property
    def kept(self) -> float | None:
        halves = [half for half in (self.objects, self.background) if half is not None]
        return sum(halves) / len(halves) if halves else None

    @property
    def overall(self) -> float:
        """Like EdiVal-O: sqrt(followed x kept); `kept` counts as 1 where there is nothing to keep."""
        return math.sqrt(float(self.followed) * (1.0 if self.kept is None else self.kept))
