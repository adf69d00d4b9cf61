"""SceneJudge on Complex-Edit's questions: integers from 0 to 10, with reasons or with probabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import fmean

from ....reward import Image
from ....reward.queries import Judge, Reply
from ....reward.queries.response_formats import FreeText, Json
from .edit_comparison import EditComparison, EditComparisonCache
from .instruction_parser import UnanswerableError
from .perception import PerceptionCache
from .reply_builders import binomial_probabilities, grade_reply, json_reply, sample_index, yes_no_reply

_HIGHEST = 10


class ComplexEditJudge:
    """Answers the topics of `complexedit/`.

    Instruction following is the credit of the requests, identity preservation their preservation, perceptual quality
    the cleanliness of the image. An unchanged copy has 0 and 10, certainly. Sampled grades are binomial around that: a
    certain grade is the same in all draws.
    """

    topics = (
        "alignment",
        "quality",
        "following_yes_no",
        "preservation_yes_no",
        "quality_yes_no",
        "following",
        "preservation",
    )

    def __init__(self, perception: PerceptionCache, comparisons: EditComparisonCache) -> None:
        self._perception, self._comparisons = perception, comparisons

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""
        if isinstance(query.form, FreeText):
            return Reply("I look at the pictures and then say it.")  # the reasons before a yes or no
        if topic.startswith("quality"):
            (edited,) = _shown(topic, query, 1)
            clean = self._perception.perceive(edited).visual_quality
            if topic == "quality_yes_no":
                return yes_no_reply(clean)
            if isinstance(query.form, Json):
                grade = sample_index(binomial_probabilities(clean, _HIGHEST), query, "quality", query.form.temperature)
                return _in_form(query.form, {"reasoning": f"{clean:.0%} of it is clean", "perceptual_quality": grade})
            return grade_reply(clean, query)
        source, edited = _shown(topic, query, 2)
        operations = slots.get("operations", "")
        comparison = self._comparisons.get(
            [source], edited, slots.get("instruction", ""), "" if operations == "[]" else operations
        )
        match topic:
            case "alignment":
                return _aligned(comparison, query, has_operations=operations not in ("", "[]"))
            case "following_yes_no":
                return yes_no_reply(comparison.success_probability)
            case "preservation_yes_no":
                return yes_no_reply(comparison.preservation)
            case "following":
                return grade_reply(comparison.credit, query)
            case _:
                return grade_reply(comparison.preservation, query)


def _shown(topic: str, query: Judge, count: int) -> tuple[Image, ...]:
    if len(query.images) != count:
        raise UnanswerableError(f"complexedit/{topic} by {len(query.images)} pictures: expected {count}")
    return query.images


def _aligned(comparison: EditComparison, query: Judge, *, has_operations: bool) -> Reply:
    """Every request graded by itself, their mean, and preservation."""
    shares = [outcome.credit for outcome in comparison.outcomes] if has_operations else [comparison.credit]
    assert isinstance(query.form, Json)
    temperature = query.form.temperature
    grades = [
        sample_index(binomial_probabilities(share, _HIGHEST), query, f"operation {index}", temperature)
        for index, share in enumerate(shares)
    ]
    changes = [change.description for change in comparison.unrequested_changes] or ["all else is as it was"]
    done_count = sum(outcome.success_probability >= 0.5 for outcome in comparison.outcomes)
    reasoning = f"{done_count} of {len(comparison.outcomes)} wishes are carried out; {'; '.join(changes)}"
    return _in_form(
        query.form,
        {
            "reasoning": reasoning,
            "operations": [
                {"operation": f"wish {index}", "score": score} for index, score in enumerate(grades, start=1)
            ],
            "instruction_following": round(fmean(grades)),
            "identity_preservation": sample_index(
                binomial_probabilities(comparison.preservation, _HIGHEST), query, "preservation", temperature
            ),
        },
    )


def _in_form(form: Json, values: Mapping[str, object]) -> Reply:
    """Those of the values that the reply is to have."""
    return json_reply({name: values[name] for name in json.loads(form.schema)["properties"]})
