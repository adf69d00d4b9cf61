"""Where a plan lets an image change: the targets in the source, and where something new is to be put.

A region comes from the source and the plan. What is found in the edited image counts only within bounds that these
set: a moved or copied object may be little larger than it was, a replacement stands where the old object stood, and an
added object or text may cover `MAX_NEW_SHARE` of the image. Otherwise an editor could enlarge what it is not charged
for.

Where no detector finds the target in the source, the edit is taken to be the largest connected change, within the same
bound: whatever is damaged beside it is charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from ...boxes import Box, best_first, box_around
from ...card import Card
from ...edit_plan import OperationType, PlannedOperation
from ...engine.program import Abstained, Program, ask, ask_many
from ...queries import answers, kinds
from ...queries.change_map import ChangeMap
from ...sample import EditSample, Position
from ...score import Evidence, Score
from ..edival.inspector import crop_box, normalize_text
from ..text_matching import matching_letters
from .frames import in_one_frame
from .pixel_edits import frame_edit, look_edit
from .plan_of_sample import PLANNED_KINDS, PlannedMetric
from .plans import is_plural, is_whole
from .preservation import HARMLESS_EXCESS, LOST_EXCESS, covered_patches, exempt_patches, preservation, relit_patches
from .questions import probabilities, yes_no
from .targets import THRESHOLD, LocatedTarget, locate_targets, same_object, scaled, useful_boxes
from .text_checks import letters_to_read, removed_text_places, rewritten_places

MAX_NEW_SHARE = 0.3
"""Share of the image that something added may cover without a charge."""
_GROWTH = 1.5
"""Sides of a moved or copied object, and of the place of a replaced one, relative to those in the source."""
_ROOM: dict[OperationType, float] = {"resize": 2.0, "rotate": 1.5, "pose": 1.5, "subject_remove": 1.2}
_LOOSENESS = 1.1
"""Sides of the region of a target relative to its box, by type, and for others: boxes are never exact. A removal takes
the shadow with it."""
_ROOM_FOR_NEW: dict[OperationType, float] = {"subject_add": _LOOSENESS, "text_change": _GROWTH}
_TEXT_MATCH = 0.5
"""Similarity from which on a line that is read may be a part of the requested text."""


@dataclass(frozen=True, slots=True)
class EditRegion:
    """Where changes are allowed (boxes, or whole: everywhere). leaving: those whose object leaves, with its shadow.
    added: those of something new. guessed: the largest changes, for a target that nobody finds. old, new: the same
    places without room around them. notes: what was guessed or cut to its bounds."""

    boxes: tuple[Box, ...] = ()
    leaving: tuple[Box, ...] = ()
    added: tuple[Box, ...] = ()
    guessed: tuple[Box, ...] = ()
    old: tuple[Box, ...] = ()
    new: tuple[Box, ...] = ()
    whole: bool = False
    notes: tuple[str, ...] = ()


def edit_region(sample: EditSample, operations: Sequence[PlannedOperation], changes: ChangeMap) -> Program[EditRegion]:
    """Where these operations may change the image. Raises what the detector and the reader raise about the edit."""
    if any(is_whole(operation) for operation in operations):
        return EditRegion(whole=True)
    regions: list[EditRegion] = []
    unlocated = 0
    for operation in operations:
        if (yield from _is_detectable(sample, operation)):
            regions.append((yield from _operation_region(sample, operation, changes)))
        elif text := (yield from removed_text_places(sample, operation)):
            regions.append(EditRegion(text, old=text))
        else:
            unlocated += _separate_changes(operation)
    if unlocated:
        regions.append(largest_changes(changes, unlocated))
    names = ("boxes", "leaving", "added", "guessed", "old", "new", "notes")
    joined: dict[str, Any] = {name: tuple(chain(*(getattr(region, name) for region in regions))) for name in names}
    return EditRegion(**joined)


def _is_detectable(sample: EditSample, operation: PlannedOperation) -> Program[bool]:
    """Whether a detector finds the target in the source, and knows what is new beside it; asks about the source."""
    if not operation.targets and operation.type == "text_change":
        return True  # a reader finds it
    targets = operation.targets
    if operation.type == "subject_replace" and operation.target is not None:
        targets = (operation.target,)
    try:
        located = yield from locate_targets(sample.source, targets)
    except Abstained:
        return False
    return bool(targets) and (operation.target is None or bool(located[operation.target].boxes))


_MANY_CHANGES = 16
"""Separate changes that are taken for what was asked for, where a plural does not say how many there are."""


def _separate_changes(operation: PlannedOperation) -> int:
    """How many separate changes of the image an operation makes: "the palm trees" are several."""
    target = operation.target or operation.new
    if target is None:
        return 1
    match target.quantity:
        case "both":
            return 2
        case "all":
            return _MANY_CHANGES
        case number if number > 1:
            return number
    return _MANY_CHANGES if is_plural(target.noun) or operation.type == "text_remove" else 1


def largest_changes(changes: ChangeMap, count: int) -> EditRegion:
    """The boxes around this many of the largest connected changes, shrunk to `MAX_NEW_SHARE` of the image together."""
    heat = np.nan_to_num(preservation(changes).heat)
    _, _, components, _ = cv2.connectedComponentsWithStats((heat > HARMLESS_EXCESS).astype(np.uint8), connectivity=8)
    rows, columns = changes.shape
    boxes = [
        Box.from_corners(x, y, x + w, y + h, (columns, rows))
        for x, y, w, h, _ in sorted(components[1:].tolist(), key=lambda component: -component[4])
    ]
    what, are = ("the largest change", "is") if count == 1 else (f"the {count} largest changes", "are")
    capped = _capped(boxes[:count], what)
    note = f"nobody knows where it is, so that {what} {are} taken for what was asked for"
    return replace(capped, guessed=capped.boxes, old=capped.boxes, notes=(note, *capped.notes))


def _operation_region(sample: EditSample, operation: PlannedOperation, changes: ChangeMap) -> Program[EditRegion]:
    located = yield from locate_targets(sample.source, filter(None, (operation.target, operation.reference)))
    target = located[operation.target] if operation.target is not None else None
    reference = located[operation.reference] if operation.reference is not None else None
    room = _ROOM.get(operation.type, _LOOSENESS)
    old = () if target is None else tuple(scaled(box, room) for box in target.boxes)
    match operation.type:
        case "subject_add":
            new = yield from _added_region(sample, operation)
        case "subject_replace":
            new = yield from _replaced_region(sample, operation, () if target is None else target.boxes, changes)
        case "position_change" | "count_change" | "duplicate" if target is not None:
            new = yield from _copies_region(sample, operation, target)
        case "text_change" if target is None:
            reading = yield from ask(kinds.ReadText(sample.edited, letters_to_read(operation)))
            lines = [scaled(box, _GROWTH) for box in lines_of_text(reading, operation.text)]
            new = _capped(lines, repr(operation.text))
        case _:
            new = EditRegion()
    rewritten: tuple[Box, ...] = ()
    if operation.type == "text_change":
        rewritten = yield from rewritten_places(sample, operation, () if target is None else target.boxes[:1])
    boxes = new.boxes
    if operation.position is not None and reference is not None and reference.boxes:
        boxes = tuple(box for box in boxes if _is_on_side(box, operation.position, reference.boxes[0]))
    leaving = old if operation.type in _LEAVING else ()
    room = _ROOM_FOR_NEW.get(operation.type, 1.0)
    return EditRegion(
        (*old, *rewritten, *boxes),
        leaving,
        () if old else boxes,
        old=() if target is None else target.boxes,
        new=(*rewritten, *(scaled(box, 1 / room) for box in boxes)),
        notes=new.notes,
    )


def _added_region(sample: EditSample, operation: PlannedOperation) -> Program[EditRegion]:
    """The best boxes of the new object that the source does not have, as many as were asked for."""
    assert operation.new is not None
    before, after = yield from _boxes_before_and_after(sample, operation.new.phrase)
    fresh = [box for box in after if same_object(box, before) is None]
    number = operation.new.quantity if isinstance(operation.new.quantity, int) else len(fresh)
    kept = sorted(fresh, key=lambda box: -box.score)[:number]
    return _capped([scaled(box, _LOOSENESS) for box in kept], operation.new.words)


def _replaced_region(
    sample: EditSample, operation: PlannedOperation, old: Sequence[Box], changes: ChangeMap
) -> Program[EditRegion]:
    """The new object, as far as it stands where an old one was; what changed there, where no detector knows it."""
    assert operation.new is not None
    places = [scaled(box, _GROWTH) for box in old]
    try:
        _, after = yield from _boxes_before_and_after(sample, operation.new.phrase)
    except Abstained:  # boxes that were given are of the source
        return EditRegion(tuple(_changed_around(changes, box, place) for box, place in zip(old, places, strict=True)))
    boxes = []
    for a, b in product(after, places):
        x0, y0, x1, y1 = max(a.x0, b.x0), max(a.y0, b.y0), min(a.x1, b.x1), min(a.y1, b.y1)
        if x0 < x1 and y0 < y1:
            boxes.append(replace(a, cx=(x0 + x1) / 2, cy=(y0 + y1) / 2, w=x1 - x0, h=y1 - y0))
    return EditRegion(tuple(boxes))


def _changed_around(changes: ChangeMap, box: Box, place: Box) -> Box:
    """The box around what changed in a box and, connected with it, in a place around it; of a box outside, itself."""
    inside = covered_patches([box], changes.shape)
    if not inside.any():
        return box
    changed = (np.nan_to_num(preservation(changes).heat) > LOST_EXCESS[1]) & covered_patches([place], changes.shape)
    _, labels = cv2.connectedComponents((changed | inside).astype(np.uint8), connectivity=8)
    return _box_of(np.isin(labels, np.unique(labels[inside])))


def _box_of(patches: NDArray[np.bool_]) -> Box:
    rows, columns = np.nonzero(patches)
    height, width = patches.shape
    return Box.from_corners(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1, (width, height))


def _copies_region(sample: EditSample, operation: PlannedOperation, target: LocatedTarget) -> Program[EditRegion]:
    """Boxes of the target in the edited image that are not where one was, no larger than those in the source."""
    before = (*target.boxes, *target.others)
    if not before:
        return EditRegion()
    _, after = yield from _boxes_before_and_after(sample, target.target.phrase)
    # A moved object may overlap the place where it was.
    known = target.others if operation.type == "position_change" else before
    fresh = sorted((box for box in after if same_object(box, known) is None), key=lambda box: -box.score)
    number = len(target.boxes) if operation.count is None else max(0, operation.count - len(before))
    w, h = _GROWTH * max(box.w for box in before), _GROWTH * max(box.h for box in before)
    boxes = [replace(box, w=min(box.w, w), h=min(box.h, h)) for box in fresh[:number]]
    return EditRegion(tuple(boxes))


def lines_of_text(reading: answers.RecognizedText, text: str) -> tuple[Box, ...]:
    """The boxes of the lines that may be a part of a text."""
    requested = normalize_text(text)

    def fits(line: str) -> bool:
        letters = normalize_text(line)
        return matching_letters(letters, requested) >= _TEXT_MATCH * max(1, len(letters))

    return tuple(line.box for line in reading.lines if line.text.strip() and fits(line.text))


def _boxes_before_and_after(sample: EditSample, phrase: str) -> Program[tuple[tuple[Box, ...], tuple[Box, ...]]]:
    edited = sample.edited
    before, after = yield from ask_many([kinds.Detect(sample.source, (phrase,)), kinds.Detect(edited, (phrase,))])
    return useful_boxes(best_first(before.above(THRESHOLD))), useful_boxes(best_first(after.above(THRESHOLD)))


MAX_REACH = 0.6
"""How far a shadow or a reflection may reach beyond the box of its object, in sides of the box."""
MAX_GROWN_SHARE = 0.75
"""How many patches may be added, relative to those of the boxes."""

_LEAVING: frozenset[OperationType] = frozenset(("subject_remove", "subject_replace", "position_change", "count_change"))


def attached_changes(changes: ChangeMap, boxes: Sequence[Box]) -> NDArray[np.bool_]:
    """rows x columns: changed patches that touch boxes of a target and show the same in another light, such as its
    shadow or reflection, within `MAX_REACH` and `MAX_GROWN_SHARE`, nearer ones first."""
    grown = np.zeros(changes.shape, np.bool_)
    inside = exempt_patches(boxes, changes.shape, 1.0)
    if not inside.any() or inside.all():
        return grown
    changed = np.nan_to_num(preservation(changes).heat) > HARMLESS_EXCESS
    reach = covered_patches([scaled(box, 1 + 2 * MAX_REACH) for box in boxes], changes.shape)
    candidates = (changed & relit_patches(changes) & reach) | inside
    _, labels = cv2.connectedComponents(candidates.astype(np.uint8), connectivity=8)
    touching = np.unique(labels[inside])
    attached = np.isin(labels, touching[touching > 0]) & ~inside
    distance = cv2.distanceTransform((~inside).astype(np.uint8), cv2.DIST_L2, 3)
    rows, columns = np.nonzero(attached)
    nearest = np.argsort(distance[rows, columns], kind="stable")[: int(MAX_GROWN_SHARE * np.count_nonzero(inside))]
    grown[rows[nearest], columns[nearest]] = True
    return grown


def _capped(boxes: Sequence[Box], what: str) -> EditRegion:
    """The boxes, shrunk about their centres where together they cover more than `MAX_NEW_SHARE` of the image."""
    covered = sum(box.area for box in boxes)
    if covered <= MAX_NEW_SHARE:
        return EditRegion(tuple(boxes))
    factor = (MAX_NEW_SHARE / covered) ** 0.5
    note = f"{what} covers {covered:.0%} of the image, of which {MAX_NEW_SHARE:.0%} may change"
    return EditRegion(tuple(scaled(box, factor) for box in boxes), notes=(note,))


def _is_on_side(box: Box, position: Position, reference: Box) -> bool:
    off = box.cx - reference.cx if position in ("left", "right") else box.cy - reference.cy
    return off < 0 if position in ("left", "above") else off > 0


_CHANGES: Mapping[OperationType, kinds.RegionChange] = {
    "subject_remove": "removed",
    "text_remove": "removed",
    "particles_remove": "removed",
    "effect_remove": "removed",
    "color_alter": "recoloured",
    "text_change": "text",
    "text_style": "text",
}
"""What was to happen at the target's place, by type of operation; something new stands there after all others."""

MAX_PLACES = 12
"""Places that are rated, the largest first: of more, those that are left out are small."""

MAX_COVERED = 0.7
"""Share of the image that the place may cover: with less around it nothing says what belongs there."""

_SURROUNDINGS = 1.6
"""Sides of what a judge is shown, relative to the place."""


@dataclass(frozen=True)
class PlanRegion(PlannedMetric):
    """Whether what stands in the place that was to change belongs to this picture, in [0, 1]. `changes` rates each
    place (`edit_region`) against its surroundings and the source: seam, fine detail, neighbours, what shows through;
    the worst counts, times the probability of a judge that answers about a crop around all. Not applicable where the
    whole image may change, or nothing is left around the targets: source and plan decide that."""

    card: ClassVar[Card] = Card(
        name="any-edit-region",
        version=1,
        summary="what was redrawn belongs to this picture",
        kinds={**PLANNED_KINDS, "changes": ("map_changes", "rate_region")},
        requires=("sources", "edited", "instruction"),
        source="docs/any_edit.md",
        failure_modes=(
            "Without a judge it knows texture, seams and colours, not things: an object that does not belong there, "
            "but is drawn well, passes, and so does a fill that looks like its surroundings. A copy has 1."
        ),
        aspect="quality",
    )

    def score(self, sample: EditSample) -> Program[Score]:
        framed = yield from in_one_frame(sample)
        sample, plan = framed.sample, framed.plan
        if any(is_whole(one) or look_edit(one) is not None or frame_edit(one) is not None for one in plan.operations):
            return Score.not_applicable("another look or frame was asked for: no place was to be redrawn")
        changes = yield from ask(kinds.MapChanges(sample.source, sample.edited))
        places: list[tuple[Box, kinds.RegionChange]] = []
        for operation in plan.operations:
            region = yield from edit_region(sample, (operation,), changes)
            if sum(box.area for box in region.old) > MAX_COVERED:
                return Score.not_applicable("what was to change leaves nothing around it to compare it with")
            if region.old and not region.guessed and not any(_is_rated(box, sample) for box in region.old):
                return Score.not_applicable("what was to change is too small to be compared with what is around it")
            come = _CHANGES.get(operation.type, "new")
            left: kinds.RegionChange = "removed" if operation.type == "position_change" else come
            for box in region.old:  # with the shadow and the reflection that went with it
                attached = attached_changes(changes, [box]) if region.leaving else None
                grown = box if attached is None or not attached.any() else box_around([box, _box_of(attached)])
                places.append((replace(grown, label=box.label), left))
            places += [(box, come) for box in region.new]
        places = [(box, change) for box, change in places if _is_rated(box, sample)]
        if not places:
            return Score.of(1.0, "nothing was redrawn")
        places = sorted(dict.fromkeys(places), key=lambda place: -place[0].area)[:MAX_PLACES]
        queries = [kinds.RateRegion(sample.source, sample.edited, box, change) for box, change in places]
        ratings = yield from ask_many(queries)
        worst = min(ratings, key=lambda rating: rating.value)
        evidence = []
        for (box, change), rating in zip(places, ratings, strict=True):
            shown = (replace(box, score=rating.value).with_label(change),)
            evidence.append(Evidence("redrawn", sample.edited.digest, shown, numbers=rating.faults))
        judged = yield from self._judged(sample, box_around([box for box, _ in places]))
        if isinstance(judged, Score):
            return replace(judged, evidence=tuple(evidence))
        return Score.of(worst.value * judged, _reason(worst, judged), evidence=evidence)

    def _judged(self, sample: EditSample, place: Box) -> Program[float | Score]:
        """Probability that the crop is in order, relative to the source's, about which a judge must be able to tell."""
        prompt = self.prompt_pack.render("region")
        shown = scaled(place, _SURROUNDINGS)
        before, after = (
            yes_no("region", (crop_box(image, shown, _MIN_CROP),), prompt, {})
            for image in (sample.source, sample.edited)
        )
        try:
            (expected,) = yield from probabilities([before])
        except Abstained:
            return 1.0
        if expected < 0.5:
            return 1.0
        try:
            (left,) = yield from probabilities([after])
        except Abstained as abstained:
            reason = f"the judge rates the place in the source, and abstains on the edit: {abstained.reason}"
            return Score.failed(reason)  # an edit could aim at it otherwise
        return min(1.0, left / expected)


_MIN_CROP = 0.25
"""Sides of the crop that a judge is shown, at least, in sides of the image."""


def _is_rated(box: Box, sample: EditSample) -> bool:
    corners = box.clipped_corners(sample.source.size)
    return corners is not None and min(corners[2] - corners[0], corners[3] - corners[1]) >= kinds.SMALLEST_PLACE


_FAULT_WORDS: Mapping[str, str] = {
    "seam": "its outline shows",
    "detail": "its fine detail is not that of the picture",
    "neighbours": "nothing like it is around",
    "smear": "its border is smeared into it",
    "source": "it does not go with what was there",
}


def _reason(worst: answers.RegionRating, judged: float) -> str:
    faults = sorted(worst.faults.items(), key=lambda fault: -fault[1])
    words = [_FAULT_WORDS.get(name, name) for name, amount in faults if amount >= _NOTED][:2]
    text = "what stands in its place belongs there"
    if words:
        text = f"what stands in its place gives itself away ({worst.value:.2f}): {' and '.join(words)}"
    return text if judged == 1.0 else f"{text}; the judge leaves {judged:.2f} of it"


_NOTED = 1.0
"""Amount of a fault from which on the reason names it."""
