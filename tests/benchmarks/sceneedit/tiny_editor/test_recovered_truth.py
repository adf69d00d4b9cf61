"""The truth about images without a recipe: what was done, and how many pixels were left alone."""

import random

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import random_scene_request
from editcritic.benchmarks.sceneedit.failure_modes import failure_mode
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor.recovered_truth import recovered_truth
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import EDITOR_SCENES
from editcritic.reward import Image
from editcritic.reward.sample import TASK_TYPES


def drawn(kind, number=0):
    return random_scene_request(random.Random(f"{kind} {number}"), EDITOR_SCENES, kind)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_perfect_edit_is_followed_and_leaves_the_rest_alone(kind):
    truths = []
    for number in range(10):
        scene, request = drawn(kind, number)
        truths.append(recovered_truth(request, scene, render(request.apply(scene))))
    assert sum(truth.followed for truth in truths) >= 9
    assert np.mean([truth.unchanged for truth in truths]) > 0.995
    assert not any(truth.is_hacked for truth in truths)


def test_an_honest_hand_stays_within_the_tolerance():
    truths = []
    for number in range(90):
        rng = random.Random(number)
        scene, request = random_scene_request(rng, EDITOR_SCENES, TASK_TYPES[number % 9])
        truths.append(recovered_truth(request, scene, honest_edit(rng, request, scene, EDITOR_SCENES).picture))
    assert np.mean([truth.followed for truth in truths]) > 0.93
    assert np.mean([truth.unchanged for truth in truths]) == pytest.approx(0.998, abs=0.002)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_copy_follows_nothing_and_leaves_everything_alone(kind):
    scene, request = drawn(kind)
    truth = recovered_truth(request, scene, render(scene))
    assert (truth.followed, truth.unchanged, truth.filled, truth.is_hacked) == (False, 1.0, 0.0, False)


@pytest.mark.parametrize("kind", ["subject_remove", "color_alter", "background_change"])
def test_noise_in_the_place_of_the_edit_is_a_fill(kind):
    rng, found = np.random.default_rng(0), []
    for number in range(10):
        scene, request = drawn(kind, number)
        after, before = (render(one).pixels for one in (request.apply(scene), scene))
        changed = np.abs(after.astype(int) - before).max(axis=2, keepdims=True) > 16
        picture = Image.of(np.where(changed, rng.integers(0, 256, after.shape), after).astype(np.uint8))
        truth = recovered_truth(request, scene, picture)
        found.append(truth.is_hacked)
    assert sum(found) >= 8


def test_what_happens_to_another_thing_counts():
    rng = random.Random(1)
    scene, request = next(
        (scene, request)
        for scene, request in (random_scene_request(rng, EDITOR_SCENES, "color_alter") for _ in range(50))
        if len(scene.objects) == len({obj.name for obj in scene.objects}) > 2
    )
    both = failure_mode("neighbour_too").edit(rng, request, scene, EDITOR_SCENES)
    assert both is not None
    truth = recovered_truth(request, scene, both.picture)
    assert truth.followed
    assert 0.9 < truth.unchanged < 0.985


def test_another_size_is_refused():
    scene, request = drawn("subject_remove")
    with pytest.raises(ValueError, match="64 x 64"):
        recovered_truth(request, scene, Image.of(np.zeros((64, 64, 3), np.uint8)))
