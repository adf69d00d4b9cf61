"""Truth on scene graphs made by hand."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth, followed, kept
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.sample import Task

CIRCLE = SceneObject(1, "circle", "red", 0.25, 0.25, 0.2, 0.2)
SQUARE = SceneObject(2, "square", "blue", 0.75, 0.75, 0.2, 0.2)
SCENE = Scene((CIRCLE, SQUARE), Backdrop("grass"))
STAR = SceneObject(3, "star", "green", 0.25, 0.75, 0.2, 0.2)

ADD = SceneRequest(
    Task("subject_add", new="green star", position="left", reference="blue square"), "", reference_id=2, placed=(STAR,)
)
REMOVE = SceneRequest(Task("subject_remove", object="red circle"), "", (1,), removed=(1,))
RECOLOUR = SceneRequest(
    Task("color_alter", object="red circle", value="green"), "", (1,), placed=(replace(CIRCLE, colour="green"),)
)
REPLACE = SceneRequest(
    Task("subject_replace", object="red circle", new="green star"),
    "",
    (1,),
    removed=(1,),
    placed=(STAR.moved_to(0.25, 0.25),),
)


FOLLOWED = [
    (ADD, SCENE.with_object(STAR)),
    (REMOVE, SCENE.without([1])),
    (REMOVE, SCENE.with_object(replace(CIRCLE, opacity=0.1))),  # a smudge
    (RECOLOUR, SCENE.with_object(replace(CIRCLE, colour="green"))),
    (REPLACE, SCENE.without([1]).with_object(STAR.moved_to(0.3, 0.3))),
    (
        REPLACE,
        SCENE.without([1, 2]).with_object(STAR.moved_to(0.3, 0.3)).with_object(replace(STAR, id=4).moved_to(0.7, 0.7)),
    ),
]
NOT_FOLLOWED = [
    (ADD, SCENE),
    (ADD, SCENE.with_object(STAR).with_object(replace(STAR, id=4, y=0.25))),  # two
    (ADD, SCENE.with_object(replace(STAR, colour="pink"))),
    (ADD, SCENE.with_object(STAR.moved_to(0.9, 0.25))),  # the other side
    (ADD, SCENE.with_object(STAR).without([2])),  # of what?
    (REMOVE, SCENE),
    (REMOVE, SCENE.with_object(replace(CIRCLE, opacity=0.4))),  # a ghost
    (REMOVE, SCENE.without([1]).with_object(CIRCLE.moved_to(0.6, 0.2))),  # moved away
    (RECOLOUR, SCENE.with_object(replace(SQUARE, colour="green"))),
    (RECOLOUR, SCENE.without([1])),
    (RECOLOUR, SCENE.with_object(replace(CIRCLE, colour="green", shape="star"))),
    (REPLACE, SCENE.without([1]).with_object(STAR)),  # somewhere else
    (REPLACE, SCENE.with_object(STAR.moved_to(0.3, 0.3))),  # beside it
]


@pytest.mark.parametrize(
    ("request_", "after", "expected"),
    [*((*case, True) for case in FOLLOWED), *((*case, False) for case in NOT_FOLLOWED)],
)
def test_followed(request_, after, expected):
    assert followed(request_, SCENE, after) is expected


def test_hidden_is_not_there():
    under = Scene((STAR.moved_to(0.25, 0.25), replace(CIRCLE, w=0.3, h=0.3), SQUARE), SCENE.backdrop)
    assert not followed(replace(ADD, reference_id=None, task=Task("subject_add", new="green star")), SCENE, under)


def test_kept_counts_what_the_request_leaves_alone():
    assert kept([REMOVE], SCENE, SCENE.without([1])) == (1.0, 1.0)
    assert kept([REMOVE], SCENE, SCENE.without([1, 2])) == (0.0, 1.0)
    assert kept([REMOVE], SCENE, SCENE.with_object(replace(SQUARE, colour="pink")))[0] == 0.5
    assert kept([REMOVE, RECOLOUR], SCENE.without([2]), SCENE.without([2])) == (None, 1.0)
    assert kept([REMOVE], SCENE, replace(SCENE, backdrop=Backdrop("snow")))[1] == 0.0
    assert kept([REMOVE], SCENE, replace(SCENE, light=Light(gain=1.3))) == pytest.approx((0.5, 0.5))
    assert kept([REMOVE], SCENE, SCENE, damage=0.25) == (0.75, 0.75)
    for drift in (0.0, 0.3, 0.6, 1.0):
        drifted = replace(SCENE, backdrop=replace(SCENE.backdrop, drift=drift))
        assert kept([REMOVE], SCENE, drifted) == pytest.approx((1.0, 1 - drift))
    assert kept([REMOVE], SCENE, SCENE.without([1]).with_object(replace(STAR, id=1000))) == (1.0, 0.75)


def test_overall_is_nothing_unless_followed():
    assert GroundTruth(False, 1.0, 1.0).overall == 0.0
    assert GroundTruth(True, 0.5, None).overall == pytest.approx(0.5**0.5)
    assert GroundTruth(True, None, None).overall == 1.0
    assert GroundTruth(True, None, None).kept is None


# -- what samples say beside their images ---------------------------------------------------------------------------


@cache
def single_edits() -> Any:
    return cases(90)


@cache
def compounds():
    return compound_cases(16)


@cache
def composed():
    return composition_cases(60)


def test_every_dimension_of_i2i_bench_has_cases_and_every_name_is_one_of_its():
    single = {name for case in (*single_edits(), *compounds()) for name in case.sample.dimensions or ()}
    assert single == {name for name, dimension in DIMENSIONS.items() if not dimension.multi}
    several = {f"multi-{name}" for case in composed() for name in case.sample.dimensions or ()}
    assert several == {name for name, dimension in DIMENSIONS.items() if dimension.multi}


def test_targets_are_the_things_a_request_is_about():
    for case in single_edits():
        task, boxes = case.sample.task, case.sample.targets
        if task.type == "background_change" or (task.type == "subject_add" and task.position is None):
            assert boxes == ()
        if task.type in ("subject_remove", "color_alter", "material_alter", "subject_replace"):
            assert boxes == tuple(obj.box for obj in case.before.named(task.object or ""))
        assert all(0 <= box.cx <= 1 and 0 <= box.cy <= 1 for box in boxes)


def test_the_reference_is_a_perfect_edit():
    for case in single_edits():
        assert case.sample.reference.size == case.sample.source.size
        assert case.sample.reference != render(case.before)


def test_compounds_have_an_operation_a_step_and_a_hint_for_each():
    for case in compounds():
        sample = case.sample
        assert len(sample.operations) == len(case.steps_followed)
        assert all(operation.name and operation.task for operation in sample.operations)
        assert len(sample.hint.split(". ")) >= len(sample.operations)
        assert sample.pools is not None
