"""The differences between source and edit that a judge lists, matched with a plan's operations in the same call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...edit_plan import EditPlan, PlannedOperation
from ...engine.program import Program, ask, reply_value
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import Json, Message
from ...sample import EditSample
from ...score import Evidence

_MAX_LISTED = 32

_DIFFERENCES = Json.from_schema(
    {
        "type": "object",
        "properties": {
            "differences": {
                "type": "array",
                "maxItems": _MAX_LISTED,
                "items": {
                    "type": "object",
                    "properties": {"what": {"type": "string"}, "operation": {"type": "integer", "minimum": 0}},
                    "required": ["what", "operation"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["differences"],
        "additionalProperties": False,
    }
)


@dataclass(frozen=True, slots=True)
class ListedDifferences:
    """carried_out: operations, by index, that at least one difference belongs to. unrequested: differences, in words,
    that belong to none.
    """

    carried_out: frozenset[int]
    unrequested: tuple[str, ...]
    evidence: Evidence


def list_differences(sample: EditSample, plan: EditPlan, prompts: Prompts) -> Program[ListedDifferences]:
    """One judge query for all operations. A number of no operation belongs to none."""
    lines = [f"{number}. {words_of(operation)}" for number, operation in enumerate(plan.operations, start=1)]
    slots = {"operations": "\n".join(lines)}
    prompt = prompts.render("differences", **slots)
    images = (sample.source, sample.edited)
    query = Judge((Message((*images, prompt)),), _DIFFERENCES, "any-edit/differences", tuple(slots.items()))
    reply = yield from ask(query)
    listed: Sequence[dict[str, Any]] = reply_value(query, reply)["differences"]
    numbers = [int(entry["operation"]) for entry in listed]
    known = range(1, len(plan.operations) + 1)
    return ListedDifferences(
        frozenset(number - 1 for number in numbers if number in known),
        tuple(str(entry["what"]) for entry, number in zip(listed, numbers, strict=True) if number not in known),
        Evidence("differences", sample.edited.digest, text=reply.text),
    )


def words_of(operation: PlannedOperation) -> str:
    """An operation in words: those of the instruction, or its type with its slots."""
    if operation.words:
        return operation.words
    slots = [target.words for target in operation.targets]
    slots += [slot for slot in (operation.value, operation.text) if slot]
    return f"{operation.type.replace('_', ' ')}: {', '.join(slots)}".strip(": ")
