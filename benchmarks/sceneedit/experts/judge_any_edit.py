"""SceneJudge on the questions of `any-edit`: yes or no about an image, a pair or a crop, and lists of differences."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ....reward.queries import Judge, Reply
from .edit_comparison import EditComparisonCache
from .instruction_parser import UnanswerableError
from .perception import PerceptionCache
from .question_language import yes_probability
from .reply_builders import json_reply, yes_no_reply

_DONE = 0.5
"""Credit from which on an operation shows in the edited image."""
_LINE = re.compile(r"(\d+)\. (.+)")
_REPORTED_SEVERITY = 0.3
"""Severity from which on an unrequested change is listed."""


class AnyEditJudge:
    """Answers the topics of `any-edit/`. Questions are those of `question_language`, or quote an instruction in double
    quotes: whether the pair shows that it was carried out.
    """

    topics = ("edited", "crop", "pair", "differences")

    def __init__(self, perception: PerceptionCache, comparisons: EditComparisonCache) -> None:
        self._perception, self._comparisons = perception, comparisons

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""
        if topic == "differences":
            return self._differences(query, slots)
        count = 2 if topic == "pair" else 1
        if len(query.images) != count:
            raise UnanswerableError(f"any-edit/{topic} by {len(query.images)} pictures: expected {count}")
        question = slots.get("question", "")
        instruction = re.search(r'"(.+)"', question) if topic == "pair" else None
        if instruction is not None:
            comparison = self._comparisons.get(query.images[:1], query.images[1], instruction[1])
            return yes_no_reply(comparison.success_probability)
        return yes_no_reply(yes_probability(question, self._comparisons.get(query.images[:1], query.images[-1], "")))

    def _differences(self, query: Judge, slots: Mapping[str, str]) -> Reply:
        operations = [match[2] for line in slots.get("operations", "").splitlines() if (match := _LINE.match(line))]
        comparison = self._comparisons.get(
            query.images[:-1], query.images[-1], "all of them", operations=json.dumps(operations)
        )
        entries = [
            {"what": words, "operation": number}
            for number, (words, outcome) in enumerate(zip(operations, comparison.outcomes, strict=True), start=1)
            if outcome.credit >= _DONE
        ]
        entries += [
            {"what": change.description, "operation": 0}
            for change in comparison.unrequested_changes
            if change.severity >= _REPORTED_SEVERITY
        ]
        return json_reply({"differences": entries})
