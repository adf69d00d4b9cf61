"""Annotated: detects annotated objects of the base image in an edited image. No model, no download."""

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

from ..boxes import Box, best_first, suppress_overlaps
from ..config import build
from ..forks import at_fork, was_held
from ..image import Image, Pixels
from ..missing_inputs import no_box, not_matched
from ..queries.answers import Detections, Outcome
from ..queries.expert import Expert
from ..queries.kinds import Detect, Match, Query
from ..queries.outcomes import Abstention
from ..queries.specs import Spec
from ..sample import EditSample
from .loading.local_expert import WrappingExpert
from .matching.edge_structure import Pyramid
from .matching.object_matching import ObjectTemplate, TooLittleStructure

_DUPLICATE_IOU = 0.5
"""IoU above which two detections of one label are duplicates: each of several boxes matches the others' objects too."""

_ASPECT_TOLERANCE = 0.02
"""Editors that resize keep the aspect ratio within this tolerance (block size rounding). If it differs by more, the
image may have been stretched, or cropped or padded: both are tried."""

_BYTES_PER_PIXEL = 150
"""Maximum memory per pixel of an image's structure, after searches for objects of all sizes. Pixels beyond 1024 x 1024
do not count: larger images are searched at that size."""

_TEMPLATE_BYTES = 2 * 2**20

_MAX_SEARCHED = 128
"""Boxes of a query. Each is searched for about 10 ms in small images, and compared with all others; a hundred kilobytes
of boxes took minutes and gigabytes."""

_MAX_TEMPLATES = 256  # templates that are kept of an image
_FAR_OUTSIDE = 2  # of an image's side: numbers that are no fractions of it


class Annotated(WrappingExpert):
    """A detector for objects with annotated boxes in the base image (`EditSample.boxes`).

    `Detect` becomes `Match` against the sample's base image (`rewrite_query`). In that image itself, or a resized copy,
    the annotated boxes are returned with score 1. Elsewhere each object is searched by structure (`matching`): a
    recoloured, moved or resized object is detected, a removed or covered one is not; the score is the share of its
    structure that is present. Several boxes of one label are several objects: all are searched, duplicates merged.

    Abstains on phrases without a box, on more than 128 boxes, and on boxes outside the image or with too little
    structure. It cannot detect added objects, and it does not know categories: an object redrawn in another shape is
    not detected.

    Args:
        min_score: Boxes with lower scores are left out.
        cache_bytes: For the structure of recent images.
        otherwise: A detector, or its spec, for phrases without a box, and for objects in an edit whose box has too
            little structure. Boxes that are given win: it is not asked about the other phrases. Usage, memory and
            unloading are then its.
    """

    answerable = MappingProxyType({Detect: "drawn objects"})
    kinds = (Match, Detect)
    adapts = (Detect,)
    batch = 16
    concurrency = 2
    deadline_s = 900.0

    def __init__(
        self, min_score: float = 0.05, cache_bytes: int = 256 * 2**20, otherwise: Expert | Spec | None = None
    ) -> None:
        if not 0 <= min_score < 1:
            raise ValueError(f"min_score must lie in [0, 1), got {min_score}")
        self.min_score = min_score
        self.cache_bytes = cache_bytes
        self.otherwise = otherwise
        self.detector: Expert | None = None
        if otherwise is not None:
            self.detector = otherwise if isinstance(otherwise, Expert) else build(otherwise, "editcritic.experts")
            if not isinstance(self.detector, Expert) or Detect not in self.detector.kinds:
                raise ValueError(f"annotated needs a detector as otherwise, {type(self.detector).__name__} is none")
            self.wrapped = self.detector
            self.batch, self.concurrency = self.detector.batch, 1
            self.deadline_s = max(self.deadline_s, self.detector.deadline_s)
        self._indexed: OrderedDict[tuple[str, float], _IndexedImage] = OrderedDict()
        self._lock = threading.Lock()  # guards `_indexed`, which all calls share
        at_fork(self, Annotated._in_child)

    def _in_child(self) -> None:
        if was_held(self._lock):
            self._lock = threading.Lock()
            self._indexed = OrderedDict()

    @property
    def id(self) -> str:  # type: ignore[override]  # the detector's id is computed on first use
        """Of its matching, and of the detector that is asked otherwise."""
        own = f"annotated@1 floor={self.min_score:g}"
        return own if self.detector is None else f"{own} otherwise {self.detector.id}"

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Detect a phrase -> match the objects annotated with that name."""
        if not isinstance(query, Detect):
            return query
        boxes = {} if sample is None else sample.boxes
        if self.detector is not None and not all(_annotated_boxes(phrase, boxes) for phrase in query.phrases):
            return query
        if sample is None:
            return Abstention("the query has no sample, and hence no boxes: bind a real detector")
        targets: list[Box] = []
        for phrase in query.phrases:
            annotated = _annotated_boxes(phrase, boxes)
            if not annotated:
                return Abstention(no_box(phrase, tuple(boxes)))
            targets += [replace(box, score=1.0, label=phrase) for box in annotated]
            if len(targets) > _MAX_SEARCHED:
                return Abstention(
                    f"{len(targets):,} boxes are annotated up to {phrase!r}, and at most {_MAX_SEARCHED} objects are "
                    "searched at a time: annotate those that the instruction is about"
                )
        image, base = query.image, sample.base
        while image.origin is not None and json.loads(image.origin[1])[0] == "resize":
            image = image.origin[0]  # boxes are fractions and stay the same
        return Match(image, base.raw if image == base.raw else base, tuple(targets))

    def __call__(self, queries: Sequence[Match | Detect]) -> list[Outcome]:
        """Detections: of matches the best first (equals in the order of the targets), else as the detector has them."""
        detects = [query for query in queries if isinstance(query, Detect)]
        answers: Sequence[Outcome] = [Abstention("the query has no boxes: bind a real detector")] * len(detects)
        if self.detector is not None and detects:
            answers = self.detector(detects)
        detected = iter(answers)
        return [self._match(query) if isinstance(query, Match) else next(detected) for query in queries]

    def _match(self, query: Match) -> Outcome:
        for target in query.targets:
            is_in_pixels = max(target.cx, target.cy, target.w, target.h) > _FAR_OUTSIDE
            if is_in_pixels or target.clipped_corners(query.base.size) is None:
                cure = "a Box is in fractions, and Box.from_corners takes pixels" if is_in_pixels else "correct it"
                return Abstention(f"the box of {target.label!r} lies outside its image: {cure}")
        if query.image == query.base:
            return Detections(tuple(replace(target, score=1.0) for target in query.targets), self.min_score)
        by_label: dict[str, list[Box]] = {}
        for target in query.targets:
            try:
                by_label.setdefault(target.label, []).extend(self._find(query, target))
            except TooLittleStructure as error:
                if self.detector is not None:
                    labels = dict.fromkeys(target.label for target in query.targets)
                    return self.detector([Detect(query.image, tuple(labels))])[0]
                return Abstention(not_matched(target.label, str(error)))
        distinct = (suppress_overlaps(best_first(boxes), _DUPLICATE_IOU) for boxes in by_label.values())
        return Detections(best_first([box for boxes in distinct for box in boxes]), self.min_score)

    def _find(self, query: Match, target: Box) -> Iterator[Box]:
        template = self._template(query.base, target)
        width, height = query.image.size
        aspect = query.base.width / query.base.height
        stretched = abs(width / height / aspect - 1) > _ASPECT_TOLERANCE
        for view in (0.0, aspect) if stretched else (0.0,):
            indexed = self._index(query.image, view)
            for match in template.find(indexed.pyramid, min_score=self.min_score):
                x0, x1 = ((x - indexed.left) / width for x in (match.x0, match.x1))
                y0, y1 = ((y - indexed.top) / height for y in (match.y0, match.y1))
                box = Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, match.score, target.label)
                if 0 < box.cx < 1 and 0 < box.cy < 1:  # otherwise it lies in the padding
                    yield box

    def _template(self, base: Image, target: Box) -> ObjectTemplate:
        indexed = self._index(base)
        key = (target.cx, target.cy, target.w, target.h)
        template = indexed.templates.get(key)
        if template is None:
            width, height = base.size
            corners = (target.x0 * width, target.y0 * height, target.x1 * width, target.y1 * height)
            template = indexed.templates[key] = ObjectTemplate(indexed.pyramid, corners)
            if len(indexed.templates) > _MAX_TEMPLATES:
                indexed.templates.popitem(last=False)
        return template

    def _index(self, image: Image, aspect: float = 0.0) -> _IndexedImage:
        """The structure of an image, padded to an aspect ratio if given."""
        key = (image.digest, aspect)
        with self._lock:
            indexed = self._indexed.get(key)
            if indexed is None:
                indexed = self._indexed[key] = _IndexedImage.of(image.pixels, aspect)
            self._indexed.move_to_end(key)
            # A call uses three at a time: the base image, and two views of the searched image.
            used = sum(entry.bytes for entry in self._indexed.values())
            while len(self._indexed) > 3 * self.concurrency and used > self.cache_bytes:
                used -= self._indexed.popitem(last=False)[1].bytes
        return indexed


@dataclass(slots=True)
class _IndexedImage:
    """An image's structure and templates, and its offset in the padding."""

    pyramid: Pyramid
    pixels: int
    left: int = 0
    top: int = 0
    templates: OrderedDict[tuple[float, float, float, float], ObjectTemplate] = field(default_factory=OrderedDict)

    @staticmethod
    def of(pixels: Pixels, aspect: float) -> _IndexedImage:
        height, width = pixels.shape[:2]
        left = top = 0
        if aspect:
            left = max(0, round(height * aspect) - width) // 2
            top = max(0, round(width / aspect) - height) // 2
            mean = pixels.reshape(-1, 3).mean(0).tolist()  # the colour with the weakest edge overall
            padded = cv2.copyMakeBorder(pixels, top, top, left, left, cv2.BORDER_CONSTANT, value=mean)
            pixels = np.asarray(padded, np.uint8)
        return _IndexedImage(Pyramid(pixels), pixels.shape[0] * pixels.shape[1], left, top)

    @property
    def bytes(self) -> int:
        """Approximate memory."""
        return 3 * self.pixels + _BYTES_PER_PIXEL * min(self.pixels, 2**20) + _TEMPLATE_BYTES * len(self.templates)


def _annotated_boxes(phrase: str, boxes: Mapping[str, Sequence[Box]]) -> list[Box]:
    """The boxes with a name: equal up to case, dots and articles, or else up to singular and plural."""
    plain = _plain(phrase)
    exact = [box for name, named in boxes.items() if _plain(name) == plain for box in named]
    return exact or [box for name, named in boxes.items() if _forms(_plain(name)) & _forms(plain) for box in named]


def _plain(name: str) -> str:
    words = re.sub(r"[.\s]+", " ", name.casefold()).split()
    return " ".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the") else words)


def _forms(plain: str) -> set[str]:
    """A name and its possible singulars. The released EdiVal code strips a trailing "es", or else "s", which may give a
    non-word ("hors"); the set also holds the real singular ("horse")."""
    forms = {plain}
    for ending, instead in (("s", ""), ("es", ""), ("ies", "y")):
        if plain.endswith(ending) and len(plain) > len(ending):
            forms.add(plain.removesuffix(ending) + instead)
    return forms
