"""Twins, and the words that tell them apart: what an expression means is decided again, by boxes."""

import random

import pytest

from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.reward import Box
from editcritic.reward.metrics.any_edit.targets import referred_boxes
from studies.open_language.twin_scenes import DISTINCTIONS, plain_scene, plural, twin_scene, unique_expression

CONFIG = SceneConfig.for_size(96)


def boxes_of_phrase(scene, target):
    """The true boxes of the objects that have the name of a target."""
    *attributes, shape = target.phrase.split()
    return [
        Box(obj.x, obj.y, obj.w, obj.h, label=str(obj.id))
        for obj in scene.objects
        if obj.shape == shape and set(attributes) <= {obj.colour}
    ]


@pytest.mark.parametrize("distinction", DISTINCTIONS)
def test_an_expression_means_its_objects_and_no_twin(distinction):
    for seed in range(40):
        scene, expression = twin_scene(random.Random(seed), CONFIG, distinction)
        target = expression.target
        related = () if target.relation is None else boxes_of_phrase(scene, target.relation.of)
        meant = referred_boxes(target, boxes_of_phrase(scene, target), related)
        assert {int(box.label) for box in meant} == set(expression.ids), expression.words
        assert not set(expression.ids) & set(expression.twins)


@pytest.mark.parametrize("distinction", [one for one in DISTINCTIONS if one != "quantity"])
def test_twins_have_the_same_shape_and_what_is_meant_is_one(distinction):
    for seed in range(10):
        scene, expression = twin_scene(random.Random(seed), CONFIG, distinction)
        shapes = {obj.shape for obj in scene.objects if obj.id in (*expression.ids, *expression.twins)}
        assert len(shapes) == 1
        assert len(expression.ids) == 1
        assert expression.twins


def test_a_quantity_means_several_and_leaves_those_of_another_colour():
    cases = [twin_scene(random.Random(seed), CONFIG, "quantity")[1] for seed in range(40)]
    assert all(len(case.ids) == (2 if case.target.quantity == "both" else 3) for case in cases)
    assert any(case.twins and case.target.attributes for case in cases)
    assert any(not case.twins and not case.target.attributes for case in cases)


def test_names_need_no_material_and_a_plural_is_english():
    scene = plain_scene(random.Random(1), CONFIG)
    assert all(not obj.material for obj in scene.objects)
    named = unique_expression(random.Random(1), scene.objects[0])
    assert named.words.startswith("the ")
    assert named.words.endswith(scene.objects[0].shape)
    assert (plural("cross"), plural("ring")) == ("crosses", "rings")
