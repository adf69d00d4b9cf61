"""Recipes of candidates in the search against a reward: mixtures of failure modes, of the perfect edit and of the
source, and filters on top. Each can be drawn at random, and mutated.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES, INJECTED_PROMPTS, failure_mode
from editcritic.benchmarks.sceneedit.render import Plane, render, render_float
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt
from editcritic.reward import Image

from .pixel_filters import FILTERS, write_text

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
    severity and seed. opacity: in (0, 1].
    """

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
