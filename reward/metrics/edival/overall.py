"""EdiVal-O of one edit, and instruction following over several turns. Paper, section 2.4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program
from ...sample import EditSample
from ...score import Score
from ..compose import GeometricMean, Metric, Minimum, WeightedMean
from ..operations import aggregate_credits
from .consistency import ContentConsistency
from .following import InstructionFollowing

TurnReduction = Literal["minimum", "mean"]

_FOLLOWING = InstructionFollowing()
_CONSISTENCY = ContentConsistency()


@dataclass(frozen=True)
class EditOverall:
    """sqrt(IF x CC) of one edit: instruction following and content consistency.

    following: instruction following of this turn; with `MultiTurnFollowing`, of all turns up to this one, as in the
    paper's tables. consistency: with the image before the first turn. Both values must lie in [0, 1]. If one of them
    has no value, neither has the whole, unless the other is 0. `credits` are those of following.
    """

    following: Metric = _FOLLOWING
    consistency: Metric = _CONSISTENCY
    card: ClassVar[Card] = Card(
        "edival-o",
        3,
        "the instruction was followed and everything else is as it was",
        kinds={
            "detector": ("detect",),
            "judge": ("judge",),
            "reader": ("read_text",),
            "reader.boxes": ("read_text",),
            "features": ("embed",),
            "pixels": ("measure",),
        },
        source="EdiVal-Agent, section 2.4",
        failure_modes="Visual quality is not in it: a faithful edit of poor quality has a high value.",
        aspect="overall",
        parts=("following", "consistency"),
    )

    def __post_init__(self) -> None:
        _ = self._mean  # refuses parts outside of [0, 1] before scoring

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from self._mean(sample)
        return replace(score, credits=score.parts["following"].credits).with_signature(self.card.signature)

    @cached_property
    def _mean(self) -> GeometricMean:
        parts = {"following": self.following, "consistency": self.consistency}
        return GeometricMean(parts, on_not_applicable="whole", name=self.card.name)


@dataclass(frozen=True)
class MultiTurnFollowing:
    """The minimum over the turns up to this one, each compared with the turn before; or their mean.

    following: the metric of a turn. With a binary metric the minimum is the AND of the turns; with a `dense` one, edits
    with the same verdict differ. reduction: `minimum` or `mean`. `credits` has the turns in order. If one turn has no
    value, neither has the whole, unless another one makes the minimum 0.
    """

    following: Metric = _FOLLOWING
    reduction: TurnReduction = "minimum"
    card: ClassVar[Card] = Card(
        "edival-chain",
        3,
        "the instructions of all turns up to this one were followed",
        kinds={"detector": ("detect",), "judge": ("judge",), "reader": ("read_text",)},
        source="EdiVal-Agent, section 2.4",
        failure_modes="Later turns may undo what earlier ones did: each is judged when it is made.",
        aspect="following",
    )

    def __post_init__(self) -> None:
        if self.reduction not in get_args(TurnReduction):
            allowed = " or ".join(get_args(TurnReduction))
            raise ValueError(f"edival-chain: reduction must be {allowed}, got {self.reduction!r}")

    @cached_property
    def signature(self) -> str:
        """As in `edival-chain@3`, with `reduction` if it is not the default."""
        return self.card.signature_with(options=() if self.reduction == "minimum" else (f"reduction={self.reduction}",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        turns = {
            f"turn {number}": replace(turn, history=sample.turns[: number - 1])
            for number, turn in enumerate(sample.turns, start=1)
        }
        reduction = Minimum if self.reduction == "minimum" else WeightedMean
        score = yield from aggregate_credits(reduction, self.card.name, self.following, turns)
        return score.with_signature(self.signature)
