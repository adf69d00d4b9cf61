"""Editors: the honest one is right, and each failure mode fails as it says."""

import random

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import random_scene_request
from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES, failure_mode
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.reward.sample import TASK_TYPES

WORLD = SceneConfig.for_size(64)
# Modes that may follow the instruction; the others never do.
SPOIL = {  # blank: what was to go is gone
    "blank", "over_modification", "background_drift", "exposure_drift", "shifted", "degraded", "flooded", "cleared",
    "duplicates", "neighbour_too",
}  # fmt: skip


def planned(kind, number):
    rng = random.Random(f"editors {kind} {number}")
    return rng, *random_scene_request(rng, WORLD, kind)


def edits(mode, severity=None, count=12):
    results = []
    for number in range(40 * count):
        kind = (mode.task_types or TASK_TYPES)[number % len(mode.task_types or TASK_TYPES)]
        rng, scene, request = planned(kind, number)
        edit = mode.edit(rng, request, scene, WORLD, severity=severity)
        if edit is not None:
            results.append(edit)
        if len(results) == count:
            return results
    raise AssertionError(f"{mode.name} hardly ever works")


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_honest_editor_follows_and_keeps(kind):
    for number in range(10):
        rng, scene, request = planned(kind, number)
        truth = honest_edit(rng, request, scene, WORLD).truth()
        assert truth.followed
        assert truth.kept is None or truth.kept > 0.9


@pytest.mark.parametrize("one", FAILURE_MODES, ids=lambda one: one.name)
def test_a_mode_fails_as_it_says(one):
    for edit in edits(one, count=8):
        truth = edit.truth()
        assert edit.mode == one.name
        assert 0 < edit.severity <= 1
        if one.name in SPOIL:
            assert not truth.followed or truth.kept is None or truth.kept < 0.99
        else:
            assert not truth.followed


@pytest.mark.parametrize("name", ["background_drift", "exposure_drift", "shifted", "degraded", "over_modification"])
def test_the_more_severe_the_less_is_kept(name):
    means = []
    for severity in (0.2, 0.6, 1.0):
        truths = [edit.truth().kept for edit in edits(failure_mode(name), severity, count=8)]
        means.append(np.mean([kept for kept in truths if kept is not None]))
    assert means == sorted(means, reverse=True)
    assert means[0] > means[-1] + 0.1


def test_there_are_hacks_and_at_least_twelve_modes():
    assert len(FAILURE_MODES) >= 12
    assert len({one.name for one in FAILURE_MODES}) == len(FAILURE_MODES)
    hacks = {one.name for one in FAILURE_MODES if one.hack}
    assert hacks == {"nothing", "blank", "pasted_source", "orders", "flooded", "cleared"}


def test_an_unknown_mode_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"unknown failure mode 'sloth': expected one of nothing, wrong_object"):
        failure_mode("sloth")
