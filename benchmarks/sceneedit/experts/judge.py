"""SceneJudge: answers EdiVal's questions about SceneEdit pictures, by topic and slots."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import cv2

from ....reward import Abstention, Box, Expert, Image, Judge, Reply
from ....reward.query import Outcome
from ..words import BACKDROPS, COLOURS, MATERIALS, TEXT
from .backdrops import backdrop
from .detector import Looker, lines, visibility
from .phrases import Name, parse, word
from .segments import Seen

_STRANGE = 0.02
"""Weight of what has another shape than the object asked about, beside 1 for the object."""
_NOTHING = 0.02
"""Probability of yes about an object where there is nothing to see."""
_TOUCH = 0.06
"""Overlap (IoU) of two boxes at which it is even whether one is in the place of the other."""
_MOST = 0.7
"""Share of the evidence for one backdrop at which it is even whether the picture shows it."""
_CONTRAST = 16.0
"""Grey levels of spread over a picture below which there is less and less to be seen."""
_STAYED = 0.6
"""Distance, in sides of its box, at which it is even whether a thing is still in its place."""


class _Unknown(Exception):
    """Says what cannot be known."""


class SceneJudge(Expert):
    """Answers yes or no, with probabilities, on the topics of `edival/`; `core_name` in words.

    It reads the slots, not the message. On `color` and `material` the thing counts that has the shape of the object,
    wherever in the crop it is, and by how much of it has the value. Abstains on other topics, on names and values it
    does not know, and on another number of pictures than the topic shows.
    """

    kinds = (Judge,)
    id = "scene-judge@1"

    def __init__(self) -> None:
        self._looker = Looker()
        self._topics: Mapping[str, tuple[int, Callable[[Sequence[Image], Mapping[str, str]], float]]] = {
            "edival/color": (1, self._colour),
            "edival/color_pair": (2, self._colour),
            "edival/material": (1, self._material),
            "edival/material_pair": (2, self._material),
            "edival/background": (1, self._background),
            "edival/replaced": (2, self._replaced),
            "edival/added": (2, self._added),
            "edival/edit_success": (2, self._edit_success),
        }

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Judge) -> Reply | Abstention:
        slots = dict(query.slots)
        try:
            if query.topic == "edival/core_name":
                return Reply(_name(slots, "object").kind)
            if query.topic not in self._topics:
                known = ", ".join((*self._topics, "edival/core_name"))
                raise _Unknown(f"{query.topic or 'a question without a topic'}: it knows {known}")
            shown, answer = self._topics[query.topic]
            if len(query.images) != shown:
                raise _Unknown(f"{query.topic} by {len(query.images)} pictures: expected {shown}")
            yes = min(max(answer(query.images, slots), 0.0), 1.0)
        except _Unknown as reason:
            return Abstention(f"a scene judge cannot tell {reason}")
        return Reply("yes" if yes >= 0.5 else "no", {"yes": yes, "no": 1 - yes})

    # -- crops of one thing -------------------------------------------------------------------------------------------

    def _colour(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        return self._share(pictures[-1], _name(slots, "object"), "color", _value(slots, COLOURS))

    def _material(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        return self._share(pictures[-1], _name(slots, "object"), "material", _value(slots, MATERIALS))

    def _share(self, crop: Image, name: Name, sort: str, value: str) -> float:
        """How much of the object in a crop has a value; of other shapes only where nothing has the object's."""
        seen = self._looker.look(crop)
        weights = [_area(one) * (_STRANGE + _shape(one, name)) * visibility(one) for one in seen]
        if not any(weights):
            return _NOTHING
        has = [_attribute(one, sort)[value] for one in seen]
        return sum(weight * share for weight, share in zip(weights, has, strict=True)) / sum(weights)

    # -- whole pictures -----------------------------------------------------------------------------------------------

    def _background(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        """Yes where most of the picture shows it, and there is anything to be seen at all."""
        pixels = pictures[-1].pixels
        share = backdrop(pixels)[_value(slots, BACKDROPS)]
        mostly = 0.5 * share / _MOST if share < _MOST else 1.0 - 0.5 * (1.0 - share) / (1.0 - _MOST)
        contrast = float(cv2.GaussianBlur(pixels, (0, 0), 1.0).std(axis=(0, 1)).max())
        return mostly * min(contrast / _CONTRAST, 1.0)

    def _replaced(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        """The best place at which the old was and the new is, without the old."""
        source, edited = pictures
        old, new = _name(slots, "object"), _name(slots, "new")
        was, left, now = self._places(source, old), self._places(edited, old), self._places(edited, new)
        before = self._places(source, new)
        found = 0.0
        for old_box in was:
            still = max((box.score * _overlap(box, old_box) for box in left), default=0.0)
            for new_box in now:
                there = max((box.score * _overlap(box, new_box) for box in before), default=0.0)
                place = _overlap(new_box, old_box)
                found = max(found, _sure(old_box.score) * new_box.score * place * (1 - still) * (1 - there))
        return found

    def _added(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        source, edited = pictures
        new = _name(slots, "new")
        before = max((box.score for box in self._places(source, new)), default=0.0)
        after = max((box.score for box in self._places(edited, new)), default=0.0)
        return after * (1 - before)

    def _edit_success(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        """What has the object's shape and is nearest to its place has the value."""
        source, edited = pictures
        name, sort = _name(slots, "object"), slots.get("type", "")
        if sort not in ("color", "material"):
            raise _Unknown(f"whether the {sort or 'nothing'} has changed: expected type color or material")
        value = _value(slots, COLOURS if sort == "color" else MATERIALS)
        was = max(self._places(source, name), key=lambda box: box.score, default=None)
        if was is None:
            return _NOTHING
        best, has = 0.0, 0.0
        for one in self._looker.look(edited):
            likely = _shape(one, name) * visibility(one) * _near(one.box, was)
            if likely > best:
                best, has = likely, _attribute(one, sort)[value]
        return _sure(was.score) * best * has

    def _places(self, picture: Image, name: Name) -> list[Box]:
        """Where something is, strictly by its name: the score is how surely shape, colour and material are right."""
        if name.kind == TEXT:
            return lines(picture, TEXT)
        found = []
        for one in self._looker.look(picture):
            colour = one.colours[name.colour] if name.colour else 1.0
            right = _shape(one, name) * colour * one.materials[name.material] * visibility(one)
            found.append(Box(one.box.cx, one.box.cy, one.box.w, one.box.h, right))
        return found


def _name(slots: Mapping[str, str], slot: str) -> Name:
    name = parse(slots.get(slot, ""))
    if isinstance(name, str):
        raise _Unknown(f"what {slot} means: {name}")
    return name


def _value(slots: Mapping[str, str], known: Sequence[str]) -> str:
    value = word(slots.get("value", ""))
    if value not in known:
        raise _Unknown(f"whether anything is {value!r}: it knows {', '.join(known)}")
    return value


def _shape(seen: Seen, name: Name) -> float:
    return seen.shapes.get(name.kind, 0.0)


def _attribute(seen: Seen, sort: str) -> Mapping[str, float]:
    return seen.colours if sort == "color" else seen.materials


def _area(seen: Seen) -> float:
    return float(seen.mask.mean())


def _overlap(one: Box, other: Box) -> float:
    overlap = one.iou(other)
    return overlap / (overlap + _TOUCH)


def _near(one: Box, other: Box) -> float:
    side = max(one.w, one.h, other.w, other.h, 1e-6)
    away = math.hypot(one.cx - other.cx, one.cy - other.cy) / side
    return 1 / (1 + (away / _STAYED) ** 4)


def _sure(score: float) -> float:
    """How surely something was there at all: half a match is enough to know what is meant."""
    return 1 / (1 + math.exp(-(score - 0.3) / 0.07))
