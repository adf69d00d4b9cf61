"""Guards against another composition and against copies, where no operation asks for what they reject: a crop to the
left half has half the width, and a resized picture is a copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...engine.program import Abstained, Program
from ...sample import EditSample
from ...score import Score
from ..guards import NotACopy, SameAspect
from .another_shape import NEW_ASPECT_TYPES, SAME_SHAPE
from .frames import in_one_frame
from .pixel_edits import frame_edit, look_edit
from .plan_of_sample import plan_of

_NO_COPY = NotACopy()


@dataclass(frozen=True)
class AspectAsPlanned:
    """The composition of the source, where the shape is another one: stretched to it or cut about the middle, at most
    twice as wide (`in_source_shape`), unless the plan crops, reframes, cuts out, turns or resizes.

    The plan is `plan_of(sample)`, asked only where the ratio is another one.
    """

    card: ClassVar = replace(
        SameAspect.card,
        name="guard-aspect-as-planned",
        version=2,
        summary="an edit of another shape is the source stretched or cut to it, unless another frame was asked for",
        roles=(),
        kinds={
            "planner": ("plan",),
            "judge.planner": ("judge",),
            "detector": ("detect",),
            "changes": ("map_changes",),
        },
        failure_modes="Says nothing about edits of the source's shape, and accepts any ratio after a crop.",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from SAME_SHAPE(sample)
        if score.value:
            return score
        plan = yield from plan_of(sample)
        is_free = any(one.type in NEW_ASPECT_TYPES or frame_edit(one) is not None for one in plan.operations)
        if is_free:
            return Score.of(True)
        framed = yield from in_one_frame(sample)
        return Score.of(framed.remaining > 0, framed.reshaped, evidence=score.evidence)


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
