"""The truth about a picture that a learned editor made: what it shows is found in its pixels, with the scene graph."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Image
from ..reidentify import reidentify
from ..render import coverage, render
from ..requests import Request
from ..scene import Scene
from ..truth import followed

TOLERANCE = 16
"""Grey levels, in any channel, within which a pixel is unchanged. An honest hand, which draws the scene anew with other
noise and a shade lighter or darker, stays within it in 99.8 % of the pixels outside of the target: the mean of
`unchanged` over 90 edits by `editors.honest`, task types in turn, as `test_verdict` measures it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """followed: exactly what was asked for is there, by `truth.followed`. unchanged: the share, in [0, 1], of pixels
    outside of the target that are as in the source; 1 where there are none. seen: what the picture shows.

    The target is what the request is about, where it stood and where it stands now, and a pixel around it. Of another
    backdrop it is all but the things.
    """

    followed: bool
    unchanged: float
    seen: Scene


def verdict(request: Request, before: Scene, picture: Image, *, tolerance: int = TOLERANCE) -> Verdict:
    """Look at what an editor made of a scene. Raises ValueError for a picture of another size than the scene's.

    A perfect edit of the request is one of the guesses, so that its things are recognised wherever they stand.
    """
    seen = reidentify(picture, before, request.carry_out(before)).scene
    left = ~_target(request, before, seen)
    apart = np.abs(picture.pixels.astype(np.int16) - render(before).pixels).max(axis=2)
    unchanged = float((apart[left] <= tolerance).mean()) if left.any() else 1.0
    return Verdict(followed(request, before, seen), unchanged, seen)


def _target(request: Request, before: Scene, seen: Scene) -> NDArray[np.bool_]:
    """Where the picture may change, (size, size)."""
    if request.backdrop is not None:
        things = [coverage(thing, before.size, before.grain) for thing in before.things]
        return np.max(things, axis=0) < 1 if things else np.ones((before.size,) * 2, np.bool_)
    wanted = {thing.like for thing in request.wanted(before)}
    about = [thing for thing in before.things if thing.id in request.targets]
    about += [thing for thing in seen.things if thing.like in wanted]
    target = np.zeros((before.size,) * 2, np.uint8)
    for thing in about:
        target |= (coverage(thing, before.size, before.grain) > 0).astype(np.uint8)
    return cv2.dilate(target, np.ones((3, 3), np.uint8)) > 0
