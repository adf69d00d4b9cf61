"""SceneEditPreference: rates edits by instruction following and visual quality, in place of EditReward."""

from __future__ import annotations

from collections.abc import Sequence

from ....reward import Expert
from ....reward.queries import Abstention, Measurement, Rate
from ....reward.queries.kinds import Outcome
from .edit_comparison import EditComparisonCache
from .instruction_parser import UnanswerableError
from .perception import PerceptionCache
from .preference import visual_quality


class SceneEditPreference(Expert):
    """Answers `Rate` about edits, from 0 to 4: it stands in for EditReward.

    `instruction following`: the credit of the prompt's requests. `visual quality`: `preference.visual_quality`.
    `preference`: the mean of both. Abstains on other qualities, without sources, and on prompts with unknown words.
    """

    id = "scene-edit-preference@1"
    kinds = (Rate,)

    def __init__(self) -> None:
        self._comparisons = EditComparisonCache(PerceptionCache.shared())

    def __call__(self, queries: Sequence[Rate]) -> list[Outcome]:
        return [self._rated(query) for query in queries]

    def _rated(self, query: Rate) -> Measurement | Abstention:
        if not query.sources:
            return Abstention("an edit is rated beside its sources")
        try:
            followed = self._comparisons.get(query.sources, query.image, query.prompt).credit
        except UnanswerableError as error:
            return Abstention(str(error))
        shares = {"instruction following": followed, "visual quality": visual_quality(query.image.pixels)}
        shares["preference"] = sum(shares.values()) / 2
        if query.quality not in shares:
            return Abstention(f"edits are not rated by {query.quality!r} here: there are {', '.join(shares)}")
        return Measurement(4 * shares[query.quality])
