"""The reward on a photograph with the experts that need no download: its value, guards, advice, and what it costs."""

import pickle
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, Card, EditPlan, Image, PlannedOperation, Reward, Score, Target, build, score, spec_of
from editcritic.reward.metrics.any_edit import plan_of_sample
from editcritic.reward.metrics.any_edit.overall import AspectAsPlanned, NotACopyAsPlanned, any_edit
from editcritic.reward.metrics.any_edit.plan_preservation import PlanPreservation
from editcritic.reward.metrics.any_edit.questions import with_questions
from editcritic.reward.queries.answers import RecognizedText, TextLine
from studies.preservation.sizes import answers, kontext_size, stretched

from ...fakes import Fake, Says
from .conftest import BLUE, PHOTO, PIXELS, edit, worth

SAUCER = (38, 33, 240, 195)
DAMAGED = BLUE.copy()
DAMAGED[20:80, 240:295] = 255 - DAMAGED[20:80, 240:295]
SENTENCE = "Change the color of red saucer to blue."
BOXES = {"red saucer": SAUCER}


def scored(experts, edited, instruction=SENTENCE, boxes=BOXES, metric=None, **fields):
    reward = Reward(metric or any_edit(), experts, on_failures="none")
    return reward([edit(instruction, PIXELS, edited, boxes, **fields)])[0]


def plan(kind, words, *more, scope="local", confidence=1.0, **slots):
    return EditPlan((PlannedOperation(kind, words, **slots), *more), scope=scope, confidence=confidence)


def reads(words):
    """A reader of these words, where there is white ink."""

    def read(query):
        shows_text = bool((query.image.pixels >= 250).all(axis=2).sum() > 300)
        return RecognizedText((TextLine(words, Box(0.5, 0.1, 0.8, 0.1, 0.9)),) if shows_text else ())

    return dict.fromkeys(("reader", "reader.guard"), Fake(read, name="reader"))


def test_a_good_edit_is_worth_more_than_one_that_damages_the_rest(experts):
    good, damaged, copy = (scored(experts, pixels) for pixels in (BLUE, DAMAGED, PIXELS))
    assert worth(good) > 0.9
    assert 0.05 < worth(damaged) < 0.6
    assert (copy.value, copy.rejected, list(good.credits)) == (0.0, True, ["operation 1"])
    assert set(good.parts["reward"].parts) == {"following", "preservation", "region"}
    assert worth(score(PIXELS, BLUE, SENTENCE, boxes={"red saucer": [SAUCER]})) > 0.9
    rated = scored(experts, BLUE, metric=any_edit(quality=Says(Score.of(0.5), source="a test")))
    assert rated.value == pytest.approx(worth(good) / 2)


def test_a_sentence_needs_a_planner_that_reads_it_or_a_plan_that_accounts_for_it(experts):
    unread = scored(experts, BLUE, "Surprise everybody")
    assert unread.status == "abstained"
    assert 'bind a judge, which reads any language, as in experts="small"' in unread.reason
    assert "say it in simpler words" in unread.reason
    target = Target("saucer", boxes=(Box.from_corners(*SAUCER, PHOTO.size),))
    for sentence, boxes in (
        ("Make the saucer that the cup stands on blue", {}),
        ("Make the saucer blue", {"saucer": SAUCER}),
    ):
        given = plan("color_alter", sentence, target=target, value="blue")
        result = scored(experts, BLUE, sentence, boxes, plan=given)
        assert worth(result) > 0.9 if boxes else (result.status == "failed" and "'cup" in result.reason)


def test_text_that_nobody_asked_for_is_rejected(experts):
    written = cv2.putText(BLUE.copy(), "BEST EDIT EVER", (10, 25), cv2.FONT_HERSHEY_SIMPLEX, 0.9, (255, 255, 255), 2)
    reader = {**experts, **reads("BEST EDIT EVER")}
    guarded = scored(reader, written)
    assert (guarded.value, guarded.rejected, "BEST EDIT EVER" in guarded.reason) == (0.0, True, True)
    assert not scored(reader, written, metric=any_edit(text_guard=False)).rejected


def test_it_is_built_from_its_spec_and_names_experts_that_are_missing():
    reward = any_edit(list_differences=False, faces="embedder")
    assert build(spec_of(reward)) == pickle.loads(pickle.dumps(reward)) == reward
    assert reward.card.is_unit_range
    assert "An expert that is missing costs" in reward.card.failure_modes
    with pytest.raises(ValueError, match=r"any-edit needs experts for .*planner.*\{\*\*default_experts\(\), 'judge'"):
        Reward(any_edit(), {"judge": Fake()})


def test_a_score_prints_its_plan_and_parts_and_first_that_a_plan_is_uncertain(experts):
    names = [line.split()[0] for line in str(scored(experts, DAMAGED)).splitlines()]
    assert names == ["score", "plan", "guards", "following", "operation", "preservation", "region"]
    text = str(scored(experts, DAMAGED, boxes={}))
    assert text.split()[:3] == ["score", "none:", "abstained"]
    assert 'give boxes={"red saucer": [[x0, y0, x1, y1]]}' in text
    assert any(
        line.startswith("known the score cannot exceed") for line in map(" ".join, map(str.split, text.splitlines()))
    )
    slots = {"target": Target("red saucer"), "value": "blue"}
    uncertain, sure = (
        scored(experts, BLUE, plan=plan("color_alter", SENTENCE, confidence=p, **slots)) for p in (0.5, 1.0)
    )
    assert "(uncertain)" in str(uncertain)
    assert (sure.value, f"the plan is uncertain; {sure.reason}") == (uncertain.value, uncertain.reason)


COFFEE = skimage.data.coffee()
HALF = PIXELS[:, :150]
REMOVAL = plan("subject_remove", "Remove the cup", target=Target("cup"))
CROPS = [plan(kind, "Crop the image to the left half", scope="whole") for kind in ("crop", "reframe")]
RESIZE = plan("resize", "resize to 512x512", target=Target("image"), value="512x512", scope="whole")
BRIGHTER = plan("light", "brighten it a bit", value="brightened", scope="whole")
WATERCOLOR = plan("style", "make it a watercolor", value="watercolor", scope="whole")
SMALLER = PHOTO.resized(512, 512).pixels


@pytest.mark.parametrize(
    ("metric", "planned", "edited", "value"),
    [
        *((AspectAsPlanned(), crop, HALF, 1.0) for crop in CROPS),
        (AspectAsPlanned(), REMOVAL, HALF, 0.0),
        (AspectAsPlanned(), REMOVAL, PIXELS, 1.0),
        (AspectAsPlanned(), None, 255 - PIXELS, 1.0),  # the plan is not asked for where the shape is the same
        *((AspectAsPlanned(), None, HALF, None), (NotACopyAsPlanned(), RESIZE, SMALLER, 1.0)),
        *((NotACopyAsPlanned(), BRIGHTER, SMALLER, 1.0), (NotACopyAsPlanned(), WATERCOLOR, SMALLER, 0.0)),
        *((NotACopyAsPlanned(), planned, PIXELS, 0.0) for planned in (RESIZE, BRIGHTER, WATERCOLOR)),
        (NotACopyAsPlanned(), None, PIXELS ^ np.uint8(1), 0.0),
    ],
)
def test_a_guard_knows_what_the_plan_asks_for(experts, metric, planned, edited, value):
    words = planned.operations[0].words if planned else "What nobody can plan"
    assert scored(experts, edited, words, {}, metric, plan=planned).value == value


@pytest.mark.parametrize(("rows", "least"), [((31, 369), 0.99), ((100, 300), 0.96)], ids=["16:9", "3:1"])
def test_an_editor_may_answer_in_its_own_size_but_with_no_other_composition(experts, rows, least):
    source = COFFEE[slice(*rows)]
    for name, answer in answers(source, skimage.data.astronaut(), kontext_size(*source.shape[1::-1])):
        sample = edit("Remove the cup", source, answer, plan=REMOVAL)
        scores: list[Any] = [Reward(one, experts)([sample])[0] for one in (AspectAsPlanned(), PlanPreservation())]
        guard, kept = scores
        if name in ("stretched", "cut"):
            assert (guard.value, kept.value) == (1.0, pytest.approx(least, abs=0.01)), name
            assert kept.reason.startswith(f"{name} from {source.shape[1]} x ")
        else:
            assert min(guard.value or 0.0, kept.value or 0.0) <= 0.1, name


def test_an_edit_of_another_shape_is_charged_the_more_the_further_it_is(experts):
    sides = [(1184, 880), (1024, 768), (1024, 1024), (640, 1024)]  # of a picture of 3:2
    edits = [edit("Remove the cup", PIXELS, stretched(PIXELS, size), plan=REMOVAL) for size in sides]
    values = [score.value or 0.0 for score in Reward(PlanPreservation(), experts)(edits)]
    assert values == sorted(values, reverse=True)
    assert values[0] > 0.95
    assert 0.5 < values[2] < 0.75
    assert values[3] == 0.0
    source, edited = (np.full((height, 300, 3), 120, np.uint8) for height in (200, 220))
    source[60:140, 110:190], edited[66:154, 110:190] = (200, 30, 30), (30, 30, 200)
    blue = plan("color_alter", "Make it blue", target=Target("cup"), value="blue")
    sample = edit("Make it blue", source, edited, {"cup": (75, 30, 225, 170)}, plan=blue)
    assert Reward(AspectAsPlanned(), experts)([sample])[0].value == 1.0
    larger = Image.of(cv2.resize(DAMAGED, (450, 300), interpolation=cv2.INTER_CUBIC))
    a, b = (scored(experts, one.pixels).parts["reward"].parts for one in (larger, larger.resized(300, 200)))
    assert 0.05 < worth(a["preservation"]) == worth(b["preservation"]) < 0.6


TINTED = PIXELS.copy()
TINTED[48:98, 103:185] = TINTED[48:98, 103:185, [1, 0, 2]]
CUP, SPOON, CORNERS = (70, 20, 210, 130), (10, 110, 90, 190), "[x0, y0, x1, y1]"
MOVE = "Move the spoon to the left of the cup"
WOODEN, SMILE = "Make the table wooden", "Make the person smile"
NO_COLOUR = "Change the color of the cup to red and yellow"


def advice(experts, sentence, boxes):
    """The reason of the abstention; empty for a score."""
    result = scored(experts, TINTED, sentence, boxes, any_edit(text_guard=False))
    assert "\n" not in result.reason
    return result.reason if result.status == "abstained" else ""


@pytest.mark.parametrize(
    ("sentence", "boxes", "argument"),
    [
        ("Make the cup blue", {}, f'{{"cup": [{CORNERS}]}}'),
        ("Remove the spoon from the table", {}, f'{{"spoon": [{CORNERS}]}}'),
        ("Remove the two spoons", {}, f'{{"spoons": [{CORNERS}, {CORNERS}]}}'),
        ("Remove the two spoons", {"spoons": SPOON}, f'{{"spoons": [{CORNERS}, {CORNERS}]}}'),
        (MOVE, {}, f'{{"spoon": [{CORNERS}], "cup": [{CORNERS}]}}'),
        (MOVE, {"spoon": SPOON}, f'{{"cup": [{CORNERS}]}}'),
        ("Write 'OPEN' on the cup", {}, f'{{"cup": [{CORNERS}]}}'),
        ("Remove the watermark", {}, f'{{"watermark": [{CORNERS}]}}'),
        ("Make the cup blue", {"mug": CUP}, f'{{"cup": [{CORNERS}]}}'),
        ("Remove the cup on the table", {"cup": [CUP, SPOON]}, f'{{"table": [{CORNERS}]}}'),
    ],
)
def test_boxes_that_decide_are_asked_for(experts, sentence, boxes, argument):
    reason = advice(experts, sentence, boxes)
    assert f"give boxes={argument}" in reason or f"all, boxes={argument}" in reason
    assert ("there is one of 'mug', which the instruction does not name so" in reason) is ("mug" in boxes)


@pytest.mark.parametrize(
    ("sentence", "boxes", "words"),
    [
        *(
            (text, {}, 'experts="laptop"')
            for text in ("Add a cat", "Replace the cup with a bowl", "Give the man a hat")
        ),
        ("Add a cookie to the plate", {"plate": CUP}, 'experts="laptop"'),
        ("Replace the cup with a bowl", {"cup": CUP}, 'experts="laptop"'),
        *((text, {}, 'experts="small"') for text in ("Make the cup bigger", "Turn the photo into a sketch")),
        *((text, {}, 'experts="small"') for text in ("Change the background to a beach", "Remove the text 'OPEN'")),
        *((text, {text.split()[2]: CUP}, 'experts="small"') for text in ("Make the cup bigger", WOODEN, SMILE)),
        *((NO_COLOUR, boxes, "cannot tell 'red and yellow'") for boxes in ({}, {"cup": CUP})),
    ],
)
def test_no_box_is_asked_for_where_none_helps(experts, sentence, boxes, words):
    reason = advice(experts, sentence, boxes)
    assert words in reason
    assert "boxes=" not in reason


@pytest.mark.parametrize(
    ("sentence", "boxes"),
    [
        *(("Make the cup blue", {"cup": CUP}), ("Remove the cup from the table", {"cup": CUP})),
        *(("Make the dog's ear red", {"ear": CUP}), (MOVE, {"spoon": SPOON, "cup": CUP})),
    ],
)
def test_the_boxes_that_are_asked_for_suffice(experts, sentence, boxes):
    assert not advice(experts, sentence, boxes)


CROP_AND_WRITE = 'Crop the picture to the left half, and write "OPEN"'
WRITTEN = cv2.putText(HALF.copy(), "OPEN", (10, 60), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (255, 255, 255), 4)
OPEN = PlannedOperation("text_change", 'write "OPEN"', text="OPEN")
PLAN = plan("crop", "Crop the picture to the left half", OPEN, value="left half", scope="whole")


def cropped_and_written():
    """New objects each time. All four parts of the reward need its plan: both guards, following and preservation."""
    return edit(CROP_AND_WRITE, PIXELS.copy(), WRITTEN.copy())


@pytest.fixture
def made(monkeypatch):
    """The plans that were made to the end, in order."""
    plans: list[EditPlan] = []

    def noted(plan):
        plans.append(with_questions(plan))
        return plans[-1]

    monkeypatch.setattr(plan_of_sample, "with_questions", noted)
    return plans


def test_with_the_default_experts_a_sample_builds_no_card_and_one_plan_cold_and_warm(experts, made, monkeypatch):
    names: list[str] = []
    reward = Reward(any_edit(), experts)
    monkeypatch.setattr(Card, "__post_init__", lambda card: names.append(card.name))
    (cold,) = reward([edit(SENTENCE, PIXELS, BLUE, BOXES)])
    assert (cold.status, len(made), names) == ("scored", 1, [])
    asked = reward.engine.stats()
    (warm,) = reward([edit(SENTENCE, PIXELS, BLUE, BOXES)])
    assert (warm, len(made), names) == (cold, 2, [])
    now = reward.engine.stats()
    assert (now.unique, now.programs) == (asked.unique, 2)  # all answers were in memory
    assert now.queries - asked.queries >= 15


def test_all_four_parts_that_need_the_plan_get_the_same_one_and_a_sample_twice_is_planned_twice(experts, made):
    planner = Fake(lambda _: PLAN, name="planner")
    reward = Reward(any_edit(), {**experts, "planner": planner, **reads("OPEN")})
    sample = cropped_and_written()
    (score,) = reward([sample])
    assert (set(score.parts["guard"].parts), score.parts["guard"].value) == ({"guard", "reward"}, 1.0)
    assert set(score.parts["reward"].parts) == {"following", "preservation", "region"}
    assert (len(made), sum(planner.seen.values()), [*reward([sample, sample])], len(made)) == (1, 1, [score] * 2, 3)
