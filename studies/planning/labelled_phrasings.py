"""Labelled phrasings: sentences with the operations they ask for, and sentences that ask for no edit.

A file is JSON lines. `{"text": ..., "corpus": ..., "clear": true, "operations": [{"type": "color_alter", "target":
["cup"], "new": null, "value": "blue"}], "keep": ["table"]}`: `type`, `target` and `new` are a word or a list of what is
acceptable; a target that is null is the whole picture. `{"text": ..., "kind": "no_request"}`: nothing may be planned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target

REGISTERS = ("imgedit", "short", "conversational", "abstain")


@dataclass(frozen=True, slots=True)
class Labelled:
    """What is acceptable for one operation. target, new: phrases; None where there is none to compare."""

    types: tuple[str, ...]
    target: tuple[str, ...] | None = None
    new: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Phrasing:
    """A sentence. kind: why nothing may be planned; empty for a request. clear: whether people would agree on it."""

    text: str
    clear: bool = True
    operations: tuple[Labelled, ...] = ()
    kind: str = ""


def phrasings_of(name: str) -> dict[str, list[Phrasing]]:
    """The phrasings of a set, by register; those that are missing are left out."""
    found = {}
    for register in REGISTERS:
        file = Path(__file__).parent / "phrasings" / f"{name}_{register}.jsonl"
        if file.is_file():
            found[register] = [_phrasing(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    return found


def _phrasing(data: Mapping[str, Any]) -> Phrasing:
    if "kind" in data:
        return Phrasing(data["text"], kind=data["kind"])
    operations = tuple(
        Labelled(_words(one["type"]) or (), _words(one.get("target")), _words(one.get("new")))
        for one in data["operations"]
    )
    return Phrasing(data["text"], data.get("clear", True), operations)


def _words(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """A word or a list of words; None for null and for an empty list."""
    return ((value,) if isinstance(value, str) else tuple(value or ())) or None


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
