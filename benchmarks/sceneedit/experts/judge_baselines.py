"""What SceneJudge says when it is asked for its opinion of an edit as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from ....reward import Judge, Reply
from ....reward.forms import Levels
from .pairs import Pairs
from .replies import grade, level, yes_no
from .sights import Looker
from .wishes import Unknown


class BaselineJudge:
    """Answers the topics of `baselines/`: whether the instruction was followed, how good the picture is, and how good
    the edit is as a whole: the geometric mean of how far it was followed and of how much of the rest is as it was.
    """

    topics = ("yes_no", "quality", "level")

    def __init__(self, looker: Looker, pairs: Pairs) -> None:
        self._looker, self._pairs = looker, pairs

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `Unknown`."""
        if topic == "quality":
            return grade(self._looker.see(query.images[-1]).looks, query)
        if len(query.images) < 2:
            raise Unknown(f"baselines/{topic} by {len(query.images)} pictures: expected 2")
        pair = self._pairs.of(query.images[:-1], query.images[-1], slots.get("instruction", ""))
        if topic == "yes_no":
            return yes_no(pair.done)
        assert isinstance(query.form, Levels)
        return level(pair.overall, query.form.options)
