"""Marks: what flawed editors do to a whole picture, beyond what scene graphs can say."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np

from .render import PIGMENTS, Plane


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing done to a picture. amount: how far, in (0, 1]. seed: of what is random about it. colour: of a flood.

    | kind | at amount 1 |
    |---|---|
    | fade | a flat field of the mean colour |
    | halves | the source squeezed into the left half, the edit into the right one |
    | inset | the source, reduced to `amount` of the side, pasted into a corner |
    | shift | moved by an eighth of the side, the rim repeated |
    | degrade | noise of 20 grey levels and a blur of 1/64 of the side (standard deviations) |
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
    def hides(self) -> bool:
        """Whether the picture is not an edit of the source any more, whatever the scene graph says."""
        return self.kind in ("fade", "halves", "inset")


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
        x, y = chance.choice((0, side - width)), chance.choice((0, side - width))
        pasted = picture.copy()
        pasted[y : y + width, x : x + width] = cv2.resize(source, (width, width), interpolation=cv2.INTER_AREA)
        return pasted
    if mark.kind == "shift":
        angle, reach = 2 * math.pi * chance.random(), mark.amount * side / 8
        move = np.array([[1, 0, reach * math.cos(angle)], [0, 1, reach * math.sin(angle)]])
        return np.asarray(cv2.warpAffine(picture, move, (side, side), borderMode=cv2.BORDER_REPLICATE), np.float64)
    if mark.kind == "degrade":
        blurred = cv2.GaussianBlur(picture, (0, 0), max(0.01, mark.amount * side / 64))
        return np.asarray(blurred + np.random.default_rng(mark.seed).normal(0, 20 * mark.amount, picture.shape))
    pigment = np.asarray(PIGMENTS[mark.colour], np.float64)
    light = picture.mean(axis=2, keepdims=True) / 160
    return np.asarray(picture + mark.amount * (pigment * light - picture))
