"""Pairs: what an edit has done with its source, in all that a judge is asked about it. Looked at once a pair."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np

from ....reward import Box, Image
from ..words import COLOURS, MATERIALS, SHAPES, SIGN, TEXT
from .deeds import Deed, deed, firm, spoken
from .phrases import Name
from .segments import Seen
from .sights import Looker, Sight, visibility
from .wishes import Wish, wishes

_SURE = 0.5
"""Certainty of what a thing is from which on it counts."""
_FAR, _STILL = 0.3, 0.012
"""Distances, in sides of the picture, at which a thing that moved is as good as gone, and as good as still there."""
_OTHER_SHAPE, _OTHER_COLOUR, _OTHER_MATERIAL = 0.2, 0.5, 0.7
"""What is left of a thing in another shape, colour or material."""
_USUAL = 0.93
"""How alike a thing looks to itself when it is drawn anew."""
_TINTED = 15.0
"""Grey levels by which a backdrop lies off when half of it is lost."""
_EMPTY = 6.0
"""Grey levels of spread below which a picture shows less and less of any backdrop."""
_STRANGER = 0.25
"""What a thing nobody asked for takes from the backdrop."""
_ANOTHER = 0.55
"""Likeness below which something has changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that nobody asked for, in words; and how bad, in [0, 1]."""

    what: str
    bad: float


class Pair:
    """An edit of a source by wishes. sources: all pictures that the instruction is about; the first one is edited."""

    def __init__(self, sources: Sequence[Sight], edited: Sight, asked: Sequence[Wish]) -> None:
        self.sources, self.edited, self.wishes = tuple(sources), edited, tuple(asked)
        self.source = self.sources[0]

    @cached_property
    def deeds(self) -> tuple[Deed, ...]:
        """What has become of each wish."""
        return tuple(deed(wish, self.source, self.edited) for wish in self.wishes)

    @cached_property
    def done(self) -> float:
        """How surely all wishes are carried out."""
        return min((one.done for one in self.deeds), default=0.0)

    @cached_property
    def degree(self) -> float:
        """How far, on average over the wishes, in [0, 1]."""
        return fmean(one.degree for one in self.deeds) if self.deeds else 0.0

    @property
    def same(self) -> bool:
        """Whether nothing at all has changed."""
        return self.source.digest == self.edited.digest

    # -- what was to be kept ------------------------------------------------------------------------------------------

    @cached_property
    def others(self) -> list[tuple[Seen, float]]:
        """The things of the source that no wish is about, each with how much it is still itself, in [0, 1]."""
        about: set[int] = set()
        for wish in self.wishes:
            if wish.object is not None and wish.object.kind != TEXT:
                about |= {place for place, box in enumerate(self.source.places(wish.object)) if firm(box.score) > 0.5}
        found = [one for place, one in enumerate(self.source.seen) if _surely(one) and place not in about]
        if self.same:
            return [(one, 1.0) for one in found]
        return [(one, max((_alike(one, now) for now in self.edited.seen), default=0.0)) for one in found]

    @cached_property
    def objects(self) -> float | None:
        """How much of the other things is as it was; None where there are none."""
        return fmean(alike for _, alike in self.others) if self.others else None

    @cached_property
    def strangers(self) -> list[Seen]:
        """Things in the edited picture that were not there and that nobody asked for."""
        if self.same:
            return []
        wanted = tuple(name for wish in self.wishes for name in wish.names)
        found = []
        for one in self.edited.seen:
            known = max((_alike(was, one) for was in self.source.seen), default=0.0)
            placed = any(_there(was.box, one.box) > 0.5 for was in self.source.seen)
            if _surely(one) and known < _ANOTHER and not placed and not spoken(wanted, name_of(one)):
                found.append(one)
        return found

    @cached_property
    def copies(self) -> float:
        """How many more of what was put in there are than were asked for."""
        more = 0.0
        for wish in self.wishes:
            if wish.result is not None and wish.task.type not in ("count_change", "text_change"):
                there = sum(firm(box.score) for box in self.edited.places(wish.result))
                more += max(0.0, there - max(1.0, sum(firm(box.score) for box in self.source.places(wish.result))))
        return more

    @cached_property
    def backdrop(self) -> float | None:
        """How much of the backdrop is as it was; None where another one was asked for."""
        if any(wish.task.type == "background_change" for wish in self.wishes):
            return None
        if self.same:
            return 1.0
        alike = sum(min(p, self.edited.backdrop[kind]) for kind, p in self.source.backdrop.items())
        spurious = len(self.strangers) + self.copies
        kept = 1 / (1 + (self.offset / _TINTED) ** 2)
        kept *= min(1.0, self.edited.contrast / _EMPTY)
        return min(1.0, alike / _USUAL) * kept * max(0.0, 1 - _STRANGER * spurious)

    @cached_property
    def offset(self) -> float:
        """Mean difference of both pictures where none shows a thing, in grey levels."""
        free = ~(self.source.covered | self.edited.covered)
        if np.count_nonzero(free) < 64:
            free = np.ones_like(free)
        return float(np.abs(self.source.calm - self.edited.calm)[free].mean())

    @cached_property
    def kept(self) -> float:
        """How much of what the wishes leave alone is as it was, in [0, 1]."""
        halves = [half for half in (self.objects, self.backdrop) if half is not None]
        return fmean(halves) if halves else 1.0

    @cached_property
    def changes(self) -> list[Change]:
        """What has changed that nobody asked for, the worst first."""
        found = [
            Change(f"the {said(name_of(one))} is not as it was", 1 - alike)
            for one, alike in self.others
            if alike < _ANOTHER
        ]
        found += [Change(f"there is a {said(name_of(one))} that nobody asked for", 0.5) for one in self.strangers]
        if self.copies > 0.5:
            found.append(Change("what was asked for is there more than once", 0.5))
        if self.backdrop is not None and self.backdrop < _ANOTHER:
            found.append(Change("the background is not as it was", 1 - self.backdrop))
        return sorted(found, key=lambda change: -change.bad)

    @cached_property
    def collapsed(self) -> bool:
        """Whether the scene is another one: another backdrop that nobody asked for, or most of its things gone."""
        gone = [one for one, alike in self.others if alike < 0.2]
        if len(gone) >= 3 and 2 * len(gone) > len(self.others):
            return True
        if self.backdrop is None or self.same:
            return False
        alike = sum(min(p, self.edited.backdrop[kind]) for kind, p in self.source.backdrop.items())
        return alike < 0.3 or self.offset > 3 * _TINTED

    # -- how it looks -------------------------------------------------------------------------------------------------

    @cached_property
    def solid(self) -> float:
        """How solid the things are that look the faintest, beside those of the source, in [0, 1]: ghosts are not."""
        now = min((one.opacity for one in self.edited.seen if visibility(one) > 0.3), default=1.0)
        was = min((one.opacity for one in self.source.seen if visibility(one) > 0.3), default=1.0)
        return min(1.0, now / max(was, 1e-6))

    @cached_property
    def natural(self) -> float:
        """How much the edited picture is of one piece: as clean as its source, and without ghosts."""
        if self.same:
            return 1.0
        return self.clean * (0.4 + 0.6 * self.solid)

    @cached_property
    def clean(self) -> float:
        """How clean the edited picture is beside its source, in [0, 1]."""
        return min(1.0, self.edited.looks / max(self.source.looks, 1e-6))

    @cached_property
    def overall(self) -> float:
        """The geometric mean of how far the wishes are carried out and the rest is kept."""
        return math.sqrt(self.degree * self.kept)


class Pairs:
    """The pairs looked at last, by pictures and instruction."""

    def __init__(self, looker: Looker, kept: int = 512) -> None:
        self._looker, self._kept = looker, kept
        self._pairs: OrderedDict[tuple[str, ...], Pair] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, sources: Sequence[Image], edited: Image, instruction: str, operations: str = "") -> Pair:
        """An edit by an instruction. Raises `Unknown` for words that mean nothing."""
        key = (*(image.digest for image in (*sources, edited)), instruction, operations)
        with self._lock:
            found = self._pairs.get(key)
            if found is not None:
                self._pairs.move_to_end(key)
                return found
        asked = wishes(instruction, operations) if instruction else ()
        pair = Pair([self._looker.see(image) for image in sources], self._looker.see(edited), asked)
        with self._lock:
            self._pairs[key] = pair
            if len(self._pairs) > self._kept:
                self._pairs.popitem(last=False)
        return pair


# -- things -----------------------------------------------------------------------------------------------------------


def name_of(seen: Seen) -> Name:
    """What a thing most likely is called."""
    kinds = {kind: seen.shapes.get(kind, 0.0) for kind in (*SHAPES, SIGN)}
    colour = max(COLOURS, key=lambda one: seen.colours[one])
    material = max(("", *MATERIALS), key=lambda one: seen.materials[one])
    return Name(
        max(kinds, key=lambda kind: kinds[kind]), colour, "" if kinds[SIGN] == max(kinds.values()) else material
    )


def said(name: Name) -> str:
    """As in `wood red circle`."""
    return " ".join(word for word in (name.material, name.colour, name.kind) if word)


def _surely(seen: Seen) -> bool:
    return max(seen.shapes.values()) * visibility(seen) > _SURE


def _there(one: Box, other: Box) -> float:
    """How much a thing is where another was, in [0, 1]."""
    far = math.hypot(one.cx - other.cx, one.cy - other.cy)
    return max(0.0, 1.0 - max(0.0, far - _STILL) / (_FAR - _STILL))


def _alike(was: Seen, now: Seen) -> float:
    """How much a thing is still itself, in [0, 1]."""
    there = _there(was.box, now.box)
    if not there:
        return 0.0
    name = name_of(was)
    for share, left in (
        (now.shapes.get(name.kind, 0.0) / max(was.shapes[name.kind], 1e-6), _OTHER_SHAPE),
        (now.colours[name.colour] / max(was.colours[name.colour], 1e-6), _OTHER_COLOUR),
        (now.materials[name.material] / max(was.materials[name.material], 1e-6), _OTHER_MATERIAL),
        (now.opacity / max(was.opacity, 1e-6), 0.0),
    ):
        there *= left + (1 - left) * min(share, 1.0)
    size, old = math.sqrt(now.box.w * now.box.h), math.sqrt(was.box.w * was.box.h)
    return min(1.0, there * min(size, old) / max(size, old, 1e-6) / _USUAL)
