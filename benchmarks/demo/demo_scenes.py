"""The rows of the demo: a photograph, an instruction in EdiVal's wording, and how a person would carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...reward.sample import TaskType
from .operations import AddText, Copy, Move, Operation, Recolour, Remove, ReplaceText
from .photographs import PHOTOS, Corners, Photo, Pixels

Damage = Literal["repainted", "posterised", "tinted", "stray object"]
"""What happens to the background far from the target in `damaged_background`."""


@dataclass(frozen=True)
class Scene:
    """One row.

    photo: name in `PHOTOS`. blank: what `blank` shows, black or the photograph's mean colour.
    """

    name: str
    photo: str
    task_type: TaskType
    instruction: str
    operation: Operation
    damage: Damage
    blank: Literal["black", "mean"]

    @property
    def source(self) -> Photo:
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


def scenes() -> tuple[Scene, ...]:
    """All rows, in the order in which they are shown."""
    return _SCENES


_BLUE = (45, 90, 190)
_GREEN = (60, 150, 60)
_YELLOW = (225, 200, 40)
_PURPLE = (130, 50, 160)

_SCENES = (
    Scene(
        name="remove-patch",
        photo="astronaut",
        task_type="subject_remove",
        instruction="Remove embroidered purple patch",
        operation=Remove(
            "embroidered purple patch",
            hole="patch and its seam",
            other="fabric blue name tag",
            tint=_GREEN,
        ),
        damage="tinted",
        blank="black",
    ),
    Scene(
        name="two-patches",
        photo="astronaut",
        task_type="count_change",
        instruction="Change the count of embroidered purple patch to 2",
        operation=Copy(
            "embroidered purple patch",
            piece="embroidered purple patch",
            by=(-84, -24),
            again=(137, -82),
            other="fabric blue name tag",
            other_by=(-130, -35),
            scale=0.78,
        ),
        damage="repainted",
        blank="mean",
    ),
    Scene(
        name="green-coffee",
        photo="coffee",
        task_type="color_alter",
        instruction="Change the color of brown coffee to green",
        operation=Recolour("brown coffee", _GREEN, wrong=_PURPLE, other="ceramic red saucer"),
        damage="posterised",
        blank="black",
    ),
    Scene(
        name="blue-eyes",
        photo="cat",
        task_type="color_alter",
        instruction="Change the color of green eye to blue",
        operation=Recolour("green eye", _BLUE, wrong=_PURPLE, other="orange nose", tolerance=60),
        damage="repainted",
        blank="mean",
    ),
    Scene(
        name="meow",
        photo="cat",
        task_type="text_change",
        instruction="Add text 'MEOW' on the image",
        operation=AddText("MEOW", wrong="WOOF", centre=(388, 262), height=24, over=(171, 116)),
        damage="tinted",
        blank="black",
    ),
    Scene(
        name="rocket-aside",
        photo="rocket",
        task_type="position_change",
        instruction="Change the position of white rocket to right of metal right mast",
        operation=Move(
            "white rocket",
            piece="rocket on its pad",
            hole="all that stands at the pad",
            by=(161, 0),
            wrong=(-63, 0),
            other="metal left mast",
            other_by=(60, 0),
            light="floodlight at the pad",
        ),
        damage="tinted",
        blank="black",
    ),
    Scene(
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
    Scene(
        name="crate-on-box",
        photo="garage",
        task_type="position_change",
        instruction="Change the position of wooden white crate to above of cardboard small box",
        operation=Move(
            "wooden white crate",
            piece="wooden white crate",
            hole="crate and its lid",
            by=(-43, -36),
            wrong=(25, 0),
            other="plastic yellow bottle",
            other_by=(206, -25),
            donor=(0, -8),
            apart="around the crate",
        ),
        damage="stray object",
        blank="mean",
    ),
)
