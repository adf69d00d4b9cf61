"""The search against a reward: recipes, filters, and that it finds what a weak reward pays."""

from __future__ import annotations

import random

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import random_scene_request
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt
from studies.any_edit.attack_recipes import (
    FILTERS,
    PERFECT,
    SOURCE,
    Darkroom,
    Layer,
    Recipe,
    mutated,
    random_recipe,
    write_text,
)
from studies.any_edit.attack_search import AttackPlan, draw_finds, search

CONFIG = SceneConfig.for_size(32)


def darkroom(seed=0):
    before, request = random_scene_request(random.Random(seed), CONFIG, "color_alter")
    return Darkroom(ScenePrompt(request, before), CONFIG)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("amount", [0.0, 0.3, 1.0])
def test_filters_keep_the_size_and_their_input(name, amount):
    pixels = render(darkroom().prompt.before).pixels.astype(np.float64)
    before = pixels.copy()
    filtered = FILTERS[name](pixels, amount, random.Random(1))
    assert filtered.shape == pixels.shape
    assert np.isfinite(filtered).all()
    assert (pixels == before).all()


def test_text_of_any_length_fits():
    pixels = np.zeros((32, 32, 3))
    for seed in range(20):
        assert write_text(pixels, "A VERY LONG SENTENCE" if seed % 2 else "I", 1.0, random.Random(seed)).shape == (
            32,
            32,
            3,
        )
    assert not pixels.any()


def test_recipes_are_repeatable_and_mutations_stay_valid():
    room, rng = darkroom(), random.Random(2)
    recipe = random_recipe(rng)
    for _ in range(60):
        recipe = mutated(rng, recipe)
        assert 1 <= len(recipe.layers) <= 3
        assert len(recipe.filters) <= 3
        assert recipe.layers[0].opacity == 1.0
        assert recipe.text
        assert room.develop(recipe) == room.develop(recipe)


def test_layers_lie_over_each_other():
    room = darkroom()
    source, perfect = (room.develop(Recipe((Layer(name, 0.0, 0),))) for name in (SOURCE, PERFECT))
    assert source == render(room.prompt.before)
    half = room.develop(Recipe((Layer(SOURCE, 0.0, 0), Layer(PERFECT, 0.0, 0, 1.0, "left"))))
    assert (half.pixels[:, 16:] == source.pixels[:, 16:]).all()
    assert (half.pixels[:, :16] == perfect.pixels[:, :16]).all()


@pytest.mark.slow
def test_a_search_finds_what_a_reward_without_preservation_pays(tmp_path):
    result = search("edival-if?dense=true", scene_experts(), AttackPlan(2, 30, 3), seeds=[3])
    assert result.evaluations == 60
    assert result.find_count >= result.median_find_count
    assert result.find_count > 0
    assert all(not candidate.is_good for _, candidate in result.best())
    draw_finds(tmp_path / "finds.png", result)
    assert (tmp_path / "finds.png").stat().st_size > 1000
    again = search("edival-if?dense=true", scene_experts(), AttackPlan(1, 30, 3), seeds=[3])
    assert [one.recipe for one in again.attacks[0].candidates] == [one.recipe for one in result.attacks[0].candidates]


def test_every_seed_is_searched_and_counted():
    both = search("edival-if?dense=true", scene_experts(), AttackPlan(2, 10, 2, size=32), seeds=[3, 4])
    assert both.seeds == [3, 4]
    assert both.evaluations == 2 * 2 * 10
    assert both.find_count == both.of_seed(3).find_count + both.of_seed(4).find_count
    assert both.highest_margin == max(both.of_seed(3).highest_margin, both.of_seed(4).highest_margin)
    (other,) = search("edival-if?dense=true", scene_experts(), AttackPlan(1, 10, 2, size=32), seeds=[4]).attacks
    assert both.of_seed(4).attacks[0] == other
