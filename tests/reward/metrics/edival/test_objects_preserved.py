"""StillThere: an edit that empties the image is caught, one that loses an object or two is not."""

import pytest

from editcritic.reward import EditSample, Engine, Image, Pools
from editcritic.reward.metrics.edival.consistency import ObjectsPreserved

SOURCE, EDITED = Image.from_digest("a" * 64, (512, 512)), Image.from_digest("b" * 64, (512, 512))


def at(score):
    return ((0.5, 0.5, 0.2, 0.2, score),)


def judged(scene, before, after, unchanged):
    sample = EditSample("s", "Remove dog", (SOURCE,), EDITED, pools=Pools(("dog", *unchanged), unchanged, unchanged))
    experts = scene(
        source={name: at(score) for name, score in before.items()},
        edited={name: at(score) for name, score in after.items()},
    )
    with Engine() as engine:
        return engine.submit(ObjectsPreserved()(sample), {"detector": experts}, sample).result(20)


@pytest.mark.parametrize(
    ("after", "value"),
    [
        ({"cup": 0.9, "hat": 0.9}, 1.0),
        ({"cup": 0.9}, 1.0),
        ({"cup": 0.21, "hat": 0.19}, 1.0),  # a trace is enough
        ({"cup": 0.2, "hat": 0.2}, 0.0),
        ({}, 0.0),
    ],
)
def test_more_than_half_lost_is_too_much(scene, after, value):
    score = judged(scene, {"cup": 0.9, "hat": 0.4}, after, ("cup", "hat"))
    assert score.value == value
    assert ("no trace is left of" in score.reason) == (len(after) < 2 or after["hat"] <= 0.2)


def test_what_the_base_picture_does_not_show_does_not_count(scene):
    assert judged(scene, {"cup": 0.9, "hat": 0.35}, {"cup": 0.9}, ("cup", "hat")).value == 1.0
    assert judged(scene, {"cup": 0.9, "hat": 0.35}, {"hat": 0.9}, ("cup", "hat")).value == 0.0


def test_without_objects_to_stay_it_does_not_apply(scene):
    assert judged(scene, {}, {}, ()).status == "not_applicable"
    assert judged(scene, {"cup": 0.3}, {}, ("cup",)).status == "not_applicable"


def test_a_detector_that_cannot_know_leaves_it_open(scene):
    sample = EditSample("s", "Remove dog", (SOURCE,), EDITED, pools=Pools(("dog", "cup"), ("cup",), ("cup",)))
    with Engine() as engine:
        program = ObjectsPreserved()(sample)
        assert engine.submit(program, {"detector": scene(unknown=("cup",))}, sample).result(20).status == "abstained"
