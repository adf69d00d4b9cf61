"""Plans: their constraints, referring expressions in words, and plans as JSON."""

import json
import pickle

import jsonschema
import pytest
from hypothesis import given

from editcritic.reward import Box, EditPlan, Kept, PlannedOperation, Question, Relation, Target
from editcritic.reward.edit_plan import plan_from_json, plan_schema, plan_to_json

from .plan_strategies import PLANS

CUP = Target("cup")
RED = PlannedOperation("color_alter", target=CUP, value="red")


def nested(depth):
    target = CUP
    for _ in range(depth):
        target = Target("cup", relation=Relation("on", target))
    return target


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EditPlan(()), "at least one operation"),
        (lambda: EditPlan((RED,) * 17), "at most 16 operations, got 17"),
        (lambda: EditPlan((RED,), (Kept("light"),) * 33), "at most 32 kept items, got 33"),
        (lambda: EditPlan((RED,), confidence=float("nan")), "confidence must lie in"),
        (lambda: PlannedOperation("color_alter", target=CUP), "a color_alter operation needs value"),
        (lambda: PlannedOperation("paint"), "unknown type of operation 'paint'"),  # type: ignore[arg-type]
        (lambda: PlannedOperation("subject_add", new=CUP, position="left"), "position and reference together"),
        (lambda: PlannedOperation("other", questions=(Question("Is it?", parent=0),)), "a parent stands before"),
        (lambda: PlannedOperation("other", questions=(Question("Is it?"),) * 13), "at most 12 questions, got 13"),
        (lambda: PlannedOperation("other", words="x" * 2001), "at most 2,000 are allowed"),
        (lambda: Question("Is it?", near_miss=True), "must be answered no"),
        (lambda: Target(" "), "needs a noun"),
        (lambda: Target("cup", order=2), "order and order_from go together"),
        (lambda: Target("cup", ("red",) * 17), "at most 16 attributes, got 17"),
        (lambda: nested(4), "nested deeper than 3"),
        (lambda: Kept("identity"), "needs a target"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (CUP, "cup"),
        (Target("cup", ("small", "red"), place="left"), "small red cup at the left of the picture"),
        (Target("car", order=2, order_from="right"), "second car from the right"),
        (Target("dog", quantity="both", place="foreground"), "both dog in the foreground"),
        (Target("cup", size="largest", relation=Relation("on", Target("table"))), "largest cup on the table"),
    ],
)
def test_a_target_has_words(target, words):
    assert target.words == words


@given(PLANS)
def test_a_plan_comes_back_from_json_and_keeps_the_schema(plan):
    text = json.dumps(plan_to_json(plan), allow_nan=False)
    again = plan_from_json(json.loads(text))
    assert again == plan
    assert repr(again) == repr(plan)
    assert json.dumps(plan_to_json(again)) == text
    assert pickle.loads(pickle.dumps(plan)) == plan
    data = plan_to_json(plan)
    if "boxes" not in json.dumps(data):
        jsonschema.validate(data, plan_schema())


def test_what_is_written_and_what_is_refused():
    assert plan_to_json(EditPlan((RED,))) == {
        "operations": [{"type": "color_alter", "target": {"noun": "cup"}, "value": "red"}]
    }
    operation = PlannedOperation("subject_remove", target=Target("cup", boxes=(Box(0.5, 0.5, 0.25, 0.5),)))
    data = plan_to_json(EditPlan((operation,)))
    assert data["operations"][0]["target"]["boxes"] == [{"cx": 0.5, "cy": 0.5, "w": 0.25, "h": 0.5}]
    target = {"noun": "cup"}
    for _ in range(2000):
        target = {"noun": "cup", "relation": {"kind": "on", "of": target}}  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="relation"):
        plan_from_json({"operations": [{"type": "other", "target": target}]})
    jsonschema.Draft202012Validator.check_schema(plan_schema())
    with pytest.raises(jsonschema.ValidationError, match="colour"):
        jsonschema.validate({"operations": [{"type": "other", "colour": "red"}]}, plan_schema())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "operations"),
        ({"operations": [{"type": "other", "colour": "red"}]}, r"operations\.0\.colour"),
        ({"operations": [{"type": "paint"}]}, r"operations\.0\.type"),
        ({"operations": [{"type": "color_alter", "target": {"noun": "cup"}}]}, "needs value"),
        ({"operations": [{"type": "other"}] * 17}, "at most 16 items"),
        ({"operations": [{"type": "other", "words": "x" * 2001}]}, "at most 2000 characters"),
        ({"operations": [{"type": "other"}], "keep": [{"aspect": "smell"}]}, r"keep\.0\.aspect"),
        ({"operations": [{"type": "other"}], "x": 1}, "x"),
        ([], "dictionary"),
    ],
)
def test_json_that_is_no_plan_is_refused_with_its_path(data, message):
    with pytest.raises(ValueError, match=message):
        plan_from_json(data)
