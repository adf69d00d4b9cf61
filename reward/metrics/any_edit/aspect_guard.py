"""A guard against another aspect ratio, where no operation asks for one: a crop to the left half has half the width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...edit_plan import OperationType
from ...engine.program import Program
from ...sample import EditSample
from ...score import Score
from ..guards import SameAspect
from .plan_of_sample import plan_of

_SAME = SameAspect()

NEW_ASPECT_TYPES: frozenset[OperationType] = frozenset(("crop", "reframe", "extraction"))
"""Types of operations that may give the picture another shape."""


@dataclass(frozen=True)
class AspectAsPlanned:
    """The aspect ratio of the source, as by `SameAspect`, unless the plan crops, reframes or cuts out.

    The plan is `plan_of(sample)`, asked only where the ratio is another one.
    """

    card: ClassVar = replace(
        SameAspect.card,
        name="guard-aspect-as-planned",
        summary="the edit has the source's aspect ratio, unless another frame was asked for",
        roles=(),
        kinds={"planner": ("plan",), "judge.planner": ("judge",), "detector": ("detect",)},
        failure_modes="Says nothing about the content, and accepts any ratio after a crop.",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from _SAME(sample)
        if score.value:
            return score
        plan = yield from plan_of(sample)
        return Score.of(True) if any(one.type in NEW_ASPECT_TYPES for one in plan.operations) else score
