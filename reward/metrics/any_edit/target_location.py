"""Where the targets of a plan are in the source. The queries are about the source alone: asked once a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from ...boxes import Box, best_first, suppress_overlaps
from ...edit_plan import Target
from ...engine.program import Abstained, Program, ask_many, reply_value
from ...image import Image
from ...queries.kinds import Detect, Detections, Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import Message, YesNo
from ..edival.inspector import crop_box
from ..edival.pools import COLORS
from .referring import referred_boxes

THRESHOLD = 0.35
"""Of a detector's score, as in EdiVal (appendix C.2)."""
MAX_BOX_SIZE = 0.98
"""Boxes that are wider and higher than this, in sides of the image, do not localise anything."""


@dataclass(frozen=True, slots=True)
class LocatedTarget:
    """A target in the source. boxes: those that are meant; empty if it was not found. others: of the same phrase.
    detected: whether a detector finds anything of the phrase, be it as large as the picture.
    """

    target: Target
    boxes: tuple[Box, ...]
    others: tuple[Box, ...] = ()
    detected: bool = True


def locate_targets(source: Image, targets: Iterable[Target]) -> Program[Mapping[Target, LocatedTarget]]:
    """Each of these targets, and those they relate to, in the source. One detector query for each phrase.

    Where a detector knows a target and not what it relates to, as with annotated boxes, its boxes are those that are
    meant if they are no more than that. Raises `Abstained` if they are, and for targets that a detector does not know.
    """
    targets = list(targets)
    needed = list(dict.fromkeys(chained for target in targets for chained in _chain(target)))
    unknown = list(dict.fromkeys(target.phrase for target in needed if not target.boxes))
    detections = yield from _detect(source, unknown, {target.phrase for target in targets})
    boxes = {phrase: best_first(answer.above(THRESHOLD)) for phrase, answer in detections.items()}
    useful = {phrase: useful_boxes(items) for phrase, items in boxes.items()}
    coloured = yield from _of_their_colour(source, useful)
    located: dict[Target, LocatedTarget] = {}
    for target in needed:  # the related ones come first
        phrase = target.phrase
        if not target.boxes and phrase not in boxes:
            continue
        if target.relation is not None and target.relation.of not in located and not target.boxes:
            located[target] = yield from _without_relation(source, target, useful[phrase])
            continue
        known = useful.get(phrase, ())
        located[target] = _locate(target, coloured.get(phrase, known), known, located, bool(boxes.get(phrase)))
    return located


def _detect(source: Image, phrases: Sequence[str], needed: Set[str]) -> Program[dict[str, Detections]]:
    """The detections of each phrase; without those that a detector abstains on and that are not needed."""
    try:
        answers = yield from ask_many([Detect(source, (phrase,)) for phrase in phrases])
    except Abstained as abstained:
        known = dict(zip(phrases, abstained.outcomes, strict=True))
        detected = {phrase: answer for phrase, answer in known.items() if isinstance(answer, Detections)}
        if not detected.keys() >= needed & known.keys():
            raise
        return detected
    return dict(zip(phrases, answers, strict=True))


def _without_relation(source: Image, target: Target, boxes: Sequence[Box]) -> Program[LocatedTarget]:
    """A target whose relation is not known: its boxes are meant if there are no more than it means."""
    assert target.relation is not None
    distinct = suppress_overlaps(boxes, 0.8)
    if target.quantity not in ("all", len(distinct)) and not (target.quantity == "both" and len(distinct) == 2):
        yield from ask_many([Detect(source, (target.relation.of.phrase,))])  # abstains
    return LocatedTarget(target, distinct)


_MAX_COLOURED = 12
"""Boxes of one phrase whose colours are asked about."""
_CERTAINLY_OTHER = 0.3
"""Probability of the colour up to which a box has another one, if a box beside it has the right one."""
_EDIVAL = Prompts("editcritic.reward.metrics.edival")


def _of_their_colour(source: Image, boxes: Mapping[str, tuple[Box, ...]]) -> Program[Mapping[str, tuple[Box, ...]]]:
    """Phrase -> its boxes without those of another colour, for phrases with a colour and several boxes.

    Detectors find the blue mug too when asked for the red one. A judge is asked about each box; without one, all count.
    """
    colour_queries: list[tuple[str, Box, Judge]] = []
    for phrase, of_phrase in boxes.items():
        colours = [word for word in phrase.casefold().split() if word in COLORS]
        distinct = suppress_overlaps(of_phrase, 0.8)
        if len(colours) == 1 and 1 < len(distinct) <= _MAX_COLOURED:
            slots = {"object": phrase, "value": colours[0]}
            prompt = _EDIVAL.render("color", **slots)
            for box in distinct:
                message = Message((crop_box(source, box), prompt))
                colour_queries.append((phrase, box, Judge((message,), YesNo(), "edival/color", tuple(slots.items()))))
    try:
        replies = yield from ask_many([query for _, _, query in colour_queries])
    except Abstained:  # about the source alone: the same for every edit of the group
        return {}
    probabilities: dict[str, dict[Box, float]] = {}
    for (phrase, box, query), reply in zip(colour_queries, replies, strict=True):
        probabilities.setdefault(phrase, {})[box] = float(reply_value(query, reply))
    return {
        phrase: tuple(box for box, p in of_boxes.items() if p > _CERTAINLY_OTHER)
        for phrase, of_boxes in probabilities.items()
        if max(of_boxes.values()) >= 0.5
    }


def useful_boxes(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """The boxes that localise something: not the whole image."""
    return tuple(box for box in boxes if not (box.w > MAX_BOX_SIZE and box.h > MAX_BOX_SIZE))


def _chain(target: Target) -> tuple[Target, ...]:
    """The targets that it relates to, the outermost first, and itself."""
    return (*_chain(target.relation.of), target) if target.relation is not None else (target,)


def _locate(
    target: Target,
    boxes: tuple[Box, ...],
    of_phrase: tuple[Box, ...],
    located: Mapping[Target, LocatedTarget],
    detected: bool,
) -> LocatedTarget:
    """boxes: of the target's phrase and colour. of_phrase: those of another colour too."""
    if target.boxes:
        return LocatedTarget(target, target.boxes)
    related = located[target.relation.of].boxes if target.relation is not None else ()
    referred = referred_boxes(target, boxes, related)
    return LocatedTarget(target, referred, tuple(box for box in of_phrase if box not in referred), detected)
