"""Compound instructions and compositions of several images."""

from typing import Any

import pytest

from editcritic.benchmarks.sceneedit.cases import dataset_digest, seeded_rng
from editcritic.benchmarks.sceneedit.compound_requests import (
    LEVELS,
    composition_cases,
    compound_cases,
    join_steps,
    random_compound,
)
from editcritic.benchmarks.sceneedit.ground_truth import followed
from editcritic.benchmarks.sceneedit.scene_generation import GRID_SCENES, SceneConfig

from .grid_cells import cells


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "config", [SceneConfig.for_size(32), SceneConfig.for_size(64), GRID_SCENES], ids=["32", "64", "cells"]
)
def test_no_step_undoes_another(level, config):
    for number in range(3):
        compound = random_compound(seeded_rng("test", 0, "compounds", number), level, config)
        assert compound.level == level == len(compound.scenes) - 1
        for step, before in zip(compound.steps, compound.scenes, strict=False):
            assert followed(step, before, compound.scenes[-1])


@pytest.mark.parametrize("level", LEVELS)
def test_things_stand_in_cells_of_their_own_after_every_step(level):
    for number in range(10):
        compound = random_compound(seeded_rng("test", 0, "cells", number), level, GRID_SCENES)
        for scene in compound.scenes:
            assert len(cells(scene)) == len({*cells(scene)})


def test_steps_are_joined_to_a_sentence():
    assert join_steps(["Remove red circle"]) == "Remove red circle"
    background = "Change the background to snow, remain the red circle unchanged"
    assert join_steps(["Remove x", background]) == "Remove x and change the background to snow"
    assert join_steps(["Remove x", "Add y", background]) == "Remove x, add y, and change the background to snow"


def test_cases_say_which_steps_were_followed():
    edits = compound_cases(48)
    for case in edits:
        steps = case.sample.operations
        assert case.task == "compound"
        assert len(case.steps_followed) == len(steps) == case.sample.metadata["level"]
        assert case.truth.followed == all(case.steps_followed)
        assert case.mode or all(case.steps_followed)
    assert {case.sample.metadata["level"] for case in edits} == set(LEVELS)
    assert 0.2 < sum(case.truth.followed for case in edits) / len(edits) < 0.95
    assert dataset_digest(compound_cases(6)) == dataset_digest(edits[:6])


def test_compositions_have_two_sources_and_take_from_the_second():
    edits: Any = composition_cases(40)
    for case in edits:
        task = case.sample.task
        assert (len(case.sample.sources), task.type) == (2, "subject_add")
        assert task.new in case.sample.instruction
        assert not case.before.named(task.new)
        if not case.mode:
            assert case.truth.followed
            assert len(case.after.named(task.new)) == 1
        if case.mode in ("wrong_source", "nothing"):
            assert not case.truth.followed
    assert {"", "wrong_source"} < {case.mode for case in edits}


def test_there_is_no_ninth_level():
    with pytest.raises(ValueError, match="there is no level 9: compounds have 1 to 8 steps"):
        random_compound(seeded_rng("test", 0, "x", 0), 9, SceneConfig())
