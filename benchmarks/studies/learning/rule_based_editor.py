"""An editor that does exactly what it reads, and reads only instructions that ask for one thing in SceneEdit's words.

Who writes for it is judged by a picture that really is made, and by nothing else: it never errs, so whatever is missing
in the picture was missing in the words. A line that it cannot read, or that speaks of what is not there, leaves the
picture as it is, and that picture is judged. Editors people use do the same with words they do not know: they make
something, and it is not what was asked for. Had the hand failed instead, such completions would be unscored, and a
policy would never be told off for writing them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...reward import EditSample, Image
from ...reward.edival.instructions import parse
from ...reward.sample import Position, Task
from ..sceneedit.render import render
from ..sceneedit.requests import side_of
from ..sceneedit.scene import Backdrop, Scene, Thing
from ..sceneedit.scenes import World, inked, placed_freely, random_writing, recoloured
from ..sceneedit.words import BACKDROPS, COLOURS, LETTERS, MATERIALS, SHAPES, SIGN

WORLD = World.of(32)
"""Two or three large things in 32 px: the smallest pictures in which the experts find every shape."""

_MOST = 5  # things of one kind, as in SceneEdit's instructions


class Hand:
    """An `Editor`. It knows what is in a picture: in those of `scenes`, and in those it has made of them."""

    id = "sceneedit-hand-1"
    evaluations = 0
    batch = 256

    def __init__(self, scenes: Iterable[Scene]) -> None:
        self._scenes = {render(scene).digest: scene for scene in scenes}

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> list[Image]:
        """The first source of each, edited. Seeds mean nothing. Raises KeyError for a picture it does not know."""
        return [self._edited(sources[0], words) for sources, words in zip(images, instructions, strict=True)]

    def _edited(self, source: Image, words: str) -> Image:
        scene = carried_out(self._scenes[source.digest], words)
        picture = render(scene)
        self._scenes[picture.digest] = scene
        return picture


def read(line: str) -> Task | None:
    """The task that a line sets, in SceneEdit's words; None where it sets none, or names what nothing is called."""
    task = parse(line)
    if task is None:
        return None
    names = [name for name in (task.object, task.new, task.reference) if name is not None]
    values = {"color_alter": COLOURS, "material_alter": MATERIALS, "background_change": BACKDROPS}.get(task.type)
    known = (
        all(_named(name) is not None for name in names)
        and (values is None or task.value in values)
        and (task.text is None or set(task.text) <= set(LETTERS))
        and (task.count is None or 1 <= task.count <= _MOST)
    )
    return task if known else None


def carried_out(scene: Scene, line: str) -> Scene:
    """The scene after what a line asks for; as it was where there is nothing to read, nothing so called, or no room."""
    task = read(line)
    if task is None:
        return scene
    chance = random.Random(line)  # the same words make the same picture
    there = scene.called(task.object or "")
    match task.type:
        case "subject_add":
            return _placed(chance, scene, _made(scene, task.new), task.position, task.reference)
        case "subject_remove":
            return scene.without(thing.id for thing in there)
        case "subject_replace":
            for thing in there:
                new = replace(_made(scene, task.new), x=thing.x, y=thing.y, w=thing.w, h=thing.h)
                scene = scene.without([thing.id]).with_thing(new)
            return scene
        case "position_change":
            return _placed(chance, scene, there[0], task.position, task.reference) if there else scene
        case "count_change":
            return _counted(chance, scene, there, task.count or 0)
        case "color_alter":
            return _with(scene, [recoloured(thing, task.value or "") for thing in there])
        case "material_alter":
            return _with(scene, [replace(thing, material=task.value or "") for thing in there])
        case "background_change":
            backdrop = Backdrop(task.value or "", chance.randrange(2**31))
            writings = [inked(thing, backdrop) for thing in scene.things if thing.text and thing.shape != SIGN]
            return replace(_with(scene, writings), backdrop=backdrop)
        case "text_change" if task.object is None:
            return _placed(chance, scene, random_writing(chance, scene, task.text or ""), None, None)
        case "text_change":
            return _with(scene, [replace(thing, text=task.text or "") for thing in there if thing.shape == SIGN])


def _named(name: str | None) -> Thing | None:
    """A thing of that name, nowhere in particular; a sign is blank. None for what is no name."""
    words = (name or "").split()
    material = words.pop(0) if words and words[0] in MATERIALS else ""
    if len(words) != 2 or words[0] not in COLOURS or words[1] not in (*SHAPES, SIGN):
        return None
    side = WORLD.diameter[0]
    return Thing(0, words[1], words[0], 0.5, 0.5, side, side, material, text=" " if words[1] == SIGN else "")


def _made(scene: Scene, name: str | None) -> Thing:
    """A new thing of a name that has been read."""
    thing = _named(name)
    assert thing is not None
    return replace(thing, id=scene.next_id)


def _placed(
    chance: random.Random, scene: Scene, thing: Thing, position: Position | None, reference: str | None
) -> Scene:
    """The scene with the thing, on that side of the first so called."""
    within = (0.0, 0.0, 1.0, 1.0)
    if position is not None:
        others = [one for one in scene.called(reference or "") if one.id != thing.id]
        if not others:
            return scene
        within = side_of(position, others[0])
    at = placed_freely(chance, scene, thing, within=within, ignoring=[thing.id])
    return scene if at is None else scene.with_thing(at)


def _counted(chance: random.Random, scene: Scene, there: Sequence[Thing], count: int) -> Scene:
    """The scene with so many of these."""
    if not there:
        return scene
    scene = scene.without(thing.id for thing in there[count:])
    for _ in range(count - len(there)):
        scene = _placed(chance, scene, replace(there[0], id=scene.next_id), None, None)
    return scene


def _with(scene: Scene, things: Iterable[Thing]) -> Scene:
    for thing in things:
        scene = scene.with_thing(thing)
    return scene
