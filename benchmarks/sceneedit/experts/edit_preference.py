"""SceneEditPreference: how well a picture was edited, for what was asked. It stands in for a rater of edits."""

from __future__ import annotations

from collections.abc import Sequence

from ....reward import Abstention, Expert, Measured, Rate
from ....reward.query import Outcome
from .pairs import Pairs
from .preference import looks
from .sights import Looker
from .wishes import Unknown


class SceneEditPreference(Expert):
    """Answers `Rate` about edits, from 0 to 4: it stands in for EditReward.

    `instruction following`: how far the wishes of the prompt are fulfilled. `visual quality`: `looks`. `preference`:
    the mean of both. Abstains on other qualities, without sources, and on prompts whose words mean nothing here.
    """

    id = "scene-edit-preference@1"
    kinds = (Rate,)

    def __init__(self, looker: Looker) -> None:
        self._pairs = Pairs(looker)

    def __call__(self, queries: Sequence[Rate]) -> list[Outcome]:
        return [self._rated(query) for query in queries]

    def _rated(self, query: Rate) -> Measured | Abstention:
        if not query.sources:
            return Abstention("an edit is rated beside its sources")
        try:
            followed = self._pairs.of(query.sources, query.image, query.prompt).degree
        except Unknown as error:
            return Abstention(str(error))
        shares = {"instruction following": followed, "visual quality": looks(query.image.pixels)}
        shares["preference"] = sum(shares.values()) / 2
        if query.quality not in shares:
            return Abstention(f"edits are not rated by {query.quality!r} here: there are {', '.join(shares)}")
        return Measured(4 * shares[query.quality])
