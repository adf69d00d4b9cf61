"""Perception: the shared analysis of an image by SceneEdit's experts, computed once; backdrop and visual quality."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import ClassVar, Generic, TypeVar
from weakref import WeakValueDictionary

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Box, Image
from ....reward.forks import ForkSafeLock
from ..vocabulary import BACKDROPS, TEXT
from .instruction_parser import ObjectName
from .letter_reader import Line, read_lines
from .object_segments import DetectedObject, detect_objects

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float64]

_MEDIAN_RGB = {
    "sky": (170, 196, 222),
    "grass": (151, 183, 133),
    "sand": (213, 195, 159),
    "night": (69, 73, 104),
    "brick wall": (177, 140, 126),
    "water": (122, 160, 186),
    "snow": (226, 231, 235),
    "concrete": (153, 153, 151),
}
"""Median red, green and blue of images without objects, in even light."""

_REDUCED_SIDE = 32  # pixels: larger images are resized to it, which averages noise
_BACKDROP_RIM, _RIM_WEIGHT = 0.06, 2.0
"""Width of the rim, as a share of the side, and its weight: objects are mostly in the middle."""
_GAINS = np.geomspace(0.6, 1.7, 14)
"""Gains at which each backdrop is matched: bright light clips, and clipped colours have another hue."""
_LOG_GAIN_SIGMA = 0.35  # standard deviation of the logarithm of the light's gain
_HUE = 0.005
"""Scale of the deviation of a pixel's shares of red and green (of a sum of 1) from the backdrop's in that light."""
_LIGHT = 0.1  # scale of the deviation of the logarithm of its brightness
_TAIL = 2.0  # similarity falls as (1 + d^2)^-tail, slowly enough for a tinted image to match its own backdrop best
_CERTAIN = 3.0  # probabilities are proportional to this power of the share of the image that looks like a backdrop


def classify_backdrop(pixels: Pixels) -> dict[str, float]:
    """The probability of each of `BACKDROPS` (they sum to 1) for an image, H x W x 3 uint8 RGB.

    Right as long as objects cover less than about half of the image. Backdrops are recognised by their colour in any
    light, not by their texture: a tinted one may pass for another, and a clipped white one for snow.
    """
    if max(pixels.shape[:2]) > _REDUCED_SIDE:
        height, width = (max(1, round(side * _REDUCED_SIDE / max(pixels.shape[:2]))) for side in pixels.shape[:2])
        pixels = np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    features = _colour_features(pixels.reshape(-1, 3).astype(np.float64))
    distances = np.square(features).sum(1)[:, None] + _SQUARES - 2 * (features @ _PROTOTYPES.T)
    nearest = np.maximum(distances, 0.0).reshape(len(features), len(BACKDROPS), -1).min(2)
    share = _weights(*pixels.shape[:2]) @ (1 + nearest) ** -_TAIL
    powered = share**_CERTAIN
    return {name: float(probability) for name, probability in zip(BACKDROPS, powered / powered.sum(), strict=True)}


def _weights(height: int, width: int) -> Floats:
    wide = max(1, round(_BACKDROP_RIM * min(height, width)))
    weights = np.full((height, width), _RIM_WEIGHT)
    weights[wide:-wide, wide:-wide] = 1.0
    return np.asarray(weights.ravel() / weights.sum())


def _colour_features(colours: Floats) -> Floats:
    """n x 3: shares of red and green, which light does not change, in units of `_HUE`; log brightness, of `_LIGHT`."""
    total = colours.sum(1) + 3.0
    return np.column_stack([(colours[:, :2] + 1.0) / total[:, None] / _HUE, np.log(total) / _LIGHT])


_lit = np.minimum(np.array([_MEDIAN_RGB[name] for name in BACKDROPS])[:, None] * _GAINS[:, None], 255.0).reshape(-1, 3)
_PROTOTYPES = _colour_features(_lit)
_SQUARES = np.square(_PROTOTYPES).sum(1) + np.tile(np.square(np.log(_GAINS) / _LOG_GAIN_SIGMA), len(BACKDROPS))


Plane = NDArray[np.float32]
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_CAPACITY = 512  # number of images, and of comparisons, whose analysis is kept

_SIDE = 64  # pixels per side at which backdrops are compared
_BLUR_SIGMA = 1.5  # standard deviation of the denoising blur, in those pixels
_RIM = 5  # size of the dilation of object masks, in those pixels
_FAINT, _FAINT_SOFT = 0.19, 0.045  # opacity at which an object counts half, and the width of the transition

_STEEPEST = 99.0  # percentile of gradients that counts as edges
_LEAST_STEP, _DARK = 1.0, 16.0
"""Grey levels added to the steepest gradient and to the mean, so that a black image counts as blank."""
_NOISE = 8.0  # grey levels of noise that cost one point
_CLIPPED = 6.0  # points that full clipping costs


_CLEAN, _GRAINY = 2.5, 8.0
"""Noise in the hue, in grey levels, up to which an image is clean, and the excess that halves its quality."""
_PLAIN = 15.0  # spread, in grey levels, below which quality falls


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

    def backdrop_overlap(self, other: ImagePerception) -> float:
        """How much of this backdrop's probabilities another image has, in [0, 1]."""
        return sum(min(p, other.backdrop_probabilities[kind]) for kind, p in self.backdrop_probabilities.items())

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
        return [Box(obj.box.cx, obj.box.cy, obj.box.w, obj.box.h, match_score(obj, name)) for obj in self.objects]


class RecentValues(Generic[K, V]):
    """The last 512 values by key, for threads."""

    def __init__(self) -> None:
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = ForkSafeLock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value, which is made, outside of the lock, where there is none."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            value = self._values.setdefault(key, value)
            if len(self._values) > _CAPACITY:
                self._values.popitem(last=False)
        return value


class PerceptionCache:
    """Perceptions of the most recent images. The experts of a process, in threads of their own, share one."""

    _living: ClassVar[WeakValueDictionary[str, PerceptionCache]] = WeakValueDictionary()

    @classmethod
    def shared(cls) -> PerceptionCache:
        """The one that experts hold: no argument of theirs, so that they can be pickled. It goes with the last one."""
        return cls._living.setdefault("shared", cls())

    def __init__(self) -> None:
        self._perceptions = RecentValues[str, ImagePerception]()

    def perceive(self, image: Image) -> ImagePerception:
        """The perception of an image."""
        return self._perceptions.get(image.digest, lambda: ImagePerception(image))

    def objects(self, image: Image) -> list[DetectedObject]:
        """The objects of an image."""
        return self.perceive(image).objects


def match_score(obj: DetectedObject, name: ObjectName) -> float:
    """The probability that the shape, colour and material of an object match a full name."""
    colour = obj.colours[name.colour] if name.colour else 1.0
    return obj.shapes.get(name.kind, 0.0) * colour * obj.materials[name.material] * visibility(obj)


def visibility(obj: DetectedObject) -> float:
    """The weight of an object for its opacity and occlusion, in [0, 1]."""
    return opacity_weight(obj) * (0.88 + 0.12 * obj.opacity) * (0.85 + 0.15 * obj.visible_share)


def opacity_weight(obj: DetectedObject) -> float:
    """The weight of an object for its opacity, in [0, 1]: about 1 for a solid one."""
    return 1 / (1 + math.exp(-(obj.opacity - _FAINT) / _FAINT_SOFT))


# -- visual quality ---------------------------------------------------------------------------------------------------


def visual_quality(pixels: Pixels) -> float:
    """Visual quality in [0, 1]: the product of factors for noise, fading and clipping.

    Unlike `quality` it compares images of any content: noise is measured in the hue, which textures do not change.
    """
    planes = pixels.astype(np.float64)
    hues = [(planes[..., a] - planes[..., b]) / np.sqrt(2) for a, b in ((0, 1), (1, 2))]
    noise = max(0.0, max(map(_sigma, hues)) - _CLEAN) / _GRAINY
    contrast = float(cv2.GaussianBlur(pixels, (0, 0), 1.0).std(axis=(0, 1)).max())
    clipped = float((pixels >= 254).all(axis=2).mean())
    return min(1.0, contrast / _PLAIN) * (1 - clipped) / (1 + noise**2)


def quality(pixels: Pixels) -> float:
    """Sharpness - noise - clipping of an image, H x W x 3 uint8 RGB. Higher is better; without bounds.

    sharpness: log2 of the steepest step from pixel to pixel (99th percentile) plus 1 over the mean luminance plus 16; a
    blank image has the least, -4 and below. noise: log2 of 1 + (sigma / 8)^2, where sigma is estimated from the
    median second difference (Immerkaer 1996). clipping: 6 times the share of channel values of 254 and more. All in
    grey levels of 0 to 255. Only numbers of images of one size and like content compare.
    """
    luminance = pixels @ np.array([0.299, 0.587, 0.114])
    sharpness = np.log2((_steepest(pixels.astype(np.float64)) + _LEAST_STEP) / (luminance.mean() + _DARK))
    noise = np.log2(1 + (_sigma(luminance) / _NOISE) ** 2)
    clipping = _CLIPPED * (pixels >= 254).mean()
    return float(sharpness - noise - clipping)


def _steepest(colour: NDArray[np.float64]) -> float:
    wide = np.pad(colour, ((0, 1), (0, 1), (0, 0)), mode="edge")
    step = np.maximum(np.abs(wide[:-1, 1:] - colour), np.abs(wide[1:, :-1] - colour)).mean(2)
    return float(np.percentile(step, _STEEPEST))


def _sigma(luminance: NDArray[np.float64]) -> float:
    """Standard deviation of pixel noise; fine texture counts as noise."""
    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float64)
    second = np.abs(cv2.filter2D(luminance, cv2.CV_64F, kernel, borderType=cv2.BORDER_REFLECT_101))
    # The kernel scales sigma by 6; the median of a normal variable's absolute value is 0.6745 sigma.
    return float(np.median(second)) / (6 * 0.6745)
