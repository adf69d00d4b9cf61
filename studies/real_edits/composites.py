"""Photographs of BSDS500 with objects of other ones composed into them: edits whose honest result is known.

P. Arbeláez, M. Maire, C. Fowlkes, J. Malik, "Contour Detection and Hierarchical Image Segmentation", TPAMI 2011: 500
photographs, each segmented by several people. Objects are their segments.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import cv2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from numpy.typing import NDArray

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.reward import Image, ImageError
from editcritic.reward.queries.kinds import RegionChange

from .clones import Clones
from .place import Mask, Plane
from .real_edit import Corners

REPO, COMMIT = "BIDS/BSDS500", "a04b7c6c3a9f0ace74bf205c72a43d32e1c72722"
_DATA = "BSDS500/data"
_MARGIN = 4  # pixels at the border of the photographs that some have black
_TRIES = 100
_SMALLEST = 14  # pixels of a place's shorter side
_LETTERS = "ABCDEFGHIKLMNOPRSTUVWabcdeghiklmnoprstu "

Split = Literal["train", "test"]
Generator = np.random.Generator


class Cutout(NamedTuple):
    """A part of a photograph around an object. pixels: h x w x 3. cover: h x w, 1 on the object."""

    pixels: Plane
    cover: Mask


@dataclass(frozen=True)
class Photographs:
    """A split of BSDS500. names: of its photographs, without the ending."""

    clones: Clones
    split: Split
    names: tuple[str, ...]

    @staticmethod
    def of(clones: Clones, split: Split) -> Photographs:
        """Raises `InputError` where there is no clone, or no photograph in it."""
        names = [name[:-4] for name in clones.names(REPO, COMMIT, f"{_DATA}/images/{split}") if name.endswith(".jpg")]
        if not names:
            raise InputError(f"{_DATA}/images/{split} of {REPO} has no .jpg")
        return Photographs(clones, split, tuple(names))

    def photograph(self, rng: Generator) -> Plane:
        """Any of them, without its border. Raises `InputError`."""
        return self._photograph(self._name(rng))[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]

    def cutout(self, rng: Generator) -> Cutout:
        """Any object: a connected segment of 0.8 to 20 % of its photograph, no thinner than a third of its box.

        Raises `InputError` where none is found.
        """
        for _ in range(_TRIES):
            name = self._name(rng)
            segments = self._segments(name, rng)
            numbers, counts = np.unique(segments, return_counts=True)
            numbers = numbers[(counts > 0.008 * segments.size) & (counts < 0.2 * segments.size)]
            if not len(numbers):
                continue
            segment = (segments == rng.choice(numbers)).astype(np.uint8)
            _, parts, stats, _ = cv2.connectedComponentsWithStats(segment)
            largest = 1 + int(stats[1:, 4].argmax())
            x, y, w, h, area = (int(value) for value in stats[largest])
            if area >= 0.35 * w * h and min(w, h) >= 20 and w <= 260 and h <= 220:
                box = np.s_[y : y + h, x : x + w]
                return Cutout(self._photograph(name)[box], (parts[box] == largest).astype(np.float32))
        raise InputError(f"{REPO} has no segment of the size of an object in {_TRIES} photographs of {self.split}")

    def _name(self, rng: Generator) -> str:
        return self.names[int(rng.integers(len(self.names)))]

    def _photograph(self, name: str) -> Plane:
        path = f"{_DATA}/images/{self.split}/{name}.jpg"
        try:
            image = Image.from_encoded(self.clones.read(REPO, COMMIT, path))
        except ImageError as error:
            raise InputError(f"{path} of {REPO}: {error}") from None
        return np.asarray(image.pixels, np.float32)

    def _segments(self, name: str, rng: Generator) -> NDArray[np.int64]:
        """H x W: the number of each pixel's segment, as any of the people drew them."""
        path = f"{_DATA}/groundTruth/{self.split}/{name}.mat"
        data = self.clones.read(REPO, COMMIT, path)
        try:
            drawn = bench_library("scipy.io").loadmat(io.BytesIO(data))["groundTruth"][0]
            segments = np.asarray(drawn[int(rng.integers(len(drawn)))]["Segmentation"][0, 0], np.int64)
        except (ValueError, TypeError, KeyError, IndexError, NotImplementedError) as error:
            raise InputError(f"{path} of {REPO} has no segmentation: {error}") from None
        if segments.shape != self._photograph(name).shape[:2]:
            raise InputError(f"{path} of {REPO} has a segmentation of another size than its photograph")
        return segments


class Composite(NamedTuple):
    """An edit that is honest because of how it was made.

    source, clean: H x W x 3, before and after; honest: after, with what an editor's model does to pixels. background:
    without any object. corners: of the place, up to 12 % wider than needed. cover: H x W, 1 on what is new in `clean`,
    or on what goes. cutout: of the object.
    """

    change: RegionChange
    source: Plane
    clean: Plane
    honest: Plane
    background: Plane
    corners: Corners
    cover: Mask
    cutout: Cutout


def compose(photographs: Photographs, change: RegionChange, rng: Generator) -> Composite:
    """An object that goes, is put where another one was or none, or gets another colour; or letters that are written.

    Four of ten photographs get another look before. Raises `InputError` for photographs that cannot be read.
    """
    while True:
        base = photographs.photograph(rng)
        if rng.random() < 0.4:
            base = _LOOKS[int(rng.integers(len(_LOOKS)))](base, rng)
        cutout = photographs.cutout(rng)
        layer = _written(base, rng) if change == "text" else _placed(cutout, base.shape, rng)
        source, clean, corners = base, _over(base, layer), layer.corners
        if change in ("removed", "recoloured"):
            source = _over(_in_shadow(base, layer, rng), layer)
            clean = base
            if change == "recoloured":
                clean = _over(source, layer._replace(pixels=_recoloured(source, rng)))
        elif change == "new" and rng.random() < 0.5:  # it replaces another object
            source = clean
            cutout = photographs.cutout(rng)
            layer = _placed(cutout, base.shape, rng, layer.corners)
            clean, corners = _over(base, layer), _around(corners, layer.corners)
        corners = _loosened(corners, base.shape, rng)
        if min(corners[2] - corners[0], corners[3] - corners[1]) >= _SMALLEST and layer.cover.max() > 0.5:
            redrawn = layer.cover if change == "removed" and rng.random() < 0.6 else None
            return Composite(change, source, clean, encoded(clean, rng, redrawn), base, corners, layer.cover, cutout)


def encoded(plane: Plane, rng: Generator, where: Mask | None = None) -> Plane:
    """What an editor does to pixels that it keeps: smoother, resampled, noisier, of a slightly other colour, or as they
    were; then JPEG, four times of ten. where: H x W, the place outside of which only JPEG changes anything.
    """
    kind = int(rng.integers(6))
    changed: Plane = plane
    if kind == 0:
        changed = np.asarray(cv2.bilateralFilter(_blurred(plane, rng.uniform(0.4, 0.8)), 5, 20, 2), np.float32)
    elif kind == 1:
        scale = rng.uniform(0.6, 0.9)
        small = cv2.resize(plane, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        changed = np.asarray(cv2.resize(small, plane.shape[1::-1], interpolation=cv2.INTER_CUBIC), np.float32)
    elif kind == 2:
        changed = _noisy(plane, rng.uniform(1, 3), rng)
    elif kind == 3:
        changed = np.asarray(plane + rng.normal(0, 2, 3), np.float32)
    if where is not None:
        changed = plane + _blurred(where, 4)[..., None] * (changed - plane)
    if rng.random() < 0.4:
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(70, 96))]
        _, data = cv2.imencode(".jpg", _as_bytes(changed), quality)
        changed = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.float32)
    return np.clip(changed, 0, 255)


# -- objects and letters ----------------------------------------------------------------------------------------------


class Layer(NamedTuple):
    """What is drawn over a photograph: H x W x 3, where (H x W, in [0, 1]), and the box around it."""

    pixels: Plane
    cover: Mask
    corners: Corners


def _over(plane: Plane, layer: Layer) -> Plane:
    return plane + layer.cover[..., None] * (layer.pixels - plane)


def _placed(cutout: Cutout, shape: tuple[int, ...], rng: Generator, instead: Corners | None = None) -> Layer:
    """An object 0.6 to 1.5 times as large, anywhere, up to an eighth of it outside; or in the middle of a box and about
    as large as it.
    """
    height, width = shape[:2]
    scale = rng.uniform(0.6, 1.5)
    if instead is not None:
        area = (instead[2] - instead[0]) * (instead[3] - instead[1])
        scale = float(np.sqrt(area / cutout.cover.size)) * rng.uniform(0.8, 1.2)
    h, w = (max(_SMALLEST, round(scale * side)) for side in cutout.cover.shape)
    fit = min(1.0, 0.75 * height / h, 0.75 * width / w)
    h, w = max(1, int(h * fit)), max(1, int(w * fit))
    pixels = cv2.resize(cutout.pixels, (w, h), interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    cover = _blurred(np.asarray(cv2.resize(cutout.cover, (w, h), interpolation=cv2.INTER_AREA), np.float32), 0.7)
    x, y = (int(rng.integers(-(side // 8), whole - side + side // 8 + 1)) for side, whole in ((w, width), (h, height)))
    if instead is not None:
        x, y = (instead[0] + instead[2] - w) // 2, (instead[1] + instead[3] - h) // 2
    x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + w, width), min(y + h, height)
    layer = Layer(np.zeros((height, width, 3), np.float32), np.zeros((height, width), np.float32), (x0, y0, x1, y1))
    layer.pixels[y0:y1, x0:x1] = pixels[y0 - y : y1 - y, x0 - x : x1 - x]
    layer.cover[y0:y1, x0:x1] = cover[y0 - y : y1 - y, x0 - x : x1 - x]
    return layer


def _written(plane: Plane, rng: Generator) -> Layer:
    """Letters of one colour, sharp or a little soft."""
    height, width = plane.shape[:2]
    words = "".join(rng.choice(list(_LETTERS), int(rng.integers(3, 14))))
    font = PIL.ImageFont.load_default(size=int(rng.uniform(18, 64)))
    drawn = PIL.Image.new("L", (width, height))
    at = int(rng.integers(5, max(6, width // 2))), int(rng.integers(5, max(6, height - 60)))
    PIL.ImageDraw.Draw(drawn).text(at, words, font=font, fill=255)
    x0, y0, x1, y1 = drawn.getbbox() or (0, 0, 0, 0)
    cover = np.asarray(drawn, np.float32) / np.float32(255)
    if rng.random() < 0.4:
        cover = _blurred(cover, rng.uniform(0.5, 1.0))
    colour = rng.uniform(0, 255, 3) if rng.random() < 0.6 else np.full(3, 255.0 * rng.integers(2))
    pixels = np.broadcast_to(colour.astype(np.float32), plane.shape)
    return Layer(pixels, cover, (max(0, x0 - 4), max(0, y0 - 4), min(width, x1 + 4), min(height, y1 + 4)))


def _in_shadow(plane: Plane, layer: Layer, rng: Generator) -> Plane:
    """What is around an object: six times of ten in its shadow, and half of these in a slightly other light."""
    if rng.random() >= 0.4:
        x0, y0, x1, y1 = layer.corners
        shift = rng.uniform(-0.3, 0.3) * (x1 - x0), rng.uniform(0, 0.25) * (y1 - y0)
        lean = np.array([[1, rng.uniform(-0.4, 0.4), shift[0]], [0, 1, shift[1]]], np.float32)
        leaning = np.asarray(cv2.warpAffine(layer.cover, lean, layer.cover.shape[::-1]), np.float32)
        shadow = _blurred(leaning, rng.uniform(1.5, 14))
        plane = plane * (1 - np.float32(rng.uniform(0.15, 0.55)) * shadow[..., None])
        if rng.random() < 0.5:
            light = _blurred(layer.cover, rng.uniform(10, 40))[..., None]
            plane = np.clip(plane * (1 + np.float32(rng.uniform(-0.2, 0.2)) * light / max(1e-3, light.max())), 0, 255)
    return plane


def _recoloured(plane: Plane, rng: Generator) -> Plane:
    """Of another hue and lightness, with its shading; four times of ten redrawn softer, with grain."""
    lab = cv2.cvtColor(np.clip(plane, 0, 255) / np.float32(255), cv2.COLOR_RGB2LAB)
    hue, chroma = rng.uniform(0, 2 * np.pi), rng.uniform(20, 60)
    lab[..., 1:] = lab[..., 1:] * rng.uniform(0, 0.5) + chroma * np.array([np.cos(hue), np.sin(hue)])
    light = 100 * (np.clip(lab[..., 0], 0, 100) / 100) ** rng.uniform(0.7, 1.4)
    lab[..., 0] = np.clip(light * rng.uniform(0.8, 1.15) + rng.uniform(-8, 8), 2, 98)
    result = np.clip(np.asarray(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB), np.float32) * 255, 0, 255)
    return _noisy(_blurred(result, rng.uniform(0.5, 1.1)), 1.5, rng) if rng.random() < 0.4 else result


def _loosened(corners: Corners, shape: tuple[int, ...], rng: Generator) -> Corners:
    (x0, y0, x1, y1), more = corners, rng.uniform(0, 0.12, 4)
    w, h = x1 - x0, y1 - y0
    right, lower = min(shape[1], int(x1 + more[2] * w)), min(shape[0], int(y1 + more[3] * h))
    return max(0, int(x0 - more[0] * w)), max(0, int(y0 - more[1] * h)), right, lower


def _around(first: Corners, second: Corners) -> Corners:
    (x0, y0, x1, y1), (a0, b0, a1, b1) = first, second
    return min(x0, a0), min(y0, b0), max(x1, a1), max(y1, b1)


# -- looks ------------------------------------------------------------------------------------------------------------


def _illustrated(plane: Plane, rng: Generator) -> Plane:
    fields = cv2.pyrMeanShiftFiltering(_as_bytes(plane), 8, int(rng.integers(20, 45)))
    fields = fields // 24 * 24 + 12 if rng.random() < 0.5 else fields
    return np.asarray(cv2.medianBlur(np.clip(fields, 0, 255).astype(np.uint8), 5), np.float32)


def _defocused(plane: Plane, rng: Generator) -> Plane:
    return _noisy(_blurred(plane, rng.uniform(2, 7)), rng.uniform(0.3, 1.5), rng)


def _night(plane: Plane, rng: Generator) -> Plane:
    dark = np.asarray((plane / 255) ** rng.uniform(1.8, 3) * 255 * rng.uniform(0.4, 0.9), np.float32)
    return np.clip(_noisy(dark, rng.uniform(0.5, 2.5), rng), 0, 255)


def _wall_or_sky(plane: Plane, rng: Generator) -> Plane:
    """A smooth ramp of colours with grain, half of the time uneven."""
    height, width = plane.shape[:2]
    y, x = np.mgrid[0:height, 0:width][..., None] / max(height, width)
    ramp = rng.uniform(40, 230, 3) + rng.uniform(-25, 25, 3) + y * rng.uniform(-45, 45) + x * rng.uniform(-30, 30)
    if rng.random() < 0.5:
        uneven = _blurred(rng.normal(0, 1, (height, width)).astype(np.float32), rng.uniform(10, 40))
        ramp = ramp + (uneven / uneven.std() * rng.uniform(1, 6))[..., None]
    return np.clip(_noisy(np.asarray(ramp, np.float32), rng.uniform(0.2, 2), rng), 0, 255)


def _repeating(plane: Plane, rng: Generator) -> Plane:
    """Fine stripes or a grid."""
    y, x = np.mgrid[0 : plane.shape[0], 0 : plane.shape[1]]
    period, angle = rng.uniform(5, 24), rng.uniform(0, np.pi)
    wave = np.sin(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / period)
    if rng.random() < 0.5:
        wave = 0.7 * np.sign(wave) + 0.3 * wave
    if rng.random() < 0.4:
        wave = wave + np.sin(2 * np.pi * (y * np.cos(angle) - x * np.sin(angle)) / period)
    drawn = _blurred(plane, 6) + wave[..., None] * rng.uniform(8, 30) * rng.uniform(0.7, 1.3, 3)
    return np.clip(_noisy(np.asarray(drawn, np.float32), 1, rng), 0, 255)


def _hazy(plane: Plane, rng: Generator) -> Plane:
    return np.asarray(np.clip((plane - 128) * rng.uniform(0.4, 0.8) + 128 + rng.uniform(-20, 40), 0, 255), np.float32)


_LOOKS: tuple[Callable[[Plane, Generator], Plane], ...] = (
    _illustrated,
    _defocused,
    _night,
    _wall_or_sky,
    _repeating,
    _hazy,
)


def _blurred(plane: Plane, sigma: float) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma), np.float32)


def _noisy(plane: Plane, strength: float, rng: Generator) -> Plane:
    return np.asarray(plane + rng.normal(0, strength, plane.shape), np.float32)


def _as_bytes(plane: Plane) -> NDArray[np.uint8]:
    return np.clip(plane, 0, 255).astype(np.uint8)
