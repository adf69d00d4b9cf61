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
YES_NO: dict[Any, tuple[str, ...]] = {
    1.0: (
        *("yes", "YES!", "**Yes**", '"Yes."', "- Yes", "Yes, the cup is blue now.", "Yes. There is no cup left."),
        *("yes\nNo other thing has changed.", "Answer: yes", "Answer:\n\nYes"),
        *("The cup was red. It is blue now.\nFinal answer: yes", "No idea at first sight.\nAnswer: yes"),
        *("the handle, hmm</think> yes", "<answer>Yes</answer>"),
        *("The cup is blue.\n<final_answer>yes</final_answer>", "<think>no</think><answer>yes</answer>"),
        *("Yes</answer>", "<answer>Yes", '{"answer": "yes"}', '["yes"]', "Yes, the sign reads [SA"),
        "I looked at both. The cup is blue. Yes.",
    ),
    0.0: (
        *("No.", " \n no \n", "`no`", "No, it's still red.", "No because the cup is red", "No - the cup is gone"),
        *("**Answer:** No", "The answer is no.", "Since the cup is not blue, the answer is no."),
        *("Is it blue? yes. Is it a cup? no.\nVerdict: no", "I don't think the answer is yes. Final answer: no"),
        *("<think>No... or yes? The answer is yes.</think>\nNo", "<answer>\n**No**\n</answer>"),
        "The cup is still red.\nNo",
    ),
    None: (
        *("<answer>Yes</answer><answer>No</answer>", "<answer>Yes or no</answer>", "<answer>mostly</answer>"),
        *("<Answer>Yes, mostly</Answer>", "The answer is not <answer>yes</answer>", "<yes>Yes</yes>"),
        *('{"answer": "yes"', '{"answer": "yes", "why": "it } is', '```json\n{"answer": "no', '["yes", "no"'),
        *('["yes"', "", "No idea", "No changes are visible.", "**No** differences"),
        *("No problem! Here is what I see.", "No one can tell.", "No, I can't see the picture."),
        *("Yes, I can help with that.", "Answer: no longer", "Yes and no", "Yes/No", "yes or no?", "Yes?"),
        *("Yes, no.", "No... actually yes.", "No, wait, yes", "No. The handle is red. Answer: yes"),
        *("Answer: yes\nFinal answer: no", "Answer: yes\nColour: yes\nShape: no"),
        *("Yes, if the handle does not count.", "Yes, partially.", "Answer: yes, mostly", "No, but not entirely"),
        *("Answer: Yes unless you mean the saucer", "I don't think the answer is yes."),
        *("It is not true that the answer is yes", "If the cup is red, the answer is no."),
        *("Whether the answer is yes depends on the light.", "Maybe the answer is yes", "The answer is not yes."),
        *("The answer isn't no", "I would say yes", "Not really", "Nope", "Yeah", "Ja, die Tasse ist blau.", "Sí"),
        *("是", "Да", "I'm sorry, but I can't help with that.", "<think>yes", "It is blue. Yes?"),
        *("[It is blue.\nYes", "The banner reads as follows. Yes.", "Yes or no? Hard to say. No."),
    ),
}
LEVEL: dict[Any, tuple[str, ...]] = {
    1.0: ("**Excellent**",),
    0.75: (
        *("good", "- good", "_good_", "Good, the light agrees.", "good because nothing else changed"),
        *("Rating: good", "Level: Good (between fair and excellent)", "<think>bad? fair?</think>good"),
        *("<rating>good</rating>", "The quality of the edit is good!"),
    ),
    0.5: (
        *('"fair"', "**Rating:** *fair*.", "The light is bad, the rest excellent.\nRating: fair"),
        "<answer>Fair.</answer>",
    ),
    0.25: (
        *("POOR", "poor\nThe edges are torn.", "The rating is poor.", "Good effort. Rating: poor"),
        *('{"rating": "poor"}', "Two seams are left.\n**Severity:** poor."),
    ),
    0.0: ("Bad.",),
    None: (
        *('{"rating": "poor"', '{"rating": "poor", "w', "<rating>good</rating><rating>bad</rating>", ""),
        *("not good", "very good", "Rating: very good", "Rating: not bad", "Rating: good to excellent"),
        *("Rating: good/excellent", "Rating: fair or good", "good/fair", "Good, but not excellent"),
        *("Excellent. Rating: good", "Rating: good. Rating: bad", "Good lighting and natural colours."),
        *("**Good** lighting", "fair enough", "bad-ish", "Good?", "The picture is good."),
        *("I wouldn't say the rating is good.", "If the edges were torn, the rating is bad."),
        *("excellent, good, fair, poor, bad", "1. excellent 2. good", "goodness", "4", "gut", "好"),
        *("I'm unable to rate this picture.", "Rating: good?", "Severity: good+", "Severity: good…"),
        *("Severity: poor (?)", "Maybe severity: good", "{severity: poor", "[severity: poor"),
    ),
}
TEN_GRADES: dict[Any, tuple[str, ...]] = {
    0: ("0",),
    7: (
        *("7", "7.", "**7**", "7/10", "**7**/10", "7 out of 10", "7 of 10", "Score: 7", "**Score: 7/10**"),
        *("**Score:** 7", "Score (0-10): 7", "Score:\n7", "score = 7", "The score is 7 because the cup is blue."),
        *("My final rating is: **7**", "I'd give it 7/10.", "7 - the handle is red", "7 because 2 objects changed"),
        *("7\n1. The handle is red.\n2. The rest is as it was.", "3 flaws were found.\nScore: 7"),
        *("Score: 7\nFinal score: 7/10", "The score isn't 9. Score: 7", "The highest score is 10. My score: 7"),
        *("Score: 7/10 (70%)", '{"score": 7}', '{"score": 7, "why": "the { is open"}'),
        *('The 5" cup [of tea] is blue. {"score": 7}', 'It is the 5" cup [of the 6" ones]. Score: 7'),
        *("<answer>7</answer>", "<score> 7 </score>", "<score>7/10</score>", "7</score>"),
        "Score: 7. The sign reads [SA",
    ),
    8: (*("8 (not 9)", "<think>Score: 3? No, 8.</think>8"),),
    9: ("1. The cup is blue.\n2. The rest is as it was.\nScore: 9",),
    10: ("10/10",),
    None: (
        *("Instruction Following: 5", "<score>7</score><score>8</score>", "<b>7</b>", '{"score": 6'),
        *('{"score": 6, "why": "it is } blue', '```json\n{"score": 6,\n'),
        *('{"first": {"score": 6}, "second": {"sco', 'The 5" cup is blue. {"score": 6', "[6", "{6", '["7/10"', ""),
        *("seven", "11", "Score: 12", "-3", "Score: -3", "7.5", "Score: 7,5", "Score: .7", "7½", "7th", "70%"),
        *("Score: 7 percent", "7/100", "4/5", "4 stars out of 5", "Score (1-5): 4", "Score (out of 5): 4"),
        *("7 of the 10 objects", "The maximum score is 10", "score: 7/10 or 8/10", "/10", "Score: /10", "7-8"),
        *("7 – 8", "7 or 8", "7 to 8 out of 10", "between 7 and 8 out of 10", "more than 5/10"),
        *("Score: about 7/10", "I would not give it 7/10.", "between 7 and 8", "7, 8", "7\n8", "7. 8.", "7 8"),
        *("7 → 8", "7 ± 1", "7+", "7-ish", "7?", "~7", "> 7", "about 7", "Score: 7. Final score: 8"),
        *("Following: 7/10, quality: 9/10", "7. Final score: 8", "The score is not 7"),
        *("I can't say the score is 7", "If nothing changed, the score is 10.", "2 cups are left"),
        *("1. The cup is blue.", "1) blue 2) red", "Score: 0-10", "Score: N/A", "\u0667", "sieben von zehn"),
        *("I'm sorry, I can't rate this.", "<think>7"),
    ),
}
ASKED_GRADES: dict[Any, tuple[str, ...]] = {
    5: (
        *("Instruction Following: 5", "**Instruction following:** 5/10", "instruction_following = 5"),
        *("- Instruction-Following (0-10): 5", "Instruction Following: 5\nIdentity Preservation: 8", "Score: 5"),
    ),
    None: (
        *("Instruction Following: 5\nScore: 6", "Instruction Following: 5\nInstruction Following: 6"),
        *("Identity Preservation: 5", "Objects: 5", "If it were blue, instruction following: 5"),
        *("Instruction Following: 5 or 6", '{"instruction following": 5'),
    ),
}
HUNDRED_GRADES: dict[Any, tuple[str, ...]] = {
    7: ("7",),
    85: (*("85", "85/100", "Score: 85 out of 100.", "85%"),),
    100: ("100",),
    None: (*("101", "8.5/10", "8/10", "80-90", "85.5", "1,000"),),
}
FIVE_GRADES: dict[Any, tuple[str, ...]] = {
    4: (*("4", "4/5", "4 stars"),),
    5: ("**Rating:** 5 out of 5",),
    None: (*("0", "6", "8/10", "5/10", "★★★★", "4.5 stars"),),
}
NO_JSON = (
    *('{"first": {"score": 7}, "second": {"sc', '[{"score": 7}, {"sco', '{"score": 7} {"score": 8'),
    *('Example: {"score": 0}. Mine: {"score": 5', "", "7", '{"score": 7', '{"score": "11"}', '{"score": " 7"}'),
    *('{"score": "\u0667"}', '{"score": "7"} {"score": "8"}', '{"score": "7/10"}', '{"score": 7.5}', '{"score": 11}'),
    *('{"score": -1}', '{"score": null}', '{"score": true}', '{"score": NaN}', "{'score': 7}", '{"Score": 7}'),
    *('{"score": 7} or {"score": 8}', '{"score": 7, "score": 8}', '[{"score": 7}]', "score: 7"),
    "I'm sorry, I can't help with that.",
    "[" * 100_000,
)
SEVEN = (
    *('{"score": 7}', '```json\n{"score": 7}\n```', '```\n{"score": 7}\n```\nI hope this helps!'),
    *('Here you go: {"score": 7,}', '{"score": 7} and again {"score": 7}'),
    *('<think>{"score": 3}</think>{"score": 7}', 'The set {a, b} is fine. {"score": 7}', '{note: {"score": 7}}'),
    *('I see [1]: {"score": 7}', '{"score": 7} [and see above', '{"score": "7"}', '{"score": "07"} {"score": 7}'),
)
JSON: list[tuple[str, Any]] = [
    ('{"score": 7, "why": "it is, [so,] \\"blue\\","}', {"score": 7, "why": 'it is, [so,] "blue",'}),
    *((text, {"score": 7}) for text in SEVEN),
    *((text, None) for text in NO_JSON),
]
TABLES: list[tuple[ResponseFormat, dict[Any, Any]]] = [
    *((YesNo(), YES_NO), (LEVELS, LEVEL), (TEN, TEN_GRADES), (ASKED, ASKED_GRADES), (HUNDRED, HUNDRED_GRADES)),
    (FIVE, FIVE_GRADES),
]
RAW: list[tuple[ResponseFormat, str, Any]] = [
    *((form, text, value) for form, table in TABLES for value, texts in table.items() for text in texts),
    *((GRADED, text, value) for text, value in JSON),
]
WORDS = ["yes", "no", "not", "good", "bad", "or", "if", "n't", "Answer:", "score is", "7", "10", "11", "2.5", "/10"]
PIECES = st.sampled_from([*WORDS, " out of 10", '{"score":', "<think>", "</think>", *'0123-%*_?/.,:\n }[]"½\u0667'])
OUTPUT = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join))
STUCK = (
    *("<answer>yes ", "<answer>", "score: 7 ", "7/10 ", '{"', '"\\"', "{", '["', '"\\', "score (", "score: "),
    *("yes ", "7 ", "no, ", "[1 ", ",}", "<Start Thinking>", " "),
)
OTHER_SCALES = (  # of another scale, a sum, a legend
    *("Score: 3 out of five", "Rating: 4 on a 5-point scale", "Rating: 4 on a scale of 1 to 5", "Score: 7 … 8"),
    *("Score: 1 = poor, 10 = perfect. I give 7", "Score: 0 (no edit) to 10 (perfect): 6", "Score: 10 minus 3 = 7"),
    *("Score: 8 − 2 = 6", "Score: 4 + 3 = 7", "Score: 9, minus 2 for artifacts, so 7", "Score: 7 (maybe 8)"),
    *("Score: 7..8", "Score: 3 . 5"),
)
BARE = [
    *((parse_integer, text, None) for text in OTHER_SCALES),
    *((parse_integer, text, grade) for text, grade in (("Rating: 4 on a scale of 0 to 10", 4), ("Score: 7 (good)", 7))),
    *((parse_yes_no, text, None) for text in ("Yes is incorrect", "'Yes' is not my answer", "Yes, that is false")),
    (parse_yes_no, "Yes, that is correct", True),
    (parse_yes_no, "No, that is not what was asked", False),
]


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


# What is read in texts: None where they give no answer, or several.


@pytest.mark.parametrize(
    ("form", "text", "value"), RAW, ids=[f"{type(form).__name__} {text[:40]!r}" for form, text, _ in RAW]
)
def test_raw_answers(form, text, value):
    parsed = read(form, text)
    assert parsed == value
    assert type(parsed) is type(value)


@given(OUTPUT)
def test_what_is_read_was_said(text):
    assert read(YesNo(), text) is None or re.search("yes" if read(YesNo(), text) else "no", text, re.IGNORECASE)
    level = parse_reply(LEVELS, text)
    assert isinstance(level, Failure) or (level.text in LEVELS.options and level.text in text.casefold())
    parsed = read(GRADED, text)
    assert parsed is None or 0 <= parsed["score"] <= 10


@given(OUTPUT, st.sampled_from([TEN, HUNDRED, FIVE]))
def test_an_integer_that_is_read_was_said_and_is_in_range(text, grade):
    integer = read(grade, text)
    assert integer is None or (
        grade.low <= integer <= grade.high and re.search(rf"(?<![1-9])0*{integer}(?![0-9])", text)
    )


@given(st.integers(0, 10), st.sampled_from(["{}", "**{}**", "{}/10", "Score: {}", "I think so.\nScore: {} out of 10"]))
def test_an_integer_that_is_plainly_said_is_read(number, words):
    assert read(TEN, words.format(number)) == number
    assert read(GRADED, f"So:\n```json\n{json.dumps({'score': number})}\n```") == {"score": number}


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
    ("parse", "text", "answer"), BARE, ids=lambda value: getattr(value, "__name__", f"{value!r:.40}")
)
def test_answers_of_the_bare_parsers(parse: Any, text: str, answer: Any) -> None:
    assert (parse(text, 0, 10) if parse is parse_integer else parse(text)) is answer


@pytest.mark.parametrize("text", ['{"score": [7, 8], "why": "a\nb"}', 'Here: {"why": "a\tb", "score": [7, 8]}'])
def test_a_line_break_in_a_string_is_what_is_wrong_and_no_type(text: str) -> None:
    schema = '{"type": "object", "required": ["score", "why"]}'
    with pytest.raises(ValueError, match="it is not JSON \\(Invalid control character"):
        parse_json(schema, text)
