"""How many objects a plural means: "the skiers on the right" are all of them there, and not the outermost one. The
same holds of what is not counted: "the text on the right".
"""

from __future__ import annotations

from dataclasses import replace

from ...edit_plan import EditPlan, Kept, PlannedOperation, Target
from .english_words import IRREGULAR_PLURALS, MASS_NOUNS, NO_PLURALS


def with_plurals(plan: EditPlan) -> EditPlan:
    """The plan with the quantity `all` for targets in the plural that have a place or a relation.

    Planners say 1 where a sentence has no number. A target by its name alone means all of its boxes anyway.
    """
    return replace(plan, operations=tuple(map(_operation, plan.operations)), keep=tuple(map(_kept, plan.keep)))


def _operation(operation: PlannedOperation) -> PlannedOperation:
    return replace(
        operation,
        target=operation.target and _counted(operation.target),
        reference=operation.reference and _counted(operation.reference),
    )


def _kept(item: Kept) -> Kept:
    return replace(item, target=item.target and _counted(item.target))


def _counted(target: Target) -> Target:
    if target.relation is not None:
        target = replace(target, relation=replace(target.relation, of=_counted(target.relation.of)))
    tells_one = target.quantity != 1 or target.order is not None or target.size is not None
    if tells_one or (target.place is None and target.relation is None) or not is_plural(target.noun):
        return target
    return replace(target, quantity="all")


def is_plural(noun: str) -> bool:
    """Whether a noun phrase is an English plural ("cups of tea", not "scissors"), or of what is not counted."""
    head = noun.casefold().split(" of ")[0].split()[-1:]
    if not head or head[0] in NO_PLURALS:
        return False
    word = head[0]
    return word in (IRREGULAR_PLURALS | MASS_NOUNS) or (
        len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    )
