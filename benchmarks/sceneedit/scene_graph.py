"""Scene graphs: the exact content of an image. The renderer draws nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...reward import Box
from .vocabulary import BACKDROPS, COLOURS, LETTER_HEIGHT, LETTER_WIDTH, LETTERS, MATERIALS, SHAPES, SIGN, TEXT


@dataclass(frozen=True, slots=True)
class SceneObject:
    """An object. Places and sizes are shares of the image's side; y goes downwards.

    id: the same before and after an edit that keeps or changes the object. shape: one of `SHAPES`, a sign (a plate with
    `text`), or text without a plate. material: empty for plain. ink: of letters, dark or light. opacity: in [0, 1].
    """

    id: int
    shape: str
    colour: str
    x: float
    y: float
    w: float
    h: float
    material: str = ""
    text: str = ""
    ink: str = "dark"
    opacity: float = 1.0

    def __post_init__(self) -> None:
        if self.shape not in (*SHAPES, SIGN, TEXT):
            raise ValueError(f"unknown shape {self.shape!r}: expected one of {', '.join((*SHAPES, SIGN, TEXT))}")
        if self.colour not in COLOURS and self.shape != TEXT:
            raise ValueError(f"unknown colour {self.colour!r}: expected one of {', '.join(COLOURS)}")
        if self.material and self.material not in MATERIALS:
            raise ValueError(f"unknown material {self.material!r}: expected one of {', '.join(MATERIALS)}")
        if (self.shape in (SIGN, TEXT)) != bool(self.text):
            raise ValueError(f"a {self.shape} {'needs' if self.shape in (SIGN, TEXT) else 'takes no'} text")
        if unknown := set(self.text) - set(LETTERS) - {" "}:
            raise ValueError(f"there are no letters {' '.join(sorted(unknown))}: {self.text!r} cannot be written")

    @property
    def name(self) -> str:
        """Its name in instructions, as in `wood red circle` (EdiVal's key: material, colour, object)."""
        if self.shape == TEXT:
            return TEXT
        return " ".join(word for word in (self.material, self.colour, self.shape) if word)

    @property
    def box(self) -> Box:
        return Box(self.x, self.y, self.w, self.h, label=self.name)

    @property
    def appearance(self) -> tuple[str, ...]:
        """Shape, colour, material and text, without place and size."""
        return (self.shape, self.colour, self.material, self.text)

    def moved_to(self, x: float, y: float) -> SceneObject:
        return replace(self, x=x, y=y)


@dataclass(frozen=True, slots=True)
class Backdrop:
    """What lies behind the objects. seed: of its texture. drift: in [0, 1], towards another texture and tint, which
    `drift_seed` decides.
    """

    kind: str
    seed: int = 0
    drift: float = 0.0
    drift_seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in BACKDROPS:
            raise ValueError(f"unknown backdrop {self.kind!r}: expected one of {', '.join(BACKDROPS)}")


@dataclass(frozen=True, slots=True)
class Light:
    """gain: of all pixels. tilt: how much brighter one side is than the middle; angle: which side, in turns."""

    gain: float = 1.0
    tilt: float = 0.0
    angle: float = 0.0


@dataclass(frozen=True, slots=True)
class Scene:
    """An image before rendering. Later objects lie on earlier ones.

    size: pixels a side. grain: pixels of the smallest detail (a letter's dot; a quarter of a texture's period).
    noise: standard deviation in grey levels, seeded by `noise_seed`. cell: pixels a side of grid cells, in whose middle
    objects stand; 0 for no grid.
    """

    objects: tuple[SceneObject, ...]
    backdrop: Backdrop
    light: Light = Light()
    size: int = 64
    grain: int = 1
    noise: float = 2.0
    noise_seed: int = 0
    cell: int = 0

    def __post_init__(self) -> None:
        if self.size < 16:
            raise ValueError(f"a scene needs at least 16 pixels a side, got {self.size}")
        if len({obj.id for obj in self.objects}) < len(self.objects):
            raise ValueError("two things of a scene have one id")

    def named(self, name: str) -> tuple[SceneObject, ...]:
        return tuple(obj for obj in self.objects if obj.name == name)

    def object_by_id(self, number: int) -> SceneObject | None:
        return next((obj for obj in self.objects if obj.id == number), None)

    @property
    def names(self) -> tuple[str, ...]:
        """Distinct names, in order."""
        return tuple(dict.fromkeys(obj.name for obj in self.objects))

    @property
    def next_id(self) -> int:
        return max((obj.id for obj in self.objects), default=0) + 1

    def with_object(self, obj: SceneObject) -> Scene:
        """The scene with the object in place of the one with its id, or on top of all."""
        if self.object_by_id(obj.id) is None:
            return replace(self, objects=(*self.objects, obj))
        return replace(self, objects=tuple(obj if existing.id == obj.id else existing for existing in self.objects))

    def without(self, numbers: Iterable[int]) -> Scene:
        removed = set(numbers)
        return replace(self, objects=tuple(obj for obj in self.objects if obj.id not in removed))

    def boxes(self) -> dict[str, tuple[Box, ...]]:
        """Name -> boxes, which include covered parts."""
        return {name: tuple(obj.box for obj in self.named(name)) for name in self.names}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Scene:
        """The scene that `to_json` wrote. Raises LookupError, TypeError or ValueError for other data."""
        objects = tuple(SceneObject(**obj) for obj in data["objects"])
        rest = {key: value for key, value in data.items() if key not in ("objects", "backdrop", "light")}
        return Scene(objects, Backdrop(**data["backdrop"]), Light(**data["light"]), **rest)


def text_extent(text: str, grain: float) -> tuple[float, float]:
    """Width and height of a text on one line, without a margin, in units of `grain`'s."""
    return (len(text) * (LETTER_WIDTH + 1) - 1) * grain, LETTER_HEIGHT * grain
