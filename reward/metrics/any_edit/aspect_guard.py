"""Guards against another aspect ratio and against copies, where no operation asks for what they reject: a crop to the
left half has half the width, and a resized picture is a copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...edit_plan import OperationType
from ...engine.program import Abstained, Program
from ...sample import EditSample
from ...score import Score
from ..guards import NotACopy, SameAspect
from .pixel_edits import frame_edit, look_edit
from .plan_of_sample import plan_of

_SAME = SameAspect()
_NO_COPY = NotACopy()

NEW_ASPECT_TYPES: frozenset[OperationType] = frozenset(("crop", "reframe", "extraction"))
"""Types of operations that may give the picture another shape."""


@dataclass(frozen=True)
class AspectAsPlanned:
    """The aspect ratio of the source, as by `SameAspect`, unless the plan crops, reframes, cuts out, turns or resizes.

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
        is_free = any(one.type in NEW_ASPECT_TYPES or frame_edit(one) is not None for one in plan.operations)
        return Score.of(True) if is_free else score


@dataclass(frozen=True)
class NotACopyAsPlanned:
    """Not a copy, as by `NotACopy`, unless pixels decide every operation of the plan (`pixel_edits`).

    What a resize, the mirror image of a symmetric scene or a slight change of tone leave differs from the source by no
    more than noise; whether it is what was asked for is measured, and a copy has 0 there. The plan is
    `plan_of(sample)`, asked only for a copy.
    """

    card: ClassVar = replace(
        NotACopy.card,
        name="guard-not-a-copy-as-planned",
        summary="the edit is not a copy of the source, unless pixels decide what was asked for",
        roles=(),
        kinds={**NotACopy.card.kinds, "planner": ("plan",), "judge.planner": ("judge",), "detector": ("detect",)},
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from _NO_COPY(sample)
        if score.value or sample.edited == sample.source:
            return score
        try:
            plan = yield from plan_of(sample)
        except Abstained:  # nobody knows what was asked for, for any edit of the group: a copy is a copy
            return score
        decided = all(frame_edit(one) is not None or look_edit(one) is not None for one in plan.operations)
        return Score.of(True) if decided else score
