"""What SceneJudge says to EdiVal's questions: yes or no about names and values in the slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....reward import Image, Judge, Reply
from ..words import BACKDROPS, COLOURS, MATERIALS
from .deeds import altered, attribute, replaced, shows
from .phrases import Name, word
from .replies import yes_no
from .sights import Looker, visibility
from .wishes import Unknown, named

_STRANGE = 0.02
"""Weight of what has another shape than the object asked about, beside 1 for the object."""
_NOTHING = 0.02
"""Probability of yes about an object where there is nothing to see."""


class EdiValJudge:
    """Answers the topics of `edival/`; `core_name` in words. It reads the slots, not the message.

    On `color` and `material` the thing counts that has the shape of the object, wherever in the crop it is, and by how
    much of it has the value.
    """

    def __init__(self, looker: Looker) -> None:
        self._looker = looker
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
        """Raises `Unknown`."""
        if topic == "core_name":
            return Reply(_name(slots, "object").kind)
        shown, answer = self._topics[topic]
        if len(query.images) != shown:
            raise Unknown(f"edival/{topic} by {len(query.images)} pictures: expected {shown}")
        return yes_no(answer(query.images, slots))

    # -- crops of one thing -------------------------------------------------------------------------------------------

    def _colour(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        return self._share(pictures[-1], _name(slots, "object"), "color", _value(slots, COLOURS))

    def _material(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        return self._share(pictures[-1], _name(slots, "object"), "material", _value(slots, MATERIALS))

    def _share(self, crop: Image, name: Name, sort: str, value: str) -> float:
        """How much of the object in a crop has a value; of other shapes only where nothing has the object's."""
        seen = self._looker.look(crop)
        weights = [
            float(one.mask.mean()) * (_STRANGE + one.shapes.get(name.kind, 0.0)) * visibility(one) for one in seen
        ]
        if not any(weights):
            return _NOTHING
        has = [attribute(one, sort)[value] for one in seen]
        return sum(weight * share for weight, share in zip(weights, has, strict=True)) / sum(weights)

    # -- whole pictures -----------------------------------------------------------------------------------------------

    def _background(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        return shows(self._looker.see(pictures[-1]), _value(slots, BACKDROPS))

    def _replaced(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        source, edited = map(self._looker.see, pictures)
        return replaced(source, edited, _name(slots, "object"), _name(slots, "new"), trust=float)

    def _added(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        new = _name(slots, "new")
        before, after = (
            max((box.score for box in self._looker.see(picture).places(new)), default=0.0) for picture in pictures
        )
        return after * (1 - before)

    def _edit_success(self, pictures: Sequence[Image], slots: Mapping[str, str]) -> float:
        name, sort = _name(slots, "object"), slots.get("type", "")
        if sort not in ("color", "material"):
            raise Unknown(f"whether the {sort or 'nothing'} has changed: expected type color or material")
        value = _value(slots, COLOURS if sort == "color" else MATERIALS)
        return altered(self._looker.see(pictures[0]), self._looker.see(pictures[1]), name, sort, value)


def _name(slots: Mapping[str, str], slot: str) -> Name:
    try:
        return named(slots.get(slot, ""))
    except Unknown as reason:
        raise Unknown(f"what {slot} means: {reason}") from None


def _value(slots: Mapping[str, str], known: Sequence[str]) -> str:
    value = word(slots.get("value", ""))
    if value not in known:
        raise Unknown(f"whether anything is {value!r}: it knows {', '.join(known)}")
    return value
