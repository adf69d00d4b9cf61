"""What a reply is: calls, a verdict, or neither."""

import json
from functools import partial

import pytest

from editcritic.reward.metrics.dlebench.replies import (
    FOLLOWING,
    FinalAnswer,
    MalformedReply,
    ToolCallReply,
    parse_tool_reply,
    parse_verdict,
)
from editcritic.reward.queries.response_formats import Reply, ToolCall

from .scripted_dlebench import DETECT, ZOOM, calls, says

A, B = '{"name": "a", "parameters": {"x": 1}}', '{"name": "b", "parameters": {}}'


def read(text, *native):
    return parse_tool_reply(Reply(text, tool_calls=native), partial(parse_verdict, FOLLOWING))


def names(step):
    assert isinstance(step, ToolCallReply)
    return [call.name if isinstance(call, ToolCall) else None for call in step.calls]


def test_a_verdict_is_one():
    assert read(says("Wrong Action")) == FinalAnswer("Wrong Action")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        ("<Start Final Answer> Over Modification </Start Final Answer>", FinalAnswer("Over Modification")),
        (f"<tool_call> {A} {B} </tool_call>", ["a", "b"]),
    ],
)
@pytest.mark.parametrize("closing", ["</Start Thinking>", "<Start Thinking>"])
def test_tags_are_read_as_in_the_papers_transcripts(act, expected, closing):
    """Where the second opening tag stands for the closing one, too (001:493 and 496)."""
    step = read(f"<Start Thinking> 1. **Scan:** the gate of the fence is shut in both. {closing} {act}")
    assert (step if isinstance(step, FinalAnswer) else names(step)) == expected


def test_calls_are_read_in_order_with_their_parameters():
    step = read(calls(ZOOM, DETECT))
    assert names(step) == ["zoom_in_image", "detect_object"]
    assert [json.loads(call.arguments) for call in step.calls] == [ZOOM[1], DETECT[1]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"<tool_call>{A}</tool_call>", ["a"]),
        (f"<tool_call>{A}{B}</tool_call>", ["a", "b"]),
        (f"<tool_call>\n{A}\n\n{B}\n</tool_call>", ["a", "b"]),
        (f"<tool_call>{A}</tool_call>\n<tool_call>{B}</tool_call>", ["a", "b"]),
        (f"<tool_call>{A}</tool_call> The result is: none. <tool_call>{B}</tool_call>", ["a"]),
        (f"<tool_call>```json\n{A}\n```</tool_call>", ["a"]),
        (f"<Tool_Call>{A}</tool_call >", ["a"]),
        (f"<tool_call>{A}", ["a"]),
        ('<tool_call>{"name": "a", "arguments": {"x": 1}}</tool_call>', ["a"]),
        ('<tool_call>{"name": "a"}</tool_call>', ["a"]),
        (f"<Start Thinking><tool_call>{B}</tool_call></Start Thinking><tool_call>{A}</tool_call>", ["a"]),
        (f"<Start Thinking>I have to look. <tool_call>{A}</tool_call>", ["a"]),
        # the second of two cannot be read: the first is made all the same
        (f"<tool_call>{A} and then</tool_call>", ["a", None]),
        (f"<tool_call>{A}, {B}</tool_call>", ["a", None]),
        ("<tool_call></tool_call>", [None]),
        ("<tool_call>zoom in</tool_call>", [None]),
        ("<tool_call>[1, 2]</tool_call>", [None]),
        (f"<tool_call>[{A}]</tool_call>", [None]),
        ('<tool_call>{"name": 3, "parameters": {}}</tool_call>', [None]),
        ('<tool_call>{"parameters": {}}</tool_call>', [None]),
        ('<tool_call>{"name": "a", "parameters": [1]}</tool_call>', [None]),
        ('<tool_call>{"name": "a", "parameters": {}, "why": "x"}</tool_call>', [None]),
        ('<tool_call>{"name": "a", "parameters": {}, "arguments": {}}</tool_call>', [None]),
        ('<tool_call>{"name": "a", "name": "b", "parameters": {}}</tool_call>', [None]),
        ('<tool_call>{"name": "a", "parameters": {"x": NaN}}</tool_call>', [None]),
        (f"<tool_call>{'[' * 20_000}</tool_call>", [None]),
    ],
)
def test_what_is_in_a_block(text, wanted):
    assert names(read(text)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        calls(ZOOM) + says("Wrong Action"),
        says("Wrong Action") + calls(ZOOM),
        calls(ZOOM) + "The tool shows a green cup." + says("Wrong Action"),
        calls(ZOOM) + "<Start Final Answer>",
    ],
)
def test_a_call_and_a_verdict_in_one_reply_are_neither(text):
    step = read(text)
    assert isinstance(step, MalformedReply)
    assert "one of the two" in step.reason


def test_a_native_call_and_a_verdict_are_neither_too():
    assert isinstance(read(says("Wrong Action"), ToolCall("a", "{}")), MalformedReply)


def test_what_is_written_behind_calls_is_no_part_of_what_was_said():
    step = read(f"<tool_call>{A}</tool_call>\nObservation: the cup is blue.\nFlawless Execution")
    assert step == ToolCallReply((ToolCall("a", '{"x": 1}'),), f"<tool_call>{A}</tool_call>")


def test_native_calls_are_written_down_in_the_grammar():
    step = read("I look.", ToolCall("a", '{"x": 1}', "id1"), ToolCall("b", "oops", "id2"))
    assert names(step) == ["a", "b"]
    assert step.text == (
        'I look.\n<tool_call>\n{"name": "a", "parameters": {"x": 1}}\n{"name": "b", "parameters": oops}\n</tool_call>'
    )
    assert names(read("", ToolCall("a", "{}"))) == ["a"]


@pytest.mark.parametrize("text", ["I cannot tell.", says("none of them"), "</tool_call>", "tool_call: zoom"])
def test_a_reply_without_calls_and_verdict_is_neither(text):
    assert isinstance(read(text), MalformedReply)
