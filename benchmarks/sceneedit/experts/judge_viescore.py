"""SceneJudge on VIEScore's questions: two grades from 0 to 10."""

from __future__ import annotations

from collections.abc import Mapping

from ....reward.metrics.viescore.metrics import MAX_GRADE
from ....reward.queries import Judge, Reply
from .edit_comparison import EditComparisonCache
from .instruction_parser import UnanswerableError
from .perception import PerceptionCache
from .reply_builders import json_reply


class VieScoreJudge:
    """Answers the topics of `viescore/`.

    Success is the credit of the requests, over-editing their preservation; an unchanged copy has 0 and 10. Naturalness
    and artifacts are both the cleanliness of the image, whose seams cannot be separated from its noise.
    """

    topics = ("semantic_consistency", "perceptual_quality")

    def __init__(self, perception: PerceptionCache, comparisons: EditComparisonCache) -> None:
        self._perception, self._comparisons = perception, comparisons

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""
        expected = 2 if topic == "semantic_consistency" else 1
        if len(query.images) != expected:
            raise UnanswerableError(f"viescore/{topic} by {len(query.images)} pictures: expected {expected}")
        if topic == "perceptual_quality":
            quality = self._perception.perceive(query.images[-1]).visual_quality
            return _grades("looks are all that is graded", quality, quality)
        comparison = self._comparisons.get(query.images[:1], query.images[1], slots.get("instruction", ""))
        changes = [change.description for change in comparison.unrequested_changes] or ["all else is as it was"]
        return _grades("; ".join(changes), comparison.credit, comparison.preservation)


def _grades(reasoning: str, *shares: float) -> Reply:
    score = [round(min(max(share, 0.0), 1.0) * MAX_GRADE) for share in shares]
    return json_reply({"score": score, "reasoning": reasoning})
