"""Presets on a photograph, with the experts that need no download: scored as far as they reach, else a clear reason."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Box, EditSample, Expert, Image, Operation, Reward, Score, build, default_experts, spec_of
from editcritic.reward.metrics import presets
from editcritic.reward.queries import Embed, Embeddings, Judge, Mask, Reply, Segment

from ..fakes import Fake
from .any_edit.conftest import BLUE, PHOTO, PIXELS

PRESETS = [
    presets.edit_balanced(),
    presets.small_object(),
    presets.compound(),
    presets.multi_turn(),
    presets.multi_reference(),
]

EDITED, OTHER = Image.of(BLUE), Image.of(np.ascontiguousarray(PIXELS[40:, ::-1]))
BOXES = {
    name: (Box.from_corners(*corners, PHOTO.size),)
    for name, corners in {
        "red saucer": (38, 33, 240, 195),
        "silver spoon": (158, 33, 213, 164),
        "brown coffee": (102, 47, 186, 97),
        "ceramic cup": (87, 8, 205, 154),
    }.items()
}
BLUER, AWAY = "Change the color of red saucer to blue.", "Remove silver spoon."


def edit(instruction: str = BLUER, **fields: Any) -> EditSample:
    options: dict[str, Any] = {"sources": (PHOTO,), "edited": EDITED, "boxes": BOXES, **fields}
    return EditSample("s", instruction, **options)


# The spoon is still there.
HALF = edit("Make the saucer blue and take the spoon away", operations=(Operation(BLUER), Operation(AWAY)))
TWO = edit(sources=(PHOTO, OTHER))


@pytest.fixture(scope="module")
def experts() -> dict[str, Expert]:
    return default_experts()


def run(metric: Any, sample: EditSample, experts: Mapping[str, Expert]) -> Score:
    return Reward(metric, experts)([sample])[0]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.card.name)
def test_the_card_says_what_a_preset_is_and_how_it_can_be_gamed(preset):
    card = preset.card
    assert card.is_unit_range
    assert card.aspect == "overall"
    assert "geometric mean of" not in card.summary
    assert card.failure_modes
    assert card.source
    assert build(spec_of(preset)) == preset


def test_an_edit_is_scored_without_a_download_and_what_is_needed_is_refused(experts):
    assert run(presets.edit_balanced(), edit(), experts).value == pytest.approx(0.9, abs=0.1)
    with pytest.raises(ValueError, match="reference"):
        run(presets.small_object("oracle"), edit(targets=BOXES["silver spoon"]), experts)


def test_a_compound_edit_that_is_half_done_earns_half_of_what_is_kept(experts):
    score = run(presets.compound(), HALF, experts)
    parts = score.parts["reward"].parts
    assert [(name, credit.value) for name, credit in score.credits.items()] == [("operation 1", 1), ("operation 2", 0)]
    assert parts["following"].value == 0.5
    assert 0.7 < (parts["consistency"].value or 0) < 1
    assert score.value == 0.5 * (parts["consistency"].value or 0)
    alone = run(presets.compound(), edit(HALF.instruction, operations=HALF.operations, boxes={}), experts)
    assert alone.status == "abstained"  # without boxes nobody here finds anything


def test_turns_are_credited_one_by_one(experts):
    touched = BLUE.copy()
    touched[120:170, 5:40] = 128
    second = edit(AWAY, sources=(EDITED,), edited=Image.of(touched), history=(edit(),))
    score = run(presets.multi_turn(), second, experts)
    assert [(name, credit.value) for name, credit in score.credits.items()] == [("turn 1", 1.0), ("turn 2", 0.0)]
    consistency = score.parts["reward"].parts["consistency"].value or 0
    assert score.value == pytest.approx((0.5 * consistency) ** 0.5)


def test_who_must_be_bound_and_who_cannot_tell_is_said(experts):
    score = run(presets.small_object(), edit(), experts)
    assert score.status == "abstained"
    assert "dlebench/following_tools" in score.reason
    score = run(presets.multi_reference(), TWO, experts)
    assert score.status == "abstained"
    assert "i2i/following" in score.reason
    without = {role: expert for role, expert in experts.items() if role != "segmenter"}
    with pytest.raises(ValueError, match="multi-reference needs experts for segmenter"):
        run(presets.multi_reference(), TWO, without)


@pytest.mark.parametrize(
    ("preset", "sample", "why"),
    [
        (presets.compound(), edit(), "the sample has no operations"),
        (presets.compound(), edit(operations=(Operation("Make it nicer"),)), "none of EdiVal's nine forms"),
        (presets.compound(), edit(edited=PHOTO), "the sample has no operations"),  # a copy, which a guard would reject
        (presets.multi_reference(), edit(), "several pictures"),
        (presets.multi_reference(), edit(edited=PHOTO), "several pictures"),
        (presets.multi_reference(), edit(sources=(PHOTO, OTHER), dimensions=("blending-naturalness",)), "dimensions"),
    ],
)
def test_a_preset_applies_to_its_kind_of_sample(preset, sample, why, experts):
    score = run(preset, sample, experts)
    assert score.status == "not_applicable"
    assert why in score.reason


@pytest.mark.parametrize(
    ("preset", "sample"),
    [
        (presets.small_object(), edit(edited=PHOTO)),
        (presets.compound(), edit(operations=(Operation(BLUER),), edited=PHOTO)),
        (presets.multi_turn(), edit(sources=(EDITED,), edited=EDITED, history=(edit(),))),
        (presets.multi_reference(), edit(sources=(OTHER, PHOTO), edited=PHOTO)),
    ],
)
def test_a_copy_is_worth_nothing_and_nobody_is_asked_about_it(preset, sample, experts):
    judge = Fake()
    score = run(preset, sample, {**experts, "judge": judge, "segmenter": judge})
    assert score.value == 0.0
    assert "the edited picture is the source" in score.reason
    assert not judge.calls


VERDICT = "<Start Thinking>So it is.</Start Thinking><Start Final Answer>{}</Start Final Answer>"
SAYS = {
    "dlebench/following_tools": VERDICT.format("Flawless Execution"),
    "dlebench/consistency_tools": VERDICT.format("Single Anomaly"),
    "i2i/following": "good",
    "i2i/segment_details_multi": '[{"source_index": 1, "segmentation_prompt": "Please segment the cup"}]',
    "i2i/segment_preserved_multi": '[{"source_index": 0, "segmentation_prompt": "Please segment the table"}]',
}


def answers(query: Any) -> Any:
    match query:
        case Judge(topic=topic):
            return Reply(SAYS[topic])
        case Segment(image=image):
            return Mask(np.ones((image.height, image.width), bool))
        case Embed(image=image):
            return Embeddings(np.array([[1.0, 0.0 if image == EDITED else 1.0]], np.float32), np.array([1]))
        case _:
            raise AssertionError(f"nobody asks {query.kind} of the fakes")


@pytest.mark.parametrize(
    ("preset", "sample", "value"),
    [
        (presets.small_object(prompt_injection_guard=False), edit(), (1.0 * 2 / 3) ** 0.5),
        (presets.multi_reference(prompt_injection_guard=False), TWO, (0.75 * 0.5**0.5 * 0.5**0.5) ** (1 / 3)),
    ],
)
def test_with_a_judge_that_can_tell_the_parts_are_multiplied(preset, sample, value, experts):
    able = Fake(answers)
    score = run(preset, sample, {**experts, "judge": able, "segmenter": able, "features": able})
    assert score.value == pytest.approx(value)
