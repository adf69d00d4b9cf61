"""Where the targets of a plan are in the source, and which boxes a referring expression means.

Place, order, size and relation are decided on boxes, in code: detectors read "the left cup" as "cup". The queries are
about the source alone: asked once a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from ...boxes import Box, best_first, suppress_overlaps
from ...edit_plan import Place, RelationKind, Target
from ...engine.program import Abstained, Program, ask_many
from ...image import Image
from ...queries.answers import Detections
from ...queries.kinds import Detect, Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import Message, YesNo
from ..edival.inspector import crop_box
from ..edival.task_parser import COLORS
from .instruction_words import SCENE_WORDS, with_related
from .questions import probabilities

_DUPLICATE_IOU = 0.8
_NEAR = 0.15
"""Greatest gap between two objects that are beside each other, in sides of the image."""
_SHARED = 0.3
"""Share of the smaller box inside the other one from which on something is `on`, `in`, `with` or `part` of it."""


def is_plain(target: Target) -> bool:
    """Whether the name alone says which object is meant: every box of the phrase is one."""
    qualifiers = (target.place, target.order, target.size, target.relation)
    return target.quantity == 1 and all(qualifier is None for qualifier in qualifiers)


def names_picture(target: Target) -> bool:
    """Whether a target is the picture itself, as in "mirror the photo": no detector finds it in the picture."""
    is_bare = is_plain(target) and not (target.attributes or target.boxes)
    return is_bare and target.noun.casefold() in SCENE_WORDS - {"frame"}  # a frame is around something


def around(box: Box, w: float, h: float) -> Box:
    """The part of the image that is w wide and h high, about the centre of a box."""
    x0, y0 = max(0.0, box.cx - w / 2), max(0.0, box.cy - h / 2)
    x1, y1 = min(1.0, box.cx + w / 2), min(1.0, box.cy + h / 2)
    return Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)


def scaled(box: Box, factor: float) -> Box:
    """The box with sides times `factor`, about its centre."""
    return replace(box, w=factor * box.w, h=factor * box.h)


def share_inside(box: Box, outer: Box) -> float:
    """The share of a box that lies in another one."""
    return _shared_area(box, outer) / box.area if box.area > 0 else 0.0


def _shared_area(a: Box, b: Box) -> float:
    across = min(a.x1, b.x1) - max(a.x0, b.x0)
    down = min(a.y1, b.y1) - max(a.y0, b.y0)
    return across * down if across > 0 and down > 0 else 0.0


def referred_boxes(target: Target, boxes: Sequence[Box], related: Sequence[Box] = ()) -> tuple[Box, ...]:
    """The boxes that a target means among those of its phrase; empty where there are fewer. related: boxes of what it
    relates to. A plain target means all; a place the outermost, or with `all` those in that half of the picture."""
    candidates = list(suppress_overlaps(best_first(boxes), _DUPLICATE_IOU))
    if is_plain(target):
        return tuple(candidates)
    if target.relation is not None:
        is_related = _RELATIONS[target.relation.kind]
        candidates = [box for box in candidates if any(is_related(box, other) for other in related)]
    if target.size is not None:
        candidates.sort(key=lambda box: box.area, reverse=target.size == "largest")
    if target.place is not None:
        candidates.sort(key=_PLACES[target.place])
    if target.order is not None and target.order_from is not None:
        candidates.sort(key=_PLACES[target.order_from])
        candidates = candidates[target.order - 1 :]
    return _as_many(target, candidates)


def _as_many(target: Target, candidates: Sequence[Box]) -> tuple[Box, ...]:
    """As many of the candidates, best first, as the target means; empty where there are fewer."""
    match target.quantity:
        case "all":
            return tuple(candidates) if target.place is None else _all_at(target.place, candidates)
        case "both":
            return tuple(candidates[:2]) if len(candidates) >= 2 else ()
        case count:
            return tuple(candidates[:count]) if len(candidates) >= count else ()


def _all_at(place: Place, candidates: Sequence[Box]) -> tuple[Box, ...]:
    """All candidates at a place, outermost first. Of objects of one name, those far away look smaller."""
    if place in ("foreground", "background"):
        near = _in_front(candidates)
        return tuple(
            box for box in candidates if len(near) == len(candidates) or (box in near) is (place == "foreground")
        )
    inside = tuple(box for box in candidates if _HALVES[place](box.cx, box.cy))
    return inside or tuple(candidates[:1])


_NEARER = 3.0
"""Area of a box in the foreground, relative to the next smaller one, if that is in the background."""


def _in_front(boxes: Sequence[Box]) -> Sequence[Box]:
    """The boxes above the largest gap of areas; all where there is no such gap."""
    ranked = sorted(boxes, key=lambda box: -box.area)
    ratios = [large.area / max(small.area, 1e-9) for large, small in pairwise(ranked)]
    widest = max(range(len(ratios)), key=ratios.__getitem__, default=None)
    return ranked if widest is None or ratios[widest] < _NEARER else ranked[: widest + 1]


def same_object(box: Box, others: Sequence[Box]) -> int | None:
    """The index of the box in another image that is most likely the same object: it overlaps (IoU 0.1) or holds the
    centre."""
    overlaps = [
        box.iou(other) + 0.1 * (other.x0 <= box.cx <= other.x1 and other.y0 <= box.cy <= other.y1) for other in others
    ]
    best = max(range(len(others)), key=lambda index: overlaps[index], default=None)
    return best if best is not None and overlaps[best] >= 0.1 else None


_PLACES: Mapping[Place, Callable[[Box], float]] = {
    "left": lambda box: box.cx,
    "right": lambda box: -box.cx,
    "top": lambda box: box.cy,
    "bottom": lambda box: -box.cy,
    "center": lambda box: (box.cx - 0.5) ** 2 + (box.cy - 0.5) ** 2,
    "foreground": lambda box: -box.y1,
    "background": lambda box: box.y1,
}
"""Sort key of a place: the lowest is the one that is meant."""

_HALVES: Mapping[Place, Callable[[float, float], bool]] = {
    "left": lambda x, y: x < 0.5,
    "right": lambda x, y: x > 0.5,
    "top": lambda x, y: y < 0.5,
    "bottom": lambda x, y: y > 0.5,
    "center": lambda x, y: 0.25 < x < 0.75 and 0.25 < y < 0.75,
}
"""Where the centres of all objects of a place are: "all cups on the left"."""


def _shares(a: Box, b: Box) -> bool:
    smaller = min(a.area, b.area)
    return smaller > 0 and _shared_area(a, b) / smaller >= _SHARED


def _beside(a: Box, b: Box) -> bool:
    across = max(a.x0 - b.x1, b.x0 - a.x1, 0.0)
    down = max(a.y0 - b.y1, b.y0 - a.y1, 0.0)
    return max(across, down) <= _NEAR


_RELATIONS: Mapping[RelationKind, Callable[[Box, Box], bool]] = {
    "left": lambda a, b: a.cx < b.cx,
    "right": lambda a, b: a.cx > b.cx,
    "above": lambda a, b: a.cy < b.cy,
    "below": lambda a, b: a.cy > b.cy,
    "on": lambda a, b: _shares(a, b) or (a.x0 < b.x1 and b.x0 < a.x1 and abs(a.y1 - b.y0) <= _NEAR / 3),
    "beside": _beside,
    "behind": lambda a, b: a.y1 <= b.y1 and _beside(a, b),
    "in_front": lambda a, b: a.y1 >= b.y1 and _beside(a, b),
    "in": _shares,
    "with": _shares,
    "part": _shares,
}


THRESHOLD = 0.35
"""Of a detector's score, as in EdiVal (appendix C.2)."""
MAX_BOX_SIZE = 0.98
"""Boxes that are wider and higher than this, in sides of the image, do not localise anything."""


@dataclass(frozen=True, slots=True)
class LocatedTarget:
    """A target in the source: boxes that are meant, if any, others of the phrase, and whether a detector found any at
    all."""

    target: Target
    boxes: tuple[Box, ...]
    others: tuple[Box, ...] = ()
    detected: bool = True


def locate_targets(source: Image, targets: Iterable[Target]) -> Program[Mapping[Target, LocatedTarget]]:
    """These targets, and those they relate to, in the source, one query a phrase. A target whose relation no detector
    knows has its boxes if they are no more than it means. Raises `Abstained` if they are, and for unknown targets."""
    targets = list(targets)
    needed = list(dict.fromkeys(related for target in targets for related in reversed(with_related(target))))
    unknown = list(dict.fromkeys(target.phrase for target in needed if not target.boxes))
    detections = yield from _detect(source, unknown, {target.phrase for target in targets})
    boxes = {phrase: best_first(answer.above(THRESHOLD)) for phrase, answer in detections.items()}
    useful = {phrase: useful_boxes(items) for phrase, items in boxes.items()}
    coloured = yield from _of_their_colour(source, useful)
    located: dict[Target, LocatedTarget] = {}
    for target in needed:  # the related ones come first
        phrase = target.phrase
        if target.boxes:
            located[target] = LocatedTarget(target, target.boxes)
        elif phrase in boxes and target.relation is not None and target.relation.of not in located:
            located[target] = yield from _without_relation(source, target, useful[phrase])
        elif phrase in boxes:
            related = located[target.relation.of].boxes if target.relation is not None else ()
            referred = referred_boxes(target, coloured.get(phrase, useful[phrase]), related)
            others = tuple(box for box in useful[phrase] if box not in referred)  # also those of another colour
            located[target] = LocatedTarget(target, referred, others, bool(boxes[phrase]))
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
    """Phrase -> its boxes without those of another colour, which detectors find too. Without a judge, all count."""
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
        answers = yield from probabilities([query for _, _, query in colour_queries])
    except Abstained:  # about the source alone: the same for every edit of the group
        return {}
    found: dict[str, dict[Box, float]] = {}
    for (phrase, box, _), p in zip(colour_queries, answers, strict=True):
        found.setdefault(phrase, {})[box] = p
    return {
        phrase: tuple(box for box, p in of_boxes.items() if p > _CERTAINLY_OTHER)
        for phrase, of_boxes in found.items()
        if max(of_boxes.values()) >= 0.5
    }


def known_boxes(source: Image, target: Target) -> Program[tuple[Box, ...]]:
    """The boxes of a target in the source; none where no detector knows it, which is so for every edit of a group."""
    try:
        located = yield from locate_targets(source, [target])
    except Abstained:
        return ()
    return located[target].boxes


def useful_boxes(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """The boxes that localise something: not the whole image."""
    return tuple(box for box in boxes if not (box.w > MAX_BOX_SIZE and box.h > MAX_BOX_SIZE))
