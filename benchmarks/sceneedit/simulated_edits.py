"""The editor that does as it is told, and what any editor leaves behind: a picture whose truth is known."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...reward import Image
from .marks import Mark, marked
from .render import draw
from .requests import Request, side_of
from .scene import Backdrop, Scene, Thing
from .scenes import World, placed_freely
from .truth import Truth, followed, kept


@dataclass(frozen=True)
class Edit:
    """What an editor did: the recipe. before, after: scene graphs. marks: done to the whole picture after drawing.

    mode: how it is flawed, empty for the honest editor. severity: how far, in (0, 1]; 0 for the honest one.
    """

    request: Request
    before: Scene
    after: Scene
    marks: tuple[Mark, ...] = ()
    mode: str = ""
    severity: float = 0.0
    source: Image | None = None  # where it is not simply `before`, drawn

    @cached_property
    def picture(self) -> Image:
        """What came out."""
        drawn = draw(self.after)
        source = draw(self.before) if self.source is None else self.source.pixels.astype(np.float64)
        for mark in self.marks:
            drawn = marked(drawn, source, mark)
        return Image.of(np.rint(np.clip(drawn, 0, 255)).astype(np.uint8))

    def truth(self, *earlier: Request, base: Scene | None = None) -> Truth:
        """earlier: the requests of the turns before, for what was to be kept of the base, the scene before them."""
        done = followed(self.request, self.before, self.shown) and not any(mark.pastes for mark in self.marks)
        damage = 1.0 - math.prod(1.0 - mark.damage for mark in self.marks)
        return Truth(done, *kept((*earlier, self.request), base or self.before, self.after, damage=damage))

    @property
    def shown(self) -> Scene:
        """What is in the picture, as far as a scene graph can say."""
        scene = self.after
        for mark in self.marks:
            scene = mark.shown(scene, self.before)
        return scene


def honest(chance: random.Random, request: Request, before: Scene, world: World) -> Edit:
    """The request carried out, in one of the ways it can be, by a hand that redraws everything a little."""
    after = varied(chance, request, before, world).carry_out(before)
    return Edit(request, before, by_hand(chance, after))


def by_hand(chance: random.Random, scene: Scene) -> Scene:
    """As anybody draws it anew: other noise, a shade lighter or darker, the backdrop not quite the same."""
    return replace(
        scene,
        noise_seed=chance.randrange(2**31),
        light=replace(scene.light, gain=scene.light.gain * chance.uniform(0.985, 1.015)),
        backdrop=drifted(scene, chance, chance.uniform(0.0, 0.03)),
    )


def drifted(scene: Scene, chance: random.Random, drift: float) -> Backdrop:
    """The scene's backdrop drawn anew a little further, in the direction it has taken already."""
    ground = scene.backdrop
    seed = ground.drift_seed if ground.drift else chance.randrange(2**31)
    return replace(ground, drift=min(1.0, ground.drift + drift), drift_seed=seed)


def varied(chance: random.Random, request: Request, before: Scene, world: World) -> Request:
    """The same request with new things of another size, and all that may stand anywhere standing elsewhere."""
    task = request.task
    fixed = ("subject_replace", "color_alter", "material_alter")
    if task.type in fixed or not request.put or (task.type == "text_change" and request.targets):
        return replace(request, put=tuple(_resized(chance, request, thing) for thing in request.put))
    if request.backdrop is not None:
        return replace(request, backdrop=replace(request.backdrop, seed=chance.randrange(2**31)))
    scene, put = before.without(request.gone), list[Thing]()
    reference = None if request.reference is None else before.get(request.reference)
    for thing in request.put:
        within = (0.0, 0.0, 1.0, 1.0)
        if task.position is not None and reference is not None:
            within = side_of(task.position, reference)
        at = placed_freely(chance, scene, _resized(chance, request, thing), within=within, ignoring=[thing.id])
        if at is None:
            return request
        put.append(at)
        scene = scene.with_thing(at)
    return replace(request, put=tuple(put))


def _resized(chance: random.Random, request: Request, thing: Thing) -> Thing:
    if request.task.type not in ("subject_add", "subject_replace"):
        return thing
    scale = chance.uniform(0.95, 1.05)
    return replace(thing, w=thing.w * scale, h=thing.h * scale)
