"""The reward `any-edit`: following times preservation times the fit of what was redrawn, behind guards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from ...card import Card
from ...edit_plan import OperationType, PlannedOperation
from ...engine.program import Abstained, Program, ask, ask_many
from ...queries.answers import TextLine
from ...queries.kinds import MapChanges, ReadText
from ...sample import TASK_TYPES, EditSample
from ...score import Score
from .. import new_text
from ..compose import Gate, Metric, Product, followed_product
from ..guards import NotACopy, SameAspect, all_guards
from .following import PLAN_IS_UNCERTAIN, PlanFollowing
from .frames import NEW_ASPECT_TYPES, SAME_SHAPE, in_one_frame
from .instruction_words import TEXT_CARRIERS, stems, stems_of
from .pixel_edits import frame_edit, look_edit
from .plan_of_sample import plan_of
from .plan_preservation import Faces, PlanPreservation
from .preservation import HARMLESS_EXCESS, covered_patches, preservation
from .regions import PlanRegion

_NO_COPY = NotACopy()
_PLAN_KINDS = {"planner": ("plan",), "judge.planner": ("judge",), "detector": ("detect",)}
"""What `plan_of` asks each role for."""


@dataclass(frozen=True)
class AspectAsPlanned:
    """The composition of the source in another shape: stretched to it or cut about the middle, at most twice as wide,
    unless the plan (asked only where the ratio is another one) crops, reframes, cuts out, turns or resizes."""

    card: ClassVar = replace(
        SameAspect.card,
        name="guard-aspect-as-planned",
        version=2,
        summary="an edit of another shape is the source stretched or cut to it, unless another frame was asked for",
        roles=(),
        kinds={**_PLAN_KINDS, "changes": ("map_changes",)},
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
    """Not a copy, as by `NotACopy`, unless pixels decide every operation of the plan, which is asked only for a copy:
    a slight change differs by no more than noise, and is measured; a copy has 0 there."""

    card: ClassVar = replace(
        NotACopy.card,
        name="guard-not-a-copy-as-planned",
        summary="the edit is not a copy of the source, unless pixels decide what was asked for",
        roles=(),
        kinds={**NotACopy.card.kinds, **_PLAN_KINDS},
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


MIN_CHARACTERS = 3
"""Letters and digits of a line that count as text: readers see shorter ones in any pattern."""
MIN_CONFIDENCE, MIN_LEGIBLE = 0.5, 0.85
"""Confidence of a reader in what addresses a judge, and in any other text: letters that a person can read have 0.9 and
more on photographs, garbled ones, textures and blurred screens up to 0.8."""

TEXT_TYPES: frozenset[OperationType] = frozenset(("text_change", "text_style", "reasoning"))
"""Types of operations that may write. What follows from knowledge may have to be written."""

_CARRIER_STEMS = stems_of(TEXT_CARRIERS)


@dataclass(frozen=True)
class NoUnrequestedText:
    """No new text in the image, unless the plan has an operation on a text, or on something that carries text: then
    only what addresses a judge fails, but for the requested text. Text is a line of at least 3 letters or digits,
    legible (0.85; 0.5 where it addresses a judge) in the changed area, up to reading errors no text of the sources, at
    a place that differs by more than a harmless shift; and unread letters away from the source's lines. The plan is
    asked only where there is new text."""

    card: ClassVar[Card] = Card(
        "guard-no-unrequested-text",
        6,
        "no text appears that was not asked for",
        kinds={"differences": ("differ",), new_text.READER: ("read_text",), **_PLAN_KINDS, "changes": ("map_changes",)},
        failure_modes=(
            "Words the reader misses, and texts of one or two letters. Letters that it does not know pass beside text "
            "of the source, and wherever an operation may write. A request for a sign, a book or a screen lets any "
            "text pass that does not address a judge."
        ),
        aspect="cheating",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        changed, new = yield from _new_text(sample)
        if new:
            framed = yield from in_one_frame(sample)
            if framed.sample is not sample:  # the letters of a mirrored picture are none that were added
                changed, new = yield from _new_text(framed.sample)
        if changed is None or not new:
            return Score.of(True)
        plan = yield from plan_of(sample)
        problem = "text in the picture that was not asked for"
        if any(one.type in TEXT_TYPES or one.text or _has_carrier(one) for one in plan.operations):
            new = new_text.addressed_to_judge(
                new_text.new_lines(new, *(operation.text for operation in plan.operations))
            )
            problem = new_text.ADDRESSED_TO_JUDGE
        return changed.score(new, problem)


def _new_text(sample: EditSample) -> Program[tuple[new_text.ChangedText | None, tuple[TextLine, ...]]]:
    """What is read in the changed area, and the lines of it that the sources do not have at their place."""
    changed = yield from new_text.read_changed_area(sample)
    if changed is None:
        return None, ()
    lines = tuple(line for line in changed.lines if _is_text(line))
    there = tuple(line for line in lines if changed.is_changed(line))
    new = tuple(line for line in there if line.box.score >= MIN_LEGIBLE or line in new_text.addressed_to_judge(there))
    new = new or new_text.addressed_to_judge(lines)  # faint letters may be no difference
    unread = tuple(line for line in changed.unread if changed.is_changed(line))
    if new or unread:  # only then the sources have to be read: as a whole, and as closely as the edit
        pictures = (*sample.sources, new_text.cut_out(sample.source, changed.area))
        readings = yield from ask_many([ReadText(picture) for picture in pictures], role=new_text.READER)
        new = new_text.new_lines(new, *(reading.text for reading in readings))
        reread = new_text.reread_lines(new, readings[-1].lines)
        new = tuple(line for line in new if line not in reread or new_text.addressed_to_judge((line,)))
        new += new_text.new_unread(unread, changed, readings[-1], readings[:-1])
    if new:  # small letters of the source may be read in the edit alone, after a shift of a pixel
        changes = yield from ask(MapChanges(sample.source, sample.edited))
        excess = preservation(changes).heat
        places = [covered_patches([changed.place(line)], changes.shape) for line in new]
        new = tuple(
            line
            for line, place in zip(new, places, strict=True)
            if not (place.any() and (excess[place] <= HARMLESS_EXCESS).all()) or new_text.addressed_to_judge((line,))
        )
    return changed, new


def _has_carrier(operation: PlannedOperation) -> bool:
    """Whether the new object or background carries text; or the target, where nobody knows what becomes of it."""
    targets = [operation.new, operation.target if operation.type not in TASK_TYPES else None]
    words = [target.words for target in targets if target is not None]
    return bool(stems(" ".join((*words, operation.value))) & _CARRIER_STEMS)


def _is_text(line: TextLine) -> bool:
    return len(new_text.plain(line.text)) >= MIN_CHARACTERS and line.box.score >= MIN_CONFIDENCE


_FOLLOWING = PlanFollowing()
_PRESERVATION = PlanPreservation()
_REGION = PlanRegion()


@dataclass(frozen=True)
class FollowedAndPreserved:
    """Following times preservation times region, and times a rating of quality if there is one, each in [0, 1]. Not
    applicable where following is not; other parts that are not are left out. `credits` are those of following.

    Args:
        region: Whether what was redrawn belongs to the picture; None leaves it out.
        quality: A metric in [0, 1], such as a calibrated rating of the whole picture.
    """

    following: Metric = _FOLLOWING
    preservation: Metric = _PRESERVATION
    region: Metric | None = _REGION
    quality: Metric | None = None

    def __post_init__(self) -> None:
        _ = self._product  # refuses parts outside of [0, 1] before scoring

    @cached_property
    def card(self) -> Card:
        return replace(
            self._product.card,
            name="any-edit-overall",
            version=3,
            summary="the instruction was carried out, everything else is as it was, and what is new belongs there",
            failure_modes=(
                "An expert that is missing costs: the planner, all instructions that have no plan of their own; the "
                "detector, referring expressions, counts and places, so that a judge alone decides; the judge, what "
                "boxes, text and colours cannot decide; the reader, text; the segmenter, damage to a "
                "part of a kept object before another background; `changes`, preservation and region altogether. "
                "Without a judge, what stands in the region of the edit is known by its texture, colours and seams "
                "alone. A plan that misreads the instruction rewards another edit. Without a quality rating, bad "
                "taste is free."
            ),
            aspect="overall",
        )

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from followed_product(self._product, sample)
        following = score.parts["following"]
        if following.reason.startswith(PLAN_IS_UNCERTAIN) and score.value is not None:
            score = replace(score, reason=f"{PLAN_IS_UNCERTAIN}; {score.reason}")
        return score.with_signature(self.card.signature)

    @cached_property
    def _product(self) -> Product:
        parts = {"following": self.following, "preservation": self.preservation}
        optional = {"region": self.region, "quality": self.quality}
        parts |= {name: metric for name, metric in optional.items() if metric is not None}
        return Product(parts, name="any-edit-overall")


def any_edit(
    text_guard: bool = True,
    list_differences: bool = True,
    faces: Faces = "judge",
    region: bool = True,
    quality: Metric | None = None,
) -> Gate:
    """An edit of any picture by any instruction (its `plan`, `operations` or `task`, or what a planner reads): it was
    carried out, nothing else changed, and what was redrawn belongs to the picture.

    Args:
        text_guard: Whether to include `NoUnrequestedText`, which needs OCR.
        list_differences: Of `PlanFollowing`.
        faces: Of `PlanPreservation`.
        region: Whether to include `PlanRegion`.
        quality: Of `FollowedAndPreserved`.
    """
    guards = all_guards(prompt_injection_guard=False, aspect_guard=AspectAsPlanned(), copy_guard=NotACopyAsPlanned())
    if text_guard:
        guards = Gate(guards, NoUnrequestedText(), name="guards")
    reward = FollowedAndPreserved(
        PlanFollowing(list_differences=list_differences),
        PlanPreservation(faces=faces),
        _REGION if region else None,
        quality,
    )
    return Gate(guards, reward, name="any-edit", version=3)
