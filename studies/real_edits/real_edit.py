"""An edit of a photograph by a real editor, with what a reader says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from editcritic.reward import Box, EditSample, Image

Operation = Literal["removal", "recolour", "replacement", "addition", "text", "material", "other"]
Followed = Literal["yes", "partly", "no"]
Preserved = Literal["yes", "minor drift", "damaged"]
State = Literal["clean", "traces", "broken"]
Half = Literal["development", "held-back"]

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
FOLLOWED: tuple[Followed, ...] = get_args(Followed)
PRESERVED: tuple[Preserved, ...] = get_args(Preserved)
STATES: tuple[State, ...] = get_args(State)
HALVES: tuple[Half, ...] = get_args(Half)

Labels = tuple[Followed, Preserved, State]
"""What a reader says of an edit."""

Corners = tuple[int, int, int, int]
"""Left, upper, right and lower edge in pixels; right and lower ones are outside."""


@dataclass(frozen=True)
class RealEdit:
    """One edit and its labels.

    group: edits of one source by one instruction. base: the photograph that sources come from. followed, preserved (all
    but the target), place (artefacts where the change was to be): the reader's; None where nothing is said. boxes: by
    name, in pixels of the source. target: the names of those that are to change. second: what another reader says, who
    saw a few.
    """

    id: str
    group: str
    base: str
    instruction: str
    source: Image
    edited: Image
    operation: Operation
    followed: Followed | None
    preserved: Preserved | None
    place: State | None = None
    boxes: Mapping[str, Sequence[Corners]] = field(default_factory=dict)
    target: Sequence[str] = ()
    editor: str = ""
    half: Half | None = None
    second: Labels | None = None

    @property
    def is_good(self) -> bool | None:
        """Followed, the rest not damaged and the place not broken; False: not followed, or one of these. None: between
        the two, or without labels.
        """
        if self.followed is None:
            return None
        if self.followed == "no" or self.preserved == "damaged" or self.place == "broken":
            return False
        return True if self.followed == "yes" else None

    @property
    def is_kept(self) -> bool | None:
        """As `is_good`, whatever the place looks like."""
        return replace(self, place=None).is_good

    @cached_property
    def target_boxes(self) -> list[Corners]:
        """The boxes of what is to change, as corners within the source."""
        width, height = self.source.size
        inside = [
            (max(0, x0), max(0, y0), min(width, x1), min(height, y1))
            for name in self.target
            for x0, y0, x1, y1 in self.boxes.get(name, ())
        ]
        return [box for box in inside if box[0] < box[2] and box[1] < box[3]]

    def sample(self, edited: Image | None = None, name: str = "", *, boxed: bool = True) -> EditSample:
        """What a reward gets: the edit, or another picture under a name of its own.

        boxed: with the boxes. Those of an addition's target are the reader's: nothing is there in the source yet.
        """
        given = {
            name: tuple(Box.from_corners(*corners, self.source.size) for corners in boxes)
            for name, boxes in self.boxes.items()
            if boxed and not (self.operation == "addition" and name in self.target)
        }
        shown = self.edited if edited is None else edited
        return EditSample(
            f"{self.id}/{name}" if name else self.id, self.instruction, (self.source,), shown, boxes=given
        )
