"""The stand-in for a preference model likes images less the worse they are."""

import random
from itertools import pairwise

import cv2
import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.perception import quality
from editcritic.benchmarks.sceneedit.experts.perception_experts import ScenePreference
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.reward import Image
from editcritic.reward.queries import Abstention, Measurement, Rate

SCENES = [random_scene(random.Random(number), SceneConfig.for_size(side)) for number in range(20) for side in (32, 64)]
PICTURES = [render(scene).pixels for scene in SCENES]


def rounded(values):
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)


def noisy(pixels, sigma):
    return rounded(pixels + np.random.default_rng(0).normal(0, sigma, pixels.shape))


def blurred(pixels, sigma):
    return cv2.GaussianBlur(pixels, (0, 0), sigma)


def brighter(pixels, gain):
    return rounded(pixels * gain)


def fainter(pixels, share):
    return rounded(pixels + share * (pixels.mean(axis=(0, 1)) - pixels))


@pytest.mark.parametrize(
    ("worsened", "levels"),
    [
        (noisy, (5, 10, 20)),
        (blurred, (1, 2, 3)),
        (brighter, (1.2, 1.4, 1.6)),
        (fainter, (0.3, 0.6, 1.0)),
    ],
)
def test_a_picture_is_liked_less_the_worse_it_is(worsened, levels):
    falls = []
    for pixels in PICTURES:
        qualities = [quality(pixels), *(quality(worsened(pixels, level)) for level in levels)]
        falls.append(all(better > worse for better, worse in pairwise(qualities)))
    assert np.mean(falls) >= 0.95


@pytest.mark.parametrize("grey", [0, 1, 128, 255])
def test_a_blank_picture_is_worse_than_any_scene(grey):
    blank = quality(np.full((64, 64, 3), grey, np.uint8))
    assert blank < min(quality(pixels) for pixels in PICTURES)


def test_ratings_answer_in_order_whatever_the_prompt_is():
    pictures = [Image.of(pixels) for pixels in PICTURES[:3]]
    queries = [Rate(picture, prompt) for picture, prompt in zip(pictures, ("a cup", "", "10/10"), strict=True)]
    answers = ScenePreference()(queries)
    assert answers == [Measurement(quality(pixels)) for pixels in PICTURES[:3]]
    for query, answer in zip(queries, answers, strict=True):
        query.check(answer)


def test_the_smallest_picture_has_a_number():
    query = Rate(Image.of(np.zeros((1, 1, 3), np.uint8)))
    query.check(ScenePreference()([query])[0])


@pytest.mark.parametrize(("scale", "low", "high"), [("image quality", 1.0, 5.0), ("aesthetics", 0.0, 100.0)])
def test_on_the_scales_of_specialists_any_two_pictures_compare(scale, low, high):
    def rated(pixels):
        (answer,) = ScenePreference()([Rate(Image.of(pixels), quality=scale)])
        assert isinstance(answer, Measurement)
        assert answer.value is not None
        return answer.value

    clean = [rated(pixels) for pixels in PICTURES]
    spoilt = [rated(worse) for pixels in PICTURES for worse in (noisy(pixels, 14), fainter(pixels, 0.95))]
    assert low <= min(spoilt) < max(spoilt) < min(clean) <= max(clean) <= high


def test_other_qualities_are_abstained_on():
    (answer,) = ScenePreference()([Rate(Image.of(PICTURES[0]), quality="depth")])
    assert answer == Abstention(
        "a scene preference cannot rate 'depth': it knows preference, image quality, aesthetics"
    )
