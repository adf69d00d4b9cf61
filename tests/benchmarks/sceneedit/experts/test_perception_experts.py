"""Detector, segmenter, reader, embedding and raters against what was drawn."""

import random
from functools import cache
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.experts import perception_experts
from editcritic.benchmarks.sceneedit.experts.perception import quality
from editcritic.benchmarks.sceneedit.render import render, visibility_map
from editcritic.benchmarks.sceneedit.scene_generation import SMALL_OBJECT_SCENES, SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject, text_extent
from editcritic.benchmarks.sceneedit.vocabulary import COLOURS, MATERIALS, SHAPES
from editcritic.reward import Box, Expert, Image
from editcritic.reward.queries import Abstention, Detect, Measurement, Rate, ReadText
from editcritic.reward.queries.answers import Region
from editcritic.reward.queries.kinds import Embed, EmbedText, Segment


def answer(expert: Expert, query: Any) -> Any:
    (outcome,) = expert([query])
    if not isinstance(outcome, Abstention):
        query.check(outcome)
    return outcome


# -- detector ---------------------------------------------------------------------------------------------------------


def boxes(image: Image, *phrases: str) -> tuple[Box, ...]:
    return answer(perception_experts.SceneDetector(), Detect(image, phrases)).boxes


def strongest(image: Image, phrase: str, place: Box | None = None) -> float:
    return max((box.score for box in boxes(image, phrase) if place is None or box.iou(place) > 0.7), default=0.0)


@pytest.mark.parametrize(
    ("config", "side", "share"),
    [
        (SceneConfig.for_size(64), 64, 0.995),
        (SceneConfig.for_size(32), 32, 0.97),
        (SceneConfig.for_size(128), 128, 0.99),
        (SMALL_OBJECT_SCENES, 128, 0.97),
        (SceneConfig.for_size(64), 512, 0.99),
    ],
    ids=["64", "32", "128", "small", "enlarged"],
)
def test_names_find_their_things_old_names_too_and_no_others(config, side, share):
    own, old, other = [], [], []
    for seed in range(12):
        rng = random.Random(seed)
        scene = random_scene(rng, config)
        image = render(scene).resized(side, side)
        for obj in scene.objects:
            own.append(strongest(image, obj.name, obj.box) > 0.5)
            colour = rng.choice([one for one in COLOURS if one != obj.colour])
            material = rng.choice([one for one in MATERIALS if one != obj.material])
            old.append(strongest(image, f"{material} {colour} {obj.shape}", obj.box) > 0.4)
        shapes = {obj.shape for obj in scene.objects}
        other += [
            strongest(image, f"{colour} {shape}") <= 0.2
            for shape in (*SHAPES, "sign")
            if shape not in shapes
            for colour in {obj.colour for obj in scene.objects}
        ]
    assert all(sum(checked) >= share * len(checked) for checked in (own, old, other))


def test_shape_weighs_more_than_colour_and_colour_more_than_material():
    image = render(Scene((SceneObject(1, "star", "blue", 0.5, 0.5, 0.3, 0.3),), Backdrop("sky")))
    names = ("star", "blue star", "red star", "wood red star", "blue heart")
    bare, right, colour, both, shape = (strongest(image, name) for name in names)
    assert 0.75 <= right <= 0.97
    assert 0.5 <= colour <= 0.65
    assert shape < 0.2 < 0.4 < both < colour
    assert bare == pytest.approx(right, abs=0.05)


def test_all_things_are_answered_for_each_phrase_of_a_prompt():
    objects = (SceneObject(1, "circle", "red", 0.3, 0.5, 0.3, 0.3), SceneObject(2, "cross", "teal", 0.7, 0.5, 0.3, 0.3))
    found = boxes(render(Scene(objects, Backdrop("snow"))), "new red circle", "teal cross")
    assert [(box.label, box.score > 0.5) for box in found] == [
        *(("new red circle", True), ("new red circle", False), ("teal cross", True), ("teal cross", False)),
    ]


def test_text_is_where_letters_are():
    width, height = text_extent("STOP", 1 / 64)
    text = SceneObject(1, "text", "", 0.5, 0.5, width, height, text="STOP")
    (box,) = boxes(render(Scene((text,), Backdrop("sand"))), "text")
    assert box.label == "text"
    assert box.iou(text.box) > 0.6


@pytest.mark.parametrize("phrase", ["dog", "red", "big red circle", "red blue circle", ""])
def test_the_detector_abstains_on_what_is_no_name(phrase):
    outcome = answer(perception_experts.SceneDetector(), Detect(render(Scene((), Backdrop("sky"))), (phrase,)))
    assert isinstance(outcome, Abstention)
    assert "circle" in outcome.reason or "ask for one" in outcome.reason


# -- segmenter --------------------------------------------------------------------------------------------------------

CROSSES = (
    SceneObject(1, "circle", "red", 0.25, 0.3, 0.3, 0.3),
    SceneObject(2, "cross", "teal", 0.75, 0.3, 0.25, 0.25),
    SceneObject(3, "cross", "teal", 0.5, 0.75, 0.25, 0.25),
)
SCENE = Scene(CROSSES, Backdrop("water"))


def segmented(command: str, side: int = 64) -> Any:
    return answer(perception_experts.SceneSegmenter(), Segment(render(SCENE).resized(side, side), command))


@pytest.mark.parametrize(
    ("command", "numbers", "least"),
    [
        ("red circle", (1,), 0.9),
        ("Please segment the red circle.", (1,), 0.9),
        ("The circle", (1,), 0.9),
        ("teal crosses", (2, 3), 0.85),
    ],
)
def test_a_command_gets_the_pixels_of_its_things(command, numbers, least):
    drawn = np.max([visibility_map(SCENE, number) for number in numbers], axis=0) > 0.5
    mask = segmented(command)
    assert (mask.values & drawn).sum() > least * (mask.values | drawn).sum()
    assert mask.score > 0.7
    large = segmented(command, 200).values
    assert large.shape == (200, 200)
    assert large.mean() == pytest.approx(drawn.mean(), rel=0.15)


def test_nothing_that_fits_is_an_empty_mask_with_the_best_match_for_score():
    mask = segmented("segment the purple heart")
    assert not mask.values.any()
    assert mask.score < 0.3


def test_several_things_are_asked_for_together_and_so_is_what_lies_behind():
    both = segmented("Please segment the red circle and the teal cross").values
    assert np.array_equal(both, segmented("red circle").values | segmented("teal cross").values)
    assert np.array_equal(segmented("Please segment the background.").values, ~both)


@pytest.mark.parametrize("command", ["segment it", "the dog", "the red circle and the teal cross"])
def test_the_segmenter_abstains_on_commands_without_one_name(command):
    assert isinstance(segmented(command), Abstention)


# -- reader -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [64, 128, 512])
def test_a_line_stands_where_its_ink_is(side):
    width, height = text_extent("OPEN", 1 / 64)
    sign = SceneObject(1, "sign", "yellow", 47 / 128, 81 / 128, width + 4 / 64, height + 4 / 64, text="OPEN")
    picture = render(Scene((sign,), Backdrop("water", 3))).resized(side, side)
    (line,) = answer(perception_experts.SceneReader(), ReadText(picture)).lines
    assert (line.text, 0.9 < line.box.score < 1) == ("OPEN", True)
    assert line.box.iou(Box(sign.x, sign.y, width, height)) > 0.85
    assert sign.box.contains(line.box)
    assert answer(perception_experts.SceneReader(), ReadText(render(Scene((), Backdrop("night", 3))))).lines == ()


# -- embedding --------------------------------------------------------------------------------------------------------


def test_a_picture_is_nearest_to_its_own_caption():
    captioned = [case.sample for case in cases(24, small_share=0.0)]
    bag = perception_experts.SceneJointEmbedding()
    captions = [answer(bag, EmbedText(sample.metadata["source_caption"])) for sample in captioned]
    right = 0
    for place, sample in enumerate(captioned):
        seen = answer(bag, Embed(sample.base if sample.turn == 1 else sample.source, (Region("cls"),)))
        right += max(range(len(captions)), key=lambda one: seen.cosine(captions[one], 0)) == place
    assert right >= len(captioned) - 1


@pytest.mark.parametrize("query", [EmbedText("a dog on a sofa"), Embed(render(SCENE), (Region("patches"),))])
def test_texts_that_name_nothing_and_patches_have_no_vector(query):
    assert isinstance(answer(perception_experts.SceneJointEmbedding(), query), Abstention)


# -- rater of edits ---------------------------------------------------------------------------------------------------


@cache
def single_edits():
    return [case for case in cases(40) if case.sample.task is not None and len(case.sample.sources) == 1]


def rated(sample, image, quality="instruction following", **changes) -> Any:
    prompt, sources = changes.get("prompt", sample.instruction), changes.get("sources", sample.sources)
    return answer(perception_experts.SceneEditPreference(), Rate(image, prompt, quality, sources))


def test_an_honest_edit_is_rated_above_an_untouched_copy():
    honest = [case.sample for case in single_edits() if not case.mode]
    both = [(rated(one, one.edited), rated(one, one.source)) for one in honest]
    better = [edit.value > copy.value for edit, copy in both if isinstance(edit, Measurement)]
    assert len(better) > 3
    assert sum(better) / len(better) > 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": ()}, "beside its sources"),
        ({"prompt": "colourless green ideas"}, ""),
        ({"quality": "depth"}, "are not rated by 'depth'"),
    ],
)
def test_the_rater_of_edits_abstains_on_what_it_cannot_know(changes, message):
    one = single_edits()[0].sample
    outcome = rated(one, one.edited, **changes)
    assert isinstance(outcome, Abstention)
    assert message in outcome.reason


# -- rater of pictures ------------------------------------------------------------------------------------------------

PICTURES = [
    render(random_scene(random.Random(number), SceneConfig.for_size(side))).pixels
    for number in range(20)
    for side in (32, 64)
]


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
    [(noisy, (5, 10, 20)), (blurred, (1, 2, 3)), (brighter, (1.2, 1.4, 1.6)), (fainter, (0.3, 0.6, 1.0))],
)
def test_a_picture_is_liked_less_the_worse_it_is(worsened, levels):
    falls = []
    for pixels in PICTURES:
        qualities = [quality(pixels), *(quality(worsened(pixels, level)) for level in levels)]
        falls.append(all(better > worse for better, worse in pairwise(qualities)))
    assert np.mean(falls) >= 0.95


def test_ratings_are_in_order_whatever_the_prompt_and_the_size():
    pictures = [*PICTURES[:2], np.zeros((1, 1, 3), np.uint8)]
    queries = [Rate(Image.of(one), prompt) for one, prompt in zip(pictures, ("a cup", "", "10/10"), strict=True)]
    assert perception_experts.ScenePreference()(queries) == [Measurement(quality(pixels)) for pixels in pictures]


@pytest.mark.parametrize(("scale", "low", "high"), [("image quality", 1.0, 5.0), ("aesthetics", 0.0, 100.0)])
def test_on_the_scales_of_specialists_any_two_pictures_compare(scale, low, high):
    def value(pixels):
        return answer(perception_experts.ScenePreference(), Rate(Image.of(pixels), quality=scale)).value

    clean = [value(pixels) for pixels in PICTURES]
    spoilt = [value(worse) for pixels in PICTURES for worse in (noisy(pixels, 14), fainter(pixels, 0.95))]
    assert low <= min(spoilt) < max(spoilt) < min(clean) <= max(clean) <= high


def test_other_qualities_are_abstained_on():
    assert answer(perception_experts.ScenePreference(), Rate(Image.of(PICTURES[0]), quality="depth")) == Abstention(
        "a scene preference cannot rate 'depth': it knows preference, image quality, aesthetics"
    )


def test_the_preference_for_an_edit_is_the_mean_of_both_qualities():
    one = single_edits()[0].sample
    names = ("instruction following", "visual quality", "preference")
    following, looks, both = (rated(one, one.edited, name).value for name in names)
    assert both == pytest.approx((following + looks) / 2)
    assert 0 <= both <= 4


@pytest.mark.parametrize("grey", [0, 1, 128, 255])
def test_a_blank_picture_is_worse_than_any_scene(grey):
    assert quality(np.full((64, 64, 3), grey, np.uint8)) < min(quality(pixels) for pixels in PICTURES)
