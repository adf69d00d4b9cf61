"""SceneJudge on ImgEdit-Bench's questions: lines of grades from 1 to 5."""

from __future__ import annotations

from collections.abc import Mapping

from ....reward.metrics.imgedit.metrics import CRITERIA, DAMAGED_MAX, EDIT_TYPES, HIGHEST, LOWEST, NON_EDITED, SCORE
from ....reward.queries import Judge, Reply
from .edit_comparison import EditComparisonCache
from .instruction_parser import UnanswerableError
from .perception import PerceptionCache


class ImgEditJudge:
    """Answers the topics of `imgedit/`.

    The first grade is the credit of the requests, the second the cleanliness of the image, the third the preservation
    of all else, neither above the first. A hard instruction has the credit as its grade, at most 3 if anything changed
    that was not asked for. Abstains on an extracted object alone: it knows no object without its scene.
    """

    topics = (*EDIT_TYPES, "uge")

    def __init__(self, perception: PerceptionCache, comparisons: EditComparisonCache) -> None:
        self._perception, self._comparisons = perception, comparisons

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""
        if len(query.images) != 2:
            raise UnanswerableError(f"imgedit/{topic} by {len(query.images)} pictures: expected 2")
        source, edited = query.images
        comparison = self._comparisons.get([source], edited, slots.get("instruction", ""))
        first = _grade(comparison.credit)
        reasons = "; ".join(change.description for change in comparison.unrequested_changes) or "all else is as it was"
        lines = [f"Brief reasoning: {reasons.replace(':', ',')}"]
        if topic == "uge":
            damaged = bool(comparison.unrequested_changes)
            lines += [
                f"{NON_EDITED}: {'changed' if damaged else 'unchanged'}",
                f"{SCORE}: {min(first, DAMAGED_MAX) if damaged else first}",
            ]
        else:
            shares = (self._perception.perceive(edited).visual_quality, comparison.preservation)
            grades = (first, *(min(first, _grade(share)) for share in shares))
            kind = next(kind for kind in EDIT_TYPES if kind == topic)
            lines += [f"{name}: {grade}" for name, grade in zip(CRITERIA[kind], grades, strict=True)]
        return Reply("\n".join(lines))


def _grade(share: float) -> int:
    return LOWEST + round(min(max(share, 0.0), 1.0) * (HIGHEST - LOWEST))
