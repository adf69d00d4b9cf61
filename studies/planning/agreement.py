"""Whether a plan is what a phrasing asks for: the types of its operations in order, and what they are about."""

from __future__ import annotations

from collections.abc import Sequence

from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target

from .labelled_phrasings import Labelled, Phrasing

WHOLE_PICTURE = frozenset(
    (
        *("image", "picture", "photo", "photograph", "scene", "whole image", "entire image", "whole picture"),
        *("entire picture", "whole scene", "entire scene", "whole photo", "entire photo"),
    )
)
BACKGROUND = frozenset(("background", "backdrop", "setting", "environment", "surroundings", "scenery"))
"""What a change of background is about whether or not it is named."""


def is_right_in_type(plan: EditPlan, phrasing: Phrasing) -> bool:
    """Whether the plan has as many operations, and each has an acceptable type, in order."""
    return len(plan.operations) == len(phrasing.operations) and all(
        operation.type in labelled.types
        for operation, labelled in zip(plan.operations, phrasing.operations, strict=True)
    )


def is_right_in_target(plan: EditPlan, phrasing: Phrasing) -> bool:
    """Whether the plan has as many operations, and each is about an acceptable object, in order.

    A noun, or attributes and noun, must equal an acceptable phrase; of an added object the new one, of a replaced one
    both.
    """
    return len(plan.operations) == len(phrasing.operations) and all(
        _is_about(operation, labelled) for operation, labelled in zip(plan.operations, phrasing.operations, strict=True)
    )


def _is_about(operation: PlannedOperation, labelled: Labelled) -> bool:
    if operation.type == "subject_add":
        return labelled.new is None or _equals(operation.new, labelled.new)
    if operation.type == "subject_replace" and labelled.new is not None and not _equals(operation.new, labelled.new):
        return False
    whole = WHOLE_PICTURE | BACKGROUND if operation.type == "background_change" else WHOLE_PICTURE
    is_whole = operation.target is None or bool(_phrases(operation.target) & whole)
    if labelled.target is None:
        return is_whole
    if operation.target is None:
        return any(_plain(phrase) in whole for phrase in labelled.target)
    return _equals(operation.target, labelled.target)


def _equals(target: Target | None, acceptable: Sequence[str]) -> bool:
    return target is not None and bool(_phrases(target) & {_plain(phrase) for phrase in acceptable})


def _phrases(target: Target) -> set[str]:
    return {_plain(target.noun), _plain(target.phrase)}


def _plain(phrase: str) -> str:
    """In lower case, without articles and possessive endings."""
    words = phrase.casefold().replace("’", "'").split()
    plain = [word.removesuffix("'s").removesuffix("'") for word in words if word not in ("a", "an", "the")]
    return " ".join(plain)
