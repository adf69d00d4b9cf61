"""Structural changes of an edit, and edits that change colours only."""

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward.experts.matching.edge_structure import Pose, Pyramid

COFFEE = cv2.resize(skimage.data.coffee(), (384, 256), interpolation=cv2.INTER_AREA)
BASE = Pyramid(COFFEE)
CORNER = Pose(48, 48, 64, 64)
MIDDLE = Pose(192, 128, 64, 64)


def changes(edited):
    return Pyramid(edited).changes_from(BASE)


def noisy(picture):
    noise = np.random.default_rng(0).normal(0, 4, picture.shape)
    return np.clip(picture + noise, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    "edit",
    [lambda p: p.copy(), lambda p: p[..., ::-1].copy(), noisy, lambda p: (p * 0.8).astype(np.uint8)],
    ids=["a copy", "other colours", "noise", "darker"],
)
def test_what_leaves_the_edges_changes_nothing(edit):
    assert changes(edit(COFFEE)).around is None


def test_something_new_changes_its_place_and_no_other():
    edited = COFFEE.copy()
    edited[16:80, 16:80] = cv2.resize(skimage.data.brick(), (64, 64))[..., None]
    detected = changes(edited)
    assert detected.around is not None
    assert np.abs(np.array(detected.around) - (16, 16, 80, 80)).max() < 16
    assert detected.touch(CORNER)
    assert not detected.touch(MIDDLE)
    assert not detected.wide


def test_nothing_can_be_said_of_the_base_itself_or_of_another_shape():
    assert BASE.changes_from(BASE).everywhere
    assert changes(COFFEE[:, :200]).everywhere
    assert changes(COFFEE[:, :200]).touch(MIDDLE)


def test_another_photograph_is_another_structure():
    astronaut = cv2.resize(skimage.data.astronaut(), (384, 256), interpolation=cv2.INTER_AREA)
    assert changes(astronaut).wide


def test_a_picture_that_is_none_is_refused():
    with pytest.raises(ValueError, match="expected a uint8 image H x W x 3"):
        Pyramid(np.zeros((4, 4), np.uint8))
