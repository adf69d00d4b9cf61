"""Annotations of benchmarks as plans, and back: EdiVal's tasks, Complex-Edit's operations, DLEBench's targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...boxes import Box
from ...edit_plan import COMPLEX_EDIT_TYPES, EditPlan, Kept, OperationType, PlannedOperation, Scope, Target
from ...sample import TASK_TYPES, Operation, Task
from ...sample_limits import MAX_TEXT
from ..edival.task_parser import parse_task
from .instruction_words import stem, words_of
from .referring import names_picture

WHOLE_PICTURE_TYPES: frozenset[OperationType] = frozenset(
    {"background_change", "filter", "light", "crop", "reframe", "zoom", "style", "weather", "camera", "restoration"}
)
"""Types of operations that change the whole picture."""


def plan_of_task(task: Task, instruction: str = "") -> EditPlan:
    """The plan of an EdiVal task. A slot is the whole noun of its target: EdiVal's detector is asked for just that."""
    operation = PlannedOperation(
        task.type,
        words=" ".join(instruction.split())[:MAX_TEXT],
        target=_target(task.object),
        new=_target(task.new),
        value=task.value or "",
        text=task.text or "",
        old_text=task.old or "",
        count=task.count,
        position=task.position if task.reference else None,
        reference=_target(task.reference) if task.position else None,
    )
    return EditPlan(
        (operation,), tuple(Kept("object", Target(name)) for name in task.keep), scope=scope_of([operation])
    )


def plan_of_operations(operations: Sequence[Operation]) -> EditPlan:
    """The plan of a compound instruction with annotated operations.

    Each is its `task`, or what `parse_task` reads from its instruction, or else known by its words: its type is that of
    its name in Complex-Edit, or `other`. An object that one operation keeps and another one is about is not kept.
    Raises ValueError without operations, and for more than a plan may have.
    """
    plans = [plan_of_operation(operation) for operation in operations]
    planned = tuple(operation for plan in plans for operation in plan.operations)
    touched = {
        target.phrase.casefold() for operation in planned for target in (operation.target,) if target is not None
    }
    kept = dict.fromkeys(
        item
        for plan in plans
        for item in plan.keep
        if item.target is None or item.target.phrase.casefold() not in touched
    )
    return EditPlan(planned, tuple(kept), scope=scope_of(planned))


def plan_of_operation(operation: Operation) -> EditPlan:
    """The plan of one annotated operation, see `plan_of_operations`."""
    task = operation.task or parse_task(operation.instruction)
    if task is not None:
        return plan_of_task(task, operation.instruction)
    return _plan_of_words(operation.instruction, COMPLEX_EDIT_TYPES.get(operation.name, "other"))


def plan_of_targets(instruction: str, targets: Sequence[Box]) -> EditPlan:
    """The plan of an instruction whose targets have boxes in the source (DLEBench). Raises ValueError without boxes.

    The operation is what `parse_task` reads from the instruction, or else known by its words.
    """
    if not targets:
        raise ValueError("there are no targets: give their boxes in the source")
    task = parse_task(instruction)
    if task is not None:
        return with_boxes(plan_of_task(task, instruction), targets)
    plan = _plan_of_words(instruction, "other")
    (operation,) = plan.operations
    target = Target("object to edit", boxes=tuple(targets))
    return replace(plan, operations=(replace(operation, target=target),))


def with_boxes(plan: EditPlan, targets: Sequence[Box]) -> EditPlan:
    """The plan with these boxes for its only target; unchanged if it has several, one with boxes of its own, or the
    picture itself, which has no place in the picture.
    """
    if not targets or len(plan.operations) != 1:
        return plan
    (operation,) = plan.operations
    if operation.target is None or operation.target.boxes or names_picture(operation.target):
        return plan
    target = replace(operation.target, boxes=tuple(targets))
    return replace(plan, operations=(replace(operation, target=target),))


def with_annotated_names(plan: EditPlan, names: Iterable[str]) -> EditPlan:
    """The plan with the names of annotated objects for what it says of them in other words.

    "the red mug" is the annotated `mug`, and "the mug" the annotated `red mug`, if that is the only annotated mug.
    What a plan adds is no annotated object.
    """
    named = {name: _Name.of(name) for name in names}
    if not named:
        return plan
    operations = tuple(
        replace(
            operation,
            target=operation.target and _renamed(operation.target, named),
            reference=operation.reference and _renamed(operation.reference, named),
        )
        for operation in plan.operations
    )
    kept = tuple(replace(item, target=item.target and _renamed(item.target, named)) for item in plan.keep)
    return replace(plan, operations=operations, keep=kept)


def _renamed(target: Target, named: Mapping[str, _Name]) -> Target:
    """The target, and those it relates to, by their annotated names."""
    if target.boxes:
        return target
    if target.relation is not None:
        target = replace(target, relation=replace(target.relation, of=_renamed(target.relation.of, named)))
    own = _Name.of(target.phrase)
    alike = [name for name, other in named.items() if own.is_same(other)]
    if len(alike) != 1 or target.phrase in named:
        return target
    relation = None if named[alike[0]].is_whole_expression else target.relation
    return replace(target, noun=alike[0], attributes=(), relation=relation)


_AFTER_NAME = frozenset(("in", "on", "at", "by", "near", "next", "beside", "behind", "under", "above", "below", "with"))
"""Words after which the name of an object says where it is, or what it has."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A name to compare. stems: without those of what follows its head. is_whole_expression: whether something does."""

    head: str
    stems: frozenset[str]
    is_whole_expression: bool

    @staticmethod
    def of(name: str) -> _Name:
        words = words_of(name)
        end = next((number for number, word in enumerate(words) if number and word in _AFTER_NAME), len(words))
        stems = [stem(word) for word in words[:end]]
        return _Name(stems[-1] if stems else "", frozenset(stems), end < len(words))

    def is_same(self, other: _Name) -> bool:
        """Whether two names have one head, and one of them says no more than the other."""
        return self.head == other.head != "" and (self.stems <= other.stems or other.stems <= self.stems)


def task_of_operation(operation: PlannedOperation) -> Task | None:
    """EdiVal's task of an operation of one of its nine types, without `keep`; None if its algorithm lacks a slot.

    A place, order, size, relation or quantity of the target is no part of a task: the caller chooses the boxes.
    """
    if operation.type not in TASK_TYPES:
        return None
    try:
        return Task(
            operation.type,
            object=_phrase(operation.target),
            new=_phrase(operation.new),
            reference=_phrase(operation.reference),
            position=operation.position,
            count=operation.count,
            value=operation.value or None,
            text=operation.text or None,
            old=operation.old_text or None,
        )
    except ValueError:
        return None


def scope_of(operations: Iterable[PlannedOperation]) -> Scope:
    """`whole` if an operation is about the whole picture, else `object`."""
    return "whole" if any(operation.type in WHOLE_PICTURE_TYPES for operation in operations) else "object"


def _plan_of_words(instruction: str, kind: OperationType) -> EditPlan:
    """An operation known by its words only. A type that needs slots becomes `other`."""
    words = " ".join(instruction.split())[:MAX_TEXT]
    try:
        operation = PlannedOperation(kind, words)
    except ValueError:
        operation = PlannedOperation("other", words)
    return EditPlan((operation,), scope=scope_of([operation]))


def _target(name: str | None) -> Target | None:
    return Target(name) if name else None


def _phrase(target: Target | None) -> str | None:
    return None if target is None else target.phrase
