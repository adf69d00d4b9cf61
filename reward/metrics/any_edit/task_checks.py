"""Checks of operations of EdiVal's nine types: its algorithms, with boxes chosen by the referring expression."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from ...boxes import Box, box_around, highest_scoring
from ...edit_plan import OperationType, PlannedOperation
from ...engine.program import Program, ask_many
from ...image import Image
from ...queries.change_map import ChangeMap
from ...queries.kinds import MapChanges, ReadText
from ...queries.prompts import Prompts
from ...sample import EditSample, Task, TaskType
from ..edival import paper_protocol
from ..edival.conditions import Condition, all_hold, make_condition
from ..edival.inspector import BoxSelection, EditInspector, ImageRole, box_on_side, crop_box, deduplicate_boxes
from ..edival.pools import COLORS
from .colour_checks import check_colour
from .near_misses import unmentioned
from .referring import is_plain, same_object
from .regions import lines_of_text
from .removal_checks import check_removal
from .replacement_checks import check_replacement
from .target_location import THRESHOLD, LocatedTarget, locate_targets
from .text_checks import letters_to_read, text_written

PROMPTS = Prompts("editcritic.reward.metrics.edival")
OPTIONS = paper_protocol.PaperOptions()

_NEAR_MISSES: Mapping[TaskType, tuple[str, ...]] = MappingProxyType(
    {
        "color_alter": ("green", "purple", "orange", "blue"),
        "material_alter": ("stone", "wood", "metal", "fabric"),
        "background_change": ("snow", "sand", "night", "grass"),
    }
)
"""Wrong values: a judge that says yes to these says yes to anything. The first that has nothing to do with the plan is
asked about."""


def check_task(
    sample: EditSample,
    edited: Image,
    operation: PlannedOperation,
    task: Task,
    located: LocatedTarget | None,
    also: Collection[OperationType] = (),
    *,
    surroundings_stay: bool = True,
) -> tuple[EditInspector, Program[Condition]]:
    """Whether an image shows the operation done, with the evidence so far. edited: the edited image, or the source.

    located: the target in the source; None where the operation has none. also: what other operations of the plan do to
    the same target, which may stand elsewhere then, or look different. surroundings_stay: whether the plan leaves what
    is around the target where and as it is. Raises what the algorithms raise.
    """
    selection = _selection(operation, located, also)
    inspector = EditInspector(sample.source, edited, PROMPTS, select=selection, old_text=operation.old_text)
    return inspector, _evaluate(inspector, operation, task, located, also, surroundings_stay)


_ELSEWHERE: frozenset[OperationType] = frozenset(("position_change", "count_change"))
_NEW_LOOK: frozenset[OperationType] = frozenset(("color_alter", "material_alter", "attribute", "style", "resize"))


def _evaluate(
    inspector: EditInspector,
    operation: PlannedOperation,
    task: Task,
    located: LocatedTarget | None,
    also: Collection[OperationType],
    surroundings_stay: bool,
) -> Program[Condition]:
    if task.type == "subject_replace":
        verdict = yield from check_replacement(inspector, task, located, surroundings_stay=surroundings_stay)
    else:
        verdict = yield from _by_algorithm(inspector, operation, task, located, also)
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
    wrong_value = _wrong_value(operation, task)
    if not wrong_value or not verdict.holds:
        return verdict
    wrong = yield from _by_algorithm(inspector, operation, replace(task, value=wrong_value), located, also)
    if not wrong.holds:
        return verdict
    return all_hold([verdict, Condition(False, 0.0, f"the judge says yes to {wrong_value!r} too")])


def _by_algorithm(
    inspector: EditInspector,
    operation: PlannedOperation,
    task: Task,
    located: LocatedTarget | None,
    also: Collection[OperationType],
) -> Program[Condition]:
    """EdiVal's verdict; on the objects at their places where these have to get a colour or a material."""
    if located is not None and located.boxes and task.type == "color_alter" and not _ELSEWHERE & set(also):
        return (yield from check_colour(inspector, task, located.boxes))
    if located is not None and len(located.boxes) > 1 and task.type in ("color_alter", "material_alter"):
        return (yield from _each_instance(inspector, operation, task, located))
    return (yield from paper_protocol.evaluate_task(OPTIONS, inspector, task))


def _as_many_more(
    inspector: EditInspector, operation: PlannedOperation, task: Task, verdict: Condition
) -> Program[Condition]:
    """The verdict on something added, by its number too: EdiVal counts neither what is there already nor what is new.

    Where the source has some already ("another cup"), there must be as many more, and the new one at its place.
    """
    new = operation.new
    if new is None or not isinstance(new.quantity, int):
        return verdict
    queries: list[tuple[ImageRole, str]] = [("source", new.phrase), ("edited", new.phrase)]
    if task.reference:
        queries.append(("edited", task.reference))
    before, after, *reference = yield from inspector.detect(
        *queries, threshold=THRESHOLD, max_box_size=OPTIONS.max_box_size
    )
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
    """The verdict on a text that is put below, above, left or right of an object, unless it is read elsewhere.

    Not checked where the reader does not say where a text is, or the object is not found in the source.
    """
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
    """The verdict on a new object, unless a judge denies the colour in its name: detectors find a blue cup for a red
    one. A name with two colours is left to the detector.
    """
    new = operation.new
    words = () if new is None else new.phrase.casefold().split()
    colours = [word for word in words if word in COLORS]
    if new is None or len(colours) != 1:
        return verdict
    recoloured = Task("color_alter", object=new.phrase, value=colours[0])
    coloured = yield from paper_protocol.evaluate_task(OPTIONS, inspector, recoloured)
    return verdict if coloured.holds else all_hold([verdict, coloured])


def _looks_like_the_target(
    inspector: EditInspector, task: Task, located: LocatedTarget, verdict: Condition
) -> Program[Condition]:
    """The verdict on a moved or copied object, unless it looks unlike the one in the source: a ghost, another one.

    Its crop is compared with the crop of the target that it is most like; of many, the first ones are compared.
    """
    (after,) = yield from inspector.detect(
        ("edited", task.object or ""), threshold=THRESHOLD, max_box_size=OPTIONS.max_box_size
    )
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
    """Distance in CIE L*a*b* between the mean colours of a new object and the one in the source, both cut out.

    appeared: what changed at the new place: the patches of the object, and not of what is behind it. differs: the new
    crop against the old one. Of means, since stripes and grain need not fall on the same patches. Infinite where
    nothing appeared, whatever a detector sees there.
    """
    is_object = np.linalg.norm(appeared.colour, axis=2) >= _APPEARED
    return float(np.linalg.norm(differs.colour[is_object].mean(axis=0))) if is_object.any() else math.inf


_MAX_COPIES, _MAX_ORIGINALS = 12, 4
_APPEARED = 5.0
"""Distance of colours in CIE L*a*b* from which on a patch shows something new."""
_ALIKE = 25.0
"""Distance of colours in CIE L*a*b* up to which a moved object is the same one: light and shadow differ from place to
place."""


def _each_instance(
    inspector: EditInspector, operation: PlannedOperation, task: Task, located: LocatedTarget
) -> Program[Condition]:
    """An attribute of several objects: each of them is looked at, at its place in the source."""
    conditions = []
    for box in located.boxes:
        crop = crop_box(inspector.edited, box, OPTIONS.min_crop_size)
        view = EditInspector(inspector.source, crop, inspector.prompts, inspector.evidence)
        whole = replace(OPTIONS, attribute_view="whole")
        conditions.append((yield from paper_protocol.evaluate_task(whole, view, task)))
    return all_hold(conditions)


def _wrong_value(operation: PlannedOperation, task: Task) -> str:
    """A value that is not that of the operation; empty where its check asks about no value."""
    mentioned = " ".join((operation.value, *(target.words for target in operation.targets))).casefold()
    values = _NEAR_MISSES.get(task.type)
    return "" if values is None else unmentioned(values, mentioned)


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
