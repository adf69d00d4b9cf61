"""The conversation of a judge with tools: what it is told, and that it ends."""

import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward.metrics.dlebench.metrics import SmallObjectFollowing, VisualConsistency
from editcritic.reward.metrics.dlebench.tools import detect_object, localize_differences, zoom_in_image
from editcritic.reward.queries import Abstention, Detections, Failure
from editcritic.reward.queries.kinds import Detect, Differ, Upscale
from editcritic.reward.queries.response_formats import Reply, ToolCall

from ..scripted import words
from .scripted_dlebench import (
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
    patched,
    pictures,
    same,
    says,
)

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


# -- as in the paper

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


def test_in_the_papers_protocol_both_sides_of_a_difference_are_enhanced():
    source = noise(1, (1200, 900))
    edited = patched(source, (300, 300, 660, 640))
    experts = Experts(calls(DIFFER), FLAWLESS)
    experts.score(Following(paper=True), edit(sources=(source,), edited=edited))
    plain = localize_differences(source, edited, enhance_below=0).pictures[0]
    (pair,) = pictures(experts.judged[1])
    assert min(plain.size) > 256
    assert (pair.width - 4, pair.height) == (4 * (plain.width - 4), 4 * plain.height)
