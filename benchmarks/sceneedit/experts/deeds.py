"""Deeds: how far one wish has been carried out, by what is seen before and after."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ....reward import Box
from ....reward.sample import Position, TaskType
from ..words import TEXT
from .phrases import Name, word
from .segments import Seen
from .sights import Sight, visibility
from .wishes import Wish

_STRANGE = 0.02
"""Probability of yes about an object where there is nothing to see."""
_TOUCH = 0.06
"""Overlap (IoU) of two boxes at which it is even whether one is in the place of the other."""
_MOST = 0.7
"""Share of the evidence for one backdrop at which it is even whether the picture shows it."""
_CONTRAST = 16.0
"""Grey levels of spread over a picture below which there is less and less to be seen."""
_STAYED = 0.6
"""Distance, in sides of its box, at which it is even whether a thing is still in its place."""
_AHEAD = 0.015
"""Distance, in sides of the picture, over which it becomes certain that a thing is on one side of another."""
_CREDIT = 0.5
"""Most that an attempt is worth which is not what was asked for."""
_FIRM = 0.3
"""Certainty of a name from which on something is taken for it; below, for a near miss."""


@dataclass(frozen=True, slots=True)
class Deed:
    """done: how surely it is carried out, exactly. tried: how far, in [0, 1], something like it has been done; 0 where
    nothing has.
    """

    done: float
    tried: float

    @property
    def degree(self) -> float:
        """How much of the wish is fulfilled: attempts that miss are worth up to a half."""
        return self.done + (1 - self.done) * _CREDIT * self.tried


def deed(wish: Wish, source: Sight, edited: Sight) -> Deed:
    """What has become of a wish. Two equal pictures fulfil none."""
    if source.digest == edited.digest:
        return Deed(0.0, 0.0)
    done, tried = _JUDGES[wish.task.type](wish, source, edited)
    return Deed(min(max(done, 0.0), 1.0), min(max(tried, 0.0), 1.0))


# -- what is seen -----------------------------------------------------------------------------------------------------


def firm(score: float) -> float:
    """How surely something is meant by a name at all: half a match is enough to know what is meant."""
    return 1 / (1 + math.exp(-(score - _FIRM) / 0.07))


def number(sight: Sight, name: Name) -> list[float]:
    """Probabilities of there being 0, 1, 2, … things of a name."""
    chances = [1.0]
    for box in sight.places(name):
        p = firm(box.score)
        chances = [a * (1 - p) + b * p for a, b in zip([*chances, 0.0], [0.0, *chances], strict=True)]
    return chances


def exactly(sight: Sight, name: Name, count: int) -> float:
    """The probability that there are so many things of a name."""
    chances = number(sight, name)
    return chances[count] if count < len(chances) else 0.0


def expected(sight: Sight, name: Name) -> float:
    """How many things of a name there are, on average over what is likely."""
    return sum(firm(box.score) for box in sight.places(name))


def is_there(sight: Sight, name: Name) -> float:
    """The probability of at least one."""
    return 1 - exactly(sight, name, 0)


def best(sight: Sight, name: Name) -> Box | None:
    """What goes by a name the most."""
    return max(sight.places(name), key=lambda box: box.score, default=None)


def shows(sight: Sight, kind: str) -> float:
    """The probability that a picture has this backdrop: most of it shows it, and anything is to be seen at all."""
    share = sight.backdrop[kind]
    mostly = 0.5 * share / _MOST if share < _MOST else 1.0 - 0.5 * (1.0 - share) / (1.0 - _MOST)
    return mostly * min(sight.contrast / _CONTRAST, 1.0)


def ahead(position: Position, box: Box, reference: Box) -> float:
    """How far a centre lies on that side of another, in sides of the picture; negative on the other side."""
    return {
        "left": reference.cx - box.cx,
        "right": box.cx - reference.cx,
        "above": reference.cy - box.cy,
        "below": box.cy - reference.cy,
    }[position]


def on_side(sight: Sight, name: Name, position: Position, reference: Name) -> float:
    """The probability that a thing is on that side of another."""
    one, other = best(sight, name), best(sight, reference)
    if one is None or other is None:
        return 0.0
    beyond = 1 / (1 + math.exp(-ahead(position, one, other) / _AHEAD))
    return firm(one.score) * firm(other.score) * beyond


def written(sight: Sight, text: str, on: Name | None = None) -> tuple[float, float]:
    """How surely a text can be read, on a thing of this name if one is given; and how alike what comes nearest is."""
    sure, alike = 0.0, 0.0
    places = [box for box in sight.places(on) if box.score > _FIRM] if on is not None and on.kind != TEXT else None
    for line, corners, certainty in sight.lines:
        box = Box.from_corners(*corners, sight.size)
        where = 1.0 if places is None else max((_inside(box, place) for place in places), default=0.0)
        alike = max(alike, where * SequenceMatcher(None, line, text.upper()).ratio())
        if line == text.upper():
            sure = max(sure, where * firm(certainty))
    return sure, alike


def _inside(box: Box, place: Box) -> float:
    """Share of a box that lies in another."""
    across = max(0.0, min(box.x1, place.x1) - max(box.x0, place.x0))
    down = max(0.0, min(box.y1, place.y1) - max(box.y0, place.y0))
    return min(1.0, 1.25 * across * down / max(box.w * box.h, 1e-9))


# -- one judge a task -------------------------------------------------------------------------------------------------


def _added(wish: Wish, source: Sight, edited: Sight) -> tuple[float, float]:
    assert wish.new is not None
    new = wish.new
    once = exactly(edited, new, 1) * (1 - is_there(source, new))
    side = 1.0
    if wish.reference is not None and wish.task.position is not None:
        here = best(edited, new)
        there = best(edited, wish.reference)
        side = 0.0
        if here is not None and there is not None:
            side = firm(there.score) / (1 + math.exp(-ahead(wish.task.position, here, there) / _AHEAD))
    nearly = _nearly(edited, new) - _nearly(source, new)
    return once * side, max(nearly, is_there(edited, new) - is_there(source, new))


def _removed(wish: Wish, source: Sight, edited: Sight) -> tuple[float, float]:
    assert wish.object is not None
    before, after = expected(source, wish.object), expected(edited, wish.object)
    return is_there(source, wish.object) * exactly(edited, wish.object, 0), 1 - after / before if before > 0.1 else 0.0


def _replaced(wish: Wish, source: Sight, edited: Sight) -> tuple[float, float]:
    assert wish.object is not None
    assert wish.new is not None
    done = replaced(source, edited, wish.object, wish.new) * exactly(edited, wish.object, 0)
    gone = max(0.0, is_there(source, wish.object) - is_there(edited, wish.object))
    came = max(0.0, _nearly(edited, wish.new) - _nearly(source, wish.new))
    return done, (gone + came) / 2


def replaced(source: Sight, edited: Sight, old: Name, new: Name, trust: Callable[[float], float] = firm) -> float:
    """The best place at which the old was and the new is, without the old. trust: what a score of the new is worth."""
    was, left, now = source.places(old), edited.places(old), edited.places(new)
    before = source.places(new)
    found = 0.0
    for old_box in was:
        still = max((box.score * _overlap(box, old_box) for box in left), default=0.0)
        for new_box in now:
            there = max((box.score * _overlap(box, new_box) for box in before), default=0.0)
            place = _overlap(new_box, old_box)
            found = max(found, firm(old_box.score) * trust(new_box.score) * place * (1 - still) * (1 - there))
    return found


def _moved(wish: Wish, source: Sight, edited: Sight) -> tuple[float, float]:
    assert wish.object is not None
    assert wish.reference is not None
    assert wish.task.position is not None
    before, after = best(source, wish.object), best(edited, wish.object)
    once = exactly(edited, wish.object, 1)
    done = once * on_side(edited, wish.object, wish.task.position, wish.reference)
    if before is None or after is None:
        return done, 0.0
    far = math.hypot(before.cx - after.cx, before.cy - after.cy)
    return done, firm(after.score) * min(1.0, far / 0.2)


def _counted(wish: Wish, source: Sight, edited: Sight) -> tuple[float, float]:
    assert wish.object is not None
    wanted = wish.task.count or 0
    before, after = expected(source, wish.object), expected(edited, wish.object)
    was, left = abs(wanted - before), abs(wanted - after)
    return exactly(edited, wish.object, wanted), 1 - left / max(was, 0.5)


def _altered(wish: Wish, source: Sight, edited: Sight) -> tuple[float, float]:
    assert wish.object is not None
    sort = "color" if wish.task.type == "color_alter" else "material"
    found = _in_place(source, edited, wish.object)
    if found is None:
        return 0.0, 0.0
    had, likely, one = found
    values = attribute(one, sort)
    was = wish.object.colour if sort == "color" else wish.object.material
    return had * likely * values[word(wish.task.value or "")], had * likely * (1 - values.get(was, 0.0))


def altered(source: Sight, edited: Sight, name: Name, sort: str, value: str) -> float:
    """What has the object's shape and is nearest to its place has the value."""
    found = _in_place(source, edited, name)
    if found is None:
        return _STRANGE
    had, likely, one = found
    return had * likely * attribute(one, sort)[value]


def _in_place(source: Sight, edited: Sight, name: Name) -> tuple[float, float, Seen] | None:
    """How surely the object was there; how surely the thing that is in its place now is it; and that thing."""
    was = best(source, name)
    if was is None:
        return None
    likely, found = max(
        ((one.shapes.get(name.kind, 0.0) * visibility(one) * _near(one.box, was), one) for one in edited.seen),
        key=lambda pair: pair[0],
        default=(0.0, None),
    )
    return None if found is None else (firm(was.score), likely, found)


def attribute(seen: Seen, sort: str) -> Mapping[str, float]:
    """Probabilities of its colours (`color`), or of its materials."""
    return seen.colours if sort == "color" else seen.materials


def _rewritten(wish: Wish, source: Sight, edited: Sight) -> tuple[float, float]:
    text = wish.task.text or ""
    sure, alike = written(edited, text, wish.object)
    had, was = written(source, text, wish.object)
    copies = sum(line == text.upper() for line, _, _ in edited.lines)
    if wish.object is None and copies > 1:
        sure /= copies
    return sure * (1 - had), alike - was


def _behind(wish: Wish, source: Sight, edited: Sight) -> tuple[float, float]:
    value = word(wish.task.value or "")
    same = sum(min(source.backdrop[kind], edited.backdrop[kind]) for kind in source.backdrop)
    return shows(edited, value), (1 - same) * min(edited.contrast / _CONTRAST, 1.0)


_JUDGES: Mapping[TaskType, Callable[[Wish, Sight, Sight], tuple[float, float]]] = {
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


def _nearly(sight: Sight, name: Name) -> float:
    """How near anything comes to a name: the shape makes half of it, colour and material the rest."""
    return max(
        (
            one.shapes.get(name.kind, 0.0)
            * visibility(one)
            * (0.5 + 0.35 * (one.colours[name.colour] if name.colour else 1.0) + 0.15 * one.materials[name.material])
            for one in sight.seen
        ),
        default=0.0,
    )


def _overlap(one: Box, other: Box) -> float:
    overlap = one.iou(other)
    return overlap / (overlap + _TOUCH)


def _near(one: Box, other: Box) -> float:
    side = max(one.w, one.h, other.w, other.h, 1e-6)
    away = math.hypot(one.cx - other.cx, one.cy - other.cy) / side
    return 1 / (1 + (away / _STAYED) ** 4)


def spoken(names: Sequence[Name], name: Name) -> bool:
    """Whether a thing of this name is among those spoken of."""
    return any(
        name.kind == one.kind and one.colour in ("", name.colour) and one.material in ("", name.material)
        for one in names
    )
