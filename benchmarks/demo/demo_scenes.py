"""The rows of the demo: a photograph, an instruction in EdiVal's wording, and the operation that carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...reward.sample import TaskType
from .photographs import PHOTOS, AnnotatedPhoto, Corners, Pixels
from .retouch_operations import (
    AddText,
    DuplicateObject,
    MoveObject,
    RecolourObject,
    RemoveObject,
    ReplaceText,
    RetouchOperation,
)

DamageKind = Literal["repainted", "posterised", "tinted", "stray object"]
"""Damage of the background far from the target in `damaged_background`."""


@dataclass(frozen=True)
class DemoScene:
    """One row. photo: name in `PHOTOS`. blank: colour of the candidate `blank`, black or the photograph's mean
    colour."""

    name: str
    photo: str
    task_type: TaskType
    instruction: str
    operation: RetouchOperation
    damage: DamageKind
    blank: Literal["black", "mean"]

    @property
    def source(self) -> AnnotatedPhoto:
        """The photograph with its annotations."""
        return PHOTOS[self.photo]

    @property
    def pixels(self) -> Pixels:
        """The photograph, H x W x 3 uint8 RGB, read-only."""
        return self.source.pixels

    @property
    def boxes(self) -> Mapping[str, tuple[Corners, ...]]:
        """The annotated objects, boxes in pixels."""
        return self.source.boxes


def demo_tasks() -> tuple[DemoScene, ...]:
    """All rows in display order."""
    return _TASKS


_BLUE = (45, 90, 190)
_GREEN = (60, 150, 60)
_YELLOW = (225, 200, 40)
_PURPLE = (130, 50, 160)

_TASKS = (
    DemoScene(
        name="remove-patch",
        photo="astronaut",
        task_type="subject_remove",
        instruction="Remove embroidered purple patch",
        operation=RemoveObject(
            "embroidered purple patch", hole="patch and its seam", other_object="fabric blue name tag", tint=_GREEN
        ),
        damage="tinted",
        blank="black",
    ),
    DemoScene(
        name="two-patches",
        photo="astronaut",
        task_type="count_change",
        instruction="Change the count of embroidered purple patch to 2",
        operation=DuplicateObject(
            "embroidered purple patch",
            piece="embroidered purple patch",
            offset=(-84, -24),
            duplicate_offset=(137, -82),
            other_object="fabric blue name tag",
            other_by=(-130, -35),
            scale=0.78,
        ),
        damage="repainted",
        blank="mean",
    ),
    DemoScene(
        name="green-coffee",
        photo="coffee",
        task_type="color_alter",
        instruction="Change the color of brown coffee to green",
        operation=RecolourObject("brown coffee", _GREEN, wrong_colour=_PURPLE, other_object="ceramic red saucer"),
        damage="posterised",
        blank="black",
    ),
    DemoScene(
        name="blue-eyes",
        photo="cat",
        task_type="color_alter",
        instruction="Change the color of green eye to blue",
        operation=RecolourObject("green eye", _BLUE, wrong_colour=_PURPLE, other_object="orange nose", tolerance=60),
        damage="repainted",
        blank="mean",
    ),
    DemoScene(
        name="meow",
        photo="cat",
        task_type="text_change",
        instruction="Add text 'MEOW' on the image",
        operation=AddText("MEOW", wrong="WOOF", centre=(388, 262), height=24, over=(171, 116)),
        damage="tinted",
        blank="black",
    ),
    DemoScene(
        name="rocket-aside",
        photo="rocket",
        task_type="position_change",
        instruction="Change the position of white rocket to right of metal right mast",
        operation=MoveObject(
            "white rocket",
            piece="rocket on its pad",
            hole="all that stands at the pad",
            offset=(161, 0),
            wrong=(-63, 0),
            other_object="metal left mast",
            other_by=(60, 0),
            light="floodlight at the pad",
        ),
        damage="tinted",
        blank="black",
    ),
    DemoScene(
        name="another-brand",
        photo="garage",
        task_type="text_change",
        instruction="Replace the text 'YAMAHA' on metal red fuel tank with 'HONDA'",
        operation=ReplaceText(
            "metal red fuel tank",
            old="brand on the tank",
            text="HONDA",
            wrong="DUCATI",
            centre=(114, 202),
            height=10,
            angle=9,
            over=(262, 215),
            ink=(240, 225, 170),
            edge=(35, 20, 15),
        ),
        damage="repainted",
        blank="mean",
    ),
    DemoScene(
        name="crate-on-box",
        photo="garage",
        task_type="position_change",
        instruction="Change the position of wooden white crate to above of cardboard small box",
        operation=MoveObject(
            "wooden white crate",
            piece="wooden white crate",
            hole="crate and its lid",
            offset=(-43, -36),
            wrong=(25, 0),
            other_object="plastic yellow bottle",
            other_by=(206, -25),
            donor=(0, -8),
            excluded_outline="around the crate",
        ),
        damage="stray object",
        blank="mean",
    ),
)
