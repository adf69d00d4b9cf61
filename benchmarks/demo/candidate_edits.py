"""The rows of the demo, and the eight candidate edits of each: a good one, and seven failure modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from ...reward import Box, EditSample, Image
from ...reward.audit.whole_picture_changes import jpeg
from ...reward.sample import TaskType
from . import retouch
from .photographs import PHOTOS, AnnotatedPhoto, Corners, Pixels
from .retouch import PixelMask
from .retouch_operations import (
    AddText,
    DuplicateObject,
    MoveObject,
    RecolourObject,
    RemoveObject,
    ReplaceText,
    RetouchOperation,
)

DamageKind = Literal["repainted", "posterised", "tinted", "stray object"]
"""Damage of the background far from the target in `damaged_background`."""


@dataclass(frozen=True)
class DemoScene:
    """One row. photo: name in `PHOTOS`. blank: colour of the candidate `blank`, black or the photograph's mean
    colour."""

    name: str
    photo: str
    task_type: TaskType
    instruction: str
    operation: RetouchOperation
    damage: DamageKind
    blank: Literal["black", "mean"]

    @property
    def source(self) -> AnnotatedPhoto:
        """The photograph with its annotations."""
        return PHOTOS[self.photo]

    @property
    def pixels(self) -> Pixels:
        """The photograph, H x W x 3 uint8 RGB, read-only."""
        return self.source.pixels

    @property
    def boxes(self) -> Mapping[str, tuple[Corners, ...]]:
        """The annotated objects, boxes in pixels."""
        return self.source.boxes


def demo_tasks() -> tuple[DemoScene, ...]:
    """All rows in display order."""
    return _TASKS


_BLUE = (45, 90, 190)
_GREEN = (60, 150, 60)
_YELLOW = (225, 200, 40)
_PURPLE = (130, 50, 160)

_TASKS = (
    DemoScene(
        name="remove-patch",
        photo="astronaut",
        task_type="subject_remove",
        instruction="Remove embroidered purple patch",
        operation=RemoveObject(
            "embroidered purple patch", hole="patch and its seam", other_object="fabric blue name tag", tint=_GREEN
        ),
        damage="tinted",
        blank="black",
    ),
    DemoScene(
        name="two-patches",
        photo="astronaut",
        task_type="count_change",
        instruction="Change the count of embroidered purple patch to 2",
        operation=DuplicateObject(
            "embroidered purple patch",
            piece="embroidered purple patch",
            offset=(-84, -24),
            duplicate_offset=(137, -82),
            other_object="fabric blue name tag",
            other_by=(-130, -35),
            scale=0.78,
        ),
        damage="repainted",
        blank="mean",
    ),
    DemoScene(
        name="green-coffee",
        photo="coffee",
        task_type="color_alter",
        instruction="Change the color of brown coffee to green",
        operation=RecolourObject("brown coffee", _GREEN, wrong_colour=_PURPLE, other_object="ceramic red saucer"),
        damage="posterised",
        blank="black",
    ),
    DemoScene(
        name="blue-eyes",
        photo="cat",
        task_type="color_alter",
        instruction="Change the color of green eye to blue",
        operation=RecolourObject("green eye", _BLUE, wrong_colour=_PURPLE, other_object="orange nose", tolerance=60),
        damage="repainted",
        blank="mean",
    ),
    DemoScene(
        name="meow",
        photo="cat",
        task_type="text_change",
        instruction="Add text 'MEOW' on the image",
        operation=AddText("MEOW", wrong="WOOF", centre=(388, 262), height=24, over=(171, 116)),
        damage="tinted",
        blank="black",
    ),
    DemoScene(
        name="rocket-aside",
        photo="rocket",
        task_type="position_change",
        instruction="Change the position of white rocket to right of metal right mast",
        operation=MoveObject(
            "white rocket",
            piece="rocket on its pad",
            hole="all that stands at the pad",
            offset=(161, 0),
            wrong=(-63, 0),
            other_object="metal left mast",
            other_by=(60, 0),
            light="floodlight at the pad",
        ),
        damage="tinted",
        blank="black",
    ),
    DemoScene(
        name="another-brand",
        photo="garage",
        task_type="text_change",
        instruction="Replace the text 'YAMAHA' on metal red fuel tank with 'HONDA'",
        operation=ReplaceText(
            "metal red fuel tank",
            old="brand on the tank",
            text="HONDA",
            wrong="DUCATI",
            centre=(114, 202),
            height=10,
            angle=9,
            over=(262, 215),
            ink=(240, 225, 170),
            edge=(35, 20, 15),
        ),
        damage="repainted",
        blank="mean",
    ),
    DemoScene(
        name="crate-on-box",
        photo="garage",
        task_type="position_change",
        instruction="Change the position of wooden white crate to above of cardboard small box",
        operation=MoveObject(
            "wooden white crate",
            piece="wooden white crate",
            hole="crate and its lid",
            offset=(-43, -36),
            wrong=(25, 0),
            other_object="plastic yellow bottle",
            other_by=(206, -25),
            donor=(0, -8),
            excluded_outline="around the crate",
        ),
        damage="stray object",
        blank="mean",
    ),
)

CANDIDATES = (
    "good",
    "sloppy",
    "wrong_object",
    "wrong_colour",
    "damaged_background",
    "unchanged",
    "blank",
    "over_sharpened",
)
"""Names, in order. `wrong_colour` is another wrong value (text, side, number) if the instruction has no colour."""


def candidates(scene: DemoScene) -> dict[str, Pixels]:
    """Eight edits of a row's photograph, each of its size, by name and in the order of `CANDIDATES`. Deterministic."""
    photo, operation = scene.source, scene.operation
    good = operation.good(photo)
    return {
        "good": good,
        "sloppy": operation.sloppy(photo),
        "wrong_object": operation.wrong_object(photo),
        "wrong_colour": operation.wrong_value(photo),
        "damaged_background": _damaged(good, scene),
        "unchanged": photo.pixels.copy(),
        "blank": _blank(photo.pixels, scene),
        "over_sharpened": _over_sharpened(good),
    }


def _damaged(good: Pixels, scene: DemoScene) -> Pixels:
    size = (good.shape[1], good.shape[0])
    target = [retouch.rectangle_mask(box, size) for box in scene.boxes.get(scene.operation.object or "", ())]
    near = retouch.dilate(np.maximum.reduce([scene.operation.affected_box(scene.source), *target]), 14)
    far = 1 - retouch.feather(near, 3)
    far[near > 0] = 0
    match scene.damage:
        case "tinted":
            return retouch.blend(good, good * np.array((0.72, 0.98, 1.2), np.float32), far)
        case "posterised":
            return retouch.blend(good, np.floor(good / 64.0) * 64 + 32, far)
        case "repainted":
            broad = np.asarray(cv2.medianBlur(good, 15), np.float32)
            return retouch.blend(good, broad[:, :, (1, 0, 2)], far)
        case "stray object":
            return _add_cup(good, far)


def _add_cup(good: Pixels, far: PixelMask) -> Pixels:
    """The good edit with a coffee cup, half the image height, in the corner farthest from the edit."""
    coffee = PHOTOS["coffee"]
    x0, y0, x1, y1 = coffee.boxes["ceramic cup"][0]
    cup = coffee.pixels[y0:y1, x0:x1]
    whole = retouch.polygon_mask(coffee.outlines["ceramic cup"], (coffee.pixels.shape[1], coffee.pixels.shape[0]))
    height = good.shape[0] // 2
    size = (round(height * (x1 - x0) / (y1 - y0)), height)
    bottom, right = good.shape[0] - size[1], good.shape[1] - size[0]
    corners = [np.s_[y : y + size[1], x : x + size[0]] for y in (0, bottom) for x in (0, right)]
    corner = max(corners, key=lambda at: float(far[at].sum()))
    stray, area = good.copy(), np.zeros_like(far)
    stray[corner] = cv2.resize(cup, size, interpolation=cv2.INTER_AREA)
    area[corner] = cv2.resize(whole[y0:y1, x0:x1], size, interpolation=cv2.INTER_AREA)
    return retouch.blend(good, stray.astype(np.float32), area * far)


def _blank(pixels: Pixels, scene: DemoScene) -> Pixels:
    colour: NDArray[np.floating] = np.zeros(3) if scene.blank == "black" else pixels.mean(axis=(0, 1))
    return np.broadcast_to(np.rint(colour).astype(np.uint8), pixels.shape).copy()


def _over_sharpened(good: Pixels) -> Pixels:
    soft = np.asarray(cv2.GaussianBlur(good, (0, 0), 1.5), np.float32)
    sharp = good + 2.5 * (good - soft)
    return np.clip((sharp - 128) * 1.3 + 128, 0, 255).astype(np.uint8)


def good_edits() -> list[EditSample]:
    """The good edit of each row, with the boxes of its objects. Raises `InputError` without scikit-image."""
    samples = []
    for scene in demo_tasks():
        source = Image.of(scene.pixels)
        boxes = {
            name: tuple(Box.from_corners(*corners, source.size) for corners in object_boxes)
            for name, object_boxes in scene.boxes.items()
        }
        edited = Image.of(scene.operation.good(scene.source))
        samples.append(EditSample(scene.name, scene.instruction, (source,), edited, boxes=boxes))
    return samples


def perturb(pixels: Pixels, seed: int) -> Pixels:
    """A copy of an H x W x 3 uint8 image, up to 4 % brighter or darker, with noise, and saved as JPEG. Sampled from the
    seed: brightness 0.96 to 1.04, the noise's standard deviation 1 to 3 (of 255), quality 80 to 95."""
    random = np.random.default_rng(seed)
    brightness, sigma = random.uniform(0.96, 1.04), random.uniform(1.0, 3.0)
    quality = int(random.integers(80, 96))
    noise = random.standard_normal(pixels.shape, np.float32)  # float32: half the time of float64
    noisy = pixels * np.float32(brightness) + noise * np.float32(sigma)
    return jpeg(np.clip(np.rint(noisy), 0, 255).astype(np.uint8), quality)


_EXTREMES = ("unchanged", "blank")
"""Candidates that a guard rejects before most questions are asked; a policy makes few of them."""


def rollouts() -> list[EditSample]:
    """Six edits of each row, with one group a row. Raises `InputError` without scikit-image."""
    return [
        replace(sample, id=f"{scene.name}/{name}", group=scene.name, edited=Image.of(pixels))
        for sample, scene in zip(good_edits(), demo_tasks(), strict=True)
        for name, pixels in candidates(scene).items()
        if name not in _EXTREMES
    ]
