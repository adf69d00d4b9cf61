"""What SceneJudge says when it is asked one plain question about an edit."""

from __future__ import annotations

from collections.abc import Mapping

from ....reward import Judge, Reply
from ....reward.forms import Levels
from .pairs import Pairs
from .replies import chosen, grade, level, spread, written, yes_no
from .sights import Looker
from .wishes import Unknown


class BaselineJudge:
    """Answers the topics of `baselines/`: whether, and how far, the instruction was followed; how good a picture is.

    To EditScore's questions, two grades each: how far it was followed and how much else is as it was; how good the
    picture is, twice, for its seams cannot be told from its noise.
    """

    topics = ("yes_no", "quality", "level", "edit_score", "edit_score_quality")

    def __init__(self, looker: Looker, pairs: Pairs) -> None:
        self._looker, self._pairs = looker, pairs

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `Unknown`."""
        if topic == "quality":
            return grade(self._looker.see(query.images[-1]).looks, query)
        if topic == "edit_score_quality":
            looks = self._looker.see(query.images[-1]).looks
            return _grades(query, slots, "looks are all that is graded", natural=looks, clean=looks)
        if len(query.images) < 2:
            raise Unknown(f"baselines/{topic} by {len(query.images)} pictures: expected 2")
        pair = self._pairs.of(query.images[:-1], query.images[-1], slots.get("instruction", ""))
        if topic == "yes_no":
            return yes_no(pair.done)
        if topic == "edit_score":
            said = "; ".join(change.what for change in pair.changes) or "all else is as it was"
            return _grades(query, slots, said, following=pair.degree, consistency=pair.kept)
        assert isinstance(query.form, Levels)
        return level(pair.degree, query.form.options)


def _grades(query: Judge, slots: Mapping[str, str], reasoning: str, **shares: float) -> Reply:
    highest = int(slots["highest"])
    score = [chosen(spread(share, highest), query, name) for name, share in shares.items()]
    return written({"reasoning": reasoning, "score": score})
