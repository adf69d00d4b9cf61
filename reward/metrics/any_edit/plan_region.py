"""PlanRegion: whether what was redrawn belongs to its picture, in the places that a plan lets change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

from ...boxes import Box, box_around
from ...card import Card
from ...edit_plan import EditPlan, OperationType, PlannedOperation
from ...engine.program import Abstained, Program, ask, ask_many, reply_value
from ...queries.kinds import SMALLEST_PLACE, Judge, MapChanges, RateRegion, RegionChange, RegionRating
from ...queries.prompts import Prompts
from ...queries.response_formats import Message, YesNo
from ...sample import EditSample
from ...score import Evidence, Score
from ..edival.inspector import crop_box
from .frames import in_one_frame
from .pixel_edits import frame_edit, look_edit
from .plan_of_sample import plan_of
from .regions import edit_region, grown_places, is_whole, scaled

_PACKAGE = "editcritic.reward.metrics.any_edit"

_CHANGES: Mapping[OperationType, RegionChange] = MappingProxyType(
    {
        "subject_remove": "removed",
        "text_remove": "removed",
        "particles_remove": "removed",
        "effect_remove": "removed",
        "color_alter": "recoloured",
        "text_change": "text",
        "text_style": "text",
    }
)
"""What was to happen at the target's place, by type of operation; something new stands there after all others."""

MAX_PLACES = 12
"""Places that are rated, the largest first: of more, those that are left out are small."""

MAX_COVERED = 0.7
"""Share of the image that the place may cover: with less around it nothing says what belongs there."""

_SURROUNDINGS = 1.6
"""Sides of what a judge is shown, relative to the place."""


@dataclass(frozen=True)
class PlanRegion:
    """Whether what stands in the place that was to change belongs to this picture, and its seam, in [0, 1].

    Each place (`edit_region`: targets in the source with their shadows, and where something new stands) is rated by
    `changes` against its surroundings and the source: whether its outline shows as a seam, its fine detail is that of
    the picture, its patches have neighbours elsewhere, and how much of the source shows through. The worst place
    counts. A judge that answers is asked once about a crop around all places, and its probability is a factor.

    Not applicable where the whole image may change, or the targets leave nothing around them: the source and the plan
    decide that, never the edit. prompts: see `InstructionFollowing`.
    """

    card: ClassVar[Card] = Card(
        name="any-edit-region",
        version=1,
        summary="what was redrawn belongs to this picture",
        kinds={
            "planner": ("plan",),
            "judge.planner": ("judge",),
            "detector": ("detect",),
            "judge": ("judge",),
            "reader": ("read_text",),
            "changes": ("map_changes", "rate_region"),
            "pixels": ("measure",),
            "matcher": ("match",),
        },
        requires=("sources", "edited", "instruction"),
        source="docs/any_edit.md",
        failure_modes=(
            "Without a judge it knows texture, seams and colours, not things: an object that does not belong there, "
            "but is drawn well, passes, and so does a fill that looks like its surroundings. A copy has 1."
        ),
        aspect="quality",
    )

    prompts: str | None = None

    def __post_init__(self) -> None:
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(_PACKAGE, self.prompts)

    @cached_property
    def signature(self) -> str:
        """As in `any-edit-region@1`, with the prompt pack's digest if it is not ours."""
        return self.card.signature_with(options=[*self.prompt_pack.options])

    def __call__(self, sample: EditSample) -> Program[Score]:
        plan = yield from plan_of(sample)
        framed = yield from in_one_frame(sample)
        score = yield from self._score(framed.sample, plan)
        return score.with_signature(self.signature)

    def _score(self, sample: EditSample, plan: EditPlan) -> Program[Score]:
        if any(_is_everywhere(operation) for operation in plan.operations):
            return Score.not_applicable("another look or frame was asked for: no place was to be redrawn")
        changes = yield from ask(MapChanges(sample.source, sample.edited))
        places: list[tuple[Box, RegionChange]] = []
        for operation in plan.operations:
            region = yield from edit_region(sample, (operation,), changes)
            if sum(box.area for box in region.old) > MAX_COVERED:
                return Score.not_applicable("what was to change leaves nothing around it to compare it with")
            if region.old and not region.guessed and not any(_is_rated(box, sample) for box in region.old):
                return Score.not_applicable("what was to change is too small to be compared with what is around it")
            left, come = _changes(operation)
            places += [(box, left) for box in grown_places(region, changes)]
            places += [(box, come) for box in region.new]
        places = [(box, change) for box, change in places if _is_rated(box, sample)]
        if not places:
            return Score.of(1.0, "nothing was redrawn")
        places = sorted(dict.fromkeys(places), key=lambda place: -place[0].area)[:MAX_PLACES]
        queries = [RateRegion(sample.source, sample.edited, box, change) for box, change in places]
        ratings = yield from ask_many(queries)
        worst = min(ratings, key=lambda rating: rating.value)
        evidence = [
            Evidence(
                "redrawn",
                sample.edited.digest,
                (replace(box, score=rating.value).with_label(change),),
                numbers=rating.faults,
            )
            for (box, change), rating in zip(places, ratings, strict=True)
        ]
        judged = yield from self._judged(sample, box_around([box for box, _ in places]))
        if isinstance(judged, Score):
            return replace(judged, evidence=tuple(evidence))
        return Score.of(worst.value * judged, _reason(worst, judged), evidence=evidence)

    def _judged(self, sample: EditSample, place: Box) -> Program[float | Score]:
        """What a judge leaves, in [0, 1]: its probability that the crop is in order, relative to that of the source's.

        1 for a judge that cannot tell about the source, or finds fault with it. One that can tell about the source and
        abstains on the edit is a failure: an edit could aim at it otherwise.
        """
        prompt = self.prompt_pack.render("region")
        shown = scaled(place, _SURROUNDINGS)
        before, after = (
            Judge((Message((crop_box(image, shown, _MIN_CROP), prompt)),), YesNo(), "any-edit/region")
            for image in (sample.source, sample.edited)
        )
        try:
            reply = yield from ask(before)
        except Abstained:
            return 1.0
        expected = float(reply_value(before, reply))
        if expected < 0.5:
            return 1.0
        try:
            reply = yield from ask(after)
        except Abstained as abstained:
            return Score.failed(
                f"the judge rates the place in the source, and abstains on the edit: {abstained.reason}"
            )
        return min(1.0, float(reply_value(after, reply)) / expected)


_MIN_CROP = 0.25
"""Sides of the crop that a judge is shown, at least, in sides of the image."""


def _changes(operation: PlannedOperation) -> tuple[RegionChange, RegionChange]:
    """What was to happen where its target was, and where something was to come."""
    change = _CHANGES.get(operation.type, "new")
    return ("removed", "new") if operation.type == "position_change" else (change, change)


def _is_rated(box: Box, sample: EditSample) -> bool:
    """Whether a place has pixels enough, in the source."""
    corners = box.clipped_corners(sample.source.size)
    return corners is not None and min(corners[2] - corners[0], corners[3] - corners[1]) >= SMALLEST_PLACE


def _is_everywhere(operation: PlannedOperation) -> bool:
    """Whether nothing was to be redrawn in a place of its own: another look, frame or background. Of an object's look
    its following measures what stands there.
    """
    return is_whole(operation) or look_edit(operation) is not None or frame_edit(operation) is not None


_FAULT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "seam": "its outline shows",
        "detail": "its fine detail is not that of the picture",
        "neighbours": "nothing like it is around",
        "smear": "its border is smeared into it",
        "source": "it does not go with what was there",
    }
)


def _reason(worst: RegionRating, judged: float) -> str:
    faults = sorted(worst.faults.items(), key=lambda fault: -fault[1])
    words = [_FAULT_WORDS.get(name, name) for name, amount in faults if amount >= _NOTED][:2]
    text = "what stands in its place belongs there"
    if words:
        text = f"what stands in its place gives itself away ({worst.value:.2f}): {' and '.join(words)}"
    return text if judged == 1.0 else f"{text}; the judge leaves {judged:.2f} of it"


_NOTED = 1.0
"""Amount of a fault from which on the reason names it."""
