"""SceneJudge on EdiVal's questions: yes or no about names and values in the slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....reward import Image
from ....reward.queries import Judge, Reply
from ..vocabulary import BACKDROPS, COLOURS, MATERIALS
from .instruction_parser import ObjectName, UnanswerableError, canonical_term, parse_known_name
from .perception import PerceptionCache, visibility
from .reply_builders import yes_no_reply
from .request_outcomes import (
    attribute_change_probability,
    attribute_distribution,
    backdrop_probability,
    replacement_probability,
)

_NO_OBJECT_PROBABILITY = 0.02
"""Weight of objects of another shape than the query's, relative to 1."""
_NO_EVIDENCE_PROBABILITY = 0.02
"""Probability of yes about an object where no object is visible."""


class EdiValJudge:
    """Answers the topics of `edival/`; `core_name` in words. It reads the slots, not the message.

    For `color` and `material`, objects of the query's shape count, anywhere in the crop, weighted by area.
    """

    def __init__(self, perception: PerceptionCache) -> None:
        self._perception = perception
        self._topics: Mapping[str, tuple[int, Callable[[Sequence[Image], Mapping[str, str]], float]]] = {
            "color": (1, self._colour),
            "color_pair": (2, self._colour),
            "material": (1, self._material),
            "material_pair": (2, self._material),
            "background": (1, self._background),
            "replaced": (2, self._replaced),
            "added": (2, self._added),
            "edit_success": (2, self._edit_success),
        }
        self.topics = (*self._topics, "core_name")

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `UnanswerableError`."""
        if topic == "core_name":
            return Reply(_name(slots, "object").kind)
        image_count, answer = self._topics[topic]
        if len(query.images) != image_count:
            raise UnanswerableError(f"edival/{topic} by {len(query.images)} pictures: expected {image_count}")
        return yes_no_reply(answer(query.images, slots))

    # -- crops of one object -------------------------------------------------------------------------------------------

    def _colour(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        return self._share(pictures[-1], _name(slots, "object"), "color", _value(slots, COLOURS))

    def _material(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        return self._share(pictures[-1], _name(slots, "object"), "material", _value(slots, MATERIALS))

    def _share(self, crop: Image, name: ObjectName, attribute: str, value: str) -> float:
        """The share of an object in a crop that has a value; other shapes count only where none matches."""
        objects = self._perception.objects(crop)
        weights = [
            float(obj.mask.mean()) * (_NO_OBJECT_PROBABILITY + obj.shapes.get(name.kind, 0.0)) * visibility(obj)
            for obj in objects
        ]
        if not any(weights):
            return _NO_EVIDENCE_PROBABILITY
        shares = [attribute_distribution(obj, attribute)[value] for obj in objects]
        return sum(weight * share for weight, share in zip(weights, shares, strict=True)) / sum(weights)

    # -- whole images -----------------------------------------------------------------------------------------------

    def _background(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        return backdrop_probability(self._perception.perceive(pictures[-1]), _value(slots, BACKDROPS))

    def _replaced(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        source, edited = map(self._perception.perceive, pictures)
        return replacement_probability(source, edited, _name(slots, "object"), _name(slots, "new"), trust=float)

    def _added(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        new = _name(slots, "new")
        before, after = (
            max((box.score for box in self._perception.perceive(picture).locate(new)), default=0.0)
            for picture in pictures
        )
        return after * (1 - before)

    def _edit_success(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        name, attribute = _name(slots, "object"), slots.get("type", "")
        if attribute not in ("color", "material"):
            raise UnanswerableError(
                f"whether the {attribute or 'nothing'} has changed: expected type color or material"
            )
        value = _value(slots, COLOURS if attribute == "color" else MATERIALS)
        return attribute_change_probability(
            self._perception.perceive(pictures[0]), self._perception.perceive(pictures[1]), name, attribute, value
        )


def _name(slots: Mapping[str, str], slot: str) -> ObjectName:
    try:
        return parse_known_name(slots.get(slot, ""))
    except UnanswerableError as reason:
        raise UnanswerableError(f"what {slot} means: {reason}") from None


def _value(slots: Mapping[str, str], options: Sequence[str]) -> str:
    value = canonical_term(slots.get("value", ""))
    if value not in options:
        raise UnanswerableError(f"whether anything is {value!r}: it knows {', '.join(options)}")
    return value
