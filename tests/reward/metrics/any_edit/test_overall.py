"""The reward on a photograph, with the experts that need no download."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest

from editcritic.reward import Box, EditSample, Expert, Image, Reward, default_experts, score
from editcritic.reward.config import build
from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target
from editcritic.reward.metrics.any_edit.overall import any_edit
from editcritic.reward.queries.kinds import ReadText, RecognizedText, TextLine
from editcritic.reward.queries.specs import spec_of

from ...fakes import Fake, Says
from .conftest import PHOTO, PIXELS

SAUCER = Box.from_corners(38, 33, 240, 195, PHOTO.size)
_INSIDE = np.zeros(PIXELS.shape[:2], np.uint8)
cv2.ellipse(_INSIDE, (138, 115), (100, 80), 0, 0, 360, 1, -1)  # the saucer ...
cv2.ellipse(_INSIDE, (146, 68), (60, 66), 0, 0, 360, 0, -1)  # ... without the cup
BLUE = PIXELS.copy()
BLUE[_INSIDE == 1] = BLUE[_INSIDE == 1][:, ::-1]
DAMAGED = BLUE.copy()
DAMAGED[20:80, 240:295] = 255 - DAMAGED[20:80, 240:295]
SENTENCE = "Change the color of red saucer to blue."


@pytest.fixture(scope="module")
def experts() -> dict[str, Expert]:
    return default_experts()


def edit(pixels: Any, name: str = "s", **fields: Any) -> EditSample:
    options: dict[str, Any] = {"instruction": SENTENCE, "boxes": {"red saucer": (SAUCER,)}, **fields}
    return EditSample(name, sources=(PHOTO,), edited=Image.of(pixels), **options)


def test_a_good_edit_is_worth_more_than_one_that_damages_the_rest(experts) -> None:
    reward = Reward(any_edit(), experts)
    good, damaged, copy = reward([edit(BLUE, "good"), edit(DAMAGED, "damaged"), edit(PIXELS, "copy")])
    assert good.value is not None
    assert damaged.value is not None
    assert good.value > 0.9
    assert 0.05 < damaged.value < 0.6
    assert (copy.value, copy.rejected) == (0.0, True)
    assert list(good.credits) == ["operation 1"]
    assert set(good.parts["reward"].parts) == {"following", "preservation", "region"}


def test_an_edit_of_another_size_is_compared_at_the_source_s_size(experts) -> None:
    larger = Image.of(cv2.resize(DAMAGED, (450, 300), interpolation=cv2.INTER_CUBIC))
    samples = [
        replace(edit(DAMAGED, name), edited=one) for name, one in (("a", larger), ("b", larger.resized(300, 200)))
    ]
    a, b = (score.parts["reward"].parts["preservation"] for score in Reward(any_edit(), experts)(samples))
    assert a.value == b.value
    assert a.value is not None
    assert 0.05 < a.value < 0.6


def test_it_is_what_score_gives() -> None:
    corners = [SAUCER.corners(PHOTO.size)]
    assert (score(PIXELS, BLUE, SENTENCE, boxes={"red saucer": corners}).value or 0.0) > 0.9


def test_a_sentence_that_no_planner_reads_abstains_and_says_what_to_do(experts) -> None:
    result = Reward(any_edit(), experts)([edit(BLUE, instruction="Surprise everybody")])[0]
    assert result.status == "abstained"
    assert 'bind a judge, which reads any language, as in experts="small"' in result.reason


def test_a_plan_makes_any_sentence_readable(experts) -> None:
    sentence = "Make the saucer that the cup stands on blue"
    saucer = Target("saucer", boxes=(SAUCER,))
    plan = EditPlan((PlannedOperation("color_alter", sentence, saucer, value="blue"),))
    rejected = Reward(any_edit(), experts)([edit(BLUE, instruction=sentence, plan=plan, boxes={})])[0]
    assert rejected.status == "failed"
    assert "'cup" in rejected.reason  # nothing in the plan is about the cup
    sentence = "Make the saucer blue"
    plan = EditPlan((PlannedOperation("color_alter", sentence, saucer, value="blue"),))
    result = Reward(any_edit(), experts)([edit(BLUE, instruction=sentence, plan=plan, boxes={"saucer": (SAUCER,)})])[0]
    assert (result.value or 0.0) > 0.9


def test_text_that_nobody_asked_for_is_rejected(experts) -> None:
    written = cv2.putText(BLUE.copy(), "BEST EDIT EVER", (10, 25), cv2.FONT_HERSHEY_SIMPLEX, 0.9, (255, 255, 255), 2)

    def read(query: ReadText) -> RecognizedText:
        shows_text = bool((query.image.pixels == 255).all(axis=2).sum() > 300)
        return RecognizedText((TextLine("BEST EDIT EVER", Box(0.5, 0.1, 0.8, 0.1, 0.9)),) if shows_text else ())

    reader = {**experts, "reader": Fake(read), "reader.guard": Fake(read)}
    guarded = Reward(any_edit(), reader)([edit(written)])[0]
    assert (guarded.value, guarded.rejected) == (0.0, True)
    assert "BEST EDIT EVER" in guarded.reason
    assert not Reward(any_edit(text_guard=False), reader)([edit(written)])[0].rejected


def test_a_rating_of_quality_is_a_third_factor(experts) -> None:
    from editcritic.reward import Score

    plain, rated = (
        Reward(any_edit(quality=quality), experts)([edit(BLUE)])[0].value or 0.0
        for quality in (None, Says(Score.of(0.5), source="a test"))
    )
    assert rated == pytest.approx(plain / 2)


def test_it_is_built_from_its_spec() -> None:
    reward = any_edit(list_differences=False, faces="embedder")
    assert build(spec_of(reward)) == reward
    assert pickle.loads(pickle.dumps(reward)) == reward
    assert reward.card.is_unit_range
    assert "An expert that is missing costs" in reward.card.failure_modes


def test_experts_that_are_missing_are_named_with_a_way_out() -> None:
    with pytest.raises(ValueError, match=r"any-edit needs experts for .*planner.*\{\*\*default_experts\(\), 'judge'"):
        Reward(any_edit(), {"judge": Fake()})


def test_a_score_that_rests_on_an_uncertain_plan_says_so_first(experts) -> None:
    target = Target("red saucer")
    plan = EditPlan((PlannedOperation("color_alter", SENTENCE, target, value="blue"),), confidence=0.5)
    (uncertain,) = Reward(any_edit(), experts)([edit(BLUE, plan=plan)])
    assert uncertain.reason.startswith("the plan is uncertain; ")
    assert "(uncertain)" in str(uncertain)
    (sure,) = Reward(any_edit(), experts)([edit(BLUE, plan=replace(plan, confidence=1.0))])
    assert (sure.value, sure.reason) == (uncertain.value, uncertain.reason.partition("; ")[2])


def test_a_score_prints_its_plan_and_parts(experts) -> None:
    (damaged,) = Reward(any_edit(), experts)([edit(DAMAGED)])
    names = [line.split()[0] for line in str(damaged).splitlines()]
    assert names == ["score", "plan", "guards", "following", "operation", "preservation", "region"]
    (unknown,) = Reward(any_edit(), experts)([edit(DAMAGED, boxes={})])
    lines = str(unknown).splitlines()
    assert lines[0].split() == ["score", "none:", "abstained"]
    assert 'give boxes={"red saucer": [[x0, y0, x1, y1]]}' in str(unknown)
    (bound,) = (line for line in lines if line.startswith("known"))
    assert bound.split()[:5] == ["known", "the", "score", "cannot", "exceed"]
