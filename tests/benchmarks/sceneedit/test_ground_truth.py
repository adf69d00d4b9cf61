"""Truth on scene graphs made by hand."""

from dataclasses import replace

import pytest

from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth, followed, kept
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
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


@pytest.mark.parametrize(
    ("request_", "after"),
    [
        (ADD, SCENE.with_object(STAR)),
        (REMOVE, SCENE.without([1])),
        (REMOVE, SCENE.with_object(replace(CIRCLE, opacity=0.1))),  # a smudge
        (RECOLOUR, SCENE.with_object(replace(CIRCLE, colour="green"))),
        (REPLACE, SCENE.without([1]).with_object(STAR.moved_to(0.3, 0.3))),
        (
            REPLACE,
            SCENE.without([1, 2])
            .with_object(STAR.moved_to(0.3, 0.3))
            .with_object(replace(STAR, id=4).moved_to(0.7, 0.7)),
        ),
    ],
)
def test_followed(request_, after):
    assert followed(request_, SCENE, after)


@pytest.mark.parametrize(
    ("request_", "after"),
    [
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
    ],
)
def test_not_followed(request_, after):
    assert not followed(request_, SCENE, after)


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
    assert kept([REMOVE], SCENE, SCENE.without([1]).with_object(replace(STAR, id=1000))) == (1.0, 0.75)


@pytest.mark.parametrize("drift", [0.0, 0.3, 0.6, 1.0])
def test_drift_counts_against_the_background_alone(drift):
    drifted = replace(SCENE, backdrop=replace(SCENE.backdrop, drift=drift))
    objects, background = kept([REMOVE], SCENE, drifted)
    assert objects == 1.0
    assert background == pytest.approx(1 - drift)


def test_overall_is_nothing_unless_followed():
    assert GroundTruth(False, 1.0, 1.0).overall == 0.0
    assert GroundTruth(True, 0.5, None).overall == pytest.approx(0.5**0.5)
    assert GroundTruth(True, None, None).overall == 1.0
    assert GroundTruth(True, None, None).kept is None
