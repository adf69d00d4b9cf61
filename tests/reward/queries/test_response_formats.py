"""Strict parsing of replies: output outside of the response format is a failure with the raw text."""

import json

import pytest

from editcritic.reward.queries import Failure, FreeText, Grade, Json, Levels, Message, Reply, Tool, ToolCall
from editcritic.reward.queries.response_formats import parse_reply
from editcritic.reward.queries.serialization import answer_from_json, answer_to_json

LEVELS = Levels(("excellent", "good", "fair", "poor", "bad"), (1.0, 0.75, 0.5, 0.25, 0.0))
FLAWS = Json.from_schema(
    {"type": "object", "properties": {"flaws": {"type": "integer", "minimum": 0}}, "required": ["flaws"]}
)


def test_levels_and_grades_are_worth_what_is_expected():
    two = Levels(("very good", "good"), (1.0, 0.5))
    assert [parse_reply(two, text) for text in ("Very good!", "good")] == [Reply("very good"), Reply("good")]
    assert LEVELS.reply_value(Reply("good", {"excellent": 0.5, "bad": 0.5})) == 0.5
    assert LEVELS.reply_value(Reply("good")) == 0.75
    assert Grade().expected_value(Reply("3", {"3": 0.5, "10": 0.5})) == 6.5
    with pytest.raises(ValueError, match="gives no probabilities"):
        Grade().expected_value(Reply("3"))
    assert LEVELS.describe() == Levels(LEVELS.options, (5.0, 4.0, 3.0, 2.0, 1.0)).describe()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ('{"flaws": 2', "not JSON"),
        ('{"flaws": NaN}', "NaN is no number"),
        ('{"flaws": 2.5}', r"\$.flaws is wrong"),
        ('{"flaws": -1}', r"\$.flaws is wrong"),
        ('{"errors": 2}', "required"),
        ('{"flaws": 2} or rather {"flaws": 3}', "2 different answers"),
        ('{"flaws": 2, "flaws": 3}', "given twice"),
    ],
)
def test_what_is_no_json_of_the_schema_fails(text, message):
    outcome = parse_reply(FLAWS, text)
    assert isinstance(outcome, Failure)
    with pytest.raises(ValueError, match=message):
        FLAWS.parse(text)


def test_free_text_and_what_is_logged_of_a_reply():
    assert parse_reply(FreeText(), " a cup ") == Reply("a cup")
    assert isinstance(parse_reply(FreeText(), "  "), Failure)
    call = ToolCall("zoom", "{}", "1")
    assert parse_reply(FreeText(), "", calls=(call,)) == Reply("", tool_calls=(call,))
    reply = Reply("", {"yes": 0.25, "no": 0.75}, 0.5, (ToolCall("zoom", '{"x": 1', "7"),))
    assert answer_from_json(json.loads(json.dumps(answer_to_json(reply)))) == reply
    assert answer_to_json(Reply("yes")) == {"reply": "yes", "probabilities": {}}


@pytest.mark.parametrize(
    ("options", "weights", "message"),
    [
        (("good",), (1.0,), "two or more"),
        (("good", "Good"), (1.0, 0.0), "two or more"),
        (("a", "b"), (1.0,), "one value per option"),
    ],
)
def test_levels_that_make_no_sense_are_refused(options, weights, message):
    with pytest.raises(ValueError, match=message):
        Levels(options, weights)


@pytest.mark.parametrize(("low", "high"), [(3, 3), (5, 1), (-1, 5)])
def test_grades_that_make_no_sense_are_refused(low, high):
    with pytest.raises(ValueError, match="low < high"):
        Grade(low, high)


def test_tools_are_part_of_the_question_only_where_there_are_some():
    zoom = Tool("zoom", "Look closer", json.dumps({"type": "object"}))
    assert FreeText().describe() == ["free_text", 256, 0.0]
    assert FreeText(tools=(zoom,)).describe() != FreeText().describe()
    turn = Message(("look",), "assistant", (ToolCall("zoom", "{}", "1"),))
    assert Message(("look",), "assistant").describe() == ["assistant", ["look"]]
    assert turn.describe() != Message(("look",), "assistant").describe()
    assert (
        Message(("done",), "tool", tool_call_id="1").describe()
        != Message(("done",), "tool", tool_call_id="2").describe()
    )
