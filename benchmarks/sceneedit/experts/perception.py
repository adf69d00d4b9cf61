"""Perception: the shared analysis of an image by SceneEdit's experts, computed once."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from functools import cached_property
from typing import ClassVar
from weakref import WeakValueDictionary

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Box, Image
from ....reward.forks import at_fork, was_held
from ..vocabulary import TEXT
from .backdrop_classifier import classify_backdrop
from .letter_reader import Line, read_lines
from .object_names import ObjectName
from .object_segments import DetectedObject, detect_objects
from .preference import visual_quality

Plane = NDArray[np.float32]

_SIDE = 64
"""Pixels per side at which backdrops are compared."""
_BLUR_SIGMA = 1.5
"""Standard deviation of the denoising blur, in those pixels."""
_RIM = 5
"""Size of the dilation of object masks, in those pixels."""
_FAINT, _FAINT_SOFT = 0.19, 0.045
"""Opacity at which an object counts half, and the width of the transition."""


class ImagePerception:
    """The analysis of one image; each part is computed on first use and kept."""

    def __init__(self, image: Image) -> None:
        self._pixels = image.pixels
        self.digest = image.digest
        self.size = image.size

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """The image, H x W x 3."""
        return self._pixels

    @cached_property
    def objects(self) -> list[DetectedObject]:
        """Detected objects, the largest first."""
        return detect_objects(self._pixels)

    @cached_property
    def text_lines(self) -> list[Line]:
        """Lines of text."""
        return read_lines(self._pixels)

    @cached_property
    def backdrop_probabilities(self) -> dict[str, float]:
        """Kind of backdrop -> probability."""
        return classify_backdrop(self._pixels)

    @cached_property
    def visual_quality(self) -> float:
        """Visual quality, in [0, 1]."""
        return visual_quality(self._pixels)

    @cached_property
    def contrast(self) -> float:
        """Standard deviation of the denoised image, in grey levels."""
        return float(cv2.GaussianBlur(self._pixels, (0, 0), 1.0).std(axis=(0, 1)).max())

    @cached_property
    def denoised(self) -> Plane:
        """The denoised image, 64 x 64 x 3 grey levels."""
        small = cv2.resize(self._pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
        return cv2.GaussianBlur(small, (0, 0), _BLUR_SIGMA).astype(np.float32)

    @cached_property
    def foreground_mask(self) -> NDArray[np.bool_]:
        """Pixels of objects and letters, 64 x 64."""
        mask = np.zeros((_SIDE, _SIDE), np.uint8)
        for obj in self.objects:
            object_mask = cv2.resize(obj.mask.astype(np.uint8), (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST)
            mask[object_mask > 0] = 1
        for box in self.locate_text():
            x0, y0, x1, y1 = box.clipped_corners((_SIDE, _SIDE)) or (0, 0, 0, 0)
            mask[y0:y1, x0:x1] = 1
        return cv2.dilate(mask, np.ones((_RIM, _RIM), np.uint8)) > 0

    def locate_text(self, label: str = TEXT) -> list[Box]:
        """Boxes of the lines of text, the most certain first."""
        boxes = [
            Box.from_corners(*corners, self.size, score=confidence, label=label)
            for _, corners, confidence in self.text_lines
        ]
        return sorted(boxes, key=lambda box: -box.score)

    def locate(self, name: ObjectName) -> list[Box]:
        """Boxes of objects for a full name: the score is the probability that shape, colour and material match."""
        if name.kind == TEXT:
            return self.locate_text()
        boxes = []
        for obj in self.objects:
            colour = obj.colours[name.colour] if name.colour else 1.0
            score = obj.shapes.get(name.kind, 0.0) * colour * obj.materials[name.material] * visibility(obj)
            boxes.append(Box(obj.box.cx, obj.box.cy, obj.box.w, obj.box.h, score))
        return boxes


class PerceptionCache:
    """Perceptions of the most recent images. The experts of a process, in threads of their own, share one."""

    _living: ClassVar[WeakValueDictionary[str, PerceptionCache]] = WeakValueDictionary()

    @classmethod
    def shared(cls) -> PerceptionCache:
        """The one that experts hold: no argument of theirs, so that they can be pickled. It goes with the last one."""
        return cls._living.setdefault("shared", cls())

    def __init__(self, capacity: int = 512) -> None:
        self._capacity = capacity
        self._perceptions: OrderedDict[str, ImagePerception] = OrderedDict()
        self._lock = threading.Lock()
        at_fork(self, PerceptionCache._in_child)

    def _in_child(self) -> None:
        if was_held(self._lock):
            self._lock = threading.Lock()

    def perceive(self, image: Image) -> ImagePerception:
        """The perception of an image."""
        with self._lock:
            cached = self._perceptions.get(image.digest)
            if cached is None:
                cached = self._perceptions[image.digest] = ImagePerception(image)
                if len(self._perceptions) > self._capacity:
                    self._perceptions.popitem(last=False)
            self._perceptions.move_to_end(image.digest)
            return cached

    def objects(self, image: Image) -> list[DetectedObject]:
        """The objects of an image."""
        return self.perceive(image).objects


def visibility(obj: DetectedObject) -> float:
    """The weight of an object for its opacity and occlusion, in [0, 1]."""
    return opacity_weight(obj) * (0.88 + 0.12 * obj.opacity) * (0.85 + 0.15 * obj.visible_share)


def opacity_weight(obj: DetectedObject) -> float:
    """The weight of an object for its opacity, in [0, 1]: about 1 for a solid one."""
    return 1 / (1 + math.exp(-(obj.opacity - _FAINT) / _FAINT_SOFT))
