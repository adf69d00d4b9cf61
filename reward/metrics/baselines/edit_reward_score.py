"""EditReward's rating of an edit: a model trained on human preferences between two edits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...card import Card
from ...engine.program import Program, ask
from ...queries.kinds import Measurement, Rate
from ...sample import EditSample
from ...score import Evidence, Score

QUALITIES = ("instruction following", "visual quality")
"""The model's two heads, whose mean is the rating."""


@dataclass(frozen=True)
class EditRewardScore:
    """The mean of the two heads' means, as the authors report it; `parts` has each head's own.

    Evidence: the model's standard deviations, in the same unit. The two heads were trained through their mean only, so
    a part alone says little. Not applicable to edits with several sources: the model compares two images.
    """

    card: ClassVar[Card] = Card(
        "edit-reward",
        1,
        "people prefer this edit for its instruction",
        range=(None, None),
        unit="rating",
        kinds={"preference.edit": ("rate",)},
        requires=("sources", "edited", "instruction"),
        source="EditReward (ICLR 2026, arXiv 2509.26346), sections 3 and 4; TIGER-AI-Lab/EditReward",
        failure_modes=(
            "It looks at about 450 x 450 pixels: what is smaller is free. Its parts count alike, so that a beautiful "
            "image makes up for an instruction that was half followed."
        ),
        aspect="overall",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        if len(sample.sources) != 1:
            return Score.not_applicable(
                f"EditReward compares an edit with one source, there are {len(sample.sources)}"
            ).with_signature(self.card.signature)
        overall, *heads = yield from ask(
            self._rate_query(sample, "preference"),
            self._rate_query(sample, QUALITIES[0]),
            self._rate_query(sample, QUALITIES[1]),
            role=self.card.roles[0],
        )
        parts = {name: _score(name, sample, rating) for name, rating in zip(QUALITIES, heads, strict=True)}
        return replace(_score("preference", sample, overall), parts=parts, metric=self.card.signature)

    @staticmethod
    def _rate_query(sample: EditSample, quality: str) -> Rate:
        return Rate(sample.edited, sample.instruction, quality, sample.sources)


def _score(name: str, sample: EditSample, rating: Measurement) -> Score:
    assert rating.value is not None  # `Rate.check` lets no other answer through
    numbers = {"mean": rating.value} | ({} if rating.sigma is None else {"standard deviation": rating.sigma})
    return Score.of(rating.value, evidence=[Evidence(f"rating of {name}", sample.edited.digest, numbers=numbers)])
