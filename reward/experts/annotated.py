"""Annotated: finds again, in an edited picture, what was drawn around in the base picture. No model, no download."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar

from ..boxes import Box
from ..expert import Expert
from ..image import Image
from ..query import Abstention, Detect, Detections, Match, Outcome, Query
from ..sample import EditSample
from .refind import Featureless, Pyramid, Template

_SAME = 0.5
"""Overlap (IoU) above which two finds of one label are one thing."""


class Annotated(Expert):
    """A detector for objects that come with a box in the base picture (`EditSample.boxes`).

    `Detect` becomes `Match` against the sample's base picture (`adapt`); in the base picture itself the drawn boxes
    come back with score 1. Elsewhere each is searched by structure (`refind`), so that a recoloured object is found and one
    painted over is not; the score says how much of its structure is there. Several boxes of one label are several
    things of a kind. Abstains on objects without a box, and on boxes with too little structure to be recognised by.

    floor: boxes with lower scores are not told. kept: how many pictures' structure is kept between calls (3 MB each for
    512 x 512).
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Match,)
    batch = 16

    def __init__(self, floor: float = 0.05, kept: int = 32) -> None:
        self.floor = floor
        self.kept = kept
        self.id = f"annotated@1 floor={floor:g}"
        self._pyramids: OrderedDict[str, Pyramid] = OrderedDict()
        self._templates: OrderedDict[tuple[str, Box], Template] = OrderedDict()

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Where a phrase is -> where the objects drawn under that name are."""
        if not isinstance(query, Detect):
            return query
        if sample is None or not sample.boxes:
            return Abstention("no boxes come with this sample: draw some, or bind a real detector")
        targets: list[Box] = []
        for phrase in query.phrases:
            name = _drawn_as(phrase, sample)
            if name is None:
                known = ", ".join(sample.boxes)
                return Abstention(
                    f"no box for {phrase!r} among those drawn ({known}): draw one, or bind a real detector"
                )
            targets += [box.labelled(phrase) for box in sample.boxes[name]]
        return Match(query.image, sample.base, tuple(targets))

    def __call__(self, queries: Sequence[Match]) -> list[Outcome]:
        """Detections, best first for each label in the order of the targets."""
        return [self._match(query) for query in queries]

    def _match(self, query: Match) -> Outcome:
        if _is_base(query.image, query.base):
            return Detections(query.targets, self.floor)
        found: list[Box] = []
        for label in dict.fromkeys(box.label for box in query.targets):
            try:
                here = [box for target in query.targets if target.label == label for box in self._find(query, target)]
            except Featureless:
                return Abstention(f"{label!r} has too little structure in its box to be recognised again")
            found += _one_of_each(here)
        return Detections(tuple(found), self.floor)

    def _find(self, query: Match, target: Box) -> list[Box]:
        template = self._template(query.base, target)
        found = template.find(self._pyramid(query.image), floor=self.floor)
        return [
            Box.from_corners(one.x0, one.y0, one.x1, one.y1, query.image.size, score=one.score, label=target.label)
            for one in found
        ]

    def _template(self, base: Image, target: Box) -> Template:
        key = base.digest, target.labelled("")
        template = self._templates.pop(key, None)
        if template is None:
            width, height = base.size
            corners = (target.x0 * width, target.y0 * height, target.x1 * width, target.y1 * height)
            template = Template(self._pyramid(base), corners)
        self._templates[key] = template
        while len(self._templates) > 8 * self.kept:
            self._templates.popitem(last=False)
        return template

    def _pyramid(self, image: Image) -> Pyramid:
        pyramid = self._pyramids.pop(image.digest, None)
        if pyramid is None:
            pyramid = Pyramid(image.pixels)
        self._pyramids[image.digest] = pyramid
        while len(self._pyramids) > self.kept:
            self._pyramids.popitem(last=False)
        return pyramid


def _drawn_as(phrase: str, sample: EditSample) -> str | None:
    """The name under which a phrase's object was drawn: equal but for case, dots, articles and plurals."""
    names = {_plain(name): name for name in sample.boxes}
    return names.get(_plain(phrase)) or {_singular(plain): name for plain, name in names.items()}.get(
        _singular(_plain(phrase))
    )


def _plain(name: str) -> str:
    words = re.sub(r"[.\s]+", " ", name.casefold()).split()
    return " ".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the") else words)


def _singular(plain: str) -> str:
    """The released EdiVal code strips a trailing "es", or else "s"; either must lead back to the name."""
    return plain.removesuffix("s").removesuffix("e")


def _is_base(image: Image, base: Image) -> bool:
    """Whether it is the base picture, or that merely resized."""
    if image == base:
        return True
    origin = image.origin
    return origin is not None and origin[1].startswith('["resize"') and origin[0] == base


def _one_of_each(boxes: Sequence[Box]) -> list[Box]:
    kept: list[Box] = []
    for box in sorted(boxes, key=lambda box: -box.score):
        if all(box.iou(other) <= _SAME for other in kept):
            kept.append(box)
    return kept
