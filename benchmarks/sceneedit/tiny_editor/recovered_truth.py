"""Ground truth for the images of a learned editor, recovered from their pixels and the scene graph."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Image
from ..ground_truth import followed
from ..render import coverage, render
from ..scene_graph import Scene
from ..scene_recovery import recover_scene
from ..scene_requests import SceneRequest

TOLERANCE = 16
"""Grey levels, in any channel, within which a pixel is unchanged. `honest_edit`, which rerenders the scene with other
noise and slightly other brightness, stays within it in 99.8 % of the pixels outside the target: the mean of `unchanged`
over 90 edits, task types in turn, as `test_recovered_truth` measures it."""


@dataclass(frozen=True, slots=True)
class RecoveredTruth:
    """followed: the request is followed exactly, by `ground_truth.followed`. unchanged: the share, in [0, 1], of pixels
    outside the target that are as in the source; 1 where there are none. recovered: what the image shows.

    The target is the objects of the request, at their old and new places, with a margin of a pixel. For another
    backdrop it is everything but the objects.
    """

    followed: bool
    unchanged: float
    recovered: Scene


def recovered_truth(
    request: SceneRequest, before: Scene, picture: Image, *, tolerance: int = TOLERANCE
) -> RecoveredTruth:
    """The truth about an edit of a scene. Raises ValueError for an image of another size than the scene's.

    A perfect edit of the request is one of the guesses, so that its objects are recognised at any place.
    """
    recovered = recover_scene(picture, before, request.apply(before)).scene
    outside = ~_editable_region(request, before, recovered)
    difference = np.abs(picture.pixels.astype(np.int16) - render(before).pixels).max(axis=2)
    unchanged = float((difference[outside] <= tolerance).mean()) if outside.any() else 1.0
    return RecoveredTruth(followed(request, before, recovered), unchanged, recovered)


def _editable_region(request: SceneRequest, before: Scene, recovered: Scene) -> NDArray[np.bool_]:
    """The pixels that may change, (size, size)."""
    if request.backdrop is not None:
        objects = [coverage(obj, before.size, before.grain) for obj in before.objects]
        return np.max(objects, axis=0) < 1 if objects else np.ones((before.size,) * 2, np.bool_)
    requested_appearances = {obj.appearance for obj in request.requested_objects(before)}
    targets = [obj for obj in before.objects if obj.id in request.target_ids]
    targets += [obj for obj in recovered.objects if obj.appearance in requested_appearances]
    target = np.zeros((before.size,) * 2, np.uint8)
    for obj in targets:
        target |= (coverage(obj, before.size, before.grain) > 0).astype(np.uint8)
    return cv2.dilate(target, np.ones((3, 3), np.uint8)) > 0
