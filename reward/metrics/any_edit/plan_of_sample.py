"""The plan of a sample: one way in for annotations and planners, and one validator for both."""

from __future__ import annotations

from ...edit_plan import EditPlan
from ...engine.program import Abstained, Failed, Program, ask, run_once
from ...queries.kinds import Plan
from ...queries.outcomes import Failure
from ...sample import EditSample
from .absent_objects import absent_objects
from .judge_plan import JudgePlanner
from .plan_conversion import (
    plan_of_operation,
    plan_of_operations,
    plan_of_targets,
    plan_of_task,
    with_annotated_names,
    with_boxes,
)
from .plan_questions import with_questions
from .plan_validation import PlanProblem, plan_problems
from .plural_targets import with_plurals


def plan_of(sample: EditSample) -> Program[EditPlan]:
    """The plan of a sample's instruction (of several turns: of the last), with questions and near misses.

    It is made once for all parts of a score (`run_once`). Each part gets the plan, or why there is none.

    It is the sample's `plan`, or that of its `operations`, or of its `task`, or else a judge's, which the planner's
    answer checks (`JudgePlanner`), or the planner's alone where the judge abstains; for a sample with `targets`,
    `plan_of_targets` replaces the plan where both abstain. Plurals mean all (`with_plurals`), and objects have the
    names of the sample's annotated `boxes` (`with_annotated_names`). A plan that the validator rejects raises `Failed`
    with the words in question, so that the score fails. Annotated operations are validated one by one, each
    against its own instruction; one that is known by its words only needs no validation, since its question has them.
    """
    return run_once(_made_plan, sample)


def _made_plan(sample: EditSample) -> Program[EditPlan]:
    if sample.plan is None and sample.operations:
        plan = _plan_of_operations(sample)
        problems = _problems_of_operations(sample)
    else:
        plan = yield from _plan_of_sentence(sample)
        problems = plan_problems(plan, sample.instruction)
        if not problems:
            problems = yield from absent_objects(plan, sample.instruction, sample.sources)
    if problems:
        raise _failed("the plan is rejected: " + "; ".join(problem.message for problem in problems))
    return with_questions(with_annotated_names(with_plurals(plan), sample.boxes))


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
    plan: EditPlan | None = None
    no_plan: Abstained | None = None
    try:
        plan = yield from ask(Plan(sample.sources, sample.instruction))
    except Abstained as abstained:
        no_plan = abstained
    try:
        plan = (yield from JudgePlanner()(sample.sources, sample.instruction, plan)) or plan
    except Abstained as abstained:
        no_plan = abstained
    if plan is None:
        if sample.targets:
            try:
                return plan_of_targets(sample.instruction, sample.targets)
            except ValueError as error:
                raise _failed(f"the sample's instruction and targets make no plan: {error}") from None
        assert no_plan is not None
        raise no_plan
    return with_boxes(plan, sample.targets)


def _failed(reason: str) -> Failed:
    return Failed(reason, (Failure(reason),))
