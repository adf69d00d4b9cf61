"""Parsing of raw judge output: an answer, or nothing where it is ambiguous."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.queries import Failure, Grade, Json, Levels, YesNo
from editcritic.reward.queries.parsing import parse_integer, parse_json, parse_option, parse_yes_no
from editcritic.reward.queries.response_formats import ResponseFormat, parse_reply

from ..test_linear_parsing import at_most

LEVELS = Levels(("excellent", "good", "fair", "poor", "bad"), (1.0, 0.75, 0.5, 0.25, 0.0))
TEN, HUNDRED, FIVE = Grade(0, 10), Grade(0, 100), Grade(1, 5)
ASKED = Grade(0, 10, criterion="instruction following")
GRADED = Json.from_schema(
    {
        "type": "object",
        "properties": {"score": {"type": "integer", "minimum": 0, "maximum": 10}, "why": {"type": "string"}},
        "required": ["score"],
    }
)


def read(form: ResponseFormat, text: str) -> Any:
    """The format's value of a judge's output, or None for a failure."""
    reply = parse_reply(form, text)
    if isinstance(reply, Failure):
        assert reply.raw == text
        return None
    try:
        return form.reply_value(reply)
    except ValueError:
        return None


YES, NO, NOTHING = 1.0, 0.0, None

YES_NO = [
    # plain, marked, with reasons
    ("yes", YES),
    ("No.", NO),
    ("YES!", YES),
    (" \n no \n", NO),
    ("**Yes**", YES),
    ("`no`", NO),
    ('"Yes."', YES),
    ("- Yes", YES),
    ("Yes, the cup is blue now.", YES),
    ("No, it's still red.", NO),
    ("No because the cup is red", NO),
    ("Yes. There is no cup left.", YES),
    ("yes\nNo other thing has changed.", YES),
    ("No - the cup is gone", NO),
    # behind a label
    ("Answer: yes", YES),
    ("**Answer:** No", NO),
    ("Answer:\n\nYes", YES),
    ("The answer is no.", NO),
    ("Since the cup is not blue, the answer is no.", NO),
    ("The cup was red. It is blue now.\nFinal answer: yes", YES),
    ("Is it blue? yes. Is it a cup? no.\nVerdict: no", NO),
    ("I don't think the answer is yes. Final answer: no", NO),
    ("No idea at first sight.\nAnswer: yes", YES),
    ("<think>No... or yes? The answer is yes.</think>\nNo", NO),
    ("the handle, hmm</think> yes", YES),
    # in a tag
    ("<answer>Yes</answer>", YES),
    ("<answer>\n**No**\n</answer>", NO),
    ("The cup is blue.\n<final_answer>yes</final_answer>", YES),
    ("<think>no</think><answer>yes</answer>", YES),
    ("Yes</answer>", YES),
    ("<answer>Yes", YES),
    ('{"answer": "yes"}', YES),
    ('["yes"]', YES),
    ("Yes, the sign reads [SA", YES),
    # neither, or both
    ("<answer>Yes</answer><answer>No</answer>", NOTHING),
    ("<answer>Yes or no</answer>", NOTHING),
    ("<answer>mostly</answer>", NOTHING),
    ("<Answer>Yes, mostly</Answer>", NOTHING),
    ("The answer is not <answer>yes</answer>", NOTHING),
    ("<yes>Yes</yes>", NOTHING),
    # cut off
    ('{"answer": "yes"', NOTHING),
    ('{"answer": "yes", "why": "it } is', NOTHING),
    ('```json\n{"answer": "no', NOTHING),
    ('["yes", "no"', NOTHING),
    ('["yes"', NOTHING),
    ("", NOTHING),
    ("No idea", NOTHING),
    ("No changes are visible.", NOTHING),
    ("**No** differences", NOTHING),
    ("No problem! Here is what I see.", NOTHING),
    ("No one can tell.", NOTHING),
    ("No, I can't see the picture.", NOTHING),
    ("Yes, I can help with that.", NOTHING),
    ("Answer: no longer", NOTHING),
    ("Yes and no", NOTHING),
    ("Yes/No", NOTHING),
    ("yes or no?", NOTHING),
    ("Yes?", NOTHING),
    ("Yes, no.", NOTHING),
    ("No... actually yes.", NOTHING),
    ("No, wait, yes", NOTHING),
    ("No. The handle is red. Answer: yes", NOTHING),
    ("Answer: yes\nFinal answer: no", NOTHING),
    ("Answer: yes\nColour: yes\nShape: no", NOTHING),
    ("Yes, if the handle does not count.", NOTHING),
    ("Yes, partially.", NOTHING),
    ("Answer: yes, mostly", NOTHING),
    ("No, but not entirely", NOTHING),
    ("Answer: Yes unless you mean the saucer", NOTHING),
    ("I don't think the answer is yes.", NOTHING),
    ("It is not true that the answer is yes", NOTHING),
    ("If the cup is red, the answer is no.", NOTHING),
    ("Whether the answer is yes depends on the light.", NOTHING),
    ("Maybe the answer is yes", NOTHING),
    ("The answer is not yes.", NOTHING),
    ("The answer isn't no", NOTHING),
    ("I would say yes", NOTHING),
    ("Not really", NOTHING),
    ("Nope", NOTHING),
    ("Yeah", NOTHING),
    ("Ja, die Tasse ist blau.", NOTHING),
    ("Sí", NOTHING),
    ("是", NOTHING),
    ("Да", NOTHING),
    ("I'm sorry, but I can't help with that.", NOTHING),
    ("<think>yes", NOTHING),
    # as a last sentence
    ("I looked at both. The cup is blue. Yes.", YES),
    ("The cup is still red.\nNo", NO),
    ("It is blue. Yes?", NOTHING),
    ("[It is blue.\nYes", NOTHING),
    ("The banner reads as follows. Yes.", NOTHING),
    ("Yes or no? Hard to say. No.", NOTHING),
]

LEVEL = [
    ("good", 0.75),
    ("Bad.", 0.0),
    ("**Excellent**", 1.0),
    ("POOR", 0.25),
    ('"fair"', 0.5),
    ("- good", 0.75),
    ("_good_", 0.75),
    ("Good, the light agrees.", 0.75),
    ("good because nothing else changed", 0.75),
    ("poor\nThe edges are torn.", 0.25),
    ("Rating: good", 0.75),
    ("**Rating:** *fair*.", 0.5),
    ("Level: Good (between fair and excellent)", 0.75),
    ("The rating is poor.", 0.25),
    ("The light is bad, the rest excellent.\nRating: fair", 0.5),
    ("Good effort. Rating: poor", 0.25),
    ("<think>bad? fair?</think>good", 0.75),
    ("<rating>good</rating>", 0.75),
    ("<answer>Fair.</answer>", 0.5),
    ('{"rating": "poor"}', 0.25),
    ('{"rating": "poor"', None),
    ('{"rating": "poor", "w', None),
    ("<rating>good</rating><rating>bad</rating>", None),
    ("", None),
    ("not good", None),
    ("very good", None),
    ("Rating: very good", None),
    ("Rating: not bad", None),
    ("Rating: good to excellent", None),
    ("Rating: good/excellent", None),
    ("Rating: fair or good", None),
    ("good/fair", None),
    ("Good, but not excellent", None),
    ("Excellent. Rating: good", None),
    ("Rating: good. Rating: bad", None),
    ("Good lighting and natural colours.", None),
    ("**Good** lighting", None),
    ("fair enough", None),
    ("bad-ish", None),
    ("Good?", None),
    ("The picture is good.", None),
    ("I wouldn't say the rating is good.", None),
    ("If the edges were torn, the rating is bad.", None),
    ("excellent, good, fair, poor, bad", None),
    ("1. excellent 2. good", None),
    ("goodness", None),
    ("4", None),
    ("gut", None),
    ("好", None),
    ("I'm unable to rate this picture.", None),
    # behind a name of the judge's own
    ("Two seams are left.\n**Severity:** poor.", 0.25),
    ("The quality of the edit is good!", 0.75),
    ("Rating: good?", None),
    ("Severity: good+", None),
    ("Severity: good…", None),
    ("Severity: poor (?)", None),
    ("Maybe severity: good", None),
    ("{severity: poor", None),
    ("[severity: poor", None),
]

GRADE = [
    # out of ten
    (TEN, "7", 7),
    (TEN, "7.", 7),
    (TEN, "**7**", 7),
    (TEN, "7/10", 7),
    (TEN, "**7**/10", 7),
    (TEN, "7 out of 10", 7),
    (TEN, "7 of 10", 7),
    (TEN, "Score: 7", 7),
    (TEN, "**Score: 7/10**", 7),
    (TEN, "**Score:** 7", 7),
    (TEN, "Score (0-10): 7", 7),
    (TEN, "Score:\n7", 7),
    (TEN, "score = 7", 7),
    (TEN, "The score is 7 because the cup is blue.", 7),
    (TEN, "My final rating is: **7**", 7),
    (TEN, "I'd give it 7/10.", 7),
    (TEN, "8 (not 9)", 8),
    (TEN, "7 - the handle is red", 7),
    (TEN, "7 because 2 objects changed", 7),
    (TEN, "7\n1. The handle is red.\n2. The rest is as it was.", 7),
    (TEN, "1. The cup is blue.\n2. The rest is as it was.\nScore: 9", 9),
    (TEN, "3 flaws were found.\nScore: 7", 7),
    (TEN, "Score: 7\nFinal score: 7/10", 7),
    (TEN, "The score isn't 9. Score: 7", 7),
    (TEN, "The highest score is 10. My score: 7", 7),
    (TEN, "Score: 7/10 (70%)", 7),
    (TEN, "<think>Score: 3? No, 8.</think>8", 8),
    (TEN, "0", 0),
    (TEN, "10/10", 10),
    (TEN, '{"score": 7}', 7),
    (TEN, '{"score": 7, "why": "the { is open"}', 7),
    (TEN, 'The 5" cup [of tea] is blue. {"score": 7}', 7),
    (TEN, 'It is the 5" cup [of the 6" ones]. Score: 7', 7),
    (TEN, "<answer>7</answer>", 7),
    (TEN, "<score> 7 </score>", 7),
    (TEN, "<score>7/10</score>", 7),
    (TEN, "7</score>", 7),
    (TEN, "Score: 7. The sign reads [SA", 7),
    (ASKED, "Instruction Following: 5", 5),
    (ASKED, "**Instruction following:** 5/10", 5),
    (ASKED, "instruction_following = 5", 5),
    (ASKED, "- Instruction-Following (0-10): 5", 5),
    (ASKED, "Instruction Following: 5\nIdentity Preservation: 8", 5),
    (ASKED, "Score: 5", 5),
    (ASKED, "Instruction Following: 5\nScore: 6", None),
    (ASKED, "Instruction Following: 5\nInstruction Following: 6", None),
    (ASKED, "Identity Preservation: 5", None),
    (ASKED, "Objects: 5", None),
    (ASKED, "If it were blue, instruction following: 5", None),
    (ASKED, "Instruction Following: 5 or 6", None),
    (ASKED, '{"instruction following": 5', None),
    (TEN, "Instruction Following: 5", None),
    (TEN, "<score>7</score><score>8</score>", None),
    (TEN, "<b>7</b>", None),
    (TEN, '{"score": 6', None),
    (TEN, '{"score": 6, "why": "it is } blue', None),
    (TEN, '```json\n{"score": 6,\n', None),
    (TEN, '{"first": {"score": 6}, "second": {"sco', None),
    (TEN, 'The 5" cup is blue. {"score": 6', None),
    (TEN, "[6", None),
    (TEN, "{6", None),
    (TEN, '["7/10"', None),
    (TEN, "", None),
    (TEN, "seven", None),
    (TEN, "11", None),
    (TEN, "Score: 12", None),
    (TEN, "-3", None),
    (TEN, "Score: -3", None),
    (TEN, "7.5", None),
    (TEN, "Score: 7,5", None),
    (TEN, "Score: .7", None),
    (TEN, "7½", None),
    (TEN, "7th", None),
    (TEN, "70%", None),
    (TEN, "Score: 7 percent", None),
    (TEN, "7/100", None),
    (TEN, "4/5", None),
    (TEN, "4 stars out of 5", None),
    (TEN, "Score (1-5): 4", None),
    (TEN, "Score (out of 5): 4", None),
    (TEN, "7 of the 10 objects", None),
    (TEN, "The maximum score is 10", None),
    (TEN, "score: 7/10 or 8/10", None),
    (TEN, "/10", None),
    (TEN, "Score: /10", None),
    (TEN, "7-8", None),
    (TEN, "7 – 8", None),
    (TEN, "7 or 8", None),
    (TEN, "7 to 8 out of 10", None),
    (TEN, "between 7 and 8 out of 10", None),
    (TEN, "more than 5/10", None),
    (TEN, "Score: about 7/10", None),
    (TEN, "I would not give it 7/10.", None),
    (TEN, "between 7 and 8", None),
    (TEN, "7, 8", None),
    (TEN, "7\n8", None),
    (TEN, "7. 8.", None),
    (TEN, "7 8", None),
    (TEN, "7 → 8", None),
    (TEN, "7 ± 1", None),
    (TEN, "7+", None),
    (TEN, "7-ish", None),
    (TEN, "7?", None),
    (TEN, "~7", None),
    (TEN, "> 7", None),
    (TEN, "about 7", None),
    (TEN, "Score: 7. Final score: 8", None),
    (TEN, "Following: 7/10, quality: 9/10", None),
    (TEN, "7. Final score: 8", None),
    (TEN, "The score is not 7", None),
    (TEN, "I can't say the score is 7", None),
    (TEN, "If nothing changed, the score is 10.", None),
    (TEN, "2 cups are left", None),
    (TEN, "1. The cup is blue.", None),
    (TEN, "1) blue 2) red", None),
    (TEN, "Score: 0-10", None),
    (TEN, "Score: N/A", None),
    (TEN, "\u0667", None),
    (TEN, "sieben von zehn", None),
    (TEN, "I'm sorry, I can't rate this.", None),
    (TEN, "<think>7", None),
    # out of a hundred
    (HUNDRED, "85", 85),
    (HUNDRED, "85/100", 85),
    (HUNDRED, "Score: 85 out of 100.", 85),
    (HUNDRED, "100", 100),
    (HUNDRED, "7", 7),
    (HUNDRED, "101", None),
    (HUNDRED, "85%", 85),
    (HUNDRED, "8.5/10", None),
    (HUNDRED, "8/10", None),
    (HUNDRED, "80-90", None),
    (HUNDRED, "85.5", None),
    (HUNDRED, "1,000", None),
    # one to five
    (FIVE, "4", 4),
    (FIVE, "4/5", 4),
    (FIVE, "4 stars", 4),
    (FIVE, "**Rating:** 5 out of 5", 5),
    (FIVE, "0", None),
    (FIVE, "6", None),
    (FIVE, "8/10", None),
    (FIVE, "5/10", None),
    (FIVE, "★★★★", None),
    (FIVE, "4.5 stars", None),
]

JSON: list[tuple[str, Any]] = [
    ('{"score": 7}', {"score": 7}),
    ('{"score": 7, "why": "it is, [so,] \\"blue\\","}', {"score": 7, "why": 'it is, [so,] "blue",'}),
    ('```json\n{"score": 7}\n```', {"score": 7}),
    ('```\n{"score": 7}\n```\nI hope this helps!', {"score": 7}),
    ('Here you go: {"score": 7,}', {"score": 7}),
    ('{"score": 7} and again {"score": 7}', {"score": 7}),
    ('<think>{"score": 3}</think>{"score": 7}', {"score": 7}),
    ('The set {a, b} is fine. {"score": 7}', {"score": 7}),
    ('{note: {"score": 7}}', {"score": 7}),
    ('I see [1]: {"score": 7}', {"score": 7}),
    ('{"first": {"score": 7}, "second": {"sc', None),
    ('[{"score": 7}, {"sco', None),
    ('{"score": 7} {"score": 8', None),
    ('Example: {"score": 0}. Mine: {"score": 5', None),
    ('{"score": 7} [and see above', {"score": 7}),
    ("", None),
    ("7", None),
    ('{"score": 7', None),
    ('{"score": "7"}', {"score": 7}),
    ('{"score": "07"} {"score": 7}', {"score": 7}),
    ('{"score": "11"}', None),
    ('{"score": " 7"}', None),
    ('{"score": "\u0667"}', None),
    ('{"score": "7"} {"score": "8"}', None),
    ('{"score": "7/10"}', None),
    ('{"score": 7.5}', None),
    ('{"score": 11}', None),
    ('{"score": -1}', None),
    ('{"score": null}', None),
    ('{"score": true}', None),
    ('{"score": NaN}', None),
    ("{'score': 7}", None),
    ('{"Score": 7}', None),
    ('{"score": 7} or {"score": 8}', None),
    ('{"score": 7, "score": 8}', None),
    ('[{"score": 7}]', None),
    ("score: 7", None),
    ("I'm sorry, I can't help with that.", None),
    ("[" * 100_000, None),
]

RAW: list[tuple[ResponseFormat, str, Any]] = [
    *((YesNo(), text, value) for text, value in YES_NO),
    *((LEVELS, text, value) for text, value in LEVEL),
    *GRADE,
    *((GRADED, text, value) for text, value in JSON),
]


@pytest.mark.parametrize(
    ("form", "text", "value"), RAW, ids=[f"{type(form).__name__} {text[:40]!r}" for form, text, _ in RAW]
)
def test_raw_answers(form, text, value):
    parsed = read(form, text)
    assert parsed == value
    assert type(parsed) is type(value)


WORDS = ["yes", "no", "not", "good", "bad", "or", "if", "n't", "Answer:", "score is", "7", "10", "11", "2.5", "/10"]
PIECES = st.sampled_from([*WORDS, " out of 10", '{"score":', "<think>", "</think>", *'0123-%*_?/.,:\n }[]"½\u0667'])
OUTPUT = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join))


@given(OUTPUT)
def test_a_word_that_is_read_was_said(text):
    assert read(YesNo(), text) is None or re.search("yes" if read(YesNo(), text) else "no", text, re.IGNORECASE)
    level = parse_reply(LEVELS, text)
    assert isinstance(level, Failure) or (level.text in LEVELS.options and level.text in text.casefold())


@given(OUTPUT, st.sampled_from([TEN, HUNDRED, FIVE]))
def test_an_integer_that_is_read_was_said_and_is_in_range(text, grade):
    integer = read(grade, text)
    assert integer is None or (
        grade.low <= integer <= grade.high and re.search(rf"(?<![1-9])0*{integer}(?![0-9])", text)
    )


@given(OUTPUT)
def test_json_that_is_read_is_of_the_schema(text):
    parsed = read(GRADED, text)
    assert parsed is None or 0 <= parsed["score"] <= 10


@given(st.integers(0, 10), st.sampled_from(["{}", "**{}**", "{}/10", "Score: {}", "I think so.\nScore: {} out of 10"]))
def test_an_integer_that_is_plainly_said_is_read(number, words):
    assert read(TEN, words.format(number)) == number
    assert read(GRADED, f"So:\n```json\n{json.dumps({'score': number})}\n```") == {"score": number}


STUCK = [
    "<answer>yes ",
    "<answer>",
    "score: 7 ",
    "7/10 ",
    '{"',
    '"\\"',
    "{",
    '["',
    '"\\',
    "score (",
    "score: ",
    "yes ",
    "7 ",
    "no, ",
    "[1 ",
    ",}",
    "<Start Thinking>",
    " ",
]


@pytest.mark.parametrize("again", STUCK)
def test_a_judge_that_gets_stuck_is_read_in_no_time(again):
    """A quadratic parser takes many seconds for it."""
    text = again * (40_000 // len(again))
    with at_most(5, "reading", text):
        read_in_all_ways(again, text)


def read_in_all_ways(again, text):
    for said in (text, f"[{text}\n"):
        parse_yes_no(said), parse_option(("good", "bad"), said), parse_integer(said, 8, 10, "instruction following")
    assert parse_yes_no(text) is {"yes ": True, "no, ": False}.get(again)
    assert parse_option(("good", "bad"), text) is None
    assert parse_integer(text, 8, 10) is None
    with pytest.raises(ValueError, match=r"JSON|wrong"):
        parse_json('{"type": "object", "required": ["score"]}', text)


@pytest.mark.parametrize(
    "text",
    [
        "Score: 3 out of five",
        "Rating: 4 on a 5-point scale",
        "Rating: 4 on a scale of 1 to 5",
        "Score: 1 = poor, 10 = perfect. I give 7",
        "Score: 0 (no edit) to 10 (perfect): 6",
        "Score: 10 minus 3 = 7",
        "Score: 8 − 2 = 6",
        "Score: 4 + 3 = 7",
        "Score: 9, minus 2 for artifacts, so 7",
        "Score: 7 (maybe 8)",
        "Score: 7 … 8",
        "Score: 7..8",
        "Score: 3 . 5",
    ],
)
def test_a_number_of_another_scale_a_sum_or_a_legend_is_no_grade(text: str) -> None:
    assert parse_integer(text, 0, 10) is None


@pytest.mark.parametrize(
    ("text", "grade"), [("Rating: 4 on a scale of 0 to 10", 4), ("Score: 7 (good)", 7), ("**7** because", 7)]
)
def test_a_grade_may_say_its_scale_or_why(text: str, grade: int) -> None:
    assert parse_integer(text, 0, 10) == grade


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Yes is incorrect", None),
        ("'Yes' is not my answer", None),
        ("Yes, that is false", None),
        ("Yes, that is correct", True),
        ("No, that is not what was asked", False),
    ],
)
def test_an_answer_that_is_taken_back_is_none(text: str, answer: bool | None) -> None:
    assert parse_yes_no(text) is answer


@pytest.mark.parametrize("text", ['{"score": [7, 8], "why": "a\nb"}', 'Here: {"why": "a\tb", "score": [7, 8]}'])
def test_a_line_break_in_a_string_is_what_is_wrong_and_no_type(text: str) -> None:
    schema = '{"type": "object", "required": ["score", "why"]}'
    with pytest.raises(ValueError, match="it is not JSON \\(Invalid control character"):
        parse_json(schema, text)
