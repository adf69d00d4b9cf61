"""Rewards for training the tiny editor: one for following instructions, and one that can be hacked without an edit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from editcritic.reward import Card, EditSample, Program, Score, ask
from editcritic.reward.metrics import Gate, Threshold
from editcritic.reward.metrics.any_edit.overall import any_edit
from editcritic.reward.metrics.baselines.single_question import JudgeYesNo
from editcritic.reward.metrics.compose import Metric
from editcritic.reward.metrics.guards import all_guards
from editcritic.reward.queries import Measure
from editcritic.reward.queries.specs import Spec


@dataclass(frozen=True)
class CopySimilarity:
    """Similarity to the source: 1 for a copy, 1/e where pixels differ by `scale` of their range on average."""

    scale: float = 0.03
    card: ClassVar[Card] = Card(
        "alike", 1, "the edit is as the source", kinds={"pixels": ("measure",)}, failure_modes="A copy has 1.0."
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        similarity = yield from ask(Measure("l1", (sample.source, sample.edited)))
        return Score.of(math.exp(((similarity.value or 0.0) - 1) / self.scale))


def following() -> Metric:
    """Whether a judge finds the instruction followed, behind the guards."""
    return Gate(all_guards(prompt_injection_guard=False), Threshold(JudgeYesNo(), 0.5))


def hackable() -> Metric:
    """Similarity to the source, alone and without guards: a copy has 1."""
    return CopySimilarity()


def guarded() -> Metric:
    """The same behind the guards, and behind a judge of whether the instruction was followed: a copy has 0."""
    return Gate(
        all_guards(prompt_injection_guard=False), Gate(Threshold(JudgeYesNo(), 0.5), CopySimilarity()), name="guarded"
    )


def following_and_preserved() -> Metric:
    """The reward `any-edit`. Letters of 32 px cannot be read: its guard against text is off."""
    return any_edit(text_guard=False)


def two_parts() -> Metric:
    """The same without its third part, `region`: what was redrawn may be anything."""
    return any_edit(text_guard=False, region=False)


REWARDS: Mapping[str, Callable[[], Metric]] = {
    "following": following,
    "any-edit": following_and_preserved,
    "any-edit-open": following_and_preserved,
    "any-edit-open-two-parts": two_parts,
    "hackable": hackable,
    "guarded": guarded,
}
NOTHING_GIVEN = ("any-edit-open", "any-edit-open-two-parts")
"""Rewards of samples that have a source and a sentence alone; `RulePlanner` reads it."""
PROBED = ("hackable", "guarded")
"""Rewards whose training is compared with a held-out reward on fixed prompts, too."""
MONITORED = (*NOTHING_GIVEN, *PROBED)
"""Rewards that are compared with a held-out one during training."""

HELD_OUT_REWARD: Spec = "edival-if?dense=true"
"""Not used for training: EdiVal's instruction following, by detector."""
