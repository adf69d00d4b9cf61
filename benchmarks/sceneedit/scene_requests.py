"""Requests: what an editor is told, and the scene that a perfect edit would make. All nine task types of EdiVal."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from types import MappingProxyType

from ...reward.sample import POSITIONS, Position, Task, TaskType
from .render import covered
from .scene import Backdrop, Scene, Thing, written_size
from .scenes import World, inked, placed_freely, random_thing, random_writing, recoloured, unused_colours
from .words import BACKDROPS, MATERIALS, SIGN, TEXT, TEXTS

_VISIBLE = 0.75  # of a thing that an instruction is about
_ASIDE = 0.14  # of the side: how far beyond its reference a thing is put
_MOST = 5


@dataclass(frozen=True, slots=True)
class Request:
    """One instruction about one scene, and one way to carry it out.

    targets: ids of the things it is about, in the scene before. reference: id of the thing a position refers to.
    gone: ids that a perfect edit takes away. put: things it adds, or puts in the place of those with their ids.
    backdrop: what it puts behind all; None leaves it.
    """

    task: Task
    instruction: str
    targets: tuple[int, ...] = ()
    reference: int | None = None
    gone: tuple[int, ...] = ()
    put: tuple[Thing, ...] = field(default=())
    backdrop: Backdrop | None = None

    def carry_out(self, scene: Scene) -> Scene:
        """The scene after a perfect edit; as far as it goes where earlier turns took away what it is about."""
        wanted = self.wanted(scene)
        scene = scene.without(self.gone)
        for thing in wanted:
            scene = scene.with_thing(thing)
        return scene if self.backdrop is None else replace(scene, backdrop=self.backdrop)

    def wanted(self, scene: Scene) -> tuple[Thing, ...]:
        """The things of `put` as they should be in this scene: what the request does not speak of is left as it is."""
        found = []
        for thing in self.put:
            there = scene.get(thing.id)
            if there is not None:
                said = {slot: getattr(thing, slot) for slot in _SPOKEN_OF[self.task.type]}
                found.append(replace(there, **said))
            elif thing.id not in self.targets:
                found.append(thing)
        return tuple(found)

    @property
    def touches(self) -> frozenset[int]:
        """Ids of all that it changes or needs."""
        found = {*self.targets, *self.gone, *(thing.id for thing in self.put)}
        return frozenset(found | ({self.reference} if self.reference is not None else set()))


_SPOKEN_OF: Mapping[TaskType, tuple[str, ...]] = MappingProxyType(
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
    chance: random.Random, scene: Scene, world: World, kind: TaskType, *, leave: Collection[int] = ()
) -> Request | None:
    """A request of this type that the scene allows; None if there is none. leave: ids it must not be about."""
    return _MAKERS[kind](_Asked(chance, scene, world, frozenset(leave)))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a maker of requests has to go by."""

    chance: random.Random
    scene: Scene
    world: World
    leave: frozenset[int]

    def single(self, *, signs: bool = True) -> Thing | None:
        """One of `singles`; None if there is none."""
        found = self.singles(signs=signs)
        return found[0] if found else None

    def singles(self, *, signs: bool = True) -> list[Thing]:
        """Things that their names tell from all others, and of which enough can be seen, in random order."""
        found = [
            thing
            for thing in self.scene.things
            if thing.shape != TEXT
            and (signs or thing.shape != SIGN)
            and thing.id not in self.leave
            and len(self.scene.called(thing.name)) == 1
            and covered(self.scene, thing.id) <= 1 - _VISIBLE
        ]
        self.chance.shuffle(found)
        return found


def beside(position: Position, thing: Thing, reference: Thing) -> float:
    """How far the centre of a thing lies beyond that of its reference, in sides; negative on the other side."""
    ahead = {
        "left": reference.x - thing.x,
        "right": thing.x - reference.x,
        "above": reference.y - thing.y,
        "below": thing.y - reference.y,
    }
    return ahead[position]


def side_of(position: Position, reference: Thing, aside: float = _ASIDE) -> tuple[float, float, float, float]:
    """Where centres lie that are on that side by at least `aside`: x0, y0, x1, y1."""
    x, y = reference.x, reference.y
    return {
        "left": (0.0, 0.0, x - aside, 1.0),
        "right": (x + aside, 0.0, 1.0, 1.0),
        "above": (0.0, 0.0, 1.0, y - aside),
        "below": (0.0, y + aside, 1.0, 1.0),
    }[position]


_WORDS: Mapping[Position, str] = MappingProxyType(
    {"left": "on the left of", "right": "on the right of", "above": "above", "below": "below"}
)


def said_place(position: Position) -> str:
    """As in `on the left of`."""
    return _WORDS[position]


def _add(asked: _Asked) -> Request | None:
    scene, chance = asked.scene, asked.chance
    new = random_thing(chance, scene, asked.world)
    tried = [(reference, position) for reference in asked.singles() for position in POSITIONS]
    chance.shuffle(tried)
    if not tried or chance.random() < 0.25:
        at = placed_freely(chance, scene, new)
        return None if at is None else Request(Task("subject_add", new=new.name), f"Add {new.name}", put=(at,))
    for reference, position in tried:
        at = placed_freely(chance, scene, new, within=side_of(position, reference))
        if at is not None:
            task = Task("subject_add", new=new.name, position=position, reference=reference.name)
            words = f"Add {new.name} {said_place(position)} {reference.name}"
            return Request(task, words, reference=reference.id, put=(at,))
    return None


def _remove(asked: _Asked) -> Request | None:
    kinds = [
        name
        for name in asked.scene.names
        if name != TEXT and not asked.leave & {thing.id for thing in asked.scene.called(name)}
    ]
    if not kinds:
        return None
    name = asked.chance.choice(kinds)
    gone = tuple(thing.id for thing in asked.scene.called(name))
    return Request(Task("subject_remove", object=name), f"Remove {name}", gone, gone=gone)


def _replace(asked: _Asked) -> Request | None:
    old = asked.single(signs=False)
    if old is None:
        return None
    new = replace(random_thing(asked.chance, asked.scene, asked.world, near=old.w), x=old.x, y=old.y)
    task = Task("subject_replace", object=old.name, new=new.name)
    return Request(task, f"Replace {old.name} with {new.name}", (old.id,), gone=(old.id,), put=(new,))


def _move(asked: _Asked) -> Request | None:
    tried = [(a, b, p) for a, b in permutations(asked.singles(), 2) for p in POSITIONS]
    asked.chance.shuffle(tried)
    for thing, reference, position in tried:
        if beside(position, thing, reference) > 0:
            continue  # it is there already
        at = placed_freely(asked.chance, asked.scene, thing, within=side_of(position, reference), ignoring=(thing.id,))
        if at is not None:
            task = Task("position_change", object=thing.name, position=position, reference=reference.name)
            words = (
                f"Change the position of {thing.name} to {said_place(position).removeprefix('on ')} {reference.name}"
            )
            return Request(task, words, (thing.id,), reference.id, put=(at,))
    return None


def _count(asked: _Asked) -> Request | None:
    scene, chance = asked.scene, asked.chance
    kinds = [
        name
        for name in scene.names
        if name != TEXT and all(thing.shape != SIGN and thing.id not in asked.leave for thing in scene.called(name))
    ]
    if not kinds:
        return None
    name = chance.choice(kinds)
    there = scene.called(name)
    wanted = chance.choice([number for number in range(1, _MOST + 1) if number != len(there)])
    gone = tuple(thing.id for thing in there[wanted:])
    after = scene.without(gone)
    put: list[Thing] = []
    for _ in range(wanted - len(there)):
        at = placed_freely(chance, after, replace(there[0], id=after.next_id))
        if at is None:
            break
        put.append(at)
        after = after.with_thing(at)
    count = len(after.called(name))
    if count == len(there):
        return None  # no room for another one
    task = Task("count_change", object=name, count=count)
    words = f"Change the count of {name} to {count}"
    return Request(task, words, tuple(thing.id for thing in there), gone=gone, put=tuple(put))


def _recolour(asked: _Asked) -> Request | None:
    thing = asked.single()
    if thing is None:
        return None
    colour = asked.chance.choice([one for one in unused_colours(asked.scene) if one != thing.colour])
    words = f"Change the color of {thing.name} to {colour}"
    task = Task("color_alter", object=thing.name, value=colour)
    return Request(task, words, (thing.id,), put=(recoloured(thing, colour),))


def _rematerial(asked: _Asked) -> Request | None:
    thing = asked.single(signs=False)
    if thing is None:
        return None
    material = asked.chance.choice([one for one in MATERIALS if one != thing.material])
    words = f"Change the material of {thing.name} to {material}"
    task = Task("material_alter", object=thing.name, value=material)
    return Request(task, words, (thing.id,), put=(replace(thing, material=material),))


def _text(asked: _Asked) -> Request | None:
    scene, chance = asked.scene, asked.chance
    signs = [thing for thing in scene.things if thing.shape == SIGN and thing.id not in asked.leave]
    if signs:
        sign = chance.choice(signs)
        text = chance.choice([word for word in TEXTS if word != sign.text and len(word) <= len(sign.text)])
        words = f'Replace the text "{sign.text}" on {sign.name} with "{text}"'
        task = Task("text_change", object=sign.name, old=sign.text, text=text)
        return Request(task, words, (sign.id,), put=(replace(sign, text=text),))
    fitting = [word for word in TEXTS if written_size(word, scene.grain)[0] <= scene.size // 2]
    writing = placed_freely(chance, scene, random_writing(chance, scene, chance.choice(fitting)))
    if writing is None or any(thing.text for thing in scene.things):
        return None
    return Request(Task("text_change", text=writing.text), f'Add text "{writing.text}"', put=(writing,))


def _background(asked: _Asked) -> Request | None:
    scene, chance = asked.scene, asked.chance
    kind = chance.choice([one for one in BACKDROPS if one != scene.backdrop.kind])
    keep = tuple(name for name in scene.names if name != TEXT)
    words = f"Change the background to {kind}"
    if keep:
        words += f", remain the {', '.join(keep)} unchanged"
    task = Task("background_change", value=kind, keep=keep)
    backdrop = Backdrop(kind, chance.randrange(2**31))
    writings = tuple(inked(thing, backdrop) for thing in scene.things if thing.shape == TEXT)
    return Request(task, words, put=writings, backdrop=backdrop)


_MAKERS: Mapping[TaskType, Callable[[_Asked], Request | None]] = MappingProxyType(
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
