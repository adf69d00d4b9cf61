"""The renderer: scene graphs to pixels. Bit-identical for a scene on one machine.

Everything is a function of the scene; its seeds decide noise and textures. Only this module defines what objects look
like (pigments, outlines, textures); the experts have their own knowledge of it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...reward import Image
from .scene_graph import Backdrop, Scene, SceneObject, text_extent
from .vocabulary import LETTER_HEIGHT, LETTER_WIDTH, LETTERS, SIGN, TEXT

Plane = NDArray[np.float64]

OBJECT_RGB: dict[str, tuple[int, int, int]] = {
    "red": (208, 40, 42),
    "orange": (240, 132, 20),
    "yellow": (240, 214, 34),
    "green": (36, 148, 56),
    "teal": (0, 150, 146),
    "blue": (44, 82, 208),
    "purple": (128, 52, 176),
    "pink": (240, 104, 176),
}
BACKDROP_RGB: dict[str, tuple[int, int, int]] = {
    "sky": (172, 198, 224),
    "grass": (150, 182, 132),
    "sand": (214, 196, 160),
    "night": (74, 78, 112),
    "brick wall": (180, 142, 128),
    "water": (122, 160, 186),
    "snow": (226, 230, 234),
    "concrete": (152, 152, 150),
}
INK_RGB = {"dark": (16, 16, 20), "light": (250, 250, 246)}
_SUPERSAMPLING = 4  # samples per pixel and side, for outlines


def render(scene: Scene, *, noise: bool = True) -> Image:
    """Draw a scene."""
    return Image.of(np.rint(np.clip(render_float(scene, noise=noise), 0, 255)).astype(np.uint8))


def render_float(scene: Scene, *, noise: bool = True) -> Plane:
    """A scene's image before rounding: size x size x 3, in grey levels, possibly beyond 0 and 255."""
    picture = render_backdrop(scene.backdrop, scene.size, scene.grain)
    for obj in scene.objects:
        picture = composite(picture, obj, scene.grain)
    picture *= _lighting(scene)[..., None]
    if noise and scene.noise:
        picture += np.random.default_rng(scene.noise_seed).normal(0.0, scene.noise, picture.shape)
    return picture


def composite(picture: Plane, obj: SceneObject, grain: int) -> Plane:
    """The image with an object on top of it, before any lighting."""
    alpha = coverage(obj, picture.shape[0], grain)[..., None] * obj.opacity
    if obj.shape == TEXT:
        return picture * (1 - alpha) + np.asarray(INK_RGB[obj.ink], np.float64) * alpha
    side = picture.shape[0]
    colour = np.asarray(OBJECT_RGB[obj.colour], np.float64) * texture(obj.material, obj.id, side, grain)[..., None]
    if obj.shape == SIGN:
        letters = (_letters(obj, side, grain) > 0)[..., None]
        colour = np.where(letters, np.asarray(INK_RGB[obj.ink], np.float64), colour)
    return picture * (1 - alpha) + colour * alpha


def visibility_map(scene: Scene, number: int) -> Plane:
    """The share of each pixel in which an object is visible below those on it, size x size in [0, 1]."""
    visible = np.zeros((scene.size, scene.size))
    for obj in scene.objects:
        alpha = coverage(obj, scene.size, scene.grain)
        visible = alpha * obj.opacity if obj.id == number else visible * (1 - alpha * obj.opacity)
    return visible


def occluded_share(scene: Scene, number: int) -> float:
    """The share of an object that others hide, in [0, 1]."""
    obj = scene.object_by_id(number)
    assert obj is not None, f"the scene has no thing {number}"
    area = float(coverage(obj, scene.size, scene.grain).sum()) * obj.opacity
    return 1.0 - float(visibility_map(scene, number).sum()) / area if area > 0 else 1.0


# -- outlines ---------------------------------------------------------------------------------------------------------


def coverage(obj: SceneObject, size: int, grain: int) -> Plane:
    """The share of each pixel inside the outline, size x size in [0, 1]. Of a text, its letters."""
    if obj.shape == TEXT:
        return _letters(obj, size, grain)
    return _coverage(obj.shape, obj.x, obj.y, obj.w, obj.h, size)


@lru_cache(maxsize=1024)
def _coverage(shape: str, x: float, y: float, w: float, h: float, size: int) -> Plane:
    plane = np.zeros((size, size))
    x0, x1 = max(0, math.floor((x - w / 2) * size)), min(size, math.ceil((x + w / 2) * size))
    y0, y1 = max(0, math.floor((y - h / 2) * size)), min(size, math.ceil((y + h / 2) * size))
    if x0 < x1 and y0 < y1:
        across = (np.arange(x0 * _SUPERSAMPLING, x1 * _SUPERSAMPLING) + 0.5) / (_SUPERSAMPLING * size)
        down = (np.arange(y0 * _SUPERSAMPLING, y1 * _SUPERSAMPLING) + 0.5) / (_SUPERSAMPLING * size)
        inside = _inside(shape, ((across - x) / (w / 2))[None, :], ((down - y) / (h / 2))[:, None]).astype(np.float64)
        plane[y0:y1, x0:x1] = inside.reshape(y1 - y0, _SUPERSAMPLING, x1 - x0, _SUPERSAMPLING).mean(axis=(1, 3))
    plane.setflags(write=False)
    return plane


def _inside(shape: str, u: Plane, v: Plane) -> NDArray[np.bool_]:
    """Whether points lie in a shape that fills [-1, 1] x [-1, 1]; v goes downwards."""
    if shape == "circle":
        return u**2 + v**2 <= 1
    if shape in ("square", SIGN):
        return (np.abs(u) <= 1) & (np.abs(v) <= 1)
    if shape == "triangle":
        return (np.abs(u) <= (v + 1) / 2) & (v <= 1)
    if shape == "diamond":
        return np.abs(u) + np.abs(v) <= 1
    if shape == "cross":
        return ((np.abs(u) <= 0.34) & (np.abs(v) <= 1)) | ((np.abs(v) <= 0.34) & (np.abs(u) <= 1))
    if shape == "ring":
        radius = u**2 + v**2
        return (radius <= 1) & (radius >= 0.5**2)
    if shape == "star":
        # Tips on a unit circle: two of them end the width, one the top, and two the bottom.
        u, v = u * math.sin(0.4 * math.pi), (v + 1) * (1 + math.cos(0.2 * math.pi)) / 2 - 1
        angle = np.mod(np.arctan2(u, -v), 2 * math.pi / 5)
        tip = math.pi / 5
        # The edge of a five-pointed star from a tip (radius 1) to a notch, as a straight line in polar form.
        notch = 0.42
        away = np.minimum(angle, 2 * math.pi / 5 - angle)
        a, b = np.array([1.0, 0.0]), notch * np.array([math.cos(tip), math.sin(tip)])
        normal = np.array([-(b - a)[1], (b - a)[0]])
        edge = (a @ normal) / (np.cos(away) * normal[0] + np.sin(away) * normal[1])
        return np.asarray(np.hypot(u, v) <= edge)
    assert shape == "heart", shape
    lobes = (np.abs(u) - 0.5) ** 2 + (v + 0.5) ** 2 <= 0.5**2
    return lobes | ((np.abs(u) <= (1 - v) / 1.5 * 1.02) & (v >= -0.5) & (np.abs(u) <= 1))


def _letters(obj: SceneObject, size: int, grain: int) -> Plane:
    """The ink of a text, on whole pixels, so that small letters stay sharp."""
    width, height = text_extent(obj.text, grain)
    x0, y0 = round(obj.x * size - width / 2), round(obj.y * size - height / 2)
    ink = np.zeros((size, size))
    for index, letter in enumerate(obj.text):
        for row, dots in enumerate(LETTERS.get(letter, ("...",) * LETTER_HEIGHT)):
            for column, dot in enumerate(dots):
                if dot == "#":
                    x, y = x0 + (index * (LETTER_WIDTH + 1) + column) * grain, y0 + row * grain
                    ink[max(y, 0) : max(y + grain, 0), max(x, 0) : max(x + grain, 0)] = 1.0
    return ink


# -- surfaces ---------------------------------------------------------------------------------------------------------


def texture(material: str, seed: int, size: int, grain: int) -> Plane:
    """Brightness of a material, 1.0 where it is plain. Its period is four grains."""
    y, x = np.mgrid[0:size, 0:size] // grain
    if material == "wood":
        return np.where(y % 4 < 2, 1.06, 0.70)
    if material == "metal":
        return np.where(x % 4 < 2, 1.10, 0.72)
    if material == "fabric":
        return np.where((x + y) % 4 < 2, 1.08, 0.68)
    if material == "stone":
        cells = np.random.default_rng(seed).uniform(0.55, 1.15, (size // (2 * grain) + 1,) * 2)
        return np.asarray(cells[y // 2, x // 2], np.float64)
    return np.ones((size, size))


def render_backdrop(backdrop: Backdrop, size: int, grain: int) -> Plane:
    """The backdrop alone: size x size x 3 in grey levels, a new array each time."""
    return _render_backdrop(backdrop, size, grain).copy()


@lru_cache(maxsize=512)
def _render_backdrop(backdrop: Backdrop, size: int, grain: int) -> Plane:
    colour = np.asarray(BACKDROP_RGB[backdrop.kind], np.float64)
    bright = _relief(backdrop.kind, backdrop.seed, size, grain)
    if backdrop.drift:
        rng = np.random.default_rng(backdrop.drift_seed)
        tint = rng.normal(0.0, 1.0, 3)
        colour = colour + backdrop.drift * 44 * tint / np.linalg.norm(tint)
        other = _relief(backdrop.kind, backdrop.drift_seed + 1, size, grain)
        bright = bright + backdrop.drift * (other - bright)
    return np.asarray(colour * bright[..., None])


def _relief(kind: str, seed: int, size: int, grain: int) -> Plane:
    rng = np.random.default_rng(seed)
    y, x = _pixel_grid(size)
    if kind == "sky":
        return 1.06 - 0.14 * y + 0.03 * _smooth_noise(rng, size, 4)
    if kind == "grass":
        blades = np.repeat(rng.uniform(-1, 1, (size // (4 * grain) + 1, size // grain + 1)), 4 * grain, axis=0)
        return 1.0 + 0.08 * np.repeat(blades, grain, axis=1)[:size, :size]
    if kind == "sand":
        return 1.0 + 0.045 * rng.uniform(-1, 1, (size, size)) + 0.03 * _smooth_noise(rng, size, 3)
    if kind == "night":
        stars = rng.uniform(0, 1, (size // grain + 1,) * 2) > 0.985
        return 1.0 - 0.15 * y + 0.35 * np.kron(stars, np.ones((grain, grain)))[:size, :size]
    if kind == "brick wall":
        row = y * 10 + rng.uniform()
        column = x * 5 + 0.5 * (np.floor(row) % 2) + rng.uniform()
        mortar = (np.mod(row, 1) < 0.16) | (np.mod(column, 1) < 0.09)
        return np.where(mortar, 1.14, 0.98) + 0.02 * rng.uniform(-1, 1, (size, size))
    if kind == "water":
        wave = np.sin(2 * math.pi * (y * 9 + 0.6 * np.sin(2 * math.pi * (x + rng.uniform())) + rng.uniform()))
        return 1.0 + 0.07 * wave
    if kind == "snow":
        return 1.0 + 0.02 * _smooth_noise(rng, size, 3)
    return 1.0 + 0.07 * _smooth_noise(rng, size, 5)


def _smooth_noise(rng: np.random.Generator, size: int, cells: int) -> Plane:
    knots = rng.uniform(-1, 1, (cells + 1, cells + 1))
    position = np.arange(size) / size * cells
    low = position.astype(int)
    fraction = position - low
    fraction = fraction * fraction * (3 - 2 * fraction)
    rows = knots[low] * (1 - fraction)[:, None] + knots[low + 1] * fraction[:, None]
    return np.asarray(rows[:, low] * (1 - fraction) + rows[:, low + 1] * fraction)


def _lighting(scene: Scene) -> Plane:
    y, x = _pixel_grid(scene.size)
    angle = 2 * math.pi * scene.light.angle
    aside = (x - 0.5) * math.cos(angle) + (y - 0.5) * math.sin(angle)
    return scene.light.gain * (1 + 2 * scene.light.tilt * aside)


def _pixel_grid(size: int) -> tuple[Plane, Plane]:
    """y and x of the middle of every pixel, in sides."""
    middles = (np.arange(size) + 0.5) / size
    y, x = np.meshgrid(middles, middles, indexing="ij")
    return y, x
