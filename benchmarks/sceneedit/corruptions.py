"""Marks: what flawed editors do to a whole picture, beyond what scene graphs can say."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Literal

import cv2
import numpy as np

from .render import PIGMENTS, Plane
from .scene import Scene, Thing


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing done to a picture. amount: how far, in (0, 1]. seed: of what is random about it. colour: of a flood.

    | kind | at amount 1 |
    |---|---|
    | fade | a flat field of the mean colour |
    | halves | the source squeezed into the left half, the edit into the right one |
    | inset | the source, reduced to `amount` of the side, pasted into a corner |
    | shift | moved by an eighth of the side, by whole pixels and at least one, the rim repeated |
    | degrade | noise of 16 grey levels and a blur of 1/80 of the side (standard deviations): things can still be told |
    | flood | all in the hue of one colour, light and dark kept |
    """

    kind: Literal["fade", "halves", "inset", "shift", "degrade", "flood"]
    amount: float
    seed: int = 0
    colour: str = ""

    @property
    def damage(self) -> float:
        """The share of what was there that it spoils."""
        return {
            "fade": self.amount,
            "halves": 0.5 + 0.5 * self.amount,
            "inset": self.amount,
            "shift": self.amount,
            "degrade": 0.5 * self.amount,
            "flood": self.amount,
        }[self.kind]

    @property
    def pastes(self) -> bool:
        """Whether the source is shown beside the edit, so that the picture is no edit of it, whatever else it shows."""
        return self.kind in ("halves", "inset")

    def shown(self, scene: Scene, source: Scene) -> Scene:
        """What there is to be seen after the mark: nothing in a faded picture, things of both in a pasted one."""
        if self.kind == "fade":
            return replace(scene, things=(), backdrop=replace(scene.backdrop, drift=1.0))
        if not self.pastes:
            return scene
        if scene.backdrop.kind != source.backdrop.kind:  # then none of the two fills the picture
            scene = replace(scene, backdrop=replace(scene.backdrop, drift=1.0))
        first = max(SPURIOUS, scene.next_id)
        pasted = tuple(replace(thing, id=first + number) for number, thing in enumerate(source.things))
        if self.kind == "halves":
            things = *(_in(thing, 0.5, 1.0, 0.5, 0.0) for thing in scene.things), *(_in(one, 0.5) for one in pasted)
            return replace(scene, things=things)
        x, y = self.corner(scene.size)
        left = tuple(one for one in scene.things if not (x < one.x < x + self.amount and y < one.y < y + self.amount))
        inset = tuple(_in(one, self.amount, self.amount, x, y) for one in pasted)
        return replace(scene, things=(*left, *inset))

    def corner(self, side: int) -> tuple[float, float]:
        """Where an inset begins, in sides."""
        chance, room = random.Random(self.seed), (side - round(self.amount * side)) / side
        return chance.choice((0.0, room)), chance.choice((0.0, room))


SPURIOUS = 1000
"""Ids from here on are of things nobody asked for."""


def _in(thing: Thing, w: float, h: float = 1.0, x: float = 0.0, y: float = 0.0) -> Thing:
    """The thing when the picture is squeezed into a part of itself."""
    return replace(thing, x=x + w * thing.x, y=y + h * thing.y, w=w * thing.w, h=h * thing.h)


def marked(picture: Plane, source: Plane, mark: Mark) -> Plane:
    """The picture, H x W x 3 in grey levels, with the mark."""
    side = picture.shape[0]
    chance = random.Random(mark.seed)
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
        angle, reach = 2 * math.pi * chance.random(), mark.amount * side / 8
        across, down = round(reach * math.cos(angle)), round(reach * math.sin(angle))
        if not (across or down):
            across = 1
        move = np.array([[1.0, 0.0, across], [0.0, 1.0, down]])
        return np.asarray(cv2.warpAffine(picture, move, (side, side), borderMode=cv2.BORDER_REPLICATE), np.float64)
    if mark.kind == "degrade":
        blurred = cv2.GaussianBlur(picture, (0, 0), max(0.01, mark.amount * side / 80))
        return np.asarray(blurred + np.random.default_rng(mark.seed).normal(0, 16 * mark.amount, picture.shape))
    pigment = np.asarray(PIGMENTS[mark.colour], np.float64)
    light = picture.mean(axis=2, keepdims=True) / 160
    return np.asarray(picture + mark.amount * (pigment * light - picture))
