"""Objects of a plan that neither its sentence names nor a detector finds: a planner made them up."""

from __future__ import annotations

from collections.abc import Sequence

from ...edit_plan import EditPlan
from ...engine.program import Abstained, Program, ask_many
from ...image import Image
from ...queries.kinds import Detect
from .plan_validation import PlanProblem, unnamed_object, unnamed_objects
from .target_location import THRESHOLD


def absent_objects(plan: EditPlan, instruction: str, sources: Sequence[Image]) -> Program[tuple[PlanProblem, ...]]:
    """Objects of a plan that neither the sentence names nor a detector finds in a source."""
    phrases = unnamed_objects(plan, instruction)
    try:
        detections = yield from ask_many([Detect(source, (phrase,)) for phrase in phrases for source in sources])
    except Abstained:  # about the sources alone: no detector knows the words, and the planner is believed
        return ()
    present = [bool(detection.above(THRESHOLD)) for detection in detections]
    count = len(sources)
    return tuple(
        unnamed_object(phrase)
        for number, phrase in enumerate(phrases)
        if not any(present[number * count : (number + 1) * count])
    )
