"""What SceneJudge says when it is asked one plain question about an edit."""

from __future__ import annotations

from collections.abc import Mapping

from ....reward import Judge, Reply
from ....reward.forms import Levels
from .pairs import Pairs
from .replies import grade, level, yes_no
from .sights import Looker
from .wishes import Unknown


class BaselineJudge:
    """Answers the topics of `baselines/`: whether, and how far, the instruction was followed; how good a picture is."""

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
        return level(pair.degree, query.form.options)
