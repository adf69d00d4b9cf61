"""Seeded random scenes."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from .render import occluded_share
from .scene_graph import Backdrop, Light, Scene, SceneObject, text_extent
from .vocabulary import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS

_LIGHT_INK_COLOURS = ("blue", "purple", "green", "teal", "red")
_MAX_ATTEMPTS = 200
_MIN_GAP = 2  # pixels between objects that do not overlap


@dataclass(frozen=True, slots=True)
class SceneConfig:
    """The distribution of random scenes.

    size: pixels a side. grain: pixels of a letter's dot. distinct_objects: least and greatest number of distinct
    objects, a sign included. diameter: of objects, as a share of the side. copy_probability: of one or two copies of an
    object. sign_probability: of a sign. overlap_probability: of one object that covers a part of another.
    same_shape_probability: of a second object with the shape of another in another colour, which detectors by name
    easily confuse. cell: pixels a side of grid cells, in whose middle objects stand; 0 for no grid.
    """

    size: int = 64
    grain: int = 1
    distinct_objects: tuple[int, int] = (3, 5)
    diameter: tuple[float, float] = (0.19, 0.3)
    copy_probability: float = 0.2
    sign_probability: float = 0.4
    overlap_probability: float = 0.25
    same_shape_probability: float = 0.0
    cell: int = 0

    @staticmethod
    def for_size(size: int) -> SceneConfig:
        """Defaults for a size: fewer and larger objects in small images, finer ones in large images."""
        if size < 48:
            return SceneConfig(
                size, 1, (2, 3), (0.29, 0.36), copy_probability=0.1, sign_probability=0.2, overlap_probability=0.1
            )
        return SceneConfig(size, max(1, size // 64))


SMALL_OBJECT_SCENES = SceneConfig(128, 1, (4, 6), (0.08, 0.098), sign_probability=0.0, overlap_probability=0.0)
"""Every object below 1 % of the area (0.098 squared), in images of 128 px."""

GRID_SCENES = SceneConfig(32, 1, (2, 4), (7.5 / 32, 7.5 / 32), sign_probability=0.0, overlap_probability=0.0, cell=8)
"""Four by four cells of 8 px, an object in a cell, a text in two: simple enough for a tiny editor."""


def random_scene(rng: random.Random, config: SceneConfig) -> Scene:
    """A random scene. Its objects, copies aside, differ in shape (`same_shape_probability`) and colour."""
    scene = Scene(
        (),
        Backdrop(rng.choice(BACKDROPS), rng.randrange(2**31)),
        Light(rng.uniform(0.9, 1.1), rng.uniform(0.0, 0.12), rng.random()),
        config.size,
        config.grain,
        rng.uniform(1.0, 3.0),
        rng.randrange(2**31),
        config.cell,
    )
    object_count = rng.randint(*config.distinct_objects)
    if rng.random() < config.sign_probability:
        scene = _with_object_if_room(rng, scene, random_sign(rng, scene))
        object_count -= 1
    overlapping = rng.random() < config.overlap_probability
    for _ in range(object_count):
        obj = random_object(rng, scene, config)
        if overlapping and scene.objects:
            nearer = _on_top(rng, scene, obj)
            overlapping = nearer is None
            scene = nearer or _with_object_if_room(rng, scene, obj)
        else:
            scene = _with_object_if_room(rng, scene, obj)
    plain = [obj for obj in scene.objects if obj.shape != SIGN]
    if plain and rng.random() < config.copy_probability:
        original = rng.choice(plain)
        for _ in range(rng.randint(1, 2)):
            scene = _with_object_if_room(rng, scene, replace(original, id=scene.next_id))
    if plain and rng.random() < config.same_shape_probability:
        original = rng.choice(plain)
        colour = rng.choice(unused_colours(scene))
        scene = _with_object_if_room(rng, scene, replace(original, id=scene.next_id, colour=colour))
    return scene


def random_object(
    rng: random.Random, scene: Scene, config: SceneConfig, *, near_diameter: float | None = None
) -> SceneObject:
    """An object of a shape and colour new to the scene, without a place. near_diameter: its approximate size."""
    side = rng.uniform(*config.diameter) if near_diameter is None else near_diameter * rng.uniform(0.92, 1.08)
    shapes = [shape for shape in SHAPES if all(obj.shape != shape for obj in scene.objects)]
    material = rng.choice(MATERIALS) if rng.random() < 0.4 else ""
    shape = rng.choice(shapes or SHAPES)
    return SceneObject(scene.next_id, shape, rng.choice(unused_colours(scene)), 0.5, 0.5, side, side, material)


def random_sign(rng: random.Random, scene: Scene, text: str | None = None) -> SceneObject:
    """A sign as large as its text needs, with ink that contrasts with the plate."""
    room = scene.size // (2 if scene.size < 48 else 3)
    fitting = [word for word in TEXTS if text_extent(word, scene.grain)[0] + 4 * scene.grain <= room]
    text = rng.choice(fitting) if text is None else text
    width, height = (side + 4 * scene.grain for side in text_extent(text, scene.grain))
    sign = SceneObject(scene.next_id, SIGN, "yellow", 0.5, 0.5, width / scene.size, height / scene.size, text=text)
    return recoloured(sign, rng.choice(unused_colours(scene)))


def recoloured(obj: SceneObject, colour: str) -> SceneObject:
    """The object in another colour; a sign with ink that contrasts with it."""
    return replace(obj, colour=colour, ink="light" if colour in _LIGHT_INK_COLOURS else "dark")


def random_text(rng: random.Random, scene: Scene, text: str) -> SceneObject:
    """Text without a plate, in ink that contrasts with the backdrop."""
    width, height = text_extent(text, scene.grain)
    writing = SceneObject(scene.next_id, TEXT, "", 0.5, 0.5, width / scene.size, height / scene.size, text=text)
    return with_contrasting_ink(writing, scene.backdrop)


def with_contrasting_ink(writing: SceneObject, backdrop: Backdrop) -> SceneObject:
    """The text in ink that contrasts with a backdrop."""
    return replace(writing, ink="light" if backdrop.kind == "night" else "dark")


def unused_colours(scene: Scene) -> list[str]:
    """Colours that no object of the scene has; all colours where none is left."""
    used = {obj.colour for obj in scene.objects}
    return [colour for colour in COLOURS if colour not in used] or list(COLOURS)


def place_randomly(
    rng: random.Random,
    scene: Scene,
    obj: SceneObject,
    *,
    within: tuple[float, float, float, float] = (0, 0, 1, 1),
    ignored_ids: Collection[int] = (),
) -> SceneObject | None:
    """The object at a random place where it overlaps nothing, its centre inside `within` (x0, y0, x1, y1).

    None if the search fails. ignored_ids: of objects that may be overlapped, as they will be removed.
    """
    room, others = _centre_bounds(scene, obj, within), _others(scene, obj, ignored_ids)
    if room is None:
        return None
    x0, y0, x1, y1 = room
    for _ in range(_MAX_ATTEMPTS):
        at = _on_grid(obj.moved_to(rng.uniform(x0, x1), rng.uniform(y0, y1)), scene)
        # The middle of a cell may lie outside the bounds; a sign snaps to a pixel and is off by a fraction of one only.
        if scene.cell and not (x0 <= at.x <= x1 and y0 <= at.y <= y1):
            continue
        if not any(_overlaps(at, other, _rim(scene)) for other in others):
            return at
    return None


def place_first_fit(
    scene: Scene,
    obj: SceneObject,
    places: Iterable[tuple[float, float]],
    *,
    within: tuple[float, float, float, float] = (0, 0, 1, 1),
    ignored_ids: Collection[int] = (),
) -> SceneObject | None:
    """The object at the first of these places where it overlaps nothing; None without one. Like `place_randomly`."""
    room, others = _centre_bounds(scene, obj, within), _others(scene, obj, ignored_ids)
    if room is None:
        return None
    for x, y in places:
        at = obj.moved_to(x, y)
        inside = room[0] <= x <= room[2] and room[1] <= y <= room[3]
        if inside and not any(_overlaps(at, other, _rim(scene)) for other in others):
            return at
    return None


def _others(scene: Scene, obj: SceneObject, ignored_ids: Collection[int]) -> list[SceneObject]:
    return [other for other in scene.objects if other.id not in ignored_ids and other.id != obj.id]


def _centre_bounds(
    scene: Scene, obj: SceneObject, within: tuple[float, float, float, float]
) -> tuple[float, float, float, float] | None:
    """Bounds of the object's centre for which all of it is in the image: x0, y0, x1, y1."""
    rim = _rim(scene)
    x0, x1 = max(within[0], obj.w / 2 + rim / 2), min(within[2], 1 - obj.w / 2 - rim / 2)
    y0, y1 = max(within[1], obj.h / 2 + rim / 2), min(within[3], 1 - obj.h / 2 - rim / 2)
    return None if x0 > x1 or y0 > y1 else (x0, y0, x1, y1)


def _on_grid(obj: SceneObject, scene: Scene) -> SceneObject:
    """The object snapped to its cells. Signs and texts are snapped to whole pixels, or their rims would be blurred."""
    size, cell = scene.size, scene.cell
    if obj.shape in (SIGN, TEXT):
        x0, y0 = round((obj.x - obj.w / 2) * size), round((obj.y - obj.h / 2) * size)
        if cell:
            x0, y0 = x0 // cell * cell, y0 // cell * cell + 1
        return obj.moved_to(x0 / size + obj.w / 2, y0 / size + obj.h / 2)
    if not cell:
        return obj
    x, y = ((math.floor(at * size / cell) + 0.5) * cell / size for at in (obj.x, obj.y))
    return obj.moved_to(x, y)


def _rim(scene: Scene) -> float:
    """The gap between objects that do not overlap, in sides; 0 with cells, which separate them."""
    return 0.0 if scene.cell else _MIN_GAP / scene.size


def _overlaps(one: SceneObject, other: SceneObject, rim: float) -> bool:
    across = abs(one.x - other.x) < (one.w + other.w) / 2 + rim
    return across and abs(one.y - other.y) < (one.h + other.h) / 2 + rim


def _with_object_if_room(rng: random.Random, scene: Scene, obj: SceneObject) -> Scene:
    """The scene with the object where there is room for it, else unchanged."""
    at = place_randomly(rng, scene, obj)
    return scene if at is None else scene.with_object(at)


def _on_top(rng: random.Random, scene: Scene, obj: SceneObject) -> Scene | None:
    """The scene with the object covering a twentieth to a fifth of another one; None if the search fails."""
    below = rng.choice([candidate for candidate in scene.objects if candidate.shape != SIGN] or [None])
    if below is None:
        return None
    others: Sequence[SceneObject] = [candidate for candidate in scene.objects if candidate.id != below.id]
    for _ in range(_MAX_ATTEMPTS):
        x = below.x + rng.uniform(-1, 1) * (below.w + obj.w) / 2
        y = below.y + rng.uniform(-1, 1) * (below.h + obj.h) / 2
        at = obj.moved_to(x, y)
        if not (at.w / 2 < x < 1 - at.w / 2 and at.h / 2 < y < 1 - at.h / 2):
            continue
        if any(_overlaps(at, candidate, _MIN_GAP / scene.size) for candidate in others):
            continue
        covered = scene.with_object(at)
        if 0.05 <= occluded_share(covered, below.id) <= 0.2:
            return covered
    return None
