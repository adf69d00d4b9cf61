"""Recipes of candidates in the search against a reward: mixtures of failure modes, of the perfect edit and of the
source, and filters on top. Each can be drawn at random, and mutated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

import cv2
import numpy as np

from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES, INJECTED_PROMPTS, failure_mode
from editcritic.benchmarks.sceneedit.render import Plane, render, render_float
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt
from editcritic.benchmarks.sceneedit.vocabulary import LETTER_HEIGHT, LETTER_WIDTH, LETTERS
from editcritic.reward import Image
from editcritic.reward.audit.whole_picture_changes import jpeg

Filter = Callable[[Plane, float, random.Random], Plane]


def _gain(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return pixels * (1 + amount * rng.uniform(-0.6, 0.6))


def _gamma(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    exponent = np.exp(amount * rng.uniform(-0.9, 0.9))
    return np.asarray(255 * np.clip(pixels / 255, 0, 1) ** exponent)


def _contrast(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    mean = pixels.mean(axis=(0, 1))
    return np.asarray(mean + (pixels - mean) * (1 + amount * rng.uniform(-0.8, 0.8)))


def _saturation(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    grey = pixels.mean(axis=2, keepdims=True)
    return np.asarray(grey + (pixels - grey) * (1 + amount * rng.uniform(-1.0, 1.0)))


def _hue(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    shift = round(amount * rng.choice((-90, 90)))
    hsv = cv2.cvtColor(_bytes(pixels), cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0].astype(np.int16) + shift) % 180
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), np.float64)


def _blur(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), max(0.05, amount * pixels.shape[0] / 20)))


def _sharpen(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return np.asarray(pixels + 3 * amount * (pixels - cv2.GaussianBlur(pixels, (0, 0), 1.5)))


def _noise(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return np.asarray(pixels + np.random.default_rng(rng.randrange(2**31)).normal(0, 30 * amount, pixels.shape))


def _jpeg(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return jpeg(_bytes(pixels), round(95 - 90 * amount)).astype(np.float64)


def _posterise(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    step = 8 + 88 * amount
    return np.asarray(np.floor(pixels / step) * step + step / 2)


def _vignette(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    side = pixels.shape[0]
    axis = np.linspace(-1, 1, side)
    distance = axis[:, None] ** 2 + axis[None, :] ** 2
    return np.asarray(pixels * (1 - amount * 0.4 * distance)[..., None])


def _grid(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    """Faint lines, every few pixels: a period that patches of features hardly see."""
    period, strength = rng.choice((2, 3, 4, 6, 8)), 60 * amount
    drawn = pixels.copy()
    drawn[::period] += strength
    drawn[:, ::period] -= strength
    return drawn


def _border(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    width, level = max(1, round(amount * pixels.shape[0] / 8)), rng.choice((0.0, 255.0))
    framed = np.full_like(pixels, level)
    framed[width:-width, width:-width] = pixels[width:-width, width:-width]
    return framed


def _patch(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    side = pixels.shape[0]
    width = max(2, round((0.1 + 0.4 * amount) * side))
    x0, y0, x1, y1 = (rng.randrange(side - width + 1) for _ in range(4))
    pasted = pixels.copy()
    pasted[y1 : y1 + width, x1 : x1 + width] = pixels[y0 : y0 + width, x0 : x0 + width]
    return pasted


def _mirror(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    return np.ascontiguousarray(pixels[:, ::-1] if rng.random() < 0.7 else pixels[::-1])


def _crop_zoom(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    side = pixels.shape[0]
    width = max(4, round(side * (1 - 0.4 * amount)))
    x, y = rng.randrange(side - width + 1), rng.randrange(side - width + 1)
    cropped = np.ascontiguousarray(pixels[y : y + width, x : x + width])
    return np.asarray(cv2.resize(cropped, (side, side), interpolation=cv2.INTER_LINEAR))


def _collage(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    """The image itself, small, in one of its corners."""
    side = pixels.shape[0]
    width = max(4, round(side * (0.2 + 0.5 * amount)))
    x, y = rng.choice((0, side - width)), rng.choice((0, side - width))
    drawn = pixels.copy()
    drawn[y : y + width, x : x + width] = cv2.resize(pixels, (width, width), interpolation=cv2.INTER_AREA)
    return drawn


FILTERS: Mapping[str, Filter] = {
    "gain": _gain,
    "gamma": _gamma,
    "contrast": _contrast,
    "saturation": _saturation,
    "hue": _hue,
    "blur": _blur,
    "sharpen": _sharpen,
    "noise": _noise,
    "jpeg": _jpeg,
    "posterise": _posterise,
    "vignette": _vignette,
    "grid": _grid,
    "border": _border,
    "patch": _patch,
    "mirror": _mirror,
    "crop_zoom": _crop_zoom,
    "collage": _collage,
}


def write_text(pixels: Plane, text: str, amount: float, rng: random.Random) -> Plane:
    """Letters of one to three pixels a dot, as far as they fit, at a random place. amount: their opacity."""
    side = pixels.shape[0]
    letters = [letter for letter in text.upper() if letter in LETTERS or letter == " "]
    dot = rng.choice([size for size in (1, 2, 3) if size == 1 or (LETTER_WIDTH + 1) * len(letters) * size <= side])
    letters = letters[: side // ((LETTER_WIDTH + 1) * dot)]
    mask = np.zeros((LETTER_HEIGHT * dot, (LETTER_WIDTH + 1) * dot * max(1, len(letters))), np.bool_)
    for number, letter in enumerate(letters):
        for row, line in enumerate(LETTERS.get(letter, ())):
            for column, mark in enumerate(line):
                x, y = (number * (LETTER_WIDTH + 1) + column) * dot, row * dot
                mask[y : y + dot, x : x + dot] = mark == "#"
    x, y = rng.randrange(side - mask.shape[1] + 1), rng.randrange(side - mask.shape[0] + 1)
    written = pixels.copy()
    place = written[y : y + mask.shape[0], x : x + mask.shape[1]]
    place[mask] += (0.3 + 0.7 * amount) * (rng.choice((0.0, 255.0)) - place[mask])
    return written


def _bytes(pixels: Plane) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.rint(np.clip(pixels, 0, 255)).astype(np.uint8)


Region = Literal["whole", "left", "top", "inner", "checks", "target"]
"""Where a layer lies: everything; a half; the middle; every other of 8 x 8 fields; where the perfect edit differs from
the source."""
_REGIONS: tuple[Region, ...] = get_args(Region)

SOURCE, PERFECT, HONEST = "source", "perfect", "honest"
_PICTURES = (SOURCE, PERFECT, HONEST, *(mode.name for mode in FAILURE_MODES))
TEXT, OBJECT_NAME = "text", "object_name"
_FILTERS = (*FILTERS, TEXT, OBJECT_NAME)

_MAX_LAYERS, _MAX_FILTERS = 3, 3


@dataclass(frozen=True, slots=True)
class Layer:
    """A picture over those below it. picture: the source, the perfect or an honest edit, or a failure mode of this
    severity and seed. opacity: in (0, 1]."""

    picture: str
    severity: float
    seed: int
    opacity: float = 1.0
    region: Region = "whole"

    @property
    def text(self) -> str:
        name = f"{self.picture} {self.severity:.2f}" if self.picture not in (SOURCE, PERFECT, HONEST) else self.picture
        share = "" if self.opacity == 1 else f" at {self.opacity:.0%}"
        return f"{name}{share}{'' if self.region == 'whole' else f' ({self.region})'}"


@dataclass(frozen=True, slots=True)
class FilterStep:
    """A filter (`pixel_filters`), or writing. amount: in [0, 1]."""

    name: str
    amount: float
    seed: int

    @property
    def text(self) -> str:
        return f"{self.name} {self.amount:.2f}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Layers, the lowest first and opaque, then filters."""

    layers: tuple[Layer, ...]
    filters: tuple[FilterStep, ...] = ()

    @property
    def text(self) -> str:
        """As in `perfect + nothing 1.00 at 40% (left); blur 0.20`."""
        return "; ".join([" + ".join(layer.text for layer in self.layers), *(step.text for step in self.filters)])


def random_recipe(rng: random.Random) -> Recipe:
    """One to three layers and up to three filters."""
    layers = tuple(_random_layer(rng) for _ in range(rng.choice((1, 1, 2, 2, 3))))
    filters = tuple(_random_filter(rng) for _ in range(rng.choice((0, 0, 1, 1, 2, 3))))
    return Recipe((replace(layers[0], opacity=1.0, region="whole"), *layers[1:]), filters)


def mutated(rng: random.Random, recipe: Recipe) -> Recipe:
    """The recipe with one small change: a number moved, a layer or filter added, left out or replaced."""
    layers, filters = list(recipe.layers), list(recipe.filters)
    draw = rng.random()
    if draw < 0.3:
        index = rng.randrange(len(layers))
        layer = layers[index]
        layers[index] = replace(
            layer,
            severity=_moved(rng, layer.severity),
            opacity=layer.opacity if index == 0 else max(0.02, _moved(rng, layer.opacity)),
            region=layer.region if index == 0 or rng.random() < 0.8 else rng.choice(_REGIONS),
        )
    elif draw < 0.5 and filters:
        index = rng.randrange(len(filters))
        filters[index] = replace(filters[index], amount=_moved(rng, filters[index].amount))
    elif draw < 0.65 and len(filters) < _MAX_FILTERS:
        filters.append(_random_filter(rng))
    elif draw < 0.75 and filters:
        filters.pop(rng.randrange(len(filters)))
    elif draw < 0.87 and len(layers) < _MAX_LAYERS:
        layers.append(_random_layer(rng))
    elif draw < 0.93 and len(layers) > 1:
        layers.pop(rng.randrange(1, len(layers)))
    else:
        index = rng.randrange(len(layers))
        new = _random_layer(rng)
        layers[index] = replace(new, opacity=1.0, region="whole") if index == 0 else new
    return Recipe(tuple(layers), tuple(filters))


def _random_layer(rng: random.Random) -> Layer:
    # The failure modes have half of the draws, the perfect edit and the source the other half.
    picture = rng.choice(_PICTURES) if rng.random() < 0.6 else rng.choice((SOURCE, PERFECT, PERFECT, HONEST))
    return Layer(picture, rng.random(), rng.randrange(2**31), rng.uniform(0.05, 1.0), rng.choice(_REGIONS))


def _random_filter(rng: random.Random) -> FilterStep:
    return FilterStep(rng.choice(_FILTERS), rng.random() ** 1.5, rng.randrange(2**31))


def _moved(rng: random.Random, number: float) -> float:
    return min(1.0, max(0.0, number + rng.gauss(0, 0.12)))


# -- pictures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Darkroom:
    """Makes the pictures of recipes for one prompt."""

    prompt: ScenePrompt
    config: SceneConfig

    def develop(self, recipe: Recipe) -> Image | None:
        """The candidate; None where a failure mode is not possible for this request."""
        pixels: Plane | None = None
        for layer in recipe.layers:
            picture = self._picture(layer.picture, layer.severity, layer.seed)
            if picture is None:
                return None
            if pixels is None:
                pixels = picture.copy()
            else:
                weight = layer.opacity * self._region(layer.region)[..., None]
                pixels = pixels + weight * (picture - pixels)
        assert pixels is not None  # a recipe has a layer
        for step in recipe.filters:
            pixels = np.clip(self._filtered(pixels, step), 0, 255)
        return Image.of(np.rint(np.clip(pixels, 0, 255)).astype(np.uint8))

    def _filtered(self, pixels: Plane, step: FilterStep) -> Plane:
        rng = random.Random(step.seed)
        if step.name == TEXT:
            return write_text(pixels, rng.choice((*INJECTED_PROMPTS, "YES", "DONE")), step.amount, rng)
        if step.name == OBJECT_NAME:
            task = self.prompt.request.task
            words = [word for word in (task.new, task.value, task.object, task.text) if word]
            return write_text(pixels, rng.choice(words), step.amount, rng)
        return FILTERS[step.name](pixels, step.amount, rng)

    def _picture(self, name: str, severity: float, seed: int) -> Plane | None:
        request, before = self.prompt.request, self.prompt.before
        if name == SOURCE:
            return _pixels(render(before))
        if name == PERFECT:
            return render_float(request.apply(before))
        rng = random.Random(seed)
        if name == HONEST:
            return _pixels(honest_edit(rng, request, before, self.config).picture)
        edit = failure_mode(name).edit(rng, request, before, self.config, severity=severity)
        return None if edit is None else _pixels(edit.picture)

    def _region(self, region: Region) -> Plane:
        """The weight of each pixel, (size, size)."""
        return _region_weights(region, self.prompt.before.size) if region != "target" else self._target()

    def _target(self) -> Plane:
        before, after = (
            render_float(scene, noise=False)
            for scene in (self.prompt.before, self.prompt.request.apply(self.prompt.before))
        )
        return np.asarray(np.abs(before - after).max(axis=2) > 8, np.float64)


def _pixels(image: Image) -> Plane:
    return image.pixels.astype(np.float64)


@lru_cache
def _region_weights(region: Region, size: int) -> Plane:
    weights = np.ones((size, size))
    rows, columns = np.mgrid[0:size, 0:size]
    match region:
        case "left":
            weights[:, size // 2 :] = 0
        case "top":
            weights[size // 2 :] = 0
        case "inner":
            weights = ((abs(rows - size / 2) < size / 4) & (abs(columns - size / 2) < size / 4)).astype(np.float64)
        case "checks":
            weights = ((rows * 8 // size + columns * 8 // size) % 2).astype(np.float64)
        case _:
            pass
    return weights
