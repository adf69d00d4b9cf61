"""A guard with EdiVal's object pools: an edit must not remove the objects that should be unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...card import Card
from ...engine.program import Program, ask_many
from ...queries.kinds import Detect
from ...sample import EditSample
from ...score import Evidence, Score
from .pools import pools_of

_PRESENT_THRESHOLD = 0.35
_ABSENT_THRESHOLD = 0.2


@dataclass(frozen=True)
class ObjectsPreserved:
    """At least half of the unchanged objects are still detected, anywhere in the image.

    Content consistency alone is too mild here: an emptied image keeps its background, and so half of EdiVal-CC. An
    object counts if it is detected in the base image (score above 0.35), and is lost if its score in the edited image
    is at most 0.2. The queries are those of EdiVal-CC. Not applicable if no object is listed as unchanged, or none is
    detected.
    """

    card: ClassVar[Card] = Card(
        "guard-objects-preserved",
        1,
        "most of the objects that no instruction touches are still there",
        kinds={"detector": ("detect",)},
        failure_modes="Half of the objects may go, and anything the detector takes for one will do.",
        aspect="cheating",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        pools = pools_of(sample)
        if pools is None or not pools.unchanged:
            return Score.not_applicable("no object is listed as unchanged")
        base, names = sample.base, pools.unchanged
        current = sample.edited.resized(*base.size)
        detections = yield from ask_many([Detect(picture, (name,)) for picture in (base, current) for name in names])
        before, after = detections[: len(names)], detections[len(names) :]
        present = [
            (name, detected_after.max_score())
            for name, detected_before, detected_after in zip(names, before, after, strict=True)
            if detected_before.max_score() > _PRESENT_THRESHOLD
        ]
        if not present:
            return Score.not_applicable("none of the unchanged objects is found in the base picture")
        lost = [name for name, score in present if score <= _ABSENT_THRESHOLD]
        evidence = Evidence("strongest trace of what should be there", current.digest, numbers=dict(present))
        reason = f"no trace is left of {', '.join(lost)}" if lost else ""
        return Score.of(2 * len(lost) <= len(present), reason, evidence=[evidence])
