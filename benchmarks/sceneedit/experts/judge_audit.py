"""SceneJudge on the questions of an audit: a negation, the pictures in the other order, a grade, and two edits."""

from __future__ import annotations

from collections.abc import Mapping

from ....reward import Image
from ....reward.queries import Judge, Levels, Reply
from .edit_comparison import EditComparison, EditComparisonCache
from .instruction_parser import UnanswerableError
from .reply_builders import grade_reply, yes_no_reply

_SAME = 0.02
"""Difference in value up to which neither of two edits is better."""


class AuditJudge:
    """Answers the topics of `audit/`, on a source and its edit."""

    topics = ("negated", "swapped", "grade")

    def __init__(self, comparisons: EditComparisonCache) -> None:
        self._comparisons = comparisons

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""
        if len(query.images) != 2:
            raise UnanswerableError(f"audit/{topic} by {len(query.images)} pictures: expected 2")
        source, edited = query.images[::-1] if topic == "swapped" else query.images
        comparison = self._comparisons.get([source], edited, slots.get("instruction", ""))
        match topic:
            case "negated":
                return yes_no_reply(1 - comparison.success_probability)
            case "swapped":
                return yes_no_reply(comparison.success_probability)
            case _:
                return grade_reply(comparison.credit, query)


class PairwiseSceneJudge:
    """Says which of two edits is better: by what was carried out, times what was preserved. Its topic has no system."""

    topics = ("",)

    def __init__(self, comparisons: EditComparisonCache) -> None:
        self._comparisons = comparisons

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""
        if len(query.images) < 3 or not isinstance(query.form, Levels):
            raise UnanswerableError(f"which of two edits is better by {len(query.images)} pictures: expected 3 or more")
        *sources, first, second = query.images
        difference = self._value(sources, first, slots) - self._value(sources, second, slots)
        return Reply("same" if abs(difference) <= _SAME else "first" if difference > 0 else "second")

    def _value(self, sources: list[Image], edited: Image, slots: Mapping[str, str]) -> float:
        comparison: EditComparison = self._comparisons.get(sources, edited, slots.get("instruction", ""))
        return comparison.credit * comparison.preservation
