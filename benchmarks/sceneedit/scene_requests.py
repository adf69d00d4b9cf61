"""Requests: an instruction and the scene after a perfect edit, for the nine task types of EdiVal."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from types import MappingProxyType

from ...reward.sample import POSITIONS, Position, Task, TaskType
from .render import occluded_share
from .scene_generation import (
    SceneConfig,
    place_randomly,
    random_object,
    random_text,
    recoloured,
    unused_colours,
    with_contrasting_ink,
)
from .scene_graph import Backdrop, Scene, SceneObject, text_extent
from .vocabulary import BACKDROPS, MATERIALS, SIGN, TEXT, TEXTS

_MIN_VISIBLE = 0.75  # visible share of an object that an instruction is about
_MIN_SIDE_OFFSET = 0.14  # of the side: how far beyond its reference an object is put
_MAX_COUNT = 5


@dataclass(frozen=True, slots=True)
class SceneRequest:
    """One instruction about one scene, and one way to carry it out.

    target_ids: ids of the objects it is about, in the scene before. reference_id: id of the object a position refers
    to. removed: ids that a perfect edit removes. placed: objects it adds, or that replace those with their ids.
    backdrop: the new backdrop; None keeps the old one.
    """

    task: Task
    instruction: str
    target_ids: tuple[int, ...] = ()
    reference_id: int | None = None
    removed: tuple[int, ...] = ()
    placed: tuple[SceneObject, ...] = field(default=())
    backdrop: Backdrop | None = None

    def apply(self, scene: Scene) -> Scene:
        """The scene after a perfect edit. Targets that earlier turns removed are skipped."""
        requested = self.requested_objects(scene)
        scene = scene.without(self.removed)
        for obj in requested:
            scene = scene.with_object(obj)
        return scene if self.backdrop is None else replace(scene, backdrop=self.backdrop)

    def requested_objects(self, scene: Scene) -> tuple[SceneObject, ...]:
        """The objects of `placed` as they should be in this scene; other fields than the requested stay unchanged."""
        requested = []
        for obj in self.placed:
            existing = scene.object_by_id(obj.id)
            if existing is not None:
                specified = {slot: getattr(obj, slot) for slot in _SPECIFIED_FIELDS[self.task.type]}
                requested.append(replace(existing, **specified))
            elif obj.id not in self.target_ids:
                requested.append(obj)
        return tuple(requested)

    @property
    def affected_ids(self) -> frozenset[int]:
        """Ids of the objects that it changes or refers to."""
        ids = {*self.target_ids, *self.removed, *(obj.id for obj in self.placed)}
        return frozenset(ids | ({self.reference_id} if self.reference_id is not None else set()))


_SPECIFIED_FIELDS: Mapping[TaskType, tuple[str, ...]] = MappingProxyType(
    {
        "subject_add": (),
        "subject_remove": (),
        "subject_replace": (),
        "position_change": ("x", "y"),
        "count_change": (),
        "color_alter": ("colour", "ink"),
        "material_alter": ("material",),
        "text_change": ("text",),
        "background_change": ("ink",),
    }
)


def random_request(
    rng: random.Random, scene: Scene, config: SceneConfig, task_type: TaskType, *, excluded_ids: Collection[int] = ()
) -> SceneRequest | None:
    """A request of this type that the scene allows; None without one. excluded_ids: ids it must not be about."""
    return _BUILDERS[task_type](_RequestContext(rng, scene, config, frozenset(excluded_ids)))


@dataclass(frozen=True, slots=True)
class _RequestContext:
    """What the builders of requests work with."""

    rng: random.Random
    scene: Scene
    config: SceneConfig
    excluded_ids: frozenset[int]

    def random_unique_object(self, *, signs: bool = True) -> SceneObject | None:
        """One of `unique_objects`; None without one."""
        candidates = self.unique_objects(signs=signs)
        return candidates[0] if candidates else None

    def unique_objects(self, *, signs: bool = True) -> list[SceneObject]:
        """Sufficiently visible objects with unique names, in random order."""
        candidates = [
            obj
            for obj in self.scene.objects
            if obj.shape != TEXT
            and (signs or obj.shape != SIGN)
            and obj.id not in self.excluded_ids
            and len(self.scene.named(obj.name)) == 1
            and occluded_share(self.scene, obj.id) <= 1 - _MIN_VISIBLE
        ]
        self.rng.shuffle(candidates)
        return candidates


def side_offset(position: Position, obj: SceneObject, reference: SceneObject) -> float:
    """How far an object's centre lies beyond that of its reference, in sides; negative on the other side."""
    ahead = {
        "left": reference.x - obj.x,
        "right": obj.x - reference.x,
        "above": reference.y - obj.y,
        "below": obj.y - reference.y,
    }
    return ahead[position]


def side_region(
    position: Position, reference: SceneObject, aside: float = _MIN_SIDE_OFFSET
) -> tuple[float, float, float, float]:
    """The region of centres on that side by at least `aside`: x0, y0, x1, y1."""
    x, y = reference.x, reference.y
    return {
        "left": (0.0, 0.0, x - aside, 1.0),
        "right": (x + aside, 0.0, 1.0, 1.0),
        "above": (0.0, 0.0, 1.0, y - aside),
        "below": (0.0, y + aside, 1.0, 1.0),
    }[position]


_POSITION_PHRASES: Mapping[Position, str] = MappingProxyType(
    {"left": "on the left of", "right": "on the right of", "above": "above", "below": "below"}
)


def position_phrase(position: Position) -> str:
    """As in `on the left of`."""
    return _POSITION_PHRASES[position]


def _add(context: _RequestContext) -> SceneRequest | None:
    scene, rng = context.scene, context.rng
    new = random_object(rng, scene, context.config)
    placements = [(reference, position) for reference in context.unique_objects() for position in POSITIONS]
    rng.shuffle(placements)
    if not placements or rng.random() < 0.25:
        at = place_randomly(rng, scene, new)
        return None if at is None else SceneRequest(Task("subject_add", new=new.name), f"Add {new.name}", placed=(at,))
    for reference, position in placements:
        at = place_randomly(rng, scene, new, within=side_region(position, reference))
        if at is not None:
            task = Task("subject_add", new=new.name, position=position, reference=reference.name)
            instruction = f"Add {new.name} {position_phrase(position)} {reference.name}"
            return SceneRequest(task, instruction, reference_id=reference.id, placed=(at,))
    return None


def _remove(context: _RequestContext) -> SceneRequest | None:
    names = [
        name
        for name in context.scene.names
        if name != TEXT and not context.excluded_ids & {obj.id for obj in context.scene.named(name)}
    ]
    if not names:
        return None
    name = context.rng.choice(names)
    removed = tuple(obj.id for obj in context.scene.named(name))
    return SceneRequest(Task("subject_remove", object=name), f"Remove {name}", removed, removed=removed)


def _replace(context: _RequestContext) -> SceneRequest | None:
    old = context.random_unique_object(signs=False)
    if old is None:
        return None
    new = replace(random_object(context.rng, context.scene, context.config, near_diameter=old.w), x=old.x, y=old.y)
    task = Task("subject_replace", object=old.name, new=new.name)
    return SceneRequest(task, f"Replace {old.name} with {new.name}", (old.id,), removed=(old.id,), placed=(new,))


def _move(context: _RequestContext) -> SceneRequest | None:
    placements = [(a, b, p) for a, b in permutations(context.unique_objects(), 2) for p in POSITIONS]
    context.rng.shuffle(placements)
    for obj, reference, position in placements:
        if side_offset(position, obj, reference) > 0:
            continue  # it is there already
        at = place_randomly(
            context.rng, context.scene, obj, within=side_region(position, reference), ignored_ids=(obj.id,)
        )
        if at is not None:
            task = Task("position_change", object=obj.name, position=position, reference=reference.name)
            instruction = (
                f"Change the position of {obj.name} to {position_phrase(position).removeprefix('on ')} {reference.name}"
            )
            return SceneRequest(task, instruction, (obj.id,), reference.id, placed=(at,))
    return None


def _count(context: _RequestContext) -> SceneRequest | None:
    scene, rng = context.scene, context.rng
    names = [
        name
        for name in scene.names
        if name != TEXT and all(obj.shape != SIGN and obj.id not in context.excluded_ids for obj in scene.named(name))
    ]
    if not names:
        return None
    name = rng.choice(names)
    copies = scene.named(name)
    target_count = rng.choice([number for number in range(1, _MAX_COUNT + 1) if number != len(copies)])
    removed = tuple(obj.id for obj in copies[target_count:])
    after = scene.without(removed)
    placed: list[SceneObject] = []
    for _ in range(target_count - len(copies)):
        at = place_randomly(rng, after, replace(copies[0], id=after.next_id))
        if at is None:
            break
        placed.append(at)
        after = after.with_object(at)
    count = len(after.named(name))
    if count == len(copies):
        return None  # no room for another one
    task = Task("count_change", object=name, count=count)
    instruction = f"Change the count of {name} to {count}"
    return SceneRequest(task, instruction, tuple(obj.id for obj in copies), removed=removed, placed=tuple(placed))


def _recolour(context: _RequestContext) -> SceneRequest | None:
    obj = context.random_unique_object()
    if obj is None:
        return None
    colour = context.rng.choice([candidate for candidate in unused_colours(context.scene) if candidate != obj.colour])
    instruction = f"Change the color of {obj.name} to {colour}"
    task = Task("color_alter", object=obj.name, value=colour)
    return SceneRequest(task, instruction, (obj.id,), placed=(recoloured(obj, colour),))


def _rematerial(context: _RequestContext) -> SceneRequest | None:
    obj = context.random_unique_object(signs=False)
    if obj is None:
        return None
    material = context.rng.choice([candidate for candidate in MATERIALS if candidate != obj.material])
    instruction = f"Change the material of {obj.name} to {material}"
    task = Task("material_alter", object=obj.name, value=material)
    return SceneRequest(task, instruction, (obj.id,), placed=(replace(obj, material=material),))


def _text(context: _RequestContext) -> SceneRequest | None:
    scene, rng = context.scene, context.rng
    signs = [obj for obj in scene.objects if obj.shape == SIGN and obj.id not in context.excluded_ids]
    if signs:
        sign = rng.choice(signs)
        text = rng.choice([word for word in TEXTS if word != sign.text and len(word) <= len(sign.text)])
        instruction = f'Replace the text "{sign.text}" on {sign.name} with "{text}"'
        task = Task("text_change", object=sign.name, old=sign.text, text=text)
        return SceneRequest(task, instruction, (sign.id,), placed=(replace(sign, text=text),))
    fitting = [word for word in TEXTS if text_extent(word, scene.grain)[0] <= scene.size // 2]
    writing = place_randomly(rng, scene, random_text(rng, scene, rng.choice(fitting)))
    if writing is None or any(obj.text for obj in scene.objects):
        return None
    return SceneRequest(Task("text_change", text=writing.text), f'Add text "{writing.text}"', placed=(writing,))


def _background(context: _RequestContext) -> SceneRequest | None:
    scene, rng = context.scene, context.rng
    kind = rng.choice([candidate for candidate in BACKDROPS if candidate != scene.backdrop.kind])
    keep = tuple(name for name in scene.names if name != TEXT)
    instruction = f"Change the background to {kind}"
    if keep:
        instruction += f", remain the {', '.join(keep)} unchanged"
    task = Task("background_change", value=kind, keep=keep)
    backdrop = Backdrop(kind, rng.randrange(2**31))
    writings = tuple(with_contrasting_ink(obj, backdrop) for obj in scene.objects if obj.shape == TEXT)
    return SceneRequest(task, instruction, placed=writings, backdrop=backdrop)


_BUILDERS: Mapping[TaskType, Callable[[_RequestContext], SceneRequest | None]] = MappingProxyType(
    {
        "subject_add": _add,
        "subject_remove": _remove,
        "subject_replace": _replace,
        "position_change": _move,
        "count_change": _count,
        "color_alter": _recolour,
        "material_alter": _rematerial,
        "text_change": _text,
        "background_change": _background,
    }
)
