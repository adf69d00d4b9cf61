"""A guard with EdiVal's means: whoever is told to remove one thing may not remove them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..asking import Asks, ask_each
from ..card import Card
from ..query import Detect
from ..sample import EditSample
from ..score import Evidence, Score
from .pools import pools_of

_FOUND = 0.35
_LOST = 0.2


@dataclass(frozen=True)
class StillThere:
    """At least half of the objects that no instruction touches can still be found, wherever in the picture.

    Content consistency alone is too mild here: an emptied picture keeps its background, and so half of EdiVal-CC. An
    object counts if the base picture has it (score above 0.35), and as lost if the edited one has at best a trace of it
    (0.2 or less). Asks what EdiVal-CC asks too. Not applicable where no object is to stay, or none is found.
    """

    card: ClassVar[Card] = Card(
        "guard-still-there",
        1,
        "most of the objects that no instruction touches are still there",
        roles=("detector",),
        gaming="Half of the objects may go, and anything the detector takes for one will do.",
        about="cheating",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        pools = pools_of(sample)
        if pools is None or not pools.unchanged:
            return Score.not_applicable("no object is listed as unchanged")
        base, names = sample.base, pools.unchanged
        now = sample.edited.resized(*base.size)
        found = yield from ask_each([Detect(picture, (name,)) for picture in (base, now) for name in names])
        before, after = found[: len(names)], found[len(names) :]
        there = [
            (name, now_there.strongest())
            for name, was, now_there in zip(names, before, after, strict=True)
            if was.strongest() > _FOUND
        ]
        if not there:
            return Score.not_applicable("none of the unchanged objects is found in the base picture")
        lost = [name for name, score in there if score <= _LOST]
        seen = Evidence("strongest trace of what should be there", now.digest, numbers=dict(there))
        reason = f"no trace is left of {', '.join(lost)}" if lost else ""
        return Score.of(2 * len(lost) <= len(there), reason, evidence=[seen])
