"""Simulated edits: the honest editor, and edited images whose ground truth is known."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...reward import Image
from .corruptions import Corruption, apply_corruption
from .ground_truth import GroundTruth, followed, kept
from .render import render_float
from .scene_generation import SceneConfig, place_randomly
from .scene_graph import Backdrop, Scene, SceneObject
from .scene_requests import SceneRequest, side_region


@dataclass(frozen=True)
class SimulatedEdit:
    """The recipe of an edit. before, after: scene graphs. corruptions: of the whole image, after rendering.

    mode: the failure mode, empty for the honest editor. severity: in (0, 1]; 0 for the honest editor.
    """

    request: SceneRequest
    before: Scene
    after: Scene
    corruptions: tuple[Corruption, ...] = ()
    mode: str = ""
    severity: float = 0.0
    source: Image | None = None  # where it is not `before`, rendered

    @cached_property
    def picture(self) -> Image:
        """The edited image."""
        pixels = render_float(self.after)
        source = render_float(self.before) if self.source is None else self.source.pixels.astype(np.float64)
        for corruption in self.corruptions:
            pixels = apply_corruption(pixels, source, corruption)
        return Image.of(np.rint(np.clip(pixels, 0, 255)).astype(np.uint8))

    def truth(self, *earlier: SceneRequest, base: Scene | None = None) -> GroundTruth:
        """The ground truth. earlier: the requests of earlier turns. base: the scene before them, for what is kept."""
        instruction_followed = followed(self.request, self.before, self.visible_scene) and not any(
            corruption.is_collage for corruption in self.corruptions
        )
        damage = 1.0 - math.prod(1.0 - corruption.damage for corruption in self.corruptions)
        return GroundTruth(
            instruction_followed, *kept((*earlier, self.request), base or self.before, self.after, damage=damage)
        )

    @property
    def visible_scene(self) -> Scene:
        """What the image shows, as far as a scene graph can express it."""
        scene = self.after
        for corruption in self.corruptions:
            scene = corruption.visible_scene(scene, self.before)
        return scene


def honest_edit(rng: random.Random, request: SceneRequest, before: Scene, config: SceneConfig) -> SimulatedEdit:
    """One of the correct ways to carry out the request, with everything rendered slightly differently."""
    after = resampled_request(rng, request, before, config).apply(before)
    return SimulatedEdit(request, before, rerendered(rng, after))


def rerendered(rng: random.Random, scene: Scene) -> Scene:
    """The scene with other noise, slightly other brightness, and slight backdrop drift."""
    return replace(
        scene,
        noise_seed=rng.randrange(2**31),
        light=replace(scene.light, gain=scene.light.gain * rng.uniform(0.985, 1.015)),
        backdrop=drifted_backdrop(scene, rng, rng.uniform(0.0, 0.03)),
    )


def drifted_backdrop(scene: Scene, rng: random.Random, drift: float) -> Backdrop:
    """The scene's backdrop with more drift, in the direction of earlier drift."""
    ground = scene.backdrop
    seed = ground.drift_seed if ground.drift else rng.randrange(2**31)
    return replace(ground, drift=min(1.0, ground.drift + drift), drift_seed=seed)


def resampled_request(rng: random.Random, request: SceneRequest, before: Scene, config: SceneConfig) -> SceneRequest:
    """The same request with new objects of another size and, where it leaves them open, other places."""
    task = request.task
    fixed = ("subject_replace", "color_alter", "material_alter")
    if task.type in fixed or not request.placed or (task.type == "text_change" and request.target_ids):
        return replace(request, placed=tuple(_resized(rng, request, obj) for obj in request.placed))
    if request.backdrop is not None:
        return replace(request, backdrop=replace(request.backdrop, seed=rng.randrange(2**31)))
    scene, placed = before.without(request.removed), list[SceneObject]()
    reference = None if request.reference_id is None else before.object_by_id(request.reference_id)
    for obj in request.placed:
        within = (0.0, 0.0, 1.0, 1.0)
        if task.position is not None and reference is not None:
            within = side_region(task.position, reference)
        at = place_randomly(rng, scene, _resized(rng, request, obj), within=within, ignored_ids=[obj.id])
        if at is None:
            return request
        placed.append(at)
        scene = scene.with_object(at)
    return replace(request, placed=tuple(placed))


def _resized(rng: random.Random, request: SceneRequest, obj: SceneObject) -> SceneObject:
    if request.task.type not in ("subject_add", "subject_replace"):
        return obj
    scale = rng.uniform(0.95, 1.05)
    return replace(obj, w=obj.w * scale, h=obj.h * scale)
