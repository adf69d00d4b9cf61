"""The conversation of a judge with tools: what it is told, and that it ends."""

import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward.metrics.dlebench.metrics import SmallObjectFollowing, VisualConsistency
from editcritic.reward.metrics.dlebench.tools import detect_object, localize_differences, zoom_in_image
from editcritic.reward.queries import Abstention, Detections, Failure, Judge
from editcritic.reward.queries.kinds import Detect, Differ, Upscale
from editcritic.reward.queries.response_formats import Reply, ToolCall

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
    words,
)

Following = partial(SmallObjectFollowing, mode="tools")
FLAWLESS = says("Flawless Execution")


def result_message(call, metric=None):
    """What a judge is told when it asks for this tool, or says this, and then comes to its verdict."""
    experts = Experts(call if isinstance(call, str | Reply) else calls(call), FLAWLESS)
    score = experts.score(metric or Following())
    assert score.value == 1.0
    first, second = experts.judge_queries
    assert second.messages[0] == first.messages[0]
    assert (second.topic, second.slots, second.form) == (first.topic, first.slots, first.form)
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    return second, experts


# -- results ----------------------------------------------------------------------------------------------------------


def test_the_first_message_shows_source_and_edit_and_names_the_tools():
    experts = Experts(FLAWLESS)
    experts.score(Following())
    (question,) = experts.judge_queries
    assert same(pictures(question), [SOURCE, EDITED])
    assert question.messages[0].content[:2] == (SOURCE, EDITED)
    for name in ("zoom_in_image", "localize_differences", "detect_object", "640 x 480", INSTRUCTION):
        assert name in words(question)


@pytest.mark.parametrize("metric", [SmallObjectFollowing, VisualConsistency])
def test_in_the_papers_protocol_the_tools_are_in_a_system_prompt_that_stays(metric):
    verdict = says(metric.label_scale.labels[0])
    experts = Experts(calls(ZOOM), verdict)
    experts.score(metric(mode="tools", paper=True))
    first, second = experts.judge_queries
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "user"]
    assert second.messages[:2] == first.messages
    system, user = first.messages
    (role,) = map(str, system.content)
    assert "detect_object looks for" in role
    assert INSTRUCTION not in role
    assert user.content[:2] == (SOURCE, EDITED)
    (asked,) = map(str, user.content[2:])
    assert INSTRUCTION in asked
    assert "There are three tools" not in asked


@pytest.mark.parametrize(
    ("call", "by_hand"),
    [
        (ZOOM, lambda: zoom_in_image([300, 200, 340, 230], EDITED)),
        (DIFFER, lambda: localize_differences(SOURCE, EDITED)),
        (DETECT, lambda: detect_object(EDITED, "red cup", detector=Finds(Experts().detections))),
    ],
)
def test_a_judge_sees_what_the_tool_shows_anybody(call, by_hand):
    question, _ = result_message(call)
    assert same(pictures(question), by_hand().pictures)


def test_results_come_in_one_message_in_the_order_of_the_calls():
    question, experts = result_message(calls(DETECT, ZOOM, DIFFER))
    parts = question.messages[-1].content
    shape = ["picture" if not isinstance(part, str) else part.split(":")[0] for part in parts]
    assert shape[:-1] == [
        "Result 1 of 3, detect_object",
        "picture",
        "Result 2 of 3, zoom_in_image",
        "picture",
        "Result 3 of 3, localize_differences",
        "picture",
    ]
    assert "Replies left: 5" in parts[-1]
    assert (experts.count(Detect), experts.count(Differ), experts.count(Upscale)) == (1, 1, 3)


@pytest.mark.parametrize("name", ["Source Image", "Original Image", "source image", " SourceImage ", "original_image"])
def test_the_source_has_two_names_and_case_does_not_matter(name):
    question, _ = result_message(("zoom_in_image", {"bbox_2d": [0, 0, 300, 300], "target_image": name}))
    assert same(pictures(question), [SOURCE.pixels[:300, :300]])


def test_differences_are_the_source_on_the_left_whichever_is_named_first():
    turned = {"comparison_image_1": "Edited Image", "comparison_image_2": "Original Image"}
    assert pictures(result_message(("localize_differences", turned))[0]) == pictures(result_message(DIFFER)[0])


def test_native_calls_are_answered_like_written_ones():
    native = Reply("I look.", tool_calls=(ToolCall(ZOOM[0], json.dumps(ZOOM[1]), "call1"),))
    question, _ = result_message(native)
    assert same(pictures(question), zoom_in_image([300, 200, 340, 230], EDITED).pictures)
    assert "<tool_call>" in words(question, 1)
    assert not question.messages[1].tool_calls


# -- what cannot be done ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (("look_closer", {}), "no tool of this name. There are zoom_in_image, localize_differences, detect_object"),
        (("zoom_in_image", {"target_image": "Edited Image"}), "'bbox_2d' is a required property"),
        (("zoom_in_image", {**ZOOM[1], "zoom": 2}), "'zoom' was unexpected"),
        (("zoom_in_image", {**ZOOM[1], "bbox_2d": [1, 2, 3]}), "is too short"),
        (("zoom_in_image", {**ZOOM[1], "bbox_2d": ["1", 2, 3, 4]}), "is not of type 'number'"),
        (("zoom_in_image", {**ZOOM[1], "bbox_2d": [0.1, 0.1, 0.2, 0.2]}), "shares"),
        (("zoom_in_image", {**ZOOM[1], "bbox_2d": [5, 5, 5, 9]}), "empty"),
        (("zoom_in_image", {**ZOOM[1], "bbox_2d": [0, 0, 641, 9]}), "reaches out"),
        (("zoom_in_image", {**ZOOM[1], "target_image": "Reference Image"}), "there is no image 'Reference Image'"),
        (("zoom_in_image", {**ZOOM[1], "target_image": 2}), "is not of type 'string'"),
        (("localize_differences", {**DIFFER[1], "comparison_image_1": "edited image"}), "the same one"),
        (("localize_differences", {"comparison_image_1": "Source Image"}), "required property"),
        (("detect_object", {**DETECT[1], "detect_object_name": "green cup"}), "not a part of the editing instruction"),
        (("detect_object", {**DETECT[1], "detect_object_name": " "}), "not a part of the editing instruction"),
        ("<tool_call>{oops}</tool_call>", "not JSON"),
        ("<tool_call></tool_call>", "empty"),
        (Reply("", tool_calls=(ToolCall("zoom_in_image", "oops"),)), "not JSON"),
        (Reply("", tool_calls=(ToolCall("zoom_in_image", "[" * 9000),)), "do not fit"),
        (calls(ZOOM) + FLAWLESS, "one of the two"),
        (FLAWLESS + says("Wrong Action"), "two different verdicts"),
        (says("not Flawless Execution"), "alone"),
        ("I cannot tell.", "no <Start Final Answer>"),
    ],
)
def test_what_cannot_be_done_is_told_and_nobody_else_is_asked(call, why):
    question, experts = result_message(call)
    assert why in words(question)
    assert pictures(question) == []
    assert len(experts.queries) == 2
    assert "Replies left: 5" in words(question)


def test_a_good_call_beside_a_bad_one_is_made():
    bad = ("zoom_in_image", {**ZOOM[1], "bbox_2d": [0, 0, 9999, 9]})
    question, _ = result_message(calls(bad, ZOOM))
    assert same(pictures(question), zoom_in_image([300, 200, 340, 230], EDITED).pictures)
    assert "Result 1 of 2, zoom_in_image: not done" in words(question)


def test_no_more_than_eight_calls_are_made_at_once():
    question, _ = result_message(calls(*[ZOOM] * 20))
    assert len(pictures(question)) == 8
    assert "Result 9 of 20, zoom_in_image: not done: no more than 8" in words(question)
    assert "Result 10" not in words(question)


@pytest.mark.parametrize("name", ["RED  cup", "cup", "table", "red\ncup"])
def test_a_name_is_a_part_of_the_instruction_but_for_case_and_spaces(name):
    _, experts = result_message(("detect_object", {**DETECT[1], "detect_object_name": name}))
    assert experts.count(Detect) == 1


@pytest.mark.parametrize("outcome", [Failure("CUDA is gone"), Abstention("CUDA is gone")])
def test_a_tool_that_cannot_answer_is_told_and_the_conversation_goes_on(outcome):
    experts = Experts(calls(DETECT, ZOOM), FLAWLESS)
    experts.detections = outcome
    score = experts.score(Following())
    assert score.value == 1.0
    assert "Result 1 of 2, detect_object: the tool could not answer" in words(experts.judge_queries[1])
    assert "CUDA" not in words(experts.judge_queries[1])
    assert same(pictures(experts.judge_queries[1]), zoom_in_image([300, 200, 340, 230], EDITED).pictures)
    assert any("CUDA is gone" in item.text for item in score.evidence)


def test_the_evidence_says_in_which_picture_its_boxes_are():
    score = Experts(calls(ZOOM, DIFFER, DETECT), FLAWLESS).score(Following())
    messages = [item for item in score.evidence if item.what.startswith("told the judge")]
    assert [item.image for item in messages] == [EDITED.digest] * 3
    assert messages[0].boxes[0].corners(EDITED.size) == (300, 200, 340, 230)
    assert messages[1].boxes[0].corners(EDITED.size) == pytest.approx((300, 200, 340, 230), abs=2)


# -- its end ----------------------------------------------------------------------------------------------------------


def test_a_judge_that_never_decides_fails_the_score_with_what_it_said():
    experts = Experts(*[calls(ZOOM)] * 3)
    score = experts.score(Following(max_turns=3))
    assert (score.status, score.value) == ("failed", None)
    assert "no verdict in 3 replies; of the last one: it asked for tools" in score.reason
    assert [item.text for item in score.evidence if item.what.startswith("reply")] == [calls(ZOOM)] * 3
    assert len(experts.judge_queries) == 3
    assert experts.count(Upscale) == 2  # the calls of the last reply are nobody's to use
    assert "Replies left: 1" in words(experts.judge_queries[2])


def test_a_verdict_after_errors_counts():
    experts = Experts("I cannot tell.", calls(ZOOM) + FLAWLESS, says("Wrong Action"))
    assert experts.score(Following(max_turns=3)).value == pytest.approx(1 / 3)


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
    def judge(question: Judge) -> str:
        questions.append(question)
        return replies[(len(questions) - 1) % len(replies)]

    questions: list[Judge] = []
    experts = Experts(by=judge)
    experts.detections = Detections(())
    score = experts.score(metric(mode="tools", max_turns=4))
    assert 1 <= len(questions) <= 4
    assert score.status in ("scored", "failed")
    assert (score.status == "scored") == any(item.what == "label" for item in score.evidence)
    assert [len(question.messages) for question in questions] == [2 * turn + 1 for turn in range(len(questions))]
    if score.status == "failed":
        assert len(questions) == 4
        assert "no verdict in 4 replies" in score.reason


# -- as in the paper --------------------------------------------------------------------------------------------------

BICYCLE = "Change the color of the bicycle from yellow to black."  # table 11, whose run asks for "yellow bicycle"


@pytest.mark.parametrize(
    ("name", "substring", "words"),
    [
        ("bicycle", True, True),
        ("The Bicycle", True, True),
        ("yellow bicycle", False, True),
        ("the yellow  bicycle", False, True),
        ("red bicycle", False, False),
        ("bicycles", False, False),
        ("the", True, False),
        (" ", False, False),
    ],
)
def test_the_detector_is_asked_for_a_part_of_the_instruction_or_for_words_of_it(name, substring, words):
    for rule, expected in (("substring", substring), ("words", words)):
        experts = Experts(calls(("detect_object", {**DETECT[1], "detect_object_name": name})), FLAWLESS)
        experts.score(Following(object_names=rule), edit(instruction=BICYCLE))
        assert experts.count(Detect) == expected, rule


@pytest.mark.parametrize(
    ("side", "shown"),
    [((600, 500), (2400, 2000)), ((1024, 300), (4096, 1200)), ((1025, 300), (1025, 300))],
)
def test_in_the_papers_protocol_all_crops_of_the_tools_are_enhanced_up_to_a_bound(side, shown):
    source = noise(1, (1200, 900))
    zoom = ("zoom_in_image", {"bbox_2d": [0, 0, *side], "target_image": "Source Image"})
    sizes = []
    for paper in (True, False):
        experts = Experts(calls(zoom), FLAWLESS)
        experts.score(Following(paper=paper), edit(sources=(source,), edited=noise(2, (1200, 900))))
        sizes.append(pictures(experts.judge_queries[1])[0].size)
        assert ("4 times as large" in words(experts.judge_queries[1])) == (sizes[-1] != side)
    assert sizes == [shown, side]


def test_in_the_papers_protocol_both_sides_of_a_difference_are_enhanced():
    source = noise(1, (1200, 900))
    edited = patched(source, (300, 300, 660, 640))
    experts = Experts(calls(DIFFER), FLAWLESS)
    experts.score(Following(paper=True), edit(sources=(source,), edited=edited))
    plain = localize_differences(source, edited, enhance_below=0).pictures[0]
    (pair,) = pictures(experts.judge_queries[1])
    assert min(plain.size) > 256
    assert (pair.width - 4, pair.height) == (4 * (plain.width - 4), 4 * plain.height)


@pytest.mark.parametrize("metric", [Following, VisualConsistency])
def test_in_the_papers_protocol_an_example_shows_a_reply_that_asks_for_a_tool(metric):
    counts = []
    for paper in (False, True):
        experts = Experts(says("Flawless Execution" if metric is Following else "Perfect Consistency"))
        experts.score(metric(paper=paper))
        counts.append(words(experts.judge_queries[0]).count('</Start Thinking> <tool_call>{"name": "localize_diff'))
    assert counts == [0, 1]
