"""Edits of the whole picture: each look and each flaw, on pixels."""

import random
from typing import Any

import cv2
import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.reward.metrics.any_edit.plans import plan_problems
from editcritic.reward.planners.rule_planner import RulePlanner
from studies.open_language.whole_picture import (
    LOOKS,
    WHOLE_PICTURE_FLAWS,
    flawed_whole_picture_edit,
    honest_whole_picture_edit,
    random_whole_picture_request,
    with_look,
)

CONFIG = SceneConfig.for_size(96)


def edits(look, count=6, flaw=None):
    found: list[Any] = []
    seed = 0
    while len(found) < count and seed < 200:
        rng = random.Random(f"{look} {flaw} {seed}")
        request = random_whole_picture_request(rng, CONFIG, look)
        edit = (
            honest_whole_picture_edit(rng, request) if flaw is None else flawed_whole_picture_edit(rng, request, flaw)
        )
        if edit is not None:
            found.append(edit)
        seed += 1
    return found


def pixels(image):
    return image.pixels.astype(np.float64)


def sharpness(image):
    return float(np.abs(cv2.Laplacian(image.pixels.mean(axis=2), cv2.CV_64F)).max())


@pytest.mark.parametrize("look", LOOKS)
def test_an_honest_edit_follows_and_its_plan_is_accepted(look):
    for edit in edits(look):
        assert edit.truth.followed
        assert edit.picture != edit.request.source
        assert plan_problems(edit.request.plan, edit.request.sentence) == (), edit.request.sentence


@pytest.mark.parametrize("look", LOOKS)
def test_the_rules_read_its_sentences(look):
    sentences = {edit.request.sentence for edit in edits(look, 30)}
    unread = [sentence for sentence in sentences if RulePlanner().plan(sentence) is None]
    assert len(unread) <= 0.25 * len(sentences), unread


def test_night_is_dark_and_blue():
    for edit in edits("night"):
        before, after = pixels(edit.request.source), pixels(edit.picture)
        assert after.mean() < 0.6 * before.mean()
        assert after[..., 2].mean() / after[..., 0].mean() > 1.2 * before[..., 2].mean() / before[..., 0].mean()


def test_sepia_is_brown_and_black_and_white_has_no_colour():
    for edit in edits("sepia"):
        red, _, blue = (pixels(edit.picture)[..., channel].mean() for channel in range(3))
        assert red > 1.2 * blue
    for edit in edits("black and white"):
        image = pixels(edit.picture)
        spread = np.ptp(image, axis=2).mean()
        assert spread < 0.3 * np.ptp(pixels(edit.request.source), axis=2).mean()


def test_blur_takes_sharpness_away_and_its_removal_brings_it_back():
    for edit in edits("blur"):
        assert sharpness(edit.picture) < 0.5 * sharpness(edit.request.source)
    for edit in edits("deblur"):
        assert sharpness(edit.picture) > 2 * sharpness(edit.request.source)


def test_pixel_art_has_blocks_of_one_colour():
    rng = np.random.default_rng(0)
    picture = with_look(rng.uniform(0, 255, (96, 96, 3)), "pixel art", 1.0, 1)
    assert any(
        all(
            np.ptp(picture[y : y + block, x : x + block], axis=(0, 1)).max() == 0
            for y, x in ((0, 0), (block, 2 * block))
        )
        for block in (3, 4)
    )


def test_rain_is_bright_streaks_steeper_than_they_are_wide():
    flat = np.full((96, 96, 3), 120.0)
    streaks = with_look(flat, "rain", 1.0, 3).mean(axis=2)
    assert 0.03 < (streaks > 120).mean() < 0.6
    across, down = np.abs(np.diff(streaks, axis=1)).mean(), np.abs(np.diff(streaks, axis=0)).mean()
    assert across > 1.5 * down


def test_a_mirrored_picture_is_its_source_from_right_to_left():
    for edit in edits("mirror"):
        flipped = pixels(edit.request.source)[:, ::-1]
        assert (
            np.abs(pixels(edit.picture) - flipped).mean() < 0.5 * np.abs(pixels(edit.picture) - flipped[:, ::-1]).mean()
        )


def test_a_crop_shows_its_window():
    for edit in edits("crop"):
        x0, y0, x1, y1 = (round(96 * share) for share in edit.window)
        cut = edit.request.source.pixels[y0:y1, x0:x1]
        shown = cv2.resize(edit.picture.pixels, (cut.shape[1], cut.shape[0]), interpolation=cv2.INTER_AREA)
        assert np.abs(shown.astype(float) - cut).mean() < 12
        if edit.request.plan.operations[0].target is None:
            assert sorted(edit.picture.size) == [48, 96]


@pytest.mark.parametrize("flaw", WHOLE_PICTURE_FLAWS)
def test_no_flawed_edit_follows(flaw):
    found = [edit for look in LOOKS for edit in edits(look, 2, flaw)]
    assert found
    for edit in found:
        assert not edit.truth.followed, (edit.request.sentence, flaw)


def test_a_half_has_the_look_and_the_other_is_as_before():
    for edit in edits("sepia", 6, "half of the picture"):
        change = np.abs(pixels(edit.picture) - pixels(edit.request.source)).mean(axis=2)
        halves = {"left": change[:, :48], "right": change[:, 48:], "top": change[:48], "bottom": change[48:]}
        opposite = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}[edit.part]
        assert halves[edit.part].mean() > 3 * halves[opposite].mean()


def test_what_is_too_weak_is_hardly_another_picture():
    for look in ("night", "sepia", "black and white", "rain"):
        for faint, honest in zip(edits(look, 4, "too weak"), edits(look, 4), strict=True):
            changes = [np.abs(pixels(one.picture) - pixels(one.request.source)).mean() for one in (faint, honest)]
            assert changes[0] < 6 < changes[1]


def test_a_lost_object_is_gone_from_the_pixels():
    for edit in edits("night", 6, "object lost"):
        assert len(edit.after.objects) == len(edit.request.before.objects) - 1
        (lost,) = {obj.id for obj in edit.request.before.objects} - {obj.id for obj in edit.after.objects}
        assert not edit.truth.followed
        assert edit.truth.objects < 1
        assert lost is not None


def test_looks_without_pixels_are_refused():
    with pytest.raises(ValueError, match="'crop' is no look of given pixels: expected one of night, sepia"):
        with_look(np.zeros((8, 8, 3)), "crop", 1.0, 0)
