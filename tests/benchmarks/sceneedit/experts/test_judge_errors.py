"""A judge that errs gives grades of the other end, or lifts them; words that are no grade stay as they are."""

import json

import pytest

from editcritic.benchmarks.sceneedit.experts.expert_noise import perturb_reply
from editcritic.reward.metrics.dlebench.replies import CONSISTENCY, FOLLOWING
from editcritic.reward.queries import FreeText, Judge, Message, Reply
from editcritic.reward.queries.response_formats import Grade, Json, Levels, ResponseFormat, validate_reply

FIVE = Levels(("excellent", "good", "fair", "poor", "bad"), (1.0, 0.75, 0.5, 0.25, 0.0))
GRADES = Json.from_schema(
    {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"score": {"type": "integer", "minimum": 0, "maximum": 10}},
                },
            },
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
        },
    }
)


def spoilt(
    form: ResponseFormat, reply: Reply, *, flipped: bool = False, bias: float = 0.0, biased: bool = False
) -> Reply:
    query = Judge((Message(("?",)),), form)
    perturbed = perturb_reply(query, reply, flipped, bias, biased)
    validate_reply(form, perturbed)
    return perturbed


def test_a_level_becomes_that_of_the_other_end():
    reply = Reply("good", {"excellent": 0.2, "good": 0.6, "fair": 0.2, "poor": 0.0, "bad": 0.0})
    turned = spoilt(FIVE, reply, flipped=True)
    assert turned.text == "poor"
    assert FIVE.reply_value(turned) == pytest.approx(1 - FIVE.reply_value(reply))
    assert spoilt(FIVE, Reply("bad"), flipped=True).text == "excellent"


def test_bias_lifts_a_level_and_a_grade_towards_the_best():
    reply = Reply("bad", {"excellent": 0.0, "good": 0.0, "fair": 0.0, "poor": 0.0, "bad": 1.0})
    assert FIVE.reply_value(spoilt(FIVE, reply, bias=0.4)) == pytest.approx(0.4)
    assert spoilt(FIVE, reply, bias=0.4).text == "bad"
    assert spoilt(FIVE, reply, bias=0.6).text == "excellent"
    drawn = Reply("3", {str(grade): float(grade == 3) for grade in range(11)})
    lifted = spoilt(Grade(0, 10, 1.0), drawn, bias=0.5, biased=True)
    assert lifted.text == "10"
    assert Grade().expected_value(lifted) == pytest.approx(6.5)
    assert spoilt(Grade(0, 10, 1.0), drawn, bias=0.5).text == "3"


def test_all_grades_in_json_are_turned_round_each_on_its_scale():
    value = {"reasoning": "4 of 5", "items": [{"score": 9}, {"score": 0}], "score": 2}
    reply = Reply(json.dumps(value))
    turned = json.loads(spoilt(GRADES, reply, flipped=True).text)
    assert turned == {"reasoning": "4 of 5", "items": [{"score": 1}, {"score": 10}], "score": 4}
    swayed = json.loads(spoilt(GRADES, reply, biased=True, bias=0.1).text)
    assert swayed == {"reasoning": "4 of 5", "items": [{"score": 10}, {"score": 10}], "score": 5}


@pytest.mark.parametrize("scale", [FOLLOWING, CONSISTENCY])
def test_a_label_becomes_that_of_the_other_end(scale):
    first, second, third, last = scale.labels
    for label, other in ((first, last), (second, third), (last, first)):
        reply = Reply(f"<Start Thinking>{label}?</Start Thinking>\n<Start Final Answer>{label}</Start Final Answer>")
        text = spoilt(FreeText(), reply, flipped=True).text
        assert text.endswith(f"<Start Final Answer>{other}</Start Final Answer>")
        assert text.startswith(f"<Start Thinking>{label}?")
    reply = Reply(f"<Start Final Answer>{last}</Start Final Answer>")
    assert first in spoilt(FreeText(), reply, bias=0.1, biased=True).text


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (FreeText(), "Please segment the red circle"),
        (Json.from_schema({"type": "array"}), '["Please segment the red circle"]'),
        (Json.from_schema({"type": "object"}), '{"questions": ["Is it 5?"]}'),
    ],
)
def test_what_a_judge_writes_is_left_alone(form, text):
    reply = Reply(text)
    assert spoilt(form, reply, flipped=True, bias=1.0, biased=True) is reply
