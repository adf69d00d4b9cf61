"""Flaws of edits in open language: on pixels and in the truth."""

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from studies.open_language.open_edits import OBJECT_FLAWS, flawed_open_edit, honest_open_edit
from studies.open_language.open_requests import OBJECT_REQUEST_KINDS, random_object_request

CONFIG = SceneConfig.for_size(96)
FOLLOWED = {"twin too", "kept thing changed", "other thing changed", "backdrop drifted", "brightened", "shifted"}
NOT_FOLLOWED = {"copy", "wrong twin", "only some of all", "not all operations", "misspelt", "source pasted in"}


@cache
def examples(flaw, count=3):
    """Requests with an honest edit and one with this flaw."""
    found: list[Any] = []
    seed = 0
    while len(found) < count:
        rng = random.Random(f"{flaw} {seed}")
        request = random_object_request(rng, CONFIG, OBJECT_REQUEST_KINDS[seed % len(OBJECT_REQUEST_KINDS)])
        honest, flawed = honest_open_edit(rng, request, CONFIG), flawed_open_edit(rng, request, CONFIG, flaw)
        if flawed is not None and honest.truth.followed:
            found.append((request, honest, flawed))
        seed += 1
        assert seed < 1500, f"no request allows {flaw}"
    return found


def difference_at(picture, other, obj):
    """Mean difference of two images in the middle of an object, in grey levels."""
    x, y, side = round(96 * obj.x), round(96 * obj.y), max(2, round(96 * obj.w / 6))
    area = np.s_[max(0, y - side) : y + side, max(0, x - side) : x + side]
    return float(np.abs(picture.pixels[area].astype(float) - other.pixels[area].astype(float)).mean())


@pytest.mark.parametrize("flaw", OBJECT_FLAWS)
def test_a_flawed_edit_is_worse_than_an_honest_one_and_another_picture(flaw):
    for request, honest, flawed in examples(flaw):
        assert flawed.edit.picture != honest.edit.picture
        worse = flawed.truth.overall < honest.truth.overall or not flawed.truth.followed
        assert worse or flaw in ("noise and blur", "ghost", "wrong value"), request.sentence


@pytest.mark.parametrize("flaw", sorted(FOLLOWED | NOT_FOLLOWED))
def test_the_truth_of_a_flaw(flaw):
    for request, _, flawed in examples(flaw):
        assert flawed.truth.followed == (flaw in FOLLOWED), request.sentence


def test_a_wrong_twin_is_changed_in_place_of_the_one_that_is_meant():
    for request, honest, flawed in examples("wrong twin"):
        if request.steps[0].task.type == "position_change":
            continue
        source = render(request.before)
        meant = [obj for obj in request.before.objects if obj.id in request.steps[0].target_ids]
        assert max(difference_at(honest.edit.picture, source, obj) for obj in meant) > 15
        assert max(difference_at(flawed.edit.picture, source, obj) for obj in meant) < 12
        twins = [obj for obj in request.before.objects if obj.id in request.twins]
        assert max(difference_at(flawed.edit.picture, source, obj) for obj in twins) > 15


def test_only_some_of_all_leaves_at_least_one_as_it_was():
    for request, honest, flawed in examples("only some of all"):
        source = render(request.before)
        objects = [obj for obj in request.before.objects if obj.id in request.steps[0].target_ids]
        honest_changes = [difference_at(honest.edit.picture, source, obj) for obj in objects]
        flawed_changes = [difference_at(flawed.edit.picture, source, obj) for obj in objects]
        assert min(honest_changes) > 8
        assert min(flawed_changes) < 8
        assert max(flawed_changes) > 8


def test_a_kept_object_that_changes_costs_what_is_kept():
    for request, honest, flawed in examples("kept thing changed"):
        assert request.kept_ids
        assert flawed.truth.followed
        assert flawed.truth.kept < honest.truth.kept - 0.04


def test_an_unknown_flaw_is_named():
    rng = random.Random(0)
    with pytest.raises(ValueError, match="unknown flaw 'bad luck': expected one of copy, wrong twin"):
        flawed_open_edit(rng, random_object_request(rng, CONFIG, "plain"), CONFIG, "bad luck")
