"""The grades in a judge's reply to a question of VIEScore, in both protocols.

Protocols, default first:

| | `fixed` | `official` (released code of GEdit-Bench, commit 570eba6) |
|---|---|---|
| reply | JSON of a schema; words and a code fence around it are allowed | see `released_grades` |
| keys without quotes | failed | read, if the values are bare numbers and words |
| how many grades | two | any number from one on; a single one counts for both |
| which numbers | integers from 0 to 10 | any from 0 to a million, also fractions and 85 |
| a reply that cannot be read | failed | failed, where the released code guesses |
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, get_args

from ...engine.program import Failed, reply_value, unparsable_reply
from ...queries.kinds import Judge
from ...queries.parsing import shorten
from ...queries.response_formats import FreeText, Json, Reply, ResponseFormat

VieScoreProtocol = Literal["fixed", "official"]
PROTOCOLS: tuple[VieScoreProtocol, ...] = get_args(VieScoreProtocol)

MAX_GRADE = 10
"""The highest grade; the lowest is 0."""

_MAX_TOKENS = 1400
"""Of a reply, as the released code asks GPT-4.1."""

_HIGHEST_READ = 1e6
"""In `official`. Larger numbers are no grades, and products of them may be infinite."""

_DELIMITER = "||V^=^V||"
_ENTRY = re.compile(r'\s*("?)(\w+)\1:((?:[^"}:]|(?<!\w):)*)')
"""A key and a bare value, in which a word before a colon would be another key."""
_BARE = re.compile(r"-?\d+(?:\.\d+)?|(?i:true|false|null)")


def _schema() -> dict[str, Any]:
    grade = {"type": "integer", "minimum": 0, "maximum": MAX_GRADE}
    grades = {"type": "array", "items": grade, "minItems": 2, "maxItems": 2}
    properties = {"score": grades, "reasoning": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_FORMS: dict[VieScoreProtocol, ResponseFormat] = {
    "fixed": Json.from_schema(_schema(), max_tokens=_MAX_TOKENS),
    "official": FreeText(max_tokens=_MAX_TOKENS),
}


def response_format(protocol: VieScoreProtocol) -> ResponseFormat:
    """The response format of both questions."""
    return _FORMS[protocol]


def read_grades(question: Judge, reply: Reply) -> tuple[list[float], str]:
    """The grades of a reply, one or more, and its reasoning (in `official`, the reply). Raises `Failed`."""
    if isinstance(question.form, Json):
        value = reply_value(question, reply)
        return [float(grade) for grade in value["score"]], value["reasoning"]
    try:
        return released_grades(reply.text), reply.text
    except ValueError as error:
        raise _unread(question, error, reply) from None


def _unread(question: Judge, error: ValueError, reply: Reply) -> Failed:
    return unparsable_reply(
        f"{question.topic}: {error}; the released code would ask again, and may then take a random grade", reply
    )


def released_grades(text: str) -> list[float]:
    """The grades that the released code reads in a reply, one or more numbers from 0 to a million. Raises ValueError.

    It reads `score` of what stands between two delimiters, or from the first brace to the last. Without braces it reads
    a list of two integers, or a reply that is an integer from 0 to 10.

    Where it reads none, it asks both questions once more. A second reply without braces is not read at all, also if it
    is a list of two grades: it gets a random integer. After broken JSON it asks until it can read a reply, and after
    grades that it cannot calculate with up to 10,000 times; a sample that is left without grades is dropped. None of
    this is done here.
    """
    grades = _grades_in(text)
    if not grades:
        raise ValueError(f"the list of grades is empty: {shorten(text)}")
    for grade in grades:
        if isinstance(grade, bool) or not isinstance(grade, int | float) or not 0 <= grade <= _HIGHEST_READ:
            raise ValueError(f"expected grades of 0 or more, got {shorten(repr(grade))}: {shorten(text)}")
    return [float(grade) for grade in grades]


def _grades_in(text: str) -> Sequence[Any]:
    if text.count(_DELIMITER) == 2:
        return _of_object(text[text.find(_DELIMITER) + len(_DELIMITER) : text.rfind(_DELIMITER)])
    start, end = text.find("{"), text.rfind("}")
    if start >= 0 and end >= 0:
        return _of_object(text[start : end + 1])
    listed = text[text.find("[") : text.rfind("]") + 1] if "[" in text else ""
    if re.fullmatch(r"\[[0-9]+, ?[0-9]+\]", listed):
        return _strictly_numbers(listed)
    try:
        grade = int(text)
    except ValueError:
        grade = -1
    if 0 <= grade <= MAX_GRADE:
        return [grade]
    raise ValueError(f"expected JSON, a list of two integers, or an integer from 0 to {MAX_GRADE}, got {shorten(text)}")


def _strictly_numbers(listed: str) -> list[Any]:
    try:
        numbers: list[Any] = json.loads(listed)
    except ValueError as error:  # a leading zero, or thousands of digits
        raise ValueError(f"the list of grades is not JSON ({error}): {shorten(listed)}") from None
    return numbers


def _of_object(text: str) -> Sequence[Any]:
    """`score` of a JSON object, or of one with bare words."""
    line = text.strip().replace("\n", "")
    try:
        score = json.loads(line)["score"]
    except (ValueError, LookupError, TypeError, RecursionError):
        score = _of_bare_words(line)
    return score if isinstance(score, list) else [score]


def _of_bare_words(line: str) -> Any:
    """The number of an entry `score` in `{score: 7, reasoning: all clean}`: its keys need no quotes, its texts have
    none. Raises ValueError for anything else.
    """
    problem = ValueError(f"expected a JSON object with score, got {shorten(line)}")
    if not (line.startswith("{") and line.endswith("}")):
        raise problem
    entries = [_ENTRY.fullmatch(entry) for entry in line[1:-1].split(",")]
    try:
        values = {entry[2]: _bare_value(entry[3].strip()) for entry in entries if entry}
    except ValueError:
        raise problem from None
    score = values.get("score")
    if None in entries or isinstance(score, str | bool | None):
        raise problem
    return score


def _bare_value(text: str) -> Any:
    """A number, true, false or null; or any other text that needs no escapes in JSON. Raises ValueError."""
    return json.loads(text if _BARE.fullmatch(text) else f'"{text}"')
