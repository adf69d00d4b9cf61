"""The conversation of a judge with tools: what it is told, and that it ends."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward.metrics.dlebench.conversation import (
    CONSISTENCY,
    FOLLOWING,
    ToolCallReply,
    parse_tool_reply,
    parse_verdict,
)
from editcritic.reward.metrics.dlebench.metrics import SmallObjectFollowing, VisualConsistency
from editcritic.reward.metrics.dlebench.tools import detect_object, localize_differences, zoom_in_image
from editcritic.reward.queries import Abstention, Detect, Detections, Differ, Failure, Reply, ToolCall, Upscale
from tests.reward.metrics.dlebench.scripted_dlebench import (
    DETECT,
    DIFFER,
    EDITED,
    INSTRUCTION,
    SOURCE,
    ZOOM,
    Experts,
    Finds,
    calls,
    edit,
    noise,
    pictures,
    same,
    says,
)
from tests.reward.metrics.scripted import words

Following = partial(SmallObjectFollowing, mode="tools")
FLAWLESS = says("Flawless Execution")
ZOOMED = zoom_in_image(ZOOM[1]["bbox_2d"], EDITED).pictures
NATIVE = Reply("I look.", tool_calls=(ToolCall(ZOOM[0], json.dumps(ZOOM[1]), "call1"),))
SWAPPED = ("localize_differences", {"comparison_image_1": "Edited Image", "comparison_image_2": "Original Image"})


def result_message(call):
    """What a judge is told when it asks for this tool, or says this, and then comes to its verdict."""
    experts = Experts(call if isinstance(call, str | Reply) else calls(call), FLAWLESS)
    assert experts.score(Following()).value == 1.0
    first, second = experts.judged
    assert second.messages[0] == first.messages[0]
    assert (second.topic, second.slots, second.form) == (first.topic, first.slots, first.form)
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    return second, experts


def zoom(**changes):
    return (ZOOM[0], {**ZOOM[1], **changes})


def test_the_first_message_shows_source_and_edit_and_names_the_tools():
    experts = Experts(FLAWLESS)
    experts.score(Following())
    (question,) = experts.judged
    assert question.messages[0].content[:2] == (SOURCE, EDITED)
    assert same(pictures(question), [SOURCE, EDITED])
    tools = ("zoom_in_image", "localize_differences", "detect_object", "640 x 480", INSTRUCTION)
    assert all(name in words(question) for name in tools)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (ZOOM, ZOOMED),
        (NATIVE, ZOOMED),  # native calls are answered like written ones
        (DIFFER, localize_differences(SOURCE, EDITED).pictures),
        (SWAPPED, localize_differences(SOURCE, EDITED).pictures),  # the source is on the left, whichever is named first
        (DETECT, detect_object(EDITED, "red cup", detector=Finds(Experts().detections)).pictures),
        *(
            (zoom(bbox_2d=[0, 0, 300, 300], target_image=name), [SOURCE.pixels[:300, :300]])
            for name in ("Source Image", "Original Image", "source image", " SourceImage ", "original_image")
        ),
    ],
)
def test_a_judge_sees_what_the_tool_shows_anybody(call, shown):
    question, _ = result_message(call)
    assert same(pictures(question), shown)
    assert "<tool_call>" in words(question, 1)
    assert not question.messages[1].tool_calls


def test_results_come_in_one_message_in_the_order_of_the_calls_and_the_evidence_says_in_which_picture_its_boxes_are():
    experts = Experts(calls(DETECT, ZOOM, DIFFER), FLAWLESS)
    score = experts.score(Following())
    *shown, last = experts.judged[1].messages[-1].content
    shape = ["picture" if not isinstance(part, str) else part.split(":")[0] for part in shown]
    names = enumerate(("detect_object", "zoom_in_image", "localize_differences"), 1)
    assert shape == [text for number, name in names for text in (f"Result {number} of 3, {name}", "picture")]
    assert "Replies left: 5" in str(last)
    assert (experts.count(Detect), experts.count(Differ), experts.count(Upscale)) == (1, 1, 3)
    told = [item for item in score.evidence if item.what.startswith("told the judge")]
    assert [item.image for item in told] == [EDITED.digest] * 3
    assert told[1].boxes[0].corners(EDITED.size) == (300, 200, 340, 230)
    assert told[2].boxes[0].corners(EDITED.size) == pytest.approx((300, 200, 340, 230), abs=2)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (("look_closer", {}), "no tool of this name. There are zoom_in_image, localize_differences, detect_object"),
        (("zoom_in_image", {"target_image": "Edited Image"}), "'bbox_2d' is a required property"),
        (zoom(zoom=2), "'zoom' was unexpected"),
        (zoom(bbox_2d=[1, 2, 3]), "is too short"),
        (zoom(bbox_2d=["1", 2, 3, 4]), "is not of type 'number'"),
        (zoom(bbox_2d=[0.1, 0.1, 0.2, 0.2]), "shares"),
        (zoom(target_image="Reference Image"), "there is no image 'Reference Image'"),
        (zoom(target_image=2), "is not of type 'string'"),
        (("localize_differences", {**DIFFER[1], "comparison_image_1": "edited image"}), "the same one"),
        (("localize_differences", {"comparison_image_1": "Source Image"}), "required property"),
        (("detect_object", {**DETECT[1], "detect_object_name": "green cup"}), "not a part of the editing instruction"),
        ("<tool_call>{oops}</tool_call>", "not JSON"),
        (Reply("", tool_calls=(ToolCall("zoom_in_image", "oops"),)), "not JSON"),
        (Reply("", tool_calls=(ToolCall("zoom_in_image", "[" * 9000),)), "do not fit"),
        (calls(ZOOM) + FLAWLESS, "one of the two"),
        (FLAWLESS + says("Wrong Action"), "two different verdicts"),
        ("I cannot tell.", "no <Start Final Answer>"),
    ],
)
def test_what_cannot_be_done_is_told_and_nobody_else_is_asked(call, why):
    question, experts = result_message(call)
    assert why in words(question)
    assert (pictures(question), len(experts.queries)) == ([], 2)
    assert "Replies left: 5" in words(question)


def test_a_good_call_beside_a_bad_one_is_made_and_no_more_than_eight_at_once():
    question, _ = result_message(calls(zoom(bbox_2d=[0, 0, 9999, 9]), ZOOM))
    assert same(pictures(question), ZOOMED)
    assert "Result 1 of 2, zoom_in_image: not done" in words(question)
    question, _ = result_message(calls(*[ZOOM] * 20))
    assert len(pictures(question)) == 8
    assert "Result 9 of 20, zoom_in_image: not done: no more than 8" in words(question)
    assert "Result 10" not in words(question)


@pytest.mark.parametrize("outcome", [Failure("CUDA is gone"), Abstention("CUDA is gone")])
def test_a_tool_that_cannot_answer_is_told_and_the_conversation_goes_on(outcome):
    experts = Experts(calls(DETECT, ZOOM), FLAWLESS)
    experts.detections = outcome
    score = experts.score(Following())
    question = experts.judged[1]
    assert "Result 1 of 2, detect_object: the tool could not answer" in words(question)
    assert "CUDA" not in words(question)
    assert (score.value, same(pictures(question), ZOOMED)) == (1.0, True)
    assert any("CUDA is gone" in item.text for item in score.evidence)


def test_a_judge_that_never_decides_fails_the_score_with_what_it_said_and_a_verdict_after_errors_counts():
    experts = Experts(*[calls(ZOOM)] * 3)
    score = experts.score(Following(max_turns=3))
    assert (score.status, score.value) == ("failed", None)
    assert "no verdict in 3 replies; of the last one: it asked for tools" in score.reason
    assert [item.text for item in score.evidence if item.what.startswith("reply")] == [calls(ZOOM)] * 3
    assert len(experts.judged) == 3
    assert experts.count(Upscale) == 2  # the calls of the last reply are nobody's to use
    assert "Replies left: 1" in words(experts.judged[2])
    late = Experts("I cannot tell.", calls(ZOOM) + FLAWLESS, says("Wrong Action"))
    assert late.score(Following(max_turns=3)).value == pytest.approx(1 / 3)


FRAGMENTS = [
    *["<Start Thinking>", "</Start Thinking>", "<Start Final Answer>", "</Start Final Answer>", "<tool_call>"],
    *["</tool_call>", "\n", " ", "not ", "Flawless Execution", "Wrong Action", "Scene Collapse", "Multiple Anomalies"],
    *['{"name": "zoom_in_image", "parameters": {"bbox_2d": [300, 200, 340, 230], "target_image": "Edited Image"}}'],
    *['{"name": "zoom_in_image", "parameters": {"bbox_2d": [9, 9, 9, 1e999], "target_image": "Source Image"}}'],
    *[json.dumps({"name": DETECT[0], "parameters": DETECT[1]}), '{"name": "detect_object"}', "{", "}", "[1, ", '"'],
    *["```json\n", "```", "Result 1: blue.", "ü", "\x00", "9" * 30, '{"name": "x", "arguments": null}'],
]
REPLIES = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)


@settings(max_examples=150)
@given(st.lists(REPLIES, min_size=1, max_size=4), st.sampled_from([SmallObjectFollowing, VisualConsistency]))
def test_whatever_the_judge_says_the_conversation_ends_within_its_turns(replies, metric):
    experts: Experts = Experts(lambda question: replies[(len(experts.judged) - 1) % len(replies)])
    experts.detections = Detections(())
    score = experts.score(metric(mode="tools", max_turns=4))
    questions = experts.judged
    assert 1 <= len(questions) <= 4
    assert score.status in ("scored", "failed")
    assert (score.status == "scored") == any(item.what == "label" for item in score.evidence)
    assert [len(question.messages) for question in questions] == [2 * turn + 1 for turn in range(len(questions))]
    if score.status == "failed":
        assert (len(questions), "no verdict in 4 replies" in score.reason) == (4, True)


BICYCLE = "Change the color of the bicycle from yellow to black."  # table 11, whose run asks for "yellow bicycle"


@pytest.mark.parametrize(
    ("name", "substring", "of_words"),
    [
        *(("The  Bicycle", True, True), ("the\nbicycle", True, True), ("yellow bicycle", False, True)),
        *(("the yellow  bicycle", False, True), ("red bicycle", False, False), ("bicycles", False, False)),
        *(("the", True, False), (" ", False, False)),
    ],
)
def test_the_detector_is_asked_for_a_part_of_the_instruction_or_for_words_of_it(name, substring, of_words):
    for rule, signed, expected in (("substring", "", substring), ("words", "[object_names=words]", of_words)):
        experts = Experts(calls(("detect_object", {**DETECT[1], "detect_object_name": name})), FLAWLESS)
        score = experts.score(Following(object_names=rule), edit(instruction=BICYCLE))
        assert (experts.count(Detect), score.metric) == (expected, f"dlebench-if@2/tools{signed}"), rule


@pytest.mark.parametrize("metric", [SmallObjectFollowing, VisualConsistency])
def test_in_the_papers_protocol_the_tools_are_in_a_system_prompt_that_stays_and_an_example_asks_for_one(metric):
    experts = Experts(calls(ZOOM), *[says(metric.label_scale.labels[0])] * 2)
    experts.score(metric(mode="tools", paper=True))
    first, second = experts.judged
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "user"]
    assert second.messages[:2] == first.messages
    role, asked = (words(first, place) for place in range(2))
    assert ("detect_object looks for" in role, INSTRUCTION in role, INSTRUCTION in asked) == (True, False, True)
    assert first.messages[1].content[:2] == (SOURCE, EDITED)
    assert "There are three tools" not in asked
    experts.score(metric(mode="tools"))
    example = '</Start Thinking> <tool_call>{"name": "localize_diff'
    assert (role + asked).count(example) == 1
    assert example not in words(experts.judged[-1])


@pytest.mark.parametrize(
    ("side", "shown"), [((600, 500), (2400, 2000)), ((1024, 300), (4096, 1200)), ((1025, 300), (1025, 300))]
)
def test_in_the_papers_protocol_all_crops_of_the_tools_are_enhanced_up_to_a_bound(side, shown):
    sample = edit(sources=(noise(1, (1200, 900)),), edited=noise(2, (1200, 900)))
    for paper, size in ((True, shown), (False, side)):
        experts = Experts(calls(zoom(bbox_2d=[0, 0, *side], target_image="Source Image")), FLAWLESS)
        experts.score(Following(paper=paper), sample)
        assert pictures(experts.judged[1])[0].size == size
        assert ("4 times as large" in words(experts.judged[1])) == (size != side)


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
        ("<Start Final Answer> Over Modification </Start Final Answer>", "Over Modification"),
        (f"<tool_call> {A} {B} </tool_call>", ["a", "b"]),
    ],
)
@pytest.mark.parametrize("closing", ["</Start Thinking>", "<Start Thinking>"])
def test_tags_are_read_as_in_the_papers_transcripts(act, expected, closing):
    """Where the second opening tag stands for the closing one, too (001:493 and 496)."""
    step = read(f"<Start Thinking> 1. **Scan:** the gate of the fence is shut in both. {closing} {act}")
    assert (step if isinstance(step, str) else names(step)) == expected


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        *((f"<tool_call>{A}</tool_call>", ["a"]), (f"<tool_call>{A}{B}</tool_call>", ["a", "b"])),
        (f"<tool_call>\n{A}\n\n{B}\n</tool_call>", ["a", "b"]),
        (f"<tool_call>{A}</tool_call>\n<tool_call>{B}</tool_call>", ["a", "b"]),
        (f"<tool_call>{A}</tool_call> The result is: none. <tool_call>{B}</tool_call>", ["a"]),
        *((f"<tool_call>```json\n{A}\n```</tool_call>", ["a"]), (f"<Tool_Call>{A}</tool_call >", ["a"])),
        (f"<tool_call>{A}", ["a"]),
        ('<tool_call>{"name": "a", "arguments": {"x": 1}}</tool_call>', ["a"]),
        ('<tool_call>{"name": "a"}</tool_call>', ["a"]),
        (f"<Start Thinking><tool_call>{B}</tool_call></Start Thinking><tool_call>{A}</tool_call>", ["a"]),
        (f"<Start Thinking>I have to look. <tool_call>{A}</tool_call>", ["a"]),
        # the second of two cannot be read: the first is made all the same
        *((f"<tool_call>{A} and then</tool_call>", ["a", None]), (f"<tool_call>{A}, {B}</tool_call>", ["a", None])),
        *(("<tool_call></tool_call>", [None]), ("<tool_call>zoom in</tool_call>", [None])),
        *(("<tool_call>[1, 2]</tool_call>", [None]), (f"<tool_call>[{A}]</tool_call>", [None])),
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
MIXED.append(calls(ZOOM) + "The tool shows a green cup." + says("Wrong Action"))
NEITHER = ["I cannot tell.", says("none of them"), "</tool_call>", "tool_call: zoom"]


@pytest.mark.parametrize("text", [*MIXED, *NEITHER])
def test_a_call_and_a_verdict_in_one_reply_or_none_of_both_are_neither(text):
    with pytest.raises(ValueError, match="alone" if text in NEITHER else "one of the two"):
        read(text)
    with pytest.raises(ValueError, match="one of the two"):  # a native call, too
        read(says("Wrong Action"), ToolCall("a", "{}"))


def test_calls_are_written_down_and_nothing_behind_them():
    step = read(f"<tool_call>{A}</tool_call>\nObservation: the cup is blue.\nFlawless Execution")
    assert step == ToolCallReply((ToolCall("a", '{"x": 1}'),), f"<tool_call>{A}</tool_call>")
    step = read("I look.", ToolCall("a", '{"x": 1}', "id1"), ToolCall("b", "oops", "id2"))
    assert names(step) == ["a", "b"]
    assert step.text == (
        'I look.\n<tool_call>\n{"name": "a", "parameters": {"x": 1}}\n{"name": "b", "parameters": oops}\n</tool_call>'
    )
    assert names(read("", ToolCall("a", "{}"))) == ["a"]


BEST, OVER, WRONG, LOST = FOLLOWING.labels
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
    *((tagged(words), BEST) for words in (
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
