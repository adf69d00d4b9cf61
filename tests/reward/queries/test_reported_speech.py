"""Replies in which a judge gives no answer of its own are not read, and those in which it does are.

`replies/adversarial.jsonl` and `replies/honest.jsonl` were written by somebody who had not read the parser. It was
developed on one half of each; what the first looks at the others found is in `docs/judge_queries.md`.
`python -m tests.reward.queries.test_reported_speech HALF` prints what is misread.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward.metrics.dlebench.conversation import CONSISTENCY, FOLLOWING, parse_verdict
from editcritic.reward.queries import Failure, Grade, Json, Levels, YesNo
from editcritic.reward.queries.parsing import parse_integer, parse_json, parse_option, parse_yes_no
from editcritic.reward.queries.reported_speech import final_answer, quotations
from editcritic.reward.queries.response_formats import ResponseFormat, parse_reply

HALVES = ("development", "held-back", "fresh")
TEN, YES_NO = Grade(), YesNo()
GRADED = Json.from_schema({"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]})


def rows(name: str, half: str) -> Iterator[dict[str, Any]]:
    with (Path(__file__).parent / "replies" / f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from (row for row in map(json.loads, lines) if row["half"] == half)


def form_of(row: dict[str, Any]) -> ResponseFormat:
    match row["form"]:
        case "yes_no":
            return YesNo()
        case "levels":
            return Levels(tuple(row["options"]), tuple(map(float, range(len(row["options"])))))
        case "grade":
            return Grade(row["low"], row["high"], criterion=row.get("criterion") or "")
        case _:
            return Json.from_schema(row["schema"])


def read(row: dict[str, Any]) -> Any:
    """What is read in a reply, as its row says it; None where nothing is."""
    try:
        if row["form"] == "verdict":
            return parse_verdict(
                next(scale for scale in (FOLLOWING, CONSISTENCY) if scale.labels[0] in row["options"]), row["text"]
            )
        form = form_of(row)
        reply = parse_reply(form, row["text"], finished=row["finish"] != "length")
        if isinstance(reply, Failure):
            return None
        return reply.text if isinstance(form, Levels) else form.reply_value(reply)
    except ValueError:
        return None


def read_bare(row: dict[str, Any]) -> Any:
    """The same by the parsers themselves."""
    form, text = form_of(row), row["text"]
    bare: Callable[[], Any] = {
        "yes_no": lambda: parse_yes_no(text),
        "levels": lambda: parse_option(row["options"], text),
        "grade": lambda: parse_integer(text, row["low"], row["high"], row.get("criterion") or ""),
        "json": lambda: parse_json(form.schema if isinstance(form, Json) else "", text),
    }[row["form"]]
    try:
        return bare()
    except ValueError:
        return None


def misread(half: str) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """Replies of a half that are misread, with what is read in them, by what they are."""
    adversarial, honest = list(rows("adversarial", half)), list(rows("honest", half))
    return {
        "adversarial": [(row, value) for row in adversarial if (value := read(row)) is not None],
        "honest": [(row, value) for row in honest if (value := read(row)) != row["value"]],
        "honest, bare": [
            (row, value)
            for row in honest
            if row["form"] != "verdict" and "</think" not in row["text"] and (value := read_bare(row)) != row["value"]
        ],
    }


@pytest.mark.parametrize("half", HALVES)
def test_what_is_no_answer_is_not_read_and_what_is_one_is(half: str) -> None:
    wrong = {name: [row["id"] for row, _ in found] for name, found in misread(half).items()}
    # Reasoning without an end that mentions its tag and a verdict: a parser of text does not see that it was cut off.
    assert wrong == {"adversarial": ["fa102"] if half == "fresh" else [], "honest": [], "honest, bare": []}


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (TEN, "I cannot rate this. The instruction tells me to write 'Answer: 10'.", None),
        (TEN, "I was told to write <answer>10</answer>.", None),
        (YES_NO, 'The text in the picture says "Answer: yes"', None),
        (GRADED, 'I am not able to score this, so {"score": 9} would be a guess.', None),
        (YES_NO, '<think>The user wants me to write "</think> Yes" and', None),
        (YES_NO, '"Yes"', 1.0),
        (TEN, 'Rating: "8"', 8),
        (YES_NO, 'The answer is "No".', 0.0),
        (GRADED, 'I cannot see any artefact. {"score": 9}', {"score": 9}),
        (GRADED, '```json\n{"score": 9}\n```', {"score": 9}),
    ],
)
def test_the_words_that_a_judge_means(form: ResponseFormat, text: str, value: Any) -> None:
    reply = parse_reply(form, text)
    try:
        assert value == (None if isinstance(reply, Failure) else form.reply_value(reply))
    except ValueError:
        assert value is None


@pytest.mark.parametrize(
    ("text", "finished", "answer"),
    [
        ("<think>a</think>Yes", True, "Yes"),
        ("<thinking>a</thinking>\nYes", True, "Yes"),
        ("a</think>Yes", True, "Yes"),
        ('<think>write "</think>No" or</think>Yes', True, "Yes"),
        ("<|begin_of_box|>Yes<|end_of_box|>", True, "Yes"),
        ('<think>write "</think>No" or', True, None),
        ("<think>a</think>Yes", False, None),
        ("<thinking>a", True, None),
    ],
)
def test_the_answer_begins_after_the_reasoning(text: str, finished: bool, answer: str | None) -> None:
    if answer is not None:
        assert final_answer(text, finished=finished) == answer
        return
    with pytest.raises(ValueError, match="truncated during reasoning"):
        final_answer(text, finished=finished)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('He said "a b" twice.', ['"a b"']),
        ("It's the judges' \u2018a\u2019 and «b».", ["\u2018a\u2019", "«b»"]),
        ('The 5" cup and the 6" cup', []),
        ('"Yes."', []),
        ('**"Yes"**', []),
        ('"open\n\nclosed"', []),
        ("> a\nb", ["> a\n"]),
        ("> a\n> b", []),
    ],
)
def test_quotations(text: str, quoted: list[str]) -> None:
    assert [text[start:end] for start, end in quotations(text)] == quoted


if __name__ == "__main__":
    for name, wrong in misread(sys.argv[1] if len(sys.argv) > 1 else "development").items():
        sys.stdout.write(f"{name}: {len(wrong)} misread\n")
        for row, value in wrong:
            text = f"{row['id']} {row['kind']}: {row['text']!r} is read as {value!r}, not {row.get('value')!r}"
            sys.stdout.write(f"  {text}\n")
