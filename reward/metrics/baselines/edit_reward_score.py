"""EditReward's rating of an edit: a model trained on which of two edits people preferred."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..asking import Asks, ask
from ..card import Card
from ..query import Measured, Rate
from ..sample import EditSample
from ..score import Evidence, Score

QUALITIES = ("instruction following", "visual quality")
"""What the rating is the mean of: the model's two heads."""


@dataclass(frozen=True)
class EditRewardScore:
    """The mean of the two heads' means, as the authors report it; `parts` has each head's own.

    Evidence: the standard deviations that the model states, in the same unit. The two heads were trained through their
    mean alone, so that a part says little by itself. Not applicable where an edit has several sources: the model
    compares two pictures.
    """

    card: ClassVar[Card] = Card(
        "edit-reward",
        1,
        "people prefer this edit for its instruction",
        range=(None, None),
        unit="rating",
        roles=("preference.edit",),
        requires=("sources", "edited", "instruction"),
        source="EditReward (ICLR 2026, arXiv 2509.26346), sections 3 and 4; TIGER-AI-Lab/EditReward",
        gaming=(
            "It looks at about 450 x 450 pixels: what is smaller is free. Its parts count alike, so that a beautiful "
            "picture makes up for an instruction that was half followed."
        ),
        about="overall",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if len(sample.sources) != 1:
            return Score.not_applicable(
                f"EditReward compares an edit with one source, there are {len(sample.sources)}"
            ).by(self.card.signature)
        overall, *heads = yield from ask(
            self._asked(sample, "preference"),
            self._asked(sample, QUALITIES[0]),
            self._asked(sample, QUALITIES[1]),
            role=self.card.roles[0],
        )
        parts = {name: _score(name, sample, rating) for name, rating in zip(QUALITIES, heads, strict=True)}
        return replace(_score("preference", sample, overall), parts=parts, metric=self.card.signature)

    @staticmethod
    def _asked(sample: EditSample, quality: str) -> Rate:
        return Rate(sample.edited, sample.instruction, quality, sample.sources)


def _score(name: str, sample: EditSample, rating: Measured) -> Score:
    assert rating.value is not None  # `Rate.check` lets no other answer through
    numbers = {"mean": rating.value} | ({} if rating.sigma is None else {"standard deviation": rating.sigma})
    return Score.of(rating.value, evidence=[Evidence(f"rating of {name}", sample.edited.digest, numbers=numbers)])
