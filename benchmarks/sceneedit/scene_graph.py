"""Scene graphs: what is in a picture, exactly. The renderer draws nothing that is not in one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...reward import Box
from .words import BACKDROPS, COLOURS, LETTER_HEIGHT, LETTER_WIDTH, LETTERS, MATERIALS, SHAPES, SIGN, TEXT


@dataclass(frozen=True, slots=True)
class Thing:
    """An object. Places and sizes are shares of the picture's side; y goes downwards.

    id: the same before and after an edit that keeps the thing, whatever is done to it. shape: one of `SHAPES`, a sign
    (a plate with `text`), or text written on nothing. material: empty for plain. ink: of letters, dark or light.
    opacity: below 1 it lets through what lies behind.
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
        """What instructions call it, as in `wood red circle` (EdiVal's key: material, colour, object)."""
        if self.shape == TEXT:
            return TEXT
        return " ".join(word for word in (self.material, self.colour, self.shape) if word)

    @property
    def box(self) -> Box:
        return Box(self.x, self.y, self.w, self.h, label=self.name)

    @property
    def like(self) -> tuple[str, ...]:
        """What it is, wherever it stands."""
        return (self.shape, self.colour, self.material, self.text)

    def at(self, x: float, y: float) -> Thing:
        return replace(self, x=x, y=y)


@dataclass(frozen=True, slots=True)
class Backdrop:
    """What lies behind the things. seed: of its texture. drift: how far it has been drawn anew, 0 to 1, towards what
    `drift_seed` says: another texture and another tint.
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
    """gain: of all pixels. tilt: by how much one side is brighter than the middle; angle: which side, in turns."""

    gain: float = 1.0
    tilt: float = 0.0
    angle: float = 0.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture before it is drawn. Later things lie on earlier ones.

    size: pixels a side. grain: pixels of the smallest mark (a letter's dot; a quarter of a texture's period).
    noise: standard deviation in grey levels, drawn by `noise_seed`. cell: pixels a side of the cells in whose middle
    things stand; 0 where they stand anywhere.
    """

    things: tuple[Thing, ...]
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
        if len({thing.id for thing in self.things}) < len(self.things):
            raise ValueError("two things of a scene have one id")

    def called(self, name: str) -> tuple[Thing, ...]:
        return tuple(thing for thing in self.things if thing.name == name)

    def get(self, number: int) -> Thing | None:
        return next((thing for thing in self.things if thing.id == number), None)

    @property
    def names(self) -> tuple[str, ...]:
        """Each once, in order."""
        return tuple(dict.fromkeys(thing.name for thing in self.things))

    @property
    def next_id(self) -> int:
        return max((thing.id for thing in self.things), default=0) + 1

    def with_thing(self, thing: Thing) -> Scene:
        """The thing in place of the one with its id, or on top of all."""
        if self.get(thing.id) is None:
            return replace(self, things=(*self.things, thing))
        return replace(self, things=tuple(thing if one.id == thing.id else one for one in self.things))

    def without(self, numbers: Iterable[int]) -> Scene:
        gone = set(numbers)
        return replace(self, things=tuple(thing for thing in self.things if thing.id not in gone))

    def boxes(self) -> dict[str, tuple[Box, ...]]:
        """Name -> boxes, as somebody would draw them who sees the covered parts too."""
        return {name: tuple(thing.box for thing in self.called(name)) for name in self.names}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Scene:
        """Raises TypeError or ValueError for what is no scene."""
        things = tuple(Thing(**thing) for thing in data["things"])
        rest = {key: value for key, value in data.items() if key not in ("things", "backdrop", "light")}
        return Scene(things, Backdrop(**data["backdrop"]), Light(**data["light"]), **rest)


def written_size(text: str, grain: float) -> tuple[float, float]:
    """Width and height of a text on one line, without a margin."""
    return (len(text) * (LETTER_WIDTH + 1) - 1) * grain, LETTER_HEIGHT * grain
