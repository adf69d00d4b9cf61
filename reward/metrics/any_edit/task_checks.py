"""Checks of operations of EdiVal's nine types: its algorithms, with boxes chosen by the referring expression."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...boxes import Box, box_around, highest_scoring
from ...edit_plan import OperationType, PlannedOperation
from ...engine.program import Abstained, Program, ask, ask_many
from ...image import Image
from ...queries.change_map import ChangeMap
from ...queries.kinds import MapChanges, Measure, ReadText, Remains
from ...queries.prompts import Prompts
from ...sample import EditSample, Task, TaskType
from ...score import Evidence
from ..edival import following
from ..edival.inspector import (
    BoxSelection,
    Condition,
    EditInspector,
    ImageRole,
    PhraseDetections,
    all_hold,
    box_on_side,
    crop_box,
    deduplicate_boxes,
    make_condition,
    score_above,
)
from ..edival.task_parser import COLORS
from .instruction_words import stem, words_of
from .questions import unmentioned
from .regions import lines_of_text
from .targets import THRESHOLD, LocatedTarget, around, is_plain, locate_targets, same_object
from .text_checks import letters_to_read, text_written

_REMOVED = 0.3
"""Of a detector's score: EdiVal's threshold of removals (appendix C.2)."""
_STANDING = 0.28
"""Share of an object that still stands, from which on it was not removed. What shows through an object (eyes behind
glasses) counts up to a quarter, a half of it that was left more."""
_AS_CERTAIN = 0.8
"""A detector's score relative to that of the object in the source, from which on what it finds at the place counts: the
object redrawn, or moved a little. What surrounds an object has less."""


def check_removal(
    inspector: EditInspector, task: Task, located: LocatedTarget, verdict: Condition, *, surroundings_stay: bool
) -> Program[Condition]:
    """EdiVal's verdict on a removal, corrected by the object's own pixels at its place, which is found if its
    surroundings stay."""
    if inspector.edited == inspector.source:
        return verdict
    gone = yield from no_longer_stands(inspector, located, surroundings_stay=surroundings_stay)
    if not verdict.holds and gone.holds and (yield from _finds_what_surrounded_it(inspector, task, located)):
        verdict = gone
    elif not gone.holds:
        verdict = all_hold([verdict, gone])
    if verdict.holds and located.others:  # of some of several: they must not be elsewhere now
        everywhere = EditInspector(inspector.source, inspector.edited, inspector.prompts, inspector.evidence)
        (after,) = yield from _detect(everywhere, ("edited", task.object or ""))
        fewer = after.has_count(len(located.others), OPTIONS.duplicate_iou, exactly=False)
        verdict = verdict if fewer.holds else all_hold([verdict, fewer])
    if not verdict.holds:
        return verdict
    # A ghost that shows the object in reverse is found by no detector.
    boxes = located.boxes[:_MAX_ORIGINALS]
    crops = [(crop_box(inspector.source, box), crop_box(inspector.edited, box)) for box in boxes]
    pairs = [(old, new.resized(*old.size)) for old, new in crops if min(old.size) >= _MIN_STRUCTURED_SIDE]
    similar = yield from ask_many([Measure("ssim", pair) for pair in pairs])
    least = min((answer.value for answer in similar if answer.value is not None), default=1.0)
    reason = f"its place shows it in reverse: structural similarity to the source {least:.2f}"
    plain = make_condition(least >= _REVERSED, 1.0, _REVERSED / min(least, _REVERSED), reason)
    return verdict if plain.holds else all_hold([verdict, plain])


def no_longer_stands(
    inspector: EditInspector, located: LocatedTarget, *, surroundings_stay: bool
) -> Program[Condition]:
    """Whether the pixels of an object are gone from its aligned place."""
    remains = yield from ask(Remains(inspector.source, inspector.edited, located.boxes))
    if remains.value is None:
        if not surroundings_stay:
            return Condition(True, 0.5, "its place cannot be found again")
        reason = "its place is not in the edited image, which shows something else or only a part of the source"
        return Condition(False, 0.0, reason)
    reason = f"{remains.value:.0%} of {located.target.words} still stands at its place"
    standing = remains.value / _STANDING
    return make_condition(standing < 1, 1 - standing, 1 / max(standing, 1.0), reason)


def _finds_what_surrounded_it(inspector: EditInspector, task: Task, located: LocatedTarget) -> Program[bool]:
    """Whether all that a detector finds is at the object's place, and clearly less certain than the object was."""
    name = task.object or ""
    before, after = yield from _detect(inspector, ("source", name), ("edited", name), threshold=_REMOVED)

    def is_surroundings(index: int | None, score: float) -> bool:
        if index is None:
            return False
        certain = [box.score for box in before.boxes if same_object(box, located.boxes) == index]
        return bool(certain) and score < _AS_CERTAIN * max(certain)

    return all(is_surroundings(same_object(box, located.boxes), box.score) for box in after.boxes)


def _detect(
    inspector: EditInspector, *queries: tuple[ImageRole, str], threshold: float = THRESHOLD
) -> Program[tuple[PhraseDetections, ...]]:
    return (yield from inspector.detect(*queries, threshold=threshold, max_box_size=OPTIONS.max_box_size))


_MIN_STRUCTURED_SIDE = 16
"""Pixels of the shorter side of a box from which on its structure is compared."""
_REVERSED = -0.1
"""Structural similarity of an object's place before and after, below which it shows the object in reverse. Ghosts have
-0.4 and less; any other surroundings have 0 and more, since they do not follow the object's outlines."""


def check_replacement(
    inspector: EditInspector, task: Task, located: LocatedTarget | None, *, surroundings_stay: bool
) -> Program[Condition]:
    """EdiVal's verdict on a replacement; where no judge answers even about the source, the detector's: it finds the new
    object at each old place with more certainty than the old one, and than in the source. Not for two of one noun."""
    try:
        return (yield from following.evaluate_task(OPTIONS, inspector, task))
    except Abstained:
        old, new = task.object or "", task.new or ""
        if located is None or not located.boxes or _head(old) == _head(new):
            raise
        try:  # a judge that abstains on the edit only has to be believed
            yield from inspector.ask_yes_no(
                "replaced", (inspector.source, inspector.source), {"object": old, "new": new}
            )
        except Abstained:
            pass
        else:
            raise
    before, after, new_before, new_after = yield from _detect(
        inspector, ("source", old), ("edited", old), ("source", new), ("edited", new)
    )
    conditions = [before.present(), new_after.present()]
    for place in located.boxes:
        certain = _certainty(new_after, place)
        conditions += [
            score_above(certain, THRESHOLD, f"{new} is found at the place of {old} with {certain:.2f}"),
            score_above(certain, _certainty(after, place), f"{new} is found there rather than {old}"),
            score_above(certain, _certainty(new_before, place), f"{new} is found there rather than in the source"),
        ]
    conditions.append((yield from no_longer_stands(inspector, located, surroundings_stay=surroundings_stay)))
    return all_hold(conditions)


def _certainty(detections: PhraseDetections, place: Box) -> float:
    """The highest score of a box at a place, above the threshold or not."""
    boxes: Sequence[Box] = (*detections.boxes, *detections.below_threshold)
    return max((box.score for box in boxes if same_object(box, [place]) is not None), default=0.0)


def _head(name: str) -> str:
    return next((stem(word) for word in reversed(words_of(name))), "")


_ROOM = 1.3
"""Sides of the crops relative to the box: what is around an object tells which pixels are its own."""


def check_colour(inspector: EditInspector, task: Task, boxes: Sequence[Box]) -> Program[Condition]:
    """EdiVal's algorithm 8 on crops of each object, before and after, with what is around it: a judge sees what
    changed. A single object has to be detected still."""
    conditions: list[Condition] = []
    if len(boxes) == 1:
        (after,) = yield from _detect(inspector, ("edited", task.object or ""))
        conditions.append(after.present())
        if after.best is None:
            return all_hold(conditions, total=2)
    for box in boxes:
        area = around(box, *(_ROOM * max(side, OPTIONS.min_crop_size) for side in (box.w, box.h)))
        corners = [((x - area.x0) / area.w, (y - area.y0) / area.h) for x, y in ((box.x0, box.y0), (box.x1, box.y1))]
        place = " ".join(f"{min(max(share, 0.0), 1.0):.3f}" for corner in corners for share in corner)
        crops = (crop_box(inspector.source, area), crop_box(inspector.edited, area))
        slots = {"object": task.object or "", "value": task.value or "", "box": place}
        reply = yield from inspector.ask_yes_no("color_pair", crops, slots)
        conditions.append(following.judge_verdict("color", reply))
    return all_hold(conditions)


PROMPTS = Prompts("editcritic.reward.metrics.edival")
OPTIONS = following.PaperOptions()

_NEAR_MISSES: Mapping[TaskType, tuple[str, ...]] = {
    "color_alter": ("green", "purple", "orange", "blue"),
    "material_alter": ("stone", "wood", "metal", "fabric"),
    "background_change": ("snow", "sand", "night", "grass"),
}
"""Wrong values: a judge that says yes to these says yes to anything. The first that has nothing to do with the plan is
asked about."""


_ELSEWHERE: frozenset[OperationType] = frozenset(("position_change", "count_change"))
_NEW_LOOK: frozenset[OperationType] = frozenset(("color_alter", "material_alter", "attribute", "style", "resize"))


def check_task(
    sample: EditSample,
    edited: Image,
    operation: PlannedOperation,
    task: Task,
    located: LocatedTarget | None,
    evidence: list[Evidence],
    also: Collection[OperationType] = (),
    *,
    surroundings_stay: bool = True,
) -> Program[Condition]:
    """Whether an image (the edit, or the source) shows the operation done; adds evidence. located: its target. also:
    what others do to the same target. surroundings_stay: whether what is around it stays."""
    selection = _selection(operation, located, also)
    inspector = EditInspector(sample.source, edited, PROMPTS, evidence, selection, old_text=operation.old_text)
    if task.type == "subject_replace":
        verdict = yield from check_replacement(inspector, task, located, surroundings_stay=surroundings_stay)
    else:
        verdict = yield from _by_algorithm(inspector, task, located, also)
    if task.type == "subject_add":
        verdict = yield from _as_many_more(inspector, operation, task, verdict)
    if task.type == "text_change" and not verdict.holds:
        verdict = yield from text_written(inspector.source, inspector.edited, operation, located)
    if task.type == "text_change" and verdict.holds and operation.position is not None:
        verdict = yield from _beside_its_reference(inspector, operation, verdict)
    if task.type == "subject_remove" and located is not None:
        verdict = yield from check_removal(inspector, task, located, verdict, surroundings_stay=surroundings_stay)
    if task.type in _ELSEWHERE and verdict.holds and located is not None and not _NEW_LOOK & set(also):
        verdict = yield from _looks_like_the_target(inspector, task, located, verdict)
    if task.type in ("subject_add", "subject_replace") and verdict.holds:
        verdict = yield from _of_its_colour(inspector, operation, verdict)
    if task.type not in _NEAR_MISSES or not verdict.holds:
        return verdict
    mentioned = " ".join((operation.value, *(target.words for target in operation.targets))).casefold()
    wrong_value = unmentioned(_NEAR_MISSES[task.type], mentioned)
    wrong = yield from _by_algorithm(inspector, replace(task, value=wrong_value), located, also)
    if not wrong.holds:
        return verdict
    return all_hold([verdict, Condition(False, 0.0, f"the judge says yes to {wrong_value!r} too")])


def _by_algorithm(
    inspector: EditInspector, task: Task, located: LocatedTarget | None, also: Collection[OperationType]
) -> Program[Condition]:
    """EdiVal's verdict; on the objects at their places where these have to get a colour or a material."""
    if located is not None and located.boxes and task.type == "color_alter" and not _ELSEWHERE & set(also):
        return (yield from check_colour(inspector, task, located.boxes))
    if located is not None and len(located.boxes) > 1 and task.type in ("color_alter", "material_alter"):
        return (yield from _each_instance(inspector, task, located))
    return (yield from following.evaluate_task(OPTIONS, inspector, task))


def _as_many_more(
    inspector: EditInspector, operation: PlannedOperation, task: Task, verdict: Condition
) -> Program[Condition]:
    """The verdict on something added, by its number too; of what the source has, that many more at its place."""
    new = operation.new
    if new is None or not isinstance(new.quantity, int):
        return verdict
    queries: list[tuple[ImageRole, str]] = [("source", new.phrase), ("edited", new.phrase)]
    if task.reference:
        queries.append(("edited", task.reference))
    before, after, *reference = yield from _detect(inspector, *queries)
    count = len(deduplicate_boxes(before.boxes, OPTIONS.duplicate_iou))
    number = after.has_count(count + new.quantity, OPTIONS.duplicate_iou, exactly=bool(count) or new.quantity > 1)
    if not count:
        return verdict if number.holds or not verdict.holds else all_hold([verdict, number])
    conditions = [number]
    fresh = highest_scoring(box for box in after.boxes if same_object(box, before.boxes) is None)
    if task.position is not None and fresh is not None and reference and reference[0].best is not None:
        conditions.append(box_on_side(task.position, fresh, reference[0].best, OPTIONS.position_margin))
    return all_hold(conditions, total=1 + (task.position is not None))


def _beside_its_reference(
    inspector: EditInspector, operation: PlannedOperation, verdict: Condition
) -> Program[Condition]:
    """The verdict on a text beside an object, unless it is read elsewhere, and it is known where."""
    assert operation.position is not None
    assert operation.reference is not None
    located = yield from locate_targets(inspector.source, [operation.reference])
    letters = letters_to_read(operation)
    before, after = yield from ask_many([ReadText(image, letters) for image in (inspector.source, inspector.edited)])
    known = lines_of_text(before, operation.text)
    lines = lines_of_text(after, operation.text)
    lines = tuple(box for box in lines if same_object(box, known) is None) or lines
    reference = located[operation.reference].boxes
    if not (reference and lines and after.is_localised):
        return verdict
    beside = box_on_side(operation.position, box_around(lines), reference[0], OPTIONS.position_margin)
    return verdict if beside.holds else all_hold([verdict, beside])


def _of_its_colour(inspector: EditInspector, operation: PlannedOperation, verdict: Condition) -> Program[Condition]:
    """The verdict on a new object, unless a judge denies the one colour in its name: detectors mix them up."""
    new = operation.new
    words = () if new is None else new.phrase.casefold().split()
    colours = [word for word in words if word in COLORS]
    if new is None or len(colours) != 1:
        return verdict
    recoloured = Task("color_alter", object=new.phrase, value=colours[0])
    coloured = yield from following.evaluate_task(OPTIONS, inspector, recoloured)
    return verdict if coloured.holds else all_hold([verdict, coloured])


def _looks_like_the_target(
    inspector: EditInspector, task: Task, located: LocatedTarget, verdict: Condition
) -> Program[Condition]:
    """The verdict on a moved or copied object, unless it looks unlike all in the source: a ghost, another one."""
    (after,) = yield from _detect(inspector, ("edited", task.object or ""))
    # A moved object may overlap the place where it was.
    known = located.others if task.type == "position_change" else (*located.boxes, *located.others)
    fresh = [box for box in after.boxes if same_object(box, known) is None]
    if not fresh or not located.boxes:
        return verdict
    originals = [crop_box(inspector.source, old, OPTIONS.min_crop_size) for old in located.boxes[:_MAX_ORIGINALS]]
    queries = []
    for box in fresh[:_MAX_COPIES]:
        now, before = (crop_box(image, box, OPTIONS.min_crop_size) for image in (inspector.edited, inspector.source))
        for original in originals:
            queries += [MapChanges(before.resized(*original.size), now), MapChanges(original, now)]
    answers = yield from ask_many(queries)
    differences = [_difference(*pair) for pair in zip(answers[::2], answers[1::2], strict=True)]
    copies = range(0, len(differences), len(originals))
    worst = max(min(differences[first : first + len(originals)]) for first in copies)
    reason = f"its colours differ from those in the source by {worst:.1f} in CIE L*a*b*"
    alike = make_condition(worst <= _ALIKE, max(0.0, 1 - worst / _ALIKE), _ALIKE / worst if worst else 1.0, reason)
    return verdict if alike.holds else all_hold([verdict, alike])


def _difference(appeared: ChangeMap, differs: ChangeMap) -> float:
    """Distance in CIE L*a*b* between mean colours of a new object and the one in the source. appeared: what changed at
    the new place; differs: new crop against old. Infinite where nothing appeared."""
    is_object = np.linalg.norm(appeared.colour, axis=2) >= _APPEARED
    return float(np.linalg.norm(differs.colour[is_object].mean(axis=0))) if is_object.any() else math.inf


_MAX_COPIES, _MAX_ORIGINALS = 12, 4
_APPEARED = 5.0
"""Distance of colours in CIE L*a*b* from which on a patch shows something new."""
_ALIKE = 25.0
"""Distance of colours in CIE L*a*b* up to which a moved object is the same one: light and shadow differ from place to
place."""


def _each_instance(inspector: EditInspector, task: Task, located: LocatedTarget) -> Program[Condition]:
    """An attribute of several objects: each of them is looked at, at its place in the source."""
    conditions = []
    for box in located.boxes:
        crop = crop_box(inspector.edited, box, OPTIONS.min_crop_size)
        view = EditInspector(inspector.source, crop, inspector.prompts, inspector.evidence)
        whole = replace(OPTIONS, attribute_view="whole")
        conditions.append((yield from following.evaluate_task(whole, view, task)))
    return all_hold(conditions)


def _selection(
    operation: PlannedOperation, located: LocatedTarget | None, also: Collection[OperationType]
) -> BoxSelection | None:
    """The boxes of the target's phrase that belong to the objects that are meant; None if its name says which."""
    target = operation.target
    if target is None or located is None or (is_plain(target) and not (target.boxes or located.others)):
        return None
    may_be_elsewhere = bool(_ELSEWHERE & {operation.type, *also})
    known = (*located.boxes, *located.others)

    def is_meant(image: ImageRole, box: Box) -> bool:
        index = same_object(box, known)
        if index is None:  # new in the edited image: the target itself, where it may have moved or multiplied
            return image == "edited" and may_be_elsewhere
        return index < len(located.boxes)

    def select(image: ImageRole, phrase: str, boxes: tuple[Box, ...]) -> tuple[Box, ...]:
        if phrase != target.phrase:
            return boxes
        if target.boxes and image == "source":
            return target.boxes
        return tuple(box for box in boxes if is_meant(image, box))

    return select
