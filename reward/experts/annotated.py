"""Annotated: finds again, in an edited picture, what was drawn around in the base picture. No model, no download."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np

from ..boxes import Box, distinct
from ..expert import Expert
from ..image import Image, Pixels
from ..outcomes import Abstention
from ..query import Detect, Detections, Match, Outcome, Query
from ..refind import Featureless, Pyramid, Template
from ..sample import EditSample

_SAME = 0.5
"""Overlap (IoU) above which two finds of one label are one thing: each of several boxes finds the others' too."""

_STRETCHED = 0.02
"""Editors that resize keep the aspect ratio within this, by rounding to their block size. Where it differs by more, the
picture may have been stretched, or cut or padded: both are tried."""

_BYTES = 150
"""Memory that the structure of a picture takes a pixel, at most, after searches for objects of all sizes. Only the
first 1024 x 1024 count: larger pictures are searched at that size."""

_TEMPLATE_BYTES = 2 * 2**20


class Annotated(Expert):
    """A detector for objects that come with boxes in the base picture (`EditSample.boxes`).

    `Detect` becomes `Match` against the sample's base picture (`adapt`). In that picture itself, or merely a resized
    copy, the drawn boxes come back with score 1. Elsewhere each is searched by structure (`refind`), so that a
    recoloured, moved or resized object is found and one painted over is not; the score says how much of its structure
    is there. Several boxes of one label are several things of a kind: all are searched, double finds merged.

    Abstains where no box was drawn for a phrase, and on boxes outside of the picture or with too little structure to
    be recognised by. It cannot know that an object was added, nor what a thing is: an object drawn anew in another
    shape is another object to it.

    floor: boxes with lower scores are left out. limit_bytes: how much memory the structure of recent pictures may take.
    """

    knows = MappingProxyType({Detect: "drawn objects"})
    kinds = (Match,)
    batch = 16
    concurrency = 2
    deadline_s = 900.0

    def __init__(self, floor: float = 0.05, limit_bytes: int = 256 * 2**20) -> None:
        if not 0 <= floor < 1:
            raise ValueError(f"floor must lie in [0, 1), got {floor}")
        self.floor = floor
        self.limit_bytes = limit_bytes
        self.id = f"annotated@1 floor={floor:g}"
        self._known: OrderedDict[tuple[str, float], _Known] = OrderedDict()
        self._lock = threading.Lock()  # held to look into `_known`, which all calls share

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Where a phrase is -> where the objects drawn under that name are."""
        if not isinstance(query, Detect):
            return query
        if sample is None:
            return Abstention("no sample, and hence no box, comes with this question: bind a real detector")
        targets: list[Box] = []
        for phrase in query.phrases:
            drawn = _drawn(phrase, sample.boxes)
            if not drawn:
                names = ", ".join(sample.boxes) or "there are none"
                return Abstention(
                    f"no box for {phrase!r} among the annotations of this sample ({names}): "
                    "draw one, or bind a real detector"
                )
            targets += [replace(box, score=1.0, label=phrase) for box in drawn]
        return Match(_original(query.image), sample.base, tuple(targets))

    def __call__(self, queries: Sequence[Match]) -> list[Outcome]:
        """Detections, best first (equals in the order of the targets)."""
        return [self._match(query) for query in queries]

    def _match(self, query: Match) -> Outcome:
        for target in query.targets:
            if target.inside(query.base.size) is None:
                return Abstention(f"the box of {target.label!r} lies outside of the picture it was drawn in: redraw it")
        if query.image == query.base:
            return Detections(tuple(replace(target, score=1.0) for target in query.targets), self.floor)
        found: dict[str, list[Box]] = {}
        for target in query.targets:
            try:
                found.setdefault(target.label, []).extend(self._find(query, target))
            except Featureless as error:
                return Abstention(f"{target.label!r} cannot be recognised again: {error}")
        boxes = [box for finds in found.values() for box in distinct(_best_first(finds), _SAME)]
        return Detections(tuple(_best_first(boxes)), self.floor)

    def _find(self, query: Match, target: Box) -> Iterator[Box]:
        template = self._template(query.base, target)
        width, height = query.image.size
        aspect = query.base.width / query.base.height
        stretched = abs(width / height / aspect - 1) > _STRETCHED
        for view in (0.0, aspect) if stretched else (0.0,):
            known = self._look(query.image, view)
            for one in template.find(known.pyramid, floor=self.floor):
                x0, x1 = ((x - known.left) / width for x in (one.x0, one.x1))
                y0, y1 = ((y - known.top) / height for y in (one.y0, one.y1))
                box = Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, one.score, target.label)
                if 0 < box.cx < 1 and 0 < box.cy < 1:  # else it is in the padding
                    yield box

    def _template(self, base: Image, target: Box) -> Template:
        known = self._look(base)
        place = (target.cx, target.cy, target.w, target.h)
        if place not in known.templates:
            width, height = base.size
            corners = (target.x0 * width, target.y0 * height, target.x1 * width, target.y1 * height)
            known.templates[place] = Template(known.pyramid, corners)
        return known.templates[place]

    def _look(self, image: Image, aspect: float = 0.0) -> _Known:
        """The structure of a picture, padded to an aspect ratio if that is given."""
        key = (image.digest, aspect)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = _Known.of(image.pixels, aspect)
            self._known.move_to_end(key)
            # A call uses three at a time: the base picture, and two views of the one that is searched.
            while (
                len(self._known) > 3 * self.concurrency
                and sum(one.bytes for one in self._known.values()) > self.limit_bytes
            ):
                self._known.popitem(last=False)
        return known


@dataclass(slots=True)
class _Known:
    """What is known of a picture, and where it lies in its padding."""

    pyramid: Pyramid
    pixels: int
    left: int = 0
    top: int = 0
    templates: dict[tuple[float, float, float, float], Template] = field(default_factory=dict)

    @staticmethod
    def of(pixels: Pixels, aspect: float) -> _Known:
        height, width = pixels.shape[:2]
        left = top = 0
        if aspect:
            left = max(0, round(height * aspect) - width) // 2
            top = max(0, round(width / aspect) - height) // 2
            mean = pixels.reshape(-1, 3).mean(0).tolist()  # the faintest edge on the whole
            padded = cv2.copyMakeBorder(pixels, top, top, left, left, cv2.BORDER_CONSTANT, value=mean)
            pixels = np.asarray(padded, np.uint8)
        return _Known(Pyramid(pixels), pixels.shape[0] * pixels.shape[1], left, top)

    @property
    def bytes(self) -> int:
        """How much memory it takes, about."""
        return 3 * self.pixels + _BYTES * min(self.pixels, 2**20) + _TEMPLATE_BYTES * len(self.templates)


def _best_first(boxes: Sequence[Box]) -> list[Box]:
    return sorted(boxes, key=lambda box: -box.score)


def _original(image: Image) -> Image:
    """The picture that this one is a mere resize of; boxes, being fractions, are the same in both."""
    while image.origin is not None and json.loads(image.origin[1])[0] == "resize":
        image = image.origin[0]
    return image


def _drawn(phrase: str, boxes: Mapping[str, Sequence[Box]]) -> list[Box]:
    """The boxes drawn under a name: one equal but for case, dots and articles, else one in another number."""
    wanted = _plain(phrase)
    exact = [box for name, drawn in boxes.items() if _plain(name) == wanted for box in drawn]
    return exact or [box for name, drawn in boxes.items() if _forms(_plain(name)) & _forms(wanted) for box in drawn]


def _plain(name: str) -> str:
    words = re.sub(r"[.\s]+", " ", name.casefold()).split()
    return " ".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the") else words)


def _forms(plain: str) -> set[str]:
    """A name, and what it may be the plural of.

    Without a trailing "es", or else "s", as the released EdiVal code strips them, it need not be a word ("hors"); the
    set holds the real singular, too ("horse").
    """
    forms = {plain}
    for ending, instead in (("s", ""), ("es", ""), ("ies", "y")):
        if plain.endswith(ending) and len(plain) > len(ending):
            forms.add(plain.removesuffix(ending) + instead)
    return forms
