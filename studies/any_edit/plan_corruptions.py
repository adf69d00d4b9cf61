"""Wrong plans: what a planner gets wrong about an instruction, on a known share of the samples."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from editcritic.benchmarks.sceneedit.scene_requests import position_phrase
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, MATERIALS, TEXTS
from editcritic.reward import EditSample
from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target
from editcritic.reward.metrics.any_edit.plans import plan_of_operations, plan_of_task

Corruption = Callable[[random.Random, EditPlan, Sequence[str]], EditPlan | None]
"""Plan and names of the scene's objects -> a wrong plan; None where it does not apply."""


def annotated_plan(sample: EditSample) -> EditPlan:
    """The plan of a sample's annotations. Raises ValueError without any."""
    if sample.plan is not None:
        return sample.plan
    if sample.operations:
        return plan_of_operations(sample.operations)
    if sample.task is None:
        raise ValueError(f"sample {sample.id!r} has no plan, no operations and no task")
    return plan_of_task(sample.task, sample.instruction)


def with_wrong_plans(
    samples: Sequence[EditSample], objects: Sequence[Sequence[str]], level: float, seed: int, *, unnoticed: bool = False
) -> tuple[list[EditSample], int]:
    """The samples with their plans, this share of them wrong, and the number of wrong ones.

    objects: the names of each source's objects. unnoticed: with an instruction that the wrong plan accounts for, so
    that the validator of plans has nothing to object to. What is wrong at a level is wrong at every higher one, and in
    the same way.
    """
    planned, wrong = [], 0
    for sample, names in zip(samples, objects, strict=True):
        rng = random.Random(f"wrong plan {seed} {sample.id}")
        plan = annotated_plan(sample)
        if rng.random() < level:
            plan, wrong = wrong_plan(rng, plan, names), wrong + 1
            if unnoticed:
                sample = replace(sample, instruction=sentence_of(plan), task=None)
        planned.append(replace(sample, plan=plan))
    return planned, wrong


def wrong_plan(rng: random.Random, plan: EditPlan, names: Sequence[str]) -> EditPlan:
    """The plan with one mistake, of a random kind of those that apply. A wrong type always does."""
    kinds = list(CORRUPTIONS.values())
    rng.shuffle(kinds)
    for corrupt in kinds:
        wrong = corrupt(rng, plan, names)
        if wrong is not None and wrong != plan:
            return wrong
    return _other_type(rng, plan, names)


def _other_target(rng: random.Random, plan: EditPlan, names: Sequence[str]) -> EditPlan | None:
    index, operation = _random_operation(rng, plan)
    used = {target.noun for target in operation.targets}
    others = [name for name in names if name not in used]
    if not others:
        return None
    other = Target(rng.choice(others))
    if operation.reference is not None and (operation.target is None or rng.random() < 0.5):
        return _with(plan, index, replace(operation, reference=other))
    return None if operation.target is None else _with(plan, index, replace(operation, target=other))


_VALUES: Mapping[str, Sequence[str]] = {
    "color_alter": COLOURS,
    "material_alter": MATERIALS,
    "background_change": BACKDROPS,
}


def _other_value(rng: random.Random, plan: EditPlan, names: Sequence[str]) -> EditPlan | None:
    index, operation = _random_operation(rng, plan)
    values = [value for value in _VALUES.get(operation.type, ()) if value != operation.value]
    if values:
        return _with(plan, index, replace(operation, value=rng.choice(values)))
    if operation.text:
        text = rng.choice([text for text in TEXTS if text != operation.text])
        return _with(plan, index, replace(operation, text=text))
    if operation.count is not None:
        return _with(plan, index, replace(operation, count=max(1, operation.count + rng.choice((-1, 1)))))
    if operation.new is not None:
        *_, shape = operation.new.noun.split()
        return _with(plan, index, replace(operation, new=Target(f"{rng.choice(COLOURS)} {shape}")))
    return None


def _other_type(rng: random.Random, plan: EditPlan, names: Sequence[str]) -> EditPlan:
    """Something is removed that was to be changed, or changed or added that was to be removed or painted."""
    index, operation = _random_operation(rng, plan)
    target = operation.target or operation.new or Target(rng.choice(list(names) or ["circle"]))
    wrong = PlannedOperation("subject_remove", operation.words, target)
    if operation.type in ("subject_remove", "background_change"):
        wrong = PlannedOperation("color_alter", operation.words, target, value=rng.choice(COLOURS))
    elif operation.type == "text_change":
        wrong = PlannedOperation("subject_add", operation.words, new=target)
    return _with(plan, index, wrong)


def _missing_operation(rng: random.Random, plan: EditPlan, names: Sequence[str]) -> EditPlan | None:
    if len(plan.operations) < 2:
        return None
    index, _ = _random_operation(rng, plan)
    return replace(plan, operations=(*plan.operations[:index], *plan.operations[index + 1 :]))


def _dropped_keep(rng: random.Random, plan: EditPlan, names: Sequence[str]) -> EditPlan | None:
    if not plan.keep:
        return None
    index = rng.randrange(len(plan.keep))
    return replace(plan, keep=(*plan.keep[:index], *plan.keep[index + 1 :]))


CORRUPTIONS: Mapping[str, Corruption] = {
    "another target": _other_target,
    "another value": _other_value,
    "another type": _other_type,
    "a missing operation": _missing_operation,
    "a kept object dropped": _dropped_keep,
}


def _random_operation(rng: random.Random, plan: EditPlan) -> tuple[int, PlannedOperation]:
    index = rng.randrange(len(plan.operations))
    return index, plan.operations[index]


def sentence_of(plan: EditPlan) -> str:
    """The instruction of a plan of EdiVal's types, as SceneEdit's requests are written."""
    return " and ".join(_clause(operation) for operation in plan.operations) + _remaining(plan)


def _clause(operation: PlannedOperation) -> str:
    target, new, reference = (
        "" if one is None else one.phrase for one in (operation.target, operation.new, operation.reference)
    )
    side = "" if operation.position is None else f"{position_phrase(operation.position)} {reference}"
    match operation.type:
        case "subject_add":
            return f"Add {new} {side}".strip()
        case "subject_remove":
            return f"Remove {target}"
        case "subject_replace":
            return f"Replace {target} with {new}"
        case "position_change":
            return f"Change the position of {target} to {side.removeprefix('on ')}"
        case "count_change":
            return f"Change the count of {target} to {operation.count}"
        case "color_alter":
            return f"Change the color of {target} to {operation.value}"
        case "material_alter":
            return f"Change the material of {target} to {operation.value}"
        case "background_change":
            return f"Change the background to {operation.value}"
        case "text_change" if target:
            return f'Replace the text "{operation.old_text}" on {target} with "{operation.text}"'
        case "text_change":
            return f'Add text "{operation.text}"'
        case other:
            raise ValueError(f"{other} is none of EdiVal's types: it has no form")


def _remaining(plan: EditPlan) -> str:
    names = [kept.target.phrase for kept in plan.keep if kept.target is not None]
    return f", remain the {', '.join(names)} unchanged" if names else ""


def _with(plan: EditPlan, index: int, operation: PlannedOperation) -> EditPlan:
    return replace(plan, operations=(*plan.operations[:index], operation, *plan.operations[index + 1 :]))
