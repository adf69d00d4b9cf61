"""The plan of a sample: one way in for annotations and planners, and one validator for both."""

from __future__ import annotations

from collections.abc import Sequence

from ...edit_plan import EditPlan
from ...engine.program import Abstained, Failed, Program, ask, ask_many
from ...image import Image
from ...queries.kinds import Detect, Plan
from ...queries.outcomes import Failure
from ...sample import EditSample
from .plan_conversion import plan_of_operation, plan_of_operations, plan_of_targets, plan_of_task, with_boxes
from .plan_questions import with_questions
from .plan_validation import PlanProblem, plan_problems, unnamed_object, unnamed_objects

DETECTION_THRESHOLD = 0.35
"""Score of a detector above which an object is in the picture: EdiVal's (appendix C.2)."""


def plan_of(sample: EditSample) -> Program[EditPlan]:
    """The plan of a sample's instruction (of several turns: of the last), with questions and near misses.

    It is the sample's `plan`, or that of its `operations`, or of its `task`, or else the planner's answer; for a sample
    with `targets`, `plan_of_targets` replaces a planner that abstains. A plan that the validator rejects raises
    `Failed` with the words in question, so that the score fails. Annotated operations are validated one by one, each
    against its own instruction; one that is known by its words only needs no validation, since its question has them.
    """
    if sample.plan is None and sample.operations:
        plan = _plan_of_operations(sample)
        problems = _problems_of_operations(sample)
    else:
        plan = yield from _plan_of_sentence(sample)
        problems = plan_problems(plan, sample.instruction)
        if not problems:
            problems = yield from _absent_objects(plan, sample.instruction, sample.sources)
    if problems:
        raise _failed("the plan is rejected: " + "; ".join(problem.message for problem in problems))
    return with_questions(plan)


def _plan_of_operations(sample: EditSample) -> EditPlan:
    try:
        return plan_of_operations(sample.operations)
    except ValueError as error:
        raise _failed(f"the sample's operations make no plan: {error}") from None


def _problems_of_operations(sample: EditSample) -> tuple[PlanProblem, ...]:
    plans = [(plan_of_operation(operation), operation.instruction) for operation in sample.operations]
    return tuple(
        problem
        for plan, instruction in plans
        if any(operation.targets or operation.value or operation.text for operation in plan.operations)
        for problem in plan_problems(plan, instruction)
    )


def _plan_of_sentence(sample: EditSample) -> Program[EditPlan]:
    if sample.plan is not None:
        return sample.plan
    if sample.task is not None:
        try:
            return plan_of_task(sample.task, sample.instruction)
        except ValueError as error:
            raise _failed(f"the sample's task makes no plan: {error}") from None
    try:
        plan: EditPlan = yield from ask(Plan(sample.sources, sample.instruction))
    except Abstained:
        if not sample.targets:
            raise
        return plan_of_targets(sample.instruction, sample.targets)
    return with_boxes(plan, sample.targets)


def _absent_objects(plan: EditPlan, instruction: str, sources: Sequence[Image]) -> Program[tuple[PlanProblem, ...]]:
    """Objects of a plan that neither the sentence names nor a detector finds in a source."""
    phrases = unnamed_objects(plan, instruction)
    try:
        detections = yield from ask_many([Detect(source, (phrase,)) for phrase in phrases for source in sources])
    except Abstained:  # about the sources alone: no detector knows the words, and the planner is believed
        return ()
    present = [bool(detection.above(DETECTION_THRESHOLD)) for detection in detections]
    count = len(sources)
    return tuple(
        unnamed_object(phrase)
        for number, phrase in enumerate(phrases)
        if not any(present[number * count : (number + 1) * count])
    )


def _failed(reason: str) -> Failed:
    return Failed(reason, (Failure(reason),))
