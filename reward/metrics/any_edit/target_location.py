"""Where the targets of a plan are in the source. The queries are about the source alone: asked once a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...boxes import Box
from ...edit_plan import Target
from ...engine.program import Program, ask_many
from ...image import Image
from ...queries.kinds import Detect
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
    """Each of these targets, and those they relate to, in the source. One detector query for each phrase."""
    needed = list(dict.fromkeys(chained for target in targets for chained in _chain(target)))
    unknown = list(dict.fromkeys(target.phrase for target in needed if not target.boxes))
    detections = yield from ask_many([Detect(source, (phrase,)) for phrase in unknown])
    boxes = {phrase: answer.above(THRESHOLD) for phrase, answer in zip(unknown, detections, strict=True)}
    located: dict[Target, LocatedTarget] = {}
    for target in needed:  # the related ones come first
        located[target] = _locate(target, boxes.get(target.phrase, ()), located)
    return located


def useful_boxes(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """The boxes that localise something: not the whole image."""
    return tuple(box for box in boxes if not (box.w > MAX_BOX_SIZE and box.h > MAX_BOX_SIZE))


def _chain(target: Target) -> tuple[Target, ...]:
    """The targets that it relates to, the outermost first, and itself."""
    return (*_chain(target.relation.of), target) if target.relation is not None else (target,)


def _locate(target: Target, boxes: tuple[Box, ...], located: Mapping[Target, LocatedTarget]) -> LocatedTarget:
    if target.boxes:
        return LocatedTarget(target, target.boxes)
    related = located[target.relation.of].boxes if target.relation is not None else ()
    useful = useful_boxes(boxes)
    referred = referred_boxes(target, useful, related)
    return LocatedTarget(target, referred, tuple(box for box in useful if box not in referred), bool(boxes))
