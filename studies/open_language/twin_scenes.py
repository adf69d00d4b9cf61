"""Scenes with twins: objects alike but for place, size, order, relation or colour; and whether a step was followed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from editcritic.benchmarks.sceneedit.ground_truth import followed, is_visible
from editcritic.benchmarks.sceneedit.scene_generation import (
    SceneConfig,
    place_randomly,
    random_object,
    random_scene,
    unused_colours,
)
from editcritic.benchmarks.sceneedit.scene_graph import Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest, side_region
from editcritic.reward.edit_plan import Place, Relation, SizeRank, Target
from editcritic.reward.sample import POSITIONS, Position

Distinction = Literal["place", "size", "order", "relation", "colour", "quantity"]
"""What tells the objects that are meant from others of their name. `quantity`: several are meant at once."""
DISTINCTIONS: tuple[Distinction, ...] = get_args(Distinction)

_APART = 0.4  # share of the side: twins that a place tells apart stand within it, at opposite edges
_SMALL, _LARGE = 0.62, 1.3  # diameters of twins that size tells apart, relative to an object as large as others
_COLOUR_NAMED = 0.35  # share of expressions that name a colour although it tells nothing apart
_PLURALS = {"cross": "crosses"}


@dataclass(frozen=True, slots=True)
class Expression:
    """A referring expression. words: as in `the smaller of the two circles`. target: the same, taken apart. ids: of the
    objects that it means. twins: ids of others of the same shape.
    """

    words: str
    target: Target
    ids: tuple[int, ...]
    twins: tuple[int, ...] = ()


def plural(noun: str) -> str:
    """Several of it: `circles`."""
    return _PLURALS.get(noun, f"{noun}s")


def plain_scene(rng: random.Random, config: SceneConfig) -> Scene:
    """A random scene whose objects have different shapes and colours, and no material: names need none then."""
    config = replace(config, copy_probability=0.0, sign_probability=0.0, overlap_probability=0.0)
    scene = random_scene(rng, config)
    return replace(scene, objects=tuple(replace(obj, material="") for obj in scene.objects))


def unique_expression(rng: random.Random, obj: SceneObject) -> Expression:
    """An object whose shape no other one has: `the star`, `the red star`."""
    attributes = (obj.colour,) if rng.random() < _COLOUR_NAMED else ()
    return Expression(" ".join(("the", *attributes, obj.shape)), Target(obj.shape, attributes), (obj.id,))


def twin_scene(rng: random.Random, config: SceneConfig, distinction: Distinction) -> tuple[Scene, Expression]:
    """A scene with twins, and an expression that means some of them."""
    while True:
        built = _BUILDERS[distinction](rng, plain_scene(rng, config), config)
        if built is not None:
            return built


_Built = tuple[Scene, Expression] | None


def _twin(rng: random.Random, scene: Scene, config: SceneConfig) -> SceneObject:
    return replace(random_object(rng, scene, config), material="")


def _with_twins(
    rng: random.Random, scene: Scene, regions: Sequence[tuple[float, float, float, float]], *twins: SceneObject
) -> tuple[Scene, tuple[SceneObject, ...]] | None:
    """The scene with an object in each of these regions of centres; None where one has no room."""
    placed = []
    for twin, region in zip(twins, regions, strict=True):
        at = place_randomly(rng, scene, replace(twin, id=scene.next_id), within=region)
        if at is None:
            return None
        placed.append(at)
        scene = scene.with_object(at)
    return scene, tuple(placed)


def _attributes(rng: random.Random, obj: SceneObject) -> tuple[str, ...]:
    return (obj.colour,) if rng.random() < _COLOUR_NAMED else ()


def _phrase(attributes: Sequence[str], noun: str) -> str:
    return " ".join((*attributes, noun))


def _filled(words: str, attributes: Sequence[str], noun: str) -> str:
    """The words with the name of one or of many in place of `{one}` and `{many}`."""
    return words.format(one=_phrase(attributes, noun), many=_phrase(attributes, plural(noun)))


# -- one builder for each distinction ---------------------------------------------------------------------------------

_EDGES: Mapping[Place, tuple[float, float, float, float]] = {
    "left": (0.0, 0.0, _APART, 1.0),
    "right": (1 - _APART, 0.0, 1.0, 1.0),
    "top": (0.0, 0.0, 1.0, _APART),
    "bottom": (0.0, 1 - _APART, 1.0, 1.0),
}
_OPPOSITE: Mapping[Place, Place] = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}
_PLACE_WORDS: Mapping[Place, tuple[str, ...]] = {
    "left": ("the {one} on the left", "the left {one}", "the leftmost {one}", "the {one} on the left side"),
    "right": ("the {one} on the right", "the right {one}", "the rightmost {one}", "the {one} on the right side"),
    "top": ("the {one} at the top", "the top {one}", "the upper {one}"),
    "bottom": ("the {one} at the bottom", "the bottom {one}", "the lower {one}"),
}


def _by_place(rng: random.Random, scene: Scene, config: SceneConfig) -> _Built:
    place = rng.choice(tuple(_EDGES))
    twin = _twin(rng, scene, config)
    built = _with_twins(rng, scene, (_EDGES[place], _EDGES[_OPPOSITE[place]]), twin, twin)
    if built is None:
        return None
    scene, (meant, other) = built
    attributes = _attributes(rng, meant)
    words = _filled(rng.choice(_PLACE_WORDS[place]), attributes, meant.shape)
    return scene, Expression(words, Target(meant.shape, attributes, place=place), (meant.id,), (other.id,))


_SIZE_WORDS: Mapping[SizeRank, tuple[str, ...]] = {
    "smallest": ("the smaller {one}", "the smallest {one}", "the smaller of the two {many}"),
    "largest": ("the larger {one}", "the largest {one}", "the bigger {one}", "the larger of the two {many}"),
}


def _by_size(rng: random.Random, scene: Scene, config: SceneConfig) -> _Built:
    twin = _twin(rng, scene, config)
    anywhere = (0.0, 0.0, 1.0, 1.0)
    large, small = (replace(twin, w=factor * twin.w, h=factor * twin.h) for factor in (_LARGE, _SMALL))
    built = _with_twins(rng, scene, (anywhere, anywhere), large, small)
    if built is None:
        return None
    scene, pair = built
    rank: SizeRank = rng.choice(("largest", "smallest"))
    meant, other = pair if rank == "largest" else pair[::-1]
    attributes = _attributes(rng, meant)
    words = _filled(rng.choice(_SIZE_WORDS[rank]), attributes, meant.shape)
    return scene, Expression(words, Target(meant.shape, attributes, size=rank), (meant.id,), (other.id,))


_ORDINALS = ("first", "second", "third")


def _by_order(rng: random.Random, scene: Scene, config: SceneConfig) -> _Built:
    across = rng.random() < 0.5
    thirds = ((0.0, 0.28), (0.37, 0.63), (0.72, 1.0))
    regions = [(low, 0.0, high, 1.0) if across else (0.0, low, 1.0, high) for low, high in thirds]
    built = _with_twins(rng, scene, regions, *[_twin(rng, scene, config)] * 3)
    if built is None:
        return None
    scene, row = built
    side: Literal["left", "right", "top", "bottom"] = rng.choice(("left", "right") if across else ("top", "bottom"))
    if side in ("right", "bottom"):
        row = row[::-1]
    number = rng.randrange(3)
    meant = row[number]
    attributes = _attributes(rng, meant)
    words = f"the {_ORDINALS[number]} {_phrase(attributes, meant.shape)} from the {side}"
    target = Target(meant.shape, attributes, order=number + 1, order_from=side)
    return scene, Expression(words, target, (meant.id,), tuple(obj.id for obj in row if obj is not meant))


_RELATION_WORDS: Mapping[Position, tuple[str, ...]] = {
    "left": ("to the left of", "left of", "on the left of"),
    "right": ("to the right of", "right of", "on the right of"),
    "above": ("above",),
    "below": ("below", "under", "underneath"),
}
_BEHIND: Mapping[Position, Position] = {"left": "right", "right": "left", "above": "below", "below": "above"}


def _by_relation(rng: random.Random, scene: Scene, config: SceneConfig) -> _Built:
    if not scene.objects:
        return None
    anchor, position = rng.choice(scene.objects), rng.choice(POSITIONS)
    twin = _twin(rng, scene, config)
    built = _with_twins(rng, scene, (side_region(position, anchor), side_region(_BEHIND[position], anchor)), twin, twin)
    if built is None:
        return None
    scene, (meant, other) = built
    attributes, named = _attributes(rng, meant), unique_expression(rng, anchor)
    words = f"the {_phrase(attributes, meant.shape)} {rng.choice(_RELATION_WORDS[position])} {named.words}"
    target = Target(meant.shape, attributes, relation=Relation(position, named.target))
    return scene, Expression(words, target, (meant.id,), (other.id,))


def _by_colour(rng: random.Random, scene: Scene, config: SceneConfig) -> _Built:
    twin = _twin(rng, scene, config)
    colours = [colour for colour in unused_colours(scene) if colour != twin.colour]
    anywhere = (0.0, 0.0, 1.0, 1.0)
    built = _with_twins(rng, scene, (anywhere, anywhere), twin, replace(twin, colour=rng.choice(colours)))
    if built is None:
        return None
    scene, (meant, other) = built
    words = f"the {meant.colour} {meant.shape}"
    return scene, Expression(words, Target(meant.shape, (meant.colour,)), (meant.id,), (other.id,))


_ALL_WORDS: Mapping[str, tuple[str, ...]] = {
    "all": ("all {many}", "all the {many}", "all of the {many}", "every {one}"),
    "both": ("both {many}", "both of the {many}", "both the {many}"),
}


def _by_quantity(rng: random.Random, scene: Scene, config: SceneConfig) -> _Built:
    quantity: Literal["all", "both"] = rng.choice(("all", "both"))
    number = 3 if quantity == "all" else 2
    twin = _twin(rng, scene, config)
    colours = rng.sample([colour for colour in unused_colours(scene) if colour != twin.colour], 2)
    # Of one colour with one of another beside them, of one colour, or of several.
    case = rng.choice(("other", "alike", "mixed"))
    hues = [twin.colour] * number if case != "mixed" else [twin.colour, *colours][:number]
    hues += [colours[0]] if case == "other" else []
    anywhere = (0.0, 0.0, 1.0, 1.0)
    built = _with_twins(rng, scene, [anywhere] * len(hues), *(replace(twin, colour=hue) for hue in hues))
    if built is None:
        return None
    scene, placed = built
    attributes = (twin.colour,) if case == "other" else ()
    words = _filled(rng.choice(_ALL_WORDS[quantity]), attributes, twin.shape)
    target = Target(twin.shape, attributes, quantity=quantity)
    ids = tuple(obj.id for obj in placed)
    return scene, Expression(words, target, ids[:number], ids[number:])


_BUILDERS: Mapping[Distinction, Callable[[random.Random, Scene, SceneConfig], _Built]] = {
    "place": _by_place,
    "size": _by_size,
    "order": _by_order,
    "relation": _by_relation,
    "colour": _by_colour,
    "quantity": _by_quantity,
}


# -- the truth of one operation ----------------------------------------------------------------------------------------

_STILL = 0.05  # distance, in sides of the image, up to which a bystander counts as not moved


def step_followed(step: SceneRequest, before: Scene, after: Scene) -> bool:
    """Whether `after` shows what a step asked for, of the objects that it means and of no others.

    Like `ground_truth.followed`, which tells objects apart by their look. Here twins look alike: those that the step is
    not about are left out of both scenes, as long as they are as they were.
    """
    if step.task.type in ("color_alter", "material_alter"):
        return all(_has_new_look(step, obj, after) for obj in step.placed)
    looks = {obj.appearance for obj in (*step.placed, *before.objects) if obj.id in (*step.target_ids, *_ids(step))}
    bystanders = [
        obj.id
        for obj in before.objects
        if obj.appearance in looks
        and obj.id not in (*step.target_ids, *_ids(step), step.reference_id)
        and _is_as_before(obj, after)
    ]
    return followed(step, before.without(bystanders), after.without(bystanders))


def _ids(step: SceneRequest) -> tuple[int, ...]:
    return tuple(obj.id for obj in step.placed)


def _has_new_look(step: SceneRequest, requested: SceneObject, after: Scene) -> bool:
    """Later steps may have changed other properties of it."""
    now = after.object_by_id(requested.id)
    if now is None or now.shape != requested.shape or not is_visible(after, now):
        return False
    if step.task.type == "color_alter":
        return now.colour == requested.colour
    return now.material == requested.material


def _is_as_before(obj: SceneObject, after: Scene) -> bool:
    now = after.object_by_id(obj.id)
    return (
        now is not None
        and now.appearance == obj.appearance
        and max(abs(now.x - obj.x), abs(now.y - obj.y)) <= _STILL
        and is_visible(after, now)
    )
