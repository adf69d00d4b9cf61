"""Comparison of an edit with its source, for all questions of a judge. Computed once per pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np

from ....reward import Box, Image
from ..vocabulary import COLOURS, MATERIALS, SHAPES, SIGN, TEXT
from .instruction_parser import ObjectName, ParsedRequest, parse_instruction
from .object_segments import DetectedObject
from .perception import ImagePerception, PerceptionCache, RecentValues, visibility
from .picture_looks import PictureChange
from .request_outcomes import RequestOutcome, is_mentioned, match_probability, request_outcome

_MIN_CERTAINTY = 0.5  # certainty of an object's name from which on it counts
_FAR, _STILL = 0.3, 0.012
"""Distances, in sides of the image: from the first on an object counts as gone, up to the second as not moved."""
_OTHER_SHAPE, _OTHER_COLOUR, _OTHER_MATERIAL = 0.2, 0.5, 0.7  # similarity factors for another shape, colour or material
_REDRAWN_SIMILARITY = 0.93  # similarity of an object to itself after rerendering
_BACKDROP_SHIFT_SCALE = 15.0  # mean difference of backdrops, in grey levels, at which half is preserved
_MIN_CONTRAST = 6.0  # grey levels of spread below which the evidence for any backdrop fades
_SPURIOUS_PENALTY = 0.25  # taken from the backdrop for each object that was not requested
_CHANGED_SIMILARITY = 0.55  # similarity below which an object or backdrop counts as changed


@dataclass(frozen=True, slots=True)
class UnrequestedChange:
    """A change that was not requested, in words, and its severity in [0, 1]."""

    description: str
    severity: float


class EditComparison:
    """An edit of a source. sources: all images of the instruction; the first one is edited."""

    def __init__(
        self, sources: Sequence[ImagePerception], edited: ImagePerception, requests: Sequence[ParsedRequest]
    ) -> None:
        self.sources, self.edited, self.requests = tuple(sources), edited, tuple(requests)
        self.source = self.sources[0]

    @cached_property
    def outcomes(self) -> tuple[RequestOutcome, ...]:
        """The outcome of each request."""
        return tuple(request_outcome(request, self.source, self.edited) for request in self.requests)

    @cached_property
    def success_probability(self) -> float:
        """The probability that all requests are carried out."""
        return min((outcome.success_probability for outcome in self.outcomes), default=0.0)

    @cached_property
    def credit(self) -> float:
        """Mean credit of the requests, in [0, 1]."""
        return fmean(outcome.credit for outcome in self.outcomes) if self.outcomes else 0.0

    @property
    def is_identical(self) -> bool:
        """Whether both images are equal."""
        return self.source.digest == self.edited.digest

    @cached_property
    def picture_change(self) -> PictureChange:
        """What the edit did to the whole of the picture."""
        return PictureChange(self.source.pixels, self.edited.pixels, self.source.objects)

    # -- preservation -------------------------------------------------------------------------------------------------

    @cached_property
    def untouched_objects(self) -> list[tuple[DetectedObject, float]]:
        """The source's objects that no request mentions, each with its similarity in the edit, in [0, 1]."""
        mentioned: set[int] = set()
        for request in self.requests:
            if request.object is not None and request.object.kind != TEXT:
                mentioned |= {
                    index
                    for index, box in enumerate(self.source.locate(request.object))
                    if match_probability(box.score) > 0.5
                }
        others = [obj for index, obj in enumerate(self.source.objects) if _is_certain(obj) and index not in mentioned]
        if self.is_identical:
            return [(obj, 1.0) for obj in others]
        return [(obj, max((_similarity(obj, edited) for edited in self.edited.objects), default=0.0)) for obj in others]

    @cached_property
    def object_preservation(self) -> float | None:
        """Mean similarity of these objects; None where there are none."""
        return fmean(similarity for _, similarity in self.untouched_objects) if self.untouched_objects else None

    @cached_property
    def spurious_objects(self) -> list[DetectedObject]:
        """New objects of the edited image that were not requested."""
        if self.is_identical:
            return []
        requested_names = tuple(name for request in self.requests for name in request.affected_names)
        spurious = []
        for obj in self.edited.objects:
            similarity = max((_similarity(original, obj) for original in self.source.objects), default=0.0)
            same_place = any(_same_place(original.box, obj.box) > 0.5 for original in self.source.objects)
            if (
                _is_certain(obj)
                and similarity < _CHANGED_SIMILARITY
                and not same_place
                and not is_mentioned(requested_names, most_likely_name(obj))
            ):
                spurious.append(obj)
        return spurious

    @cached_property
    def extra_copies(self) -> float:
        """The expected number of copies beyond what was requested."""
        extra = 0.0
        for request in self.requests:
            if request.resulting_object is not None and request.task.type not in ("count_change", "text_change"):
                count = sum(match_probability(box.score) for box in self.edited.locate(request.resulting_object))
                extra += max(
                    0.0,
                    count
                    - max(
                        1.0, sum(match_probability(box.score) for box in self.source.locate(request.resulting_object))
                    ),
                )
        return extra

    @cached_property
    def backdrop_preservation(self) -> float | None:
        """How much of the backdrop is preserved, in [0, 1]; None where another one was requested."""
        if any(request.task.type == "background_change" for request in self.requests):
            return None
        if self.is_identical:
            return 1.0
        similarity = self.source.backdrop_overlap(self.edited)
        spurious = len(self.spurious_objects) + self.extra_copies
        preserved = 1 / (1 + (self.backdrop_shift / _BACKDROP_SHIFT_SCALE) ** 2)
        preserved *= min(1.0, self.edited.contrast / _MIN_CONTRAST)
        return min(1.0, similarity / _REDRAWN_SIMILARITY) * preserved * max(0.0, 1 - _SPURIOUS_PENALTY * spurious)

    @cached_property
    def backdrop_shift(self) -> float:
        """Mean difference of both images where neither shows an object, in grey levels."""
        free = ~(self.source.foreground_mask | self.edited.foreground_mask)
        if np.count_nonzero(free) < 64:
            free = np.ones_like(free)
        return float(np.abs(self.source.denoised - self.edited.denoised)[free].mean())

    @cached_property
    def preservation(self) -> float:
        """The mean preservation of objects and backdrop, in [0, 1]."""
        halves = [half for half in (self.object_preservation, self.backdrop_preservation) if half is not None]
        return fmean(halves) if halves else 1.0

    @cached_property
    def unrequested_changes(self) -> list[UnrequestedChange]:
        """Changes that were not requested, the worst first."""
        changes = [
            UnrequestedChange(f"the {name_phrase(most_likely_name(obj))} is not as it was", 1 - similarity)
            for obj, similarity in self.untouched_objects
            if similarity < _CHANGED_SIMILARITY
        ]
        changes += [
            UnrequestedChange(f"there is a {name_phrase(most_likely_name(obj))} that nobody asked for", 0.5)
            for obj in self.spurious_objects
        ]
        if self.extra_copies > 0.5:
            changes.append(UnrequestedChange("what was asked for is there more than once", 0.5))
        if self.backdrop_preservation is not None and self.backdrop_preservation < _CHANGED_SIMILARITY:
            changes.append(UnrequestedChange("the background is not as it was", 1 - self.backdrop_preservation))
        return sorted(changes, key=lambda change: -change.severity)

    @cached_property
    def is_scene_collapsed(self) -> bool:
        """Whether the backdrop is another one without a request, or most other objects are gone."""
        missing = [obj for obj, similarity in self.untouched_objects if similarity < 0.2]
        if len(missing) >= 3 and 2 * len(missing) > len(self.untouched_objects):
            return True
        if self.backdrop_preservation is None or self.is_identical:
            return False
        similarity = self.source.backdrop_overlap(self.edited)
        return similarity < 0.3 or self.backdrop_shift > 3 * _BACKDROP_SHIFT_SCALE

    # -- visual quality -----------------------------------------------------------------------------------------------

    @cached_property
    def opacity_ratio(self) -> float:
        """Lowest opacity of an object relative to the source's lowest, in [0, 1]; low for ghosts."""
        edited_opacity = min((obj.opacity for obj in self.edited.objects if visibility(obj) > 0.3), default=1.0)
        source_opacity = min((obj.opacity for obj in self.source.objects if visibility(obj) > 0.3), default=1.0)
        return min(1.0, edited_opacity / max(source_opacity, 1e-6))

    @cached_property
    def naturalness(self) -> float:
        """How consistent the edited image looks: as clean as its source, and without ghosts."""
        if self.is_identical:
            return 1.0
        return self.cleanliness * (0.4 + 0.6 * self.opacity_ratio)

    @cached_property
    def cleanliness(self) -> float:
        """Visual quality relative to the source's, in [0, 1]."""
        return min(1.0, self.edited.visual_quality / max(self.source.visual_quality, 1e-6))

    @cached_property
    def overall(self) -> float:
        """The geometric mean of credit and preservation."""
        return math.sqrt(self.credit * self.preservation)


class EditComparisonCache:
    """The most recent comparisons, by images and instruction."""

    def __init__(self, perception: PerceptionCache) -> None:
        self._perception, self._comparisons = perception, RecentValues[tuple[str, ...], EditComparison]()

    def get(self, sources: Sequence[Image], edited: Image, instruction: str, operations: str = "") -> EditComparison:
        """The comparison of an edit by an instruction. Raises `UnanswerableError` for unknown words."""

        def compare() -> EditComparison:
            requests = parse_instruction(instruction, operations) if instruction else ()
            perceived = [self._perception.perceive(image) for image in sources]
            return EditComparison(perceived, self._perception.perceive(edited), requests)

        key = (*(image.digest for image in (*sources, edited)), instruction, operations)
        return self._comparisons.get(key, compare)


# -- objects ----------------------------------------------------------------------------------------------------------


def most_likely_name(obj: DetectedObject) -> ObjectName:
    """The most likely name of an object."""
    shapes = {shape: obj.shapes.get(shape, 0.0) for shape in (*SHAPES, SIGN)}
    colour = max(COLOURS, key=lambda name: obj.colours[name])
    material = max(("", *MATERIALS), key=lambda name: obj.materials[name])
    return ObjectName(
        max(shapes, key=lambda shape: shapes[shape]), colour, "" if shapes[SIGN] == max(shapes.values()) else material
    )


def name_phrase(name: ObjectName) -> str:
    """As in `wood red circle`."""
    return " ".join(word for word in (name.material, name.colour, name.kind) if word)


def _is_certain(obj: DetectedObject) -> bool:
    return max(obj.shapes.values()) * visibility(obj) > _MIN_CERTAINTY


def _same_place(one: Box, other: Box) -> float:
    distance = math.hypot(one.cx - other.cx, one.cy - other.cy)
    return max(0.0, 1.0 - max(0.0, distance - _STILL) / (_FAR - _STILL))


def _similarity(before: DetectedObject, after: DetectedObject) -> float:
    similarity = _same_place(before.box, after.box)
    if not similarity:
        return 0.0
    name = most_likely_name(before)
    for share, floor in (
        (after.shapes.get(name.kind, 0.0) / max(before.shapes[name.kind], 1e-6), _OTHER_SHAPE),
        (after.colours[name.colour] / max(before.colours[name.colour], 1e-6), _OTHER_COLOUR),
        (after.materials[name.material] / max(before.materials[name.material], 1e-6), _OTHER_MATERIAL),
        (after.opacity / max(before.opacity, 1e-6), 0.0),
    ):
        similarity *= floor + (1 - floor) * min(share, 1.0)
    size, old = math.sqrt(after.box.w * after.box.h), math.sqrt(before.box.w * before.box.h)
    return min(1.0, similarity * min(size, old) / max(size, old, 1e-6) / _REDRAWN_SIMILARITY)
