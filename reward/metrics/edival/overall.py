"""EdiVal-O of one edit, and instruction following over several turns. Paper, section 2.4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from ..asking import Asks
from ..card import Card
from ..compose import GeometricMean, Metric, Minimum, WeightedMean
from ..compound import credited
from ..sample import EditSample
from ..score import Score
from .consistency import ContentConsistency
from .following import InstructionFollowing

Combine = Literal["minimum", "mean"]

_FOLLOWING = InstructionFollowing()
_CONSISTENCY = ContentConsistency()


@dataclass(frozen=True)
class EditOverall:
    """sqrt(IF x CC) of one edit: what was asked was done, and nothing else.

    following: instruction following of this turn; give a `Chain` to have all turns up to this one followed, as the
    paper's tables do. consistency: with the picture before the first turn. Both values must lie in [0, 1]. Where one of
    them has no value the whole has none: nothing is left out. `credits` are those of following.
    """

    following: Metric = _FOLLOWING
    consistency: Metric = _CONSISTENCY
    card: ClassVar[Card] = Card(
        "edival-o",
        1,
        "the instruction was followed and everything else is as it was",
        roles=("detector", "judge", "reader", "features", "pixels"),
        source="EdiVal-Agent, section 2.4",
        gaming="Visual quality is not in it: a faithful edit of poor quality has a high value.",
        about="overall",
    )

    def __post_init__(self) -> None:
        self._mean()  # refuses parts outside of [0, 1] before anything is asked

    def __call__(self, sample: EditSample) -> Asks[Score]:
        score = yield from self._mean()(sample)
        return replace(score, credits=score.parts["following"].credits).by(self.card.signature)

    def _mean(self) -> GeometricMean:
        parts = {"following": self.following, "consistency": self.consistency}
        return GeometricMean(parts, missing="whole", name=self.card.name)


@dataclass(frozen=True)
class Chain:
    """The lowest score of the turns up to this one, each judged against the turn before; or their mean.

    following: the metric of a turn. Where it says 0 or 1 the chain is the AND of the turns; a `dense` one keeps edits
    with the same verdict apart. combine: `minimum`, or `mean` for a credit a turn. `credits` holds the turns in order.
    Where one has no value the chain has none.
    """

    following: Metric = _FOLLOWING
    combine: Combine = "minimum"
    card: ClassVar[Card] = Card(
        "edival-chain",
        1,
        "the instructions of all turns up to this one were followed",
        roles=("detector", "judge", "reader"),
        source="EdiVal-Agent, section 2.4",
        gaming="Later turns may undo what earlier ones did: each is judged when it is made.",
        about="following",
    )

    def __post_init__(self) -> None:
        if self.combine not in get_args(Combine):
            raise ValueError(f"edival-chain combines by {' or '.join(get_args(Combine))}, got {self.combine!r}")

    @property
    def signature(self) -> str:
        """As in `edival-chain@1`, with `combine` where it is not the default."""
        return self.card.signed(options=() if self.combine == "minimum" else (f"combine={self.combine}",))

    def __call__(self, sample: EditSample) -> Asks[Score]:
        turns = {
            f"turn {number}": replace(turn, earlier=sample.turns[: number - 1])
            for number, turn in enumerate(sample.turns, start=1)
        }
        how = Minimum if self.combine == "minimum" else WeightedMean
        score = yield from credited(how, self.card.name, self.following, turns)
        return score.by(self.signature)
