"""Outcomes: how far a request was carried out, from the perceptions of source and edit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ....reward import Box
from ....reward.sample import Position, TaskType
from ..vocabulary import TEXT
from .instruction_parser import ObjectName, ParsedRequest, canonical_term
from .object_segments import DetectedObject
from .perception import ImagePerception, visibility

_NO_OBJECT_PROBABILITY = 0.02  # probability of yes about an object where no object is visible
_SAME_PLACE_IOU = 0.06  # overlap (IoU) of two boxes with probability 1/2 of being at the same place
_BACKDROP_MAJORITY = 0.7  # share of the evidence for a backdrop at which its probability is 1/2
_CONTRAST = 16.0  # spread of an image, in grey levels, below which the evidence fades
_SAME_PLACE_DISTANCE = 0.6  # distance, in sides of its box, with probability 1/2 of being at the same place
_POSITION_SOFTNESS = 0.015  # scale of the transition, in sides of the image, from one side of an object to the other
_MAX_PARTIAL_CREDIT = 0.5  # greatest credit for an attempt that fails
_MATCH_THRESHOLD = 0.3  # score from which on an object matches a name; lower ones are near misses


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """success_probability: that the request is carried out exactly. attempt_share: how much of something like it was
    done, in [0, 1].
    """

    success_probability: float
    attempt_share: float

    @property
    def credit(self) -> float:
        """How much of the request is fulfilled: failed attempts are worth up to a half."""
        return self.success_probability + (1 - self.success_probability) * _MAX_PARTIAL_CREDIT * self.attempt_share


def request_outcome(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> RequestOutcome:
    """The outcome of a request. Two equal images fulfil none."""
    if source.digest == edited.digest:
        return RequestOutcome(0.0, 0.0)
    success, attempt = _EVALUATORS[request.task.type](request, source, edited)
    return RequestOutcome(min(max(success, 0.0), 1.0), min(max(attempt, 0.0), 1.0))


# -- perception to probabilities --------------------------------------------------------------------------------------


def match_probability(score: float) -> float:
    """The probability that an object matches a name at all: half a match is enough."""
    return 1 / (1 + math.exp(-(score - _MATCH_THRESHOLD) / 0.07))


def count_distribution(perceived: ImagePerception, name: ObjectName) -> list[float]:
    """Probabilities of there being 0, 1, 2, … objects of a name."""
    probabilities = [1.0]
    for box in perceived.locate(name):
        p = match_probability(box.score)
        probabilities = [a * (1 - p) + b * p for a, b in zip([*probabilities, 0.0], [0.0, *probabilities], strict=True)]
    return probabilities


def count_probability(perceived: ImagePerception, name: ObjectName, count: int) -> float:
    """The probability of exactly `count` objects of a name."""
    probabilities = count_distribution(perceived, name)
    return probabilities[count] if count < len(probabilities) else 0.0


def expected_count(perceived: ImagePerception, name: ObjectName) -> float:
    """The expected number of objects of a name."""
    return sum(match_probability(box.score) for box in perceived.locate(name))


def presence_probability(perceived: ImagePerception, name: ObjectName) -> float:
    """The probability of at least one."""
    return 1 - count_probability(perceived, name, 0)


def best_match(perceived: ImagePerception, name: ObjectName) -> Box | None:
    """The best box for a name."""
    return max(perceived.locate(name), key=lambda box: box.score, default=None)


def backdrop_probability(perceived: ImagePerception, kind: str) -> float:
    """The probability that an image has this backdrop: most of it shows it, and the contrast suffices."""
    share = perceived.backdrop_probabilities[kind]
    mostly = (
        0.5 * share / _BACKDROP_MAJORITY
        if share < _BACKDROP_MAJORITY
        else 1.0 - 0.5 * (1.0 - share) / (1.0 - _BACKDROP_MAJORITY)
    )
    return mostly * min(perceived.contrast / _CONTRAST, 1.0)


def position_offset(position: Position, box: Box, reference: Box) -> float:
    """How far a box lies on that side of another, in sides of the image; negative on the other side."""
    return {
        "left": reference.cx - box.cx,
        "right": box.cx - reference.cx,
        "above": reference.cy - box.cy,
        "below": box.cy - reference.cy,
    }[position]


def position_probability(
    perceived: ImagePerception, name: ObjectName, position: Position, reference: ObjectName
) -> float:
    """The probability that an object is on that side of another."""
    box, reference_box = best_match(perceived, name), best_match(perceived, reference)
    if box is None or reference_box is None:
        return 0.0
    beyond = 1 / (1 + math.exp(-position_offset(position, box, reference_box) / _POSITION_SOFTNESS))
    return match_probability(box.score) * match_probability(reference_box.score) * beyond


def text_match(perceived: ImagePerception, text: str, on: ObjectName | None = None) -> tuple[float, float]:
    """The probability of a text, on an object of this name if given; and the similarity of the nearest text."""
    probability, similarity = 0.0, 0.0
    plates = (
        [box for box in perceived.locate(on) if box.score > _MATCH_THRESHOLD]
        if on is not None and on.kind != TEXT
        else None
    )
    for line, corners, certainty in perceived.text_lines:
        box = Box.from_corners(*corners, perceived.size)
        inside = 1.0 if plates is None else max((_inside(box, plate) for plate in plates), default=0.0)
        similarity = max(similarity, inside * SequenceMatcher(None, line, text.upper()).ratio())
        if line == text.upper():
            probability = max(probability, inside * match_probability(certainty))
    return probability, similarity


def _inside(box: Box, outer: Box) -> float:
    """The share of a box that lies in another."""
    across = max(0.0, min(box.x1, outer.x1) - max(box.x0, outer.x0))
    down = max(0.0, min(box.y1, outer.y1) - max(box.y0, outer.y0))
    return min(1.0, 1.25 * across * down / max(box.w * box.h, 1e-9))


# -- one evaluator per task type --------------------------------------------------------------------------------------


def _added(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> tuple[float, float]:
    assert request.new_object is not None
    new = request.new_object
    once = count_probability(edited, new, 1) * (1 - presence_probability(source, new))
    side = 1.0
    if request.reference is not None and request.task.position is not None:
        new_box = best_match(edited, new)
        reference_box = best_match(edited, request.reference)
        side = 0.0
        if new_box is not None and reference_box is not None:
            side = match_probability(reference_box.score) / (
                1 + math.exp(-position_offset(request.task.position, new_box, reference_box) / _POSITION_SOFTNESS)
            )
    near_miss = _nearly(edited, new) - _nearly(source, new)
    return once * side, max(near_miss, presence_probability(edited, new) - presence_probability(source, new))


def _removed(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> tuple[float, float]:
    assert request.object is not None
    before, after = expected_count(source, request.object), expected_count(edited, request.object)
    return presence_probability(source, request.object) * count_probability(
        edited, request.object, 0
    ), 1 - after / before if before > 0.1 else 0.0


def _replaced(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> tuple[float, float]:
    assert request.object is not None
    assert request.new_object is not None
    success = replacement_probability(source, edited, request.object, request.new_object) * count_probability(
        edited, request.object, 0
    )
    lost = max(0.0, presence_probability(source, request.object) - presence_probability(edited, request.object))
    gained = max(0.0, _nearly(edited, request.new_object) - _nearly(source, request.new_object))
    return success, (lost + gained) / 2


def replacement_probability(
    source: ImagePerception,
    edited: ImagePerception,
    old: ObjectName,
    new: ObjectName,
    trust: Callable[[float], float] = match_probability,
) -> float:
    """The best probability, over places, that the old object was there and the new one is, without the old. trust: maps
    the score of a new box to its weight.
    """
    old_boxes, old_boxes_after, new_boxes = source.locate(old), edited.locate(old), edited.locate(new)
    new_boxes_before = source.locate(new)
    best = 0.0
    for old_box in old_boxes:
        still = max((box.score * _overlap(box, old_box) for box in old_boxes_after), default=0.0)
        for new_box in new_boxes:
            existing = max((box.score * _overlap(box, new_box) for box in new_boxes_before), default=0.0)
            overlap = _overlap(new_box, old_box)
            best = max(
                best, match_probability(old_box.score) * trust(new_box.score) * overlap * (1 - still) * (1 - existing)
            )
    return best


def _moved(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> tuple[float, float]:
    assert request.object is not None
    assert request.reference is not None
    assert request.task.position is not None
    before, after = best_match(source, request.object), best_match(edited, request.object)
    once = count_probability(edited, request.object, 1)
    done = once * position_probability(edited, request.object, request.task.position, request.reference)
    if before is None or after is None:
        return done, 0.0
    far = math.hypot(before.cx - after.cx, before.cy - after.cy)
    return done, match_probability(after.score) * min(1.0, far / 0.2)


def _counted(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> tuple[float, float]:
    assert request.object is not None
    target_count = request.task.count or 0
    before, after = expected_count(source, request.object), expected_count(edited, request.object)
    error_before, error_after = abs(target_count - before), abs(target_count - after)
    return count_probability(edited, request.object, target_count), 1 - error_after / max(error_before, 0.5)


def _altered(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> tuple[float, float]:
    assert request.object is not None
    attribute = "color" if request.task.type == "color_alter" else "material"
    match = _in_place(source, edited, request.object)
    if match is None:
        return 0.0, 0.0
    present, likely, obj = match
    values = attribute_distribution(obj, attribute)
    old_value = request.object.colour if attribute == "color" else request.object.material
    return present * likely * values[canonical_term(request.task.value or "")], present * likely * (
        1 - values.get(old_value, 0.0)
    )


def attribute_change_probability(
    source: ImagePerception, edited: ImagePerception, name: ObjectName, attribute: str, value: str
) -> float:
    """The probability that the object of this shape nearest to the old place has the value."""
    match = _in_place(source, edited, name)
    if match is None:
        return _NO_OBJECT_PROBABILITY
    present, likely, obj = match
    return present * likely * attribute_distribution(obj, attribute)[value]


def _in_place(
    source: ImagePerception, edited: ImagePerception, name: ObjectName
) -> tuple[float, float, DetectedObject] | None:
    """The probability that the object was there, that the object now at its place is it, and that object."""
    box = best_match(source, name)
    if box is None:
        return None
    likely, obj = max(
        (
            (candidate.shapes.get(name.kind, 0.0) * visibility(candidate) * _near(candidate.box, box), candidate)
            for candidate in edited.objects
        ),
        key=lambda pair: pair[0],
        default=(0.0, None),
    )
    return None if obj is None else (match_probability(box.score), likely, obj)


def attribute_distribution(obj: DetectedObject, attribute: str) -> Mapping[str, float]:
    """Probabilities of its colours (`color`) or of its materials."""
    return obj.colours if attribute == "color" else obj.materials


def _rewritten(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> tuple[float, float]:
    text = request.task.text or ""
    probability, similarity = text_match(edited, text, request.object)
    probability_before, similarity_before = text_match(source, text, request.object)
    copies = sum(line == text.upper() for line, _, _ in edited.text_lines)
    if request.object is None and copies > 1:
        probability /= copies
    return probability * (1 - probability_before), similarity - similarity_before


def _behind(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> tuple[float, float]:
    value = canonical_term(request.task.value or "")
    overlap = source.backdrop_overlap(edited)
    return backdrop_probability(edited, value), (1 - overlap) * min(edited.contrast / _CONTRAST, 1.0)


_EVALUATORS: Mapping[TaskType, Callable[[ParsedRequest, ImagePerception, ImagePerception], tuple[float, float]]] = {
    "subject_add": _added,
    "subject_remove": _removed,
    "subject_replace": _replaced,
    "position_change": _moved,
    "count_change": _counted,
    "color_alter": _altered,
    "material_alter": _altered,
    "text_change": _rewritten,
    "background_change": _behind,
}


def _nearly(perceived: ImagePerception, name: ObjectName) -> float:
    """How near any object comes to a name: the shape makes half of it, colour and material the rest."""
    return max(
        (
            obj.shapes.get(name.kind, 0.0)
            * visibility(obj)
            * (0.5 + 0.35 * (obj.colours[name.colour] if name.colour else 1.0) + 0.15 * obj.materials[name.material])
            for obj in perceived.objects
        ),
        default=0.0,
    )


def _overlap(one: Box, other: Box) -> float:
    overlap = one.iou(other)
    return overlap / (overlap + _SAME_PLACE_IOU)


def _near(one: Box, other: Box) -> float:
    side = max(one.w, one.h, other.w, other.h, 1e-6)
    distance = math.hypot(one.cx - other.cx, one.cy - other.cy) / side
    return 1 / (1 + (distance / _SAME_PLACE_DISTANCE) ** 4)


def is_mentioned(names: Sequence[ObjectName], name: ObjectName) -> bool:
    """Whether an object of this name is among these names."""
    return any(
        name.kind == mentioned.kind
        and mentioned.colour in ("", name.colour)
        and mentioned.material in ("", name.material)
        for mentioned in names
    )
