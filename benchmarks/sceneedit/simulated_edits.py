"""Simulated edits: the honest editor, and edited images whose ground truth is known.

Corruptions are damage to a whole image that scene graphs cannot express.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import cv2
import numpy as np

from ...reward import Image
from .ground_truth import GroundTruth, followed, kept
from .render import OBJECT_RGB, Plane, render_float
from .scene_generation import SceneConfig, place_randomly
from .scene_graph import Backdrop, Scene, SceneObject
from .scene_requests import SceneRequest, side_region


@dataclass(frozen=True, slots=True)
class Corruption:
    """Damage to an image. amount: how much, in (0, 1]. seed: of its random part. colour: of a flood.

    | kind | at amount 1 |
    |---|---|
    | fade | a flat field of the mean colour |
    | halves | the source squeezed into the left half, the edit into the right one |
    | inset | the source, reduced to `amount` of the side, pasted into a corner |
    | shift | moved by an eighth of the side, by whole pixels and at least one, the rim repeated |
    | degrade | noise of 16 grey levels, a blur of 1/80 of the side (standard deviations): objects stay recognisable |
    | flood | all in the hue of one colour, light and dark kept |
    """

    kind: Literal["fade", "halves", "inset", "shift", "degrade", "flood"]
    amount: float
    seed: int = 0
    colour: str = ""

    @property
    def damage(self) -> float:
        """The share of the image's content that it spoils, in [0, 1]."""
        return {
            "fade": self.amount,
            "halves": 0.5 + 0.5 * self.amount,
            "inset": self.amount,
            "shift": self.amount,
            "degrade": 0.5 * self.amount,
            "flood": self.amount,
        }[self.kind]

    @property
    def is_collage(self) -> bool:
        """Whether the image shows the source beside the edit: it is no edit then, whatever else it shows."""
        return self.kind in ("halves", "inset")

    def visible_scene(self, scene: Scene, source: Scene) -> Scene:
        """What is visible after the corruption: nothing in a faded image, objects of both in a collage."""
        if self.kind == "fade":
            return replace(scene, objects=(), backdrop=replace(scene.backdrop, drift=1.0))
        if not self.is_collage:
            return scene
        if scene.backdrop.kind != source.backdrop.kind:  # then none of the two fills the image
            scene = replace(scene, backdrop=replace(scene.backdrop, drift=1.0))
        first = max(SPURIOUS_ID_START, scene.next_id)
        pasted = tuple(replace(obj, id=first + number) for number, obj in enumerate(source.objects))
        if self.kind == "halves":
            objects = (
                *(_squeezed(obj, 0.5, 1.0, 0.5, 0.0) for obj in scene.objects),
                *(_squeezed(pasted_obj, 0.5) for pasted_obj in pasted),
            )
            return replace(scene, objects=objects)
        x, y = self.corner(scene.size)
        left = tuple(
            pasted_obj
            for pasted_obj in scene.objects
            if not (x < pasted_obj.x < x + self.amount and y < pasted_obj.y < y + self.amount)
        )
        inset = tuple(_squeezed(pasted_obj, self.amount, self.amount, x, y) for pasted_obj in pasted)
        return replace(scene, objects=(*left, *inset))

    def corner(self, side: int) -> tuple[float, float]:
        """Where an inset begins, in sides."""
        rng, room = random.Random(self.seed), (side - round(self.amount * side)) / side
        return rng.choice((0.0, room)), rng.choice((0.0, room))


SPURIOUS_ID_START = 1000
"""Ids from here on belong to objects that were not requested."""


def _squeezed(obj: SceneObject, w: float, h: float = 1.0, x: float = 0.0, y: float = 0.0) -> SceneObject:
    """The object when the image is squeezed into a part of itself."""
    return replace(obj, x=x + w * obj.x, y=y + h * obj.y, w=w * obj.w, h=h * obj.h)


def apply_corruption(picture: Plane, source: Plane, mark: Corruption) -> Plane:
    """The corrupted image, H x W x 3 in grey levels."""
    side = picture.shape[0]
    rng = random.Random(mark.seed)
    if mark.kind == "fade":
        return np.asarray(picture + mark.amount * (picture.mean(axis=(0, 1)) - picture))
    if mark.kind == "halves":
        left, right = (cv2.resize(one, (side // 2, side), interpolation=cv2.INTER_AREA) for one in (source, picture))
        return np.hstack([left, np.hstack([right, right[:, -1:]])[:, : side - side // 2]])
    if mark.kind == "inset":
        width = round(mark.amount * side)
        x, y = (round(side * start) for start in mark.corner(side))
        pasted = picture.copy()
        pasted[y : y + width, x : x + width] = cv2.resize(source, (width, width), interpolation=cv2.INTER_AREA)
        return pasted
    if mark.kind == "shift":
        angle, reach = 2 * math.pi * rng.random(), mark.amount * side / 8
        across, down = round(reach * math.cos(angle)), round(reach * math.sin(angle))
        if not (across or down):
            across = 1
        move = np.array([[1.0, 0.0, across], [0.0, 1.0, down]])
        return np.asarray(cv2.warpAffine(picture, move, (side, side), borderMode=cv2.BORDER_REPLICATE), np.float64)
    if mark.kind == "degrade":
        blurred = cv2.GaussianBlur(picture, (0, 0), max(0.01, mark.amount * side / 80))
        return np.asarray(blurred + np.random.default_rng(mark.seed).normal(0, 16 * mark.amount, picture.shape))
    pigment = np.asarray(OBJECT_RGB[mark.colour], np.float64)
    light = picture.mean(axis=2, keepdims=True) / 160
    return np.asarray(picture + mark.amount * (pigment * light - picture))


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
