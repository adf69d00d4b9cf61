"""Training examples: `is_correct` agrees with the truth, and each is a function of its latents alone."""

import random
from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import random_scene_request
from editcritic.benchmarks.sceneedit.ground_truth import followed
from editcritic.benchmarks.sceneedit.render import coverage
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import (
    ACROSS,
    EDITOR_SCENES,
    SIZE,
    TEACHER_ERROR_RATES,
    TeacherLatents,
    training_example,
    training_examples,
)
from editcritic.reward.sample import TASK_TYPES

CAREFUL = TeacherLatents(1.0, 0.5, 0.5, tuple(k / ACROSS**2 for k in range(ACROSS**2)))


def drawn(kind, number=0):
    return random_scene_request(random.Random(f"{kind} {number}"), EDITOR_SCENES, kind)


def test_they_are_the_same_for_a_seed_and_others_for_another():
    first = [one.pictures for one in training_examples(18, seed=3)]
    for again, same in (
        (training_examples(18, seed=3), True),
        (training_examples(18, seed=4), False),
        (training_examples(18, seed=3, partition=1), False),
    ):
        for pictures, others in zip(first, (one.pictures for one in again), strict=True):
            assert all(np.array_equal(*pair) for pair in zip(pictures, others, strict=True)) == same


def test_right_is_what_the_truth_says():
    examples = list(training_examples(270))
    for one in examples:
        assert followed(one.request, one.before, one.after) == one.is_correct
    rights = [one.is_correct for one in examples]
    assert np.mean(rights) == pytest.approx(1 - np.mean([*TEACHER_ERROR_RATES.values()]), abs=0.05)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_with_care_it_is_done_and_without_it_is_not(kind):
    for number in range(10):
        scene, request = drawn(kind, number)
        assert training_example(scene, request, CAREFUL, 0.5).is_correct
    careless = [replace(CAREFUL, error_draw=0.0, error_type_draw=way) for way in (0.0, 0.99)]
    scenes = [drawn(kind, number) for number in range(10)]
    wrong = {
        training_example(scene, request, latents, 0.5).is_correct for latents in careless for scene, request in scenes
    }
    assert False in wrong


@pytest.mark.parametrize("kind", [kind for kind in TASK_TYPES if kind != "background_change"])
def test_what_is_left_alone_is_the_source_to_the_bit(kind):
    scene, request = drawn(kind)
    example = training_example(scene, request, CAREFUL, 0.5)
    source, target = example.pictures
    touched = np.zeros((SIZE, SIZE), bool)
    for obj in {*scene.objects} ^ {*example.after.objects}:
        touched |= coverage(obj, SIZE, 1) > 0
    assert touched.any()
    assert np.array_equal(source[~touched], target[~touched])
    assert not np.array_equal(source, target)
