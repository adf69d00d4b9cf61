"""Curves: agreement with the truth when plans are wrong, and when experts answer wrongly."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from editcritic.benchmarks.common.terminal import echo
from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, wrap_experts
from editcritic.benchmarks.sceneedit.scene_requests import position_phrase
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, MATERIALS, TEXTS
from editcritic.reward import EditSample, Expert
from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.metrics.any_edit.plans import plan_of_operations, plan_of_task

from .pool import ANY_EDIT, REWARDS, EditScore, Figure, PoolEdit, PoolScores, score_edits, statuses, with_wrong_answers

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


LEVELS = (0.0, 0.05, 0.1, 0.2)
Cause = Literal["wrong plans", "unnoticed wrong plans", "wrong answers"]
"""unnoticed: with an instruction that the wrong plan accounts for, so that the validator of plans does not object."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Agreement at a level. wrong: plans that were wrong; 0 for answers."""

    level: float
    spearman: Figure
    pairs: Figure
    followed_pairs: Figure
    statuses: Mapping[str, int]
    wrong: int = 0

    @staticmethod
    def of(level: float, scores: PoolScores, wrong: int = 0) -> CurvePoint:
        values = scores.values()
        return CurvePoint(
            level,
            Figure.of(scores.spearman(values)),
            Figure.of(scores.pair_order(values)),
            Figure.of(scores.pair_order(values, followed_only=True)),
            statuses(scores.scores),
            wrong,
        )


@dataclass(frozen=True)
class Curve:
    """A reward under one cause of errors."""

    reward: str
    cause: Cause
    points: Sequence[CurvePoint]


@dataclass
class CurveRun:
    """Scores of a pool under errors. What a seed's edits have at a level depends on the edit, the level and the seed
    alone, and an error at one level is one at every higher level."""

    edits: Sequence[PoolEdit]
    experts: Mapping[str, Expert]
    seed: int
    log: AnswerLog | None

    def __post_init__(self) -> None:
        self.experts = wrap_experts(self.experts, CachingExpert)

    def wrong_plans(self, level: float, *, unnoticed: bool) -> tuple[list[EditScore], int]:
        """`any-edit` with this share of the plans wrong, and the number of those."""
        samples = [edit.case.sample for edit in self.edits]
        objects = [edit.case.before.names if edit.case.before else () for edit in self.edits]
        planned, wrong = with_wrong_plans(samples, objects, level, self.seed, unnoticed=unnoticed)
        return score_edits(REWARDS[ANY_EDIT], planned, self.experts, self.log), wrong

    def wrong_answers(self, reward: str, level: float) -> list[EditScore]:
        """A reward with this share of the judge's answers flipped, and of the detector's objects missed."""
        samples = [edit.case.sample for edit in self.edits]
        return score_edits(REWARDS[reward], samples, with_wrong_answers(self.experts, level, self.seed), self.log)


def measure_curves(runs: Sequence[CurveRun]) -> list[Curve]:
    """The curves of all runs together: wrong plans for `any-edit`, wrong answers for every reward."""
    edits = [edit for run in runs for edit in run.edits]
    curves = []
    plan_causes: tuple[Cause, ...] = ("wrong plans", "unnoticed wrong plans")
    for cause in plan_causes:
        points = []
        for level in LEVELS:
            echo(f"{cause}, {level:.0%}")
            results = [run.wrong_plans(level, unnoticed=cause != "wrong plans") for run in runs]
            scores = PoolScores(edits, [score for scored, _ in results for score in scored])
            points.append(CurvePoint.of(level, scores, sum(wrong for _, wrong in results)))
        curves.append(Curve(ANY_EDIT, cause, points))
    for reward in REWARDS:
        points = []
        for level in LEVELS:
            echo(f"wrong answers, {reward}, {level:.0%}")
            scored_edits = [score for run in runs for score in run.wrong_answers(reward, level)]
            points.append(CurvePoint.of(level, PoolScores(edits, scored_edits)))
        curves.append(Curve(reward, "wrong answers", points))
    return curves
