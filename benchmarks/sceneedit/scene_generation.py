"""Random scenes, by seed."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from .render import covered
from .scene import Backdrop, Light, Scene, Thing, written_size
from .words import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS

_DARK = ("blue", "purple", "green", "teal", "red")
_TRIES = 200
_GAP = 2  # pixels between things that do not overlap


@dataclass(frozen=True, slots=True)
class World:
    """What random scenes are like.

    size: pixels a side. grain: pixels of a letter's dot. kinds: how many kinds of things, at least and at most, a sign
    included. diameter: of things, as a share of the side. copies, sign, overlap: chances that one kind comes two or
    three times, that there is a sign, and that one thing covers a part of another. twins: chance that a second thing
    has the shape of another, in another colour, which detectors by name easily mistake for it. cell: pixels a side of
    the cells in whose middle things stand; 0: they stand anywhere.
    """

    size: int = 64
    grain: int = 1
    kinds: tuple[int, int] = (3, 5)
    diameter: tuple[float, float] = (0.19, 0.3)
    copies: float = 0.2
    sign: float = 0.4
    overlap: float = 0.25
    twins: float = 0.0
    cell: int = 0

    @staticmethod
    def of(size: int) -> World:
        """Fitting for a size: fewer and larger things in small pictures, finer ones in large pictures."""
        if size < 48:
            return World(size, 1, (2, 3), (0.29, 0.36), copies=0.1, sign=0.2, overlap=0.1)
        return World(size, max(1, size // 64))


SMALL = World(128, 1, (4, 6), (0.08, 0.098), sign=0.0, overlap=0.0)
"""Every thing below 1 % of the area (0.098 squared), in pictures of 128 px."""

CELLS = World(32, 1, (2, 4), (7.5 / 32, 7.5 / 32), sign=0.0, overlap=0.0, cell=8)
"""Four by four cells of 8 px, a thing in a cell, a text in two: what a tiny editor can learn in minutes."""


def random_scene(chance: random.Random, world: World) -> Scene:
    """A scene of this world. Kinds differ in shape (unless twins) and in colour."""
    scene = Scene(
        (),
        Backdrop(chance.choice(BACKDROPS), chance.randrange(2**31)),
        Light(chance.uniform(0.9, 1.1), chance.uniform(0.0, 0.12), chance.random()),
        world.size,
        world.grain,
        chance.uniform(1.0, 3.0),
        chance.randrange(2**31),
        world.cell,
    )
    kinds = chance.randint(*world.kinds)
    if chance.random() < world.sign:
        scene = _add(chance, scene, random_sign(chance, scene))
        kinds -= 1
    overlapping = chance.random() < world.overlap
    for _ in range(kinds):
        thing = random_thing(chance, scene, world)
        if overlapping and scene.things:
            nearer = _on_top(chance, scene, thing)
            overlapping = nearer is None
            scene = nearer or _add(chance, scene, thing)
        else:
            scene = _add(chance, scene, thing)
    plain = [thing for thing in scene.things if thing.shape != SIGN]
    if plain and chance.random() < world.copies:
        one = chance.choice(plain)
        for _ in range(chance.randint(1, 2)):
            scene = _add(chance, scene, replace(one, id=scene.next_id))
    if plain and chance.random() < world.twins:
        one = chance.choice(plain)
        colour = chance.choice(unused_colours(scene))
        scene = _add(chance, scene, replace(one, id=scene.next_id, colour=colour))
    return scene


def random_thing(chance: random.Random, scene: Scene, world: World, *, near: float | None = None) -> Thing:
    """A thing of a shape and colour the scene does not have yet, nowhere in particular. near: its diameter, about."""
    side = chance.uniform(*world.diameter) if near is None else near * chance.uniform(0.92, 1.08)
    shapes = [shape for shape in SHAPES if all(thing.shape != shape for thing in scene.things)]
    material = chance.choice(MATERIALS) if chance.random() < 0.4 else ""
    shape = chance.choice(shapes or SHAPES)
    return Thing(scene.next_id, shape, chance.choice(unused_colours(scene)), 0.5, 0.5, side, side, material)


def random_sign(chance: random.Random, scene: Scene, text: str | None = None) -> Thing:
    """A sign that fits its text, with letters that stand out from the plate."""
    room = scene.size // (2 if scene.size < 48 else 3)
    fitting = [word for word in TEXTS if written_size(word, scene.grain)[0] + 4 * scene.grain <= room]
    text = chance.choice(fitting) if text is None else text
    width, height = (side + 4 * scene.grain for side in written_size(text, scene.grain))
    sign = Thing(scene.next_id, SIGN, "yellow", 0.5, 0.5, width / scene.size, height / scene.size, text=text)
    return recoloured(sign, chance.choice(unused_colours(scene)))


def recoloured(thing: Thing, colour: str) -> Thing:
    """The thing in another colour; a sign with letters that stand out from it."""
    return replace(thing, colour=colour, ink="light" if colour in _DARK else "dark")


def random_writing(chance: random.Random, scene: Scene, text: str) -> Thing:
    """Text on nothing, in ink that stands out from the backdrop."""
    width, height = written_size(text, scene.grain)
    writing = Thing(scene.next_id, TEXT, "", 0.5, 0.5, width / scene.size, height / scene.size, text=text)
    return inked(writing, scene.backdrop)


def inked(writing: Thing, backdrop: Backdrop) -> Thing:
    """The text in ink that stands out from a backdrop."""
    return replace(writing, ink="light" if backdrop.kind == "night" else "dark")


def unused_colours(scene: Scene) -> list[str]:
    """Colours no thing of the scene has; all of them where none is left."""
    used = {thing.colour for thing in scene.things}
    return [colour for colour in COLOURS if colour not in used] or list(COLOURS)


def placed_freely(
    chance: random.Random,
    scene: Scene,
    thing: Thing,
    *,
    within: tuple[float, float, float, float] = (0, 0, 1, 1),
    ignoring: Collection[int] = (),
) -> Thing | None:
    """The thing at a random place where it overlaps nothing, its centre inside of `within` (x0, y0, x1, y1).

    None if no such place was found. ignoring: ids of things that do not matter, as they will be gone.
    """
    room, others = _room(scene, thing, within), _others(scene, thing, ignoring)
    if room is None:
        return None
    x0, y0, x1, y1 = room
    for _ in range(_TRIES):
        at = _on_grid(thing.at(chance.uniform(x0, x1), chance.uniform(y0, y1)), scene)
        # The middle of a cell may lie outside of the room; a sign that snaps to a pixel, by a fraction of one only.
        if scene.cell and not (x0 <= at.x <= x1 and y0 <= at.y <= y1):
            continue
        if not any(_touch(at, one, _rim(scene)) for one in others):
            return at
    return None


def placed_first(
    scene: Scene,
    thing: Thing,
    places: Iterable[tuple[float, float]],
    *,
    within: tuple[float, float, float, float] = (0, 0, 1, 1),
    ignoring: Collection[int] = (),
) -> Thing | None:
    """The thing at the first of these places where it overlaps nothing; None if there is none. Like `placed_freely`."""
    room, others = _room(scene, thing, within), _others(scene, thing, ignoring)
    if room is None:
        return None
    for x, y in places:
        at = thing.at(x, y)
        inside = room[0] <= x <= room[2] and room[1] <= y <= room[3]
        if inside and not any(_touch(at, one, _rim(scene)) for one in others):
            return at
    return None


def _others(scene: Scene, thing: Thing, ignoring: Collection[int]) -> list[Thing]:
    return [one for one in scene.things if one.id not in ignoring and one.id != thing.id]


def _room(
    scene: Scene, thing: Thing, within: tuple[float, float, float, float]
) -> tuple[float, float, float, float] | None:
    """Where the thing's centre may lie, so that all of it is in the picture: x0, y0, x1, y1."""
    rim = _rim(scene)
    x0, x1 = max(within[0], thing.w / 2 + rim / 2), min(within[2], 1 - thing.w / 2 - rim / 2)
    y0, y1 = max(within[1], thing.h / 2 + rim / 2), min(within[3], 1 - thing.h / 2 - rim / 2)
    return None if x0 > x1 or y0 > y1 else (x0, y0, x1, y1)


def _on_grid(thing: Thing, scene: Scene) -> Thing:
    """The thing where it may stand: in the middle of its cells. Signs and texts stand on whole pixels, or their rims
    would be blurred.
    """
    size, cell = scene.size, scene.cell
    if thing.shape in (SIGN, TEXT):
        x0, y0 = round((thing.x - thing.w / 2) * size), round((thing.y - thing.h / 2) * size)
        if cell:
            x0, y0 = x0 // cell * cell, y0 // cell * cell + 1
        return thing.at(x0 / size + thing.w / 2, y0 / size + thing.h / 2)
    if not cell:
        return thing
    x, y = ((math.floor(at * size / cell) + 0.5) * cell / size for at in (thing.x, thing.y))
    return thing.at(x, y)


def _rim(scene: Scene) -> float:
    """Between things that do not overlap, in sides. Cells keep them apart where there are any."""
    return 0.0 if scene.cell else _GAP / scene.size


def _touch(one: Thing, other: Thing, rim: float) -> bool:
    across = abs(one.x - other.x) < (one.w + other.w) / 2 + rim
    return across and abs(one.y - other.y) < (one.h + other.h) / 2 + rim


def _add(chance: random.Random, scene: Scene, thing: Thing) -> Scene:
    """The scene with the thing where there is room for it; without it where there is none."""
    at = placed_freely(chance, scene, thing)
    return scene if at is None else scene.with_thing(at)


def _on_top(chance: random.Random, scene: Scene, thing: Thing) -> Scene | None:
    """The scene with the thing covering a twentieth to a fifth of another one; None if that was not found."""
    below = chance.choice([one for one in scene.things if one.shape != SIGN] or [None])
    if below is None:
        return None
    others: Sequence[Thing] = [one for one in scene.things if one.id != below.id]
    for _ in range(_TRIES):
        x = below.x + chance.uniform(-1, 1) * (below.w + thing.w) / 2
        y = below.y + chance.uniform(-1, 1) * (below.h + thing.h) / 2
        at = thing.at(x, y)
        if not (at.w / 2 < x < 1 - at.w / 2 and at.h / 2 < y < 1 - at.h / 2):
            continue
        if any(_touch(at, one, _GAP / scene.size) for one in others):
            continue
        found = scene.with_thing(at)
        if 0.05 <= covered(found, below.id) <= 0.2:
            return found
    return None
