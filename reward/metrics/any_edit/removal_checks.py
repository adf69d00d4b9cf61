"""Whether an object was removed: what a detector says, and what still stands of it at its place."""

from __future__ import annotations

from ...engine.program import Program, ask, ask_many
from ...queries.kinds import Measure, Remains
from ...sample import Task
from ..edival import paper_protocol
from ..edival.conditions import Condition, all_hold, make_condition
from ..edival.inspector import EditInspector, PhraseDetections, crop_box
from .referring import same_object
from .target_location import THRESHOLD, LocatedTarget

_OPTIONS = paper_protocol.PaperOptions()
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
    """EdiVal's verdict on a removal, corrected by the object's own pixels at its place in the edited image.

    surroundings_stay: whether the rest of the image has to be recognised to know the place.
    """
    if inspector.edited == inspector.source:
        return verdict
    gone = yield from no_longer_stands(inspector, located, surroundings_stay=surroundings_stay)
    if not verdict.holds and gone.holds and (yield from _finds_what_surrounded_it(inspector, task, located)):
        verdict = gone
    elif not gone.holds:
        verdict = all_hold([verdict, gone])
    if verdict.holds and located.others:
        verdict = yield from _fewer_than_before(inspector, task, located, verdict)
    if verdict.holds:
        verdict = yield from _not_in_reverse(inspector, located, verdict)
    return verdict


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
    """Whether all that a detector finds in the edited image is at the object's place, and clearly less certain than the
    object was.
    """
    before, after = yield from _detections(inspector, task)

    def is_surroundings(index: int | None, score: float) -> bool:
        if index is None:
            return False
        certain = [box.score for box in before.boxes if same_object(box, located.boxes) == index]
        return bool(certain) and score < _AS_CERTAIN * max(certain)

    return all(is_surroundings(same_object(box, located.boxes), box.score) for box in after.boxes)


def _detections(inspector: EditInspector, task: Task) -> Program[tuple[PhraseDetections, ...]]:
    name = task.object or ""
    return (
        yield from inspector.detect(
            ("source", name), ("edited", name), threshold=_REMOVED, max_box_size=_OPTIONS.max_box_size
        )
    )


def _fewer_than_before(
    inspector: EditInspector, task: Task, located: LocatedTarget, verdict: Condition
) -> Program[Condition]:
    """The verdict on a removal of some of several, unless they are elsewhere now."""
    everywhere = EditInspector(inspector.source, inspector.edited, inspector.prompts, inspector.evidence)
    (after,) = yield from everywhere.detect(
        ("edited", task.object or ""), threshold=THRESHOLD, max_box_size=_OPTIONS.max_box_size
    )
    gone = after.has_count(len(located.others), _OPTIONS.duplicate_iou, exactly=False)
    return verdict if gone.holds else all_hold([verdict, gone])


def _not_in_reverse(inspector: EditInspector, located: LocatedTarget, verdict: Condition) -> Program[Condition]:
    """The verdict on a removal, unless its place shows the object in reverse, light for dark: what is left of one that
    was taken off more than once. A detector finds no object in such a ghost.
    """
    crops = [
        (crop_box(inspector.source, box), crop_box(inspector.edited, box)) for box in located.boxes[:_MAX_ORIGINALS]
    ]
    pairs = [
        (before, after.resized(*before.size)) for before, after in crops if min(before.size) >= _MIN_STRUCTURED_SIDE
    ]
    similar = yield from ask_many([Measure("ssim", pair) for pair in pairs])
    least = min((answer.value for answer in similar if answer.value is not None), default=1.0)
    reason = f"its place shows it in reverse: structural similarity to the source {least:.2f}"
    gone = make_condition(least >= _REVERSED, 1.0, _REVERSED / min(least, _REVERSED), reason)
    return verdict if gone.holds else all_hold([verdict, gone])


_MAX_ORIGINALS = 4
_MIN_STRUCTURED_SIDE = 16
"""Pixels of the shorter side of a box from which on its structure is compared."""
_REVERSED = -0.1
"""Structural similarity of an object's place before and after, below which it shows the object in reverse. Ghosts have
-0.4 and less; any other surroundings have 0 and more, since they do not follow the object's outlines."""
