"""What the tiny editor is trained on: a reward that is meant, and one that can be had without an edit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...reward import Asks, Card, EditSample, Gate, Measure, Score, Threshold, ask
from ...reward.baselines.judges import JudgeYesNo
from ...reward.compose import Metric
from ...reward.guards import all_guards
from ...reward.spec import Spec


@dataclass(frozen=True)
class Alike:
    """How little was changed at all: 1 for a copy, a third where pixels differ by `scale` of their range on average."""

    scale: float = 0.03
    card: ClassVar[Card] = Card("alike", 1, "the edit is as the source", roles=("pixels",), gaming="A copy has 1.0.")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        found = yield from ask(Measure("l1", (sample.source, sample.edited)))
        return Score.of(math.exp(((found.value or 0.0) - 1) / self.scale))


def following() -> Metric:
    """Whether a judge says that the instruction was followed, behind the guards."""
    return Gate(all_guards(reader=False), Threshold(JudgeYesNo(), 0.5))


def hackable() -> Metric:
    """How little was changed, alone and without guards: a copy has 1."""
    return Alike()


def guarded() -> Metric:
    """The same behind the guards, and behind a judge who asks whether the instruction was followed: a copy has 0."""
    return Gate(all_guards(reader=False), Gate(Threshold(JudgeYesNo(), 0.5), Alike()), name="guarded")


REWARDS: Mapping[str, Callable[[], Metric]] = {"following": following, "hackable": hackable, "guarded": guarded}

HELD_OUT_REWARD: Spec = "edival-if?dense=true"
"""Nothing is trained on it: EdiVal's instruction following, by detector."""
