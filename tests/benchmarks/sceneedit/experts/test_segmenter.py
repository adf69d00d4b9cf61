"""SceneSegmenter against where objects were drawn."""

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.perception_experts import SceneSegmenter
from editcritic.benchmarks.sceneedit.render import render, visibility_map
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.reward.queries import Abstention
from editcritic.reward.queries.kinds import Mask, Segment

SCENE = Scene(
    (
        SceneObject(1, "circle", "red", 0.25, 0.3, 0.3, 0.3),
        SceneObject(2, "cross", "teal", 0.75, 0.3, 0.25, 0.25),
        SceneObject(3, "cross", "teal", 0.5, 0.75, 0.25, 0.25),
    ),
    Backdrop("water"),
)
SEGMENTER = SceneSegmenter()


def mask(command: str, side: int = 64) -> Mask:
    query = Segment(render(SCENE).resized(side, side), command)
    (answer,) = SEGMENTER([query])
    query.check(answer)
    assert isinstance(answer, Mask)
    return answer


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    return float((one & other).sum() / (one | other).sum())


@pytest.mark.parametrize("command", ["red circle", "Please segment the red circle.", "The circle"])
def test_a_command_gets_the_pixels_of_its_thing(command):
    assert overlap(mask(command).values, visibility_map(SCENE, 1) > 0.5) > 0.9
    assert mask(command).score > 0.7


def test_equal_copies_are_all_meant():
    assert overlap(mask("teal crosses").values, (visibility_map(SCENE, 2) + visibility_map(SCENE, 3)) > 0.5) > 0.85


def test_masks_have_the_size_of_the_picture():
    large = mask("red circle", 200).values
    assert large.shape == (200, 200)
    assert large.mean() == pytest.approx(float((visibility_map(SCENE, 1) > 0.5).mean()), rel=0.15)


def test_nothing_that_fits_is_an_empty_mask_with_the_best_match_for_score():
    answer = mask("segment the purple heart")
    assert not answer.values.any()
    assert answer.score < 0.3


def test_several_things_are_asked_for_together_and_so_is_what_lies_behind():
    circle, crosses = mask("red circle").values, mask("teal cross").values
    both = mask("Please segment the red circle and the teal cross").values
    assert np.array_equal(both, circle | crosses)
    behind = mask("Please segment the background.").values
    assert np.array_equal(behind, ~both)


@pytest.mark.parametrize("command", ["segment it", "the dog", "the red circle and the teal cross"])
def test_abstains_on_commands_without_one_name(command):
    (outcome,) = SEGMENTER([Segment(render(SCENE), command)])
    assert isinstance(outcome, Abstention)
