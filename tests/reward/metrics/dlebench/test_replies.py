"""What a reply is, calls, a verdict or neither, and what the labels are worth."""

import json
from functools import partial

import pytest

from editcritic.reward.metrics.dlebench.conversation import (
    CONSISTENCY,
    FOLLOWING,
    FinalAnswer,
    MalformedReply,
    ToolCallReply,
    parse_tool_reply,
    parse_verdict,
    without_thinking,
)
from editcritic.reward.queries.response_formats import Reply, ToolCall

from .scripted_dlebench import DETECT, ZOOM, calls, says


@pytest.mark.parametrize("scale", [FOLLOWING, CONSISTENCY])
def test_no_spelling_of_a_label_is_one_of_another(scale):
    for label in [*scale.labels, *(f"{label}s" for label in scale.labels)]:
        assert scale.parse_exact(label) in {None, *(each for each in scale.labels if label.startswith(each[:5]))}


A, B = '{"name": "a", "parameters": {"x": 1}}', '{"name": "b", "parameters": {}}'


def read(text, *native):
    return parse_tool_reply(Reply(text, tool_calls=native), partial(parse_verdict, FOLLOWING))


def names(step):
    assert isinstance(step, ToolCallReply)
    return [call.name if isinstance(call, ToolCall) else None for call in step.calls]


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


MIXED = [calls(ZOOM) + says("Wrong Action"), says("Wrong Action") + calls(ZOOM), calls(ZOOM) + "<Start Final Answer>"]
NEITHER = ["I cannot tell.", says("none of them"), "</tool_call>", "tool_call: zoom"]


@pytest.mark.parametrize("text", [*MIXED, calls(ZOOM) + "The tool shows a green cup." + says("Wrong Action"), *NEITHER])
def test_a_call_and_a_verdict_in_one_reply_or_none_of_both_are_neither(text):
    step = read(text)
    assert isinstance(step, MalformedReply)
    assert text in NEITHER or "one of the two" in step.reason
    assert isinstance(read(says("Wrong Action"), ToolCall("a", "{}")), MalformedReply)  # a native call too


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


FLAWLESS, OVER, WRONG, LOST = FOLLOWING.labels
PERFECT, SINGLE, MULTIPLE, COLLAPSE = CONSISTENCY.labels


VERDICT = "<Start Final Answer>{}</Start Final Answer>"


def tagged(words: str) -> str:
    return f"<Start Thinking>I look.</Start Thinking>\n{VERDICT.format(words)}"


THOUGHT, LOOKED = "<Start Thinking>{}</Start Thinking>", "<Start Thinking>I look."
PLAIN = VERDICT.format("Wrong Action")

# fmt: off
GIVEN = [
    # the grammar, and slips in it that change nothing
    *((tagged(words), WRONG) for words in (
        "wrong action", "**Wrong Action**", "Wrong Action.", "- Wrong Action", "Wrong\u00a0Action", "Wrong Actions")),
    *((tagged(words), OVER) for words in (
        "\nOver Modification\n", '"Over Modification"', "“Over Modification”", "Over-Modification",
        "over_modification", "Overmodification")),
    *((tagged(words), FLAWLESS) for words in (
        "Flawless Execution", "`Flawless Execution`", "[Flawless Execution]", "Flawless Executions")),
    *((tagged(words), LOST) for words in ("LOCALIZATION FAILURE", "Localisation Failure", "Localisation Failures")),
    *((text, WRONG) for text in (
        PLAIN, "<start final answer>Wrong Action</start final answer>",
        "<Start Final Answer >\nWrong Action\n</Start Final Answer >",
        "<Start Final Answer>Wrong Action</Final Answer>",
        "<Start Final Answer>Wrong Action<End Final Answer>", "<Start Final Answer>Wrong Action",
        "<Start Final Answer>Wrong Action<Start Final Answer>",
        f"{LOOKED}</Start Thinking><Start Final Answer>\nWrong Action\n<Start Final Answer>\n",
        "Wrong Action</Start Final Answer>", "I look.</Start Thinking>\nWrong Action\n</Start Final Answer>",
        tagged("Wrong Action") + "\nI hope that helps.", tagged("Wrong Action") + "\n" + tagged("Wrong Action"),
        tagged("Wrong Action") + "\nIt is a Wrong Action for the colour.",
        f"It is not a Flawless Execution.\n{PLAIN}",
        # thoughts
        THOUGHT.format("Flawless Execution? No.") + PLAIN, THOUGHT.format(f"{VERDICT.format(OVER)}? No.") + PLAIN,
        f"I look at the cup.</Start Thinking>{PLAIN}", f"<Start Thinking>It is off. {PLAIN}",
        THOUGHT.format("a") + THOUGHT.format("b") + tagged("Wrong Action"),
        # no tag
        "Wrong Action", "**Wrong Action**", "The cup is green and not blue.\n\nWrong Action\n",
        "It might be a Flawless Execution, but the hue is off.\nWrong Action.",
        f"{LOOKED}</Start Thinking>\nWrong Action")),
]

UNCLEAR = [
    # labels in sentences, denied, or not there
    *((tagged(words), "alone") for words in (
        "not Flawless Execution", "Not a Wrong Action", "Flawless Execution?", "It is a Wrong Action.",
        "Label: Wrong Action", "Wrong Action (2)", "Wrong Action because the cup is green",
        "Wrong Action / Over Modification", "Wrong Action or Over Modification", "Wrong", "Flawless", "3", "Label", "",
        "Perfect Consistency", "Wrong Actionable", "~~Wrong Action~~")),
    # two verdicts
    *((text, "two different") for text in (
        tagged("Wrong Action") + tagged("Over Modification"),
        tagged("Wrong Action") + "\nIt may also be Over Modification.", "Wrong Action\nOver Modification",
        "<Start Final Answer>Wrong Action<Start Final Answer>Over Modification<Start Final Answer>",
        "Over Modification\nWrong Action</Start Final Answer>")),
    *((text, "alone") for text in (
        tagged("Wrong Action") + tagged("unsure"), "<Start Final Answer>Wrong Action<Start Final Answer> or so",
        "<Start Final Answer><Start Final Answer>")),
    # no tag, and no last line that is a label
    *((text, "last line") for text in (
        "It is a Wrong Action</Start Final Answer>", "Wrong Action</Start Final Answer> or so", "It is a Wrong Action",
        "Wrong Action\nbecause the cup is green", "not Flawless Execution", "Verdict: Wrong Action", "I cannot tell.")),
    # nothing, or only in thoughts
    *((text, "nothing") for text in (
        "", "</Start Final Answer>", THOUGHT.format("Wrong Action"), THOUGHT.format(PLAIN), f"{LOOKED}\nWrong Action",
        f"<Start Thinking>If so I say {PLAIN}, but I am not",
        f"<Start Thinking>{PLAIN} or {VERDICT.format(OVER)}",
        "<Start Thinking>I was cut off <Start Final Answer>Wrong Act")),
]

COUNTED = [
    ("Perfect Consistency", PERFECT), ("Perfect Consistencies", PERFECT), ("single anomaly", SINGLE),
    ("Multiple Anomalies", MULTIPLE), ("Scene Collapses", COLLAPSE), ("Single Anomalies", None),
    ("Multiple Anomaly", None), ("Anomaly", None), ("One Anomaly", None), ("No Anomalies", None),
    ("Perfect Consistency, Single Anomaly", None),
]
# fmt: on


@pytest.mark.parametrize(("text", "label"), GIVEN)
def test_a_clear_verdict_is_read(text, label):
    assert parse_verdict(FOLLOWING, text) == label


@pytest.mark.parametrize(("text", "why"), UNCLEAR)
def test_an_unclear_verdict_is_none(text, why):
    with pytest.raises(ValueError, match=why):
        parse_verdict(FOLLOWING, text)


@pytest.mark.parametrize(("words", "label"), COUNTED)
def test_one_anomaly_or_several_is_what_counts(words, label):
    if label is None:
        with pytest.raises(ValueError, match="alone"):
            parse_verdict(CONSISTENCY, tagged(words))
    else:
        assert parse_verdict(CONSISTENCY, tagged(words)) == label


@pytest.mark.parametrize("text", [text for text, _ in GIVEN + UNCLEAR])
def test_what_is_left_without_thoughts_stands_where_it_stood(text):
    left = without_thinking(text)
    assert len(left) == len(text)
    assert all(a in (b, " ") for a, b in zip(left, text, strict=True))
