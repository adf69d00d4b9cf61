"""SceneJudge on the single questions of the baselines."""

from __future__ import annotations

from collections.abc import Mapping

from ....reward.queries import Judge, Reply
from ....reward.queries.response_formats import Levels
from .edit_comparison import EditComparisonCache
from .instruction_parser import UnanswerableError
from .perception import PerceptionCache
from .reply_builders import binomial_probabilities, grade_reply, json_reply, level_reply, sample_index, yes_no_reply


class BaselineJudge:
    """Answers the topics of `baselines/`: whether, and how far, the instruction was followed; how good an image is.

    EditScore's questions get two grades each: instruction following and preservation; visual quality, twice, since its
    seams cannot be separated from its noise.
    """

    topics = ("yes_no", "quality", "realism", "level", "edit_score", "edit_score_quality")

    def __init__(self, perception: PerceptionCache, comparisons: EditComparisonCache) -> None:
        self._perception, self._comparisons = perception, comparisons

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""
        if topic == "quality":
            return grade_reply(self._perception.perceive(query.images[-1]).visual_quality, query)
        if topic == "realism":  # scenes have one style: what spoils it are noise and seams
            assert isinstance(query.form, Levels)
            return level_reply(self._perception.perceive(query.images[-1]).visual_quality, query.form.options)
        if topic == "edit_score_quality":
            quality = self._perception.perceive(query.images[-1]).visual_quality
            return _grades(query, slots, "looks are all that is graded", natural=quality, clean=quality)
        if len(query.images) < 2:
            raise UnanswerableError(f"baselines/{topic} by {len(query.images)} pictures: expected 2")
        comparison = self._comparisons.get(query.images[:-1], query.images[-1], slots.get("instruction", ""))
        if topic == "yes_no":
            return yes_no_reply(comparison.success_probability)
        if topic == "edit_score":
            reasoning = (
                "; ".join(change.description for change in comparison.unrequested_changes) or "all else is as it was"
            )
            return _grades(query, slots, reasoning, following=comparison.credit, consistency=comparison.preservation)
        assert isinstance(query.form, Levels)
        return level_reply(comparison.credit, query.form.options)


def _grades(query: Judge, slots: Mapping[str, str], reasoning: str, **shares: float) -> Reply:
    highest = int(slots["highest"])
    score = [sample_index(binomial_probabilities(share, highest), query, name) for name, share in shares.items()]
    return json_reply({"reasoning": reasoning, "score": score})
