"""Whether an object was replaced, where nobody looks at the pictures: by detector and the object's own pixels."""

from __future__ import annotations

from collections.abc import Sequence

from ...boxes import Box
from ...engine.program import Abstained, Program
from ...sample import Task
from ..edival import paper_protocol
from ..edival.conditions import Condition, all_hold, score_above
from ..edival.inspector import EditInspector, PhraseDetections
from .instruction_words import stem, words_of
from .referring import same_object
from .removal_checks import no_longer_stands
from .target_location import THRESHOLD, LocatedTarget

_OPTIONS = paper_protocol.PaperOptions()


def check_replacement(
    inspector: EditInspector, task: Task, located: LocatedTarget | None, *, surroundings_stay: bool
) -> Program[Condition]:
    """EdiVal's verdict on a replacement. Where no judge answers even about the source alone, the detector's: at each
    place of the old object it finds the new one, with more certainty than the old one, and than it did in the source.

    A detector finds a dog when asked for a cat, so that its scores count and not its boxes. Of two objects with one
    noun ("a wooden chair" for the chair) it cannot tell which it sees: raises what the judge raises, as elsewhere.
    """
    try:
        return (yield from paper_protocol.evaluate_task(_OPTIONS, inspector, task))
    except Abstained:
        old, new = task.object or "", task.new or ""
        if (
            located is None
            or not located.boxes
            or _head(old) == _head(new)
            or (yield from _somebody_looks(inspector, task))
        ):
            raise
    before, after, new_before, new_after = yield from inspector.detect(
        *(("source", old), ("edited", old), ("source", new), ("edited", new)),
        threshold=THRESHOLD,
        max_box_size=_OPTIONS.max_box_size,
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


def _somebody_looks(inspector: EditInspector, task: Task) -> Program[bool]:
    """Whether a judge answers about the source alone: one that abstains on the edit only has to be believed."""
    slots = {"object": task.object or "", "new": task.new or ""}
    try:
        yield from inspector.ask_yes_no("replaced", (inspector.source, inspector.source), slots)
    except Abstained:
        return False
    return True


def _certainty(detections: PhraseDetections, place: Box) -> float:
    """The highest score of a box at a place, above the threshold or not."""
    boxes: Sequence[Box] = (*detections.boxes, *detections.below_threshold)
    return max((box.score for box in boxes if same_object(box, [place]) is not None), default=0.0)


def _head(name: str) -> str:
    """The stem of the last word."""
    return next((stem(word) for word in reversed(words_of(name))), "")
