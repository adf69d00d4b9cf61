"""The oracle knows what is in a scene, and in every part of its image."""

from dataclasses import replace
from typing import Any

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop
from editcritic.benchmarks.sceneedit.simulated_edits import Corruption
from editcritic.reward import Image, Reward
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.queries import Abstention, Detect, FreeText, Judge, Message, ReadText, YesNo
from studies.validity.oracle import NAME_MATCH_SCORE, SHAPE_MATCH_SCORE, Oracle
from tests.studies.validity.fake_metrics import CIRCLE, SCENE, SIGN, SQUARE, case


def judge(oracle: Oracle, topic: str, *pictures: Image, **slots: str) -> str:
    slots = {"object": slots.pop("of", ""), **slots}
    form = FreeText() if topic == "core_name" else YesNo()
    (reply,) = oracle([Judge((Message((*pictures, "?")),), form, f"edival/{topic}", tuple(slots.items()))])
    return getattr(reply, "text", "")


def detections(oracle: Oracle, image: Image, *phrases: str) -> list[tuple[str, float]]:
    (answer,) = oracle([Detect(image, phrases)])
    return [(box.label, box.score) for box in answer.boxes]  # type: ignore[union-attr]


def test_a_thing_is_found_by_its_name_and_less_surely_by_its_shape():
    one = case()
    oracle = Oracle([one])
    source, edited = one.sample.source, one.sample.edited
    assert detections(oracle, source, "red circle") == [("red circle", NAME_MATCH_SCORE)]
    assert detections(oracle, source, "green circle", "square") == [
        ("green circle", SHAPE_MATCH_SCORE),
        ("square", NAME_MATCH_SCORE),
    ]
    assert detections(oracle, source, "metal blue square") == [("metal blue square", SHAPE_MATCH_SCORE)]
    assert detections(oracle, edited, "red circle") == []


@pytest.mark.parametrize(
    "hidden", [[replace(CIRCLE, opacity=0.2)], [CIRCLE, replace(SQUARE, x=0.25, y=0.3, w=0.4, h=0.4)]]
)
def test_what_is_too_faint_or_covered_is_not_seen(hidden):
    one = case(after=replace(SCENE, objects=tuple(hidden)))
    assert detections(Oracle([one]), one.sample.edited, "red circle") == []


def test_crops_and_resizes_show_the_part_of_the_scene_they_show():
    one = case()
    oracle = Oracle([one])
    large = one.sample.source.resized(512, 512)
    assert detections(oracle, large, "red circle") == [("red circle", NAME_MATCH_SCORE)]
    quarter = large.crop(0, 0, 256, 256).resized(100, 100)
    assert detections(oracle, quarter, "red circle", "wood blue square") == [("red circle", NAME_MATCH_SCORE)]
    (answer,) = oracle([Detect(quarter, ("red circle",))])
    (box,) = answer.boxes  # type: ignore[union-attr]
    assert (box.cx, box.cy, box.w) == pytest.approx((0.5, 0.6, 0.5))


def test_texts_are_read_where_they_stand():
    one = case()
    oracle = Oracle([one])
    source = one.sample.source
    lower, upper = source.crop(0, 40, 64, 64), source.crop(0, 0, 64, 40)
    assert [answer.text for answer in oracle([ReadText(source), ReadText(lower), ReadText(upper)])] == [  # type: ignore[union-attr]
        SIGN.text,
        SIGN.text,
        "",
    ]


def test_the_judge_sees_what_changed():
    after = replace(SCENE, objects=(replace(CIRCLE, shape="star"), replace(SQUARE, colour="green"), SIGN))
    one = case(after=replace(after, backdrop=Backdrop("sand")))
    oracle = Oracle([one])
    source, edited = one.sample.source, one.sample.edited
    crop = edited.crop(36, 30, 54, 47)
    assert judge(oracle, "core_name", of="wood blue square") == "square"
    assert judge(oracle, "background", edited, value="sand") == "yes"
    assert judge(oracle, "background", source, value="sand") == "no"
    assert judge(oracle, "color", crop, of="wood blue square", value="green") == "yes"
    assert judge(oracle, "color", crop, of="wood blue square", value="blue") == "no"
    assert judge(oracle, "material", crop, of="wood blue square", value="wood") == "yes"
    assert judge(oracle, "edit_success", source, edited, of="wood blue square", value="green") == "yes"
    assert judge(oracle, "edit_success", source, edited, of="yellow sign", value="green") == "no"
    assert judge(oracle, "added", source, edited, new="red star") == "yes"
    assert judge(oracle, "added", source, edited, new="yellow sign") == "no"
    assert judge(oracle, "replaced", source, edited, of="red circle", new="red star") == "yes"
    assert judge(oracle, "replaced", edited, source, of="yellow sign", new="red star") == "no"


def test_nothing_is_left_in_a_picture_that_faded():
    plain = case()
    assert plain.after is not None
    one = case(mode="blank", after=Corruption("fade", 1.0).visible_scene(plain.after, plain.after))
    oracle = Oracle([one])
    assert detections(oracle, one.sample.edited, "wood blue square") == []
    assert judge(oracle, "background", one.sample.edited, value="sky") == "no"
    assert detections(oracle, one.sample.source, "wood blue square")


def test_it_abstains_where_it_cannot_know():
    one = case(before=None)
    oracle = Oracle([one])
    unknown: list[Any] = [
        Detect(one.sample.source, ("red circle",)),
        Judge((Message(("what is this?", one.sample.edited)),), YesNo(), "somebody/else"),
    ]
    assert [type(answer) for answer in oracle(unknown)] == [Abstention, Abstention]


def test_honest_edits_of_all_tasks_are_followed_by_its_word():
    honest = [one for one in cases(60, seed=3) if not one.mode]
    assert {one.task for one in honest} > {"subject_remove", "text_change", "background_change", "material_alter"}
    experts = dict.fromkeys(("detector", "judge", "reader"), Oracle(honest))
    scores = Reward(InstructionFollowing(), experts, on_failures="none")([one.sample for one in honest])
    assert [s.reason for s, one in zip(scores, honest, strict=True) if s.value != one.truth.followed] == []
