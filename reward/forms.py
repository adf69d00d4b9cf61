"""What is said to a judge, in which form it is to answer, and how its words are read.

A form says what counts as an answer. `read_reply` reads a judge's words by it, for every judge alike: what cannot be
read is a `Failure` with the words in it, never a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from .image import Image
from .outcomes import Failure


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a judge may ask for. parameters: the JSON schema of its arguments, as JSON text."""

    name: str
    description: str
    parameters: str

    def describe(self) -> list[Any]:
        return [self.name, self.description, self.parameters]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A judge's asking for a tool. arguments: JSON text as the judge wrote it, which need not be JSON. id: its name."""

    name: str
    arguments: str
    id: str = ""

    def describe(self) -> list[Any]:
        return [self.name, self.arguments, self.id]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: text and pictures in the order the judge sees them.

    calls: of an assistant's turn, the tools it asked for. answers: of a tool's turn, the id of the call it answers.
    """

    parts: tuple[str | Image, ...]
    speaker: Literal["system", "user", "assistant", "tool"] = "user"
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""

    def describe(self) -> list[Any]:
        said = [self.speaker, [part if isinstance(part, str) else {"image": part.digest} for part in self.parts]]
        tools = [[call.describe() for call in self.calls], self.answers]
        return said + tools if self.calls or self.answers else said


@dataclass(frozen=True, slots=True)
class YesNo:
    """The judge is to answer yes or no; where it can, with the probability of yes among the two."""

    max_tokens: int = 16

    @property
    def options(self) -> tuple[str, ...]:
        return ("yes", "no")

    def describe(self) -> list[Any]:
        return ["yes_no", self.max_tokens]


@dataclass(frozen=True, slots=True)
class Levels:
    """The judge is to answer with one of these words; where it can, with the probability of each among them.

    weights: what each word is worth, for `value`; they change the reading and not the question. Raises ValueError
    unless there are two different words or more, and a weight for each.
    """

    options: tuple[str, ...]
    weights: tuple[float, ...]
    max_tokens: int = 16

    def __post_init__(self) -> None:
        if len({option.casefold() for option in self.options}) < max(2, len(self.options)):
            raise ValueError(f"levels want two or more different words, got {self.options}")
        if len(self.weights) != len(self.options):
            raise ValueError(f"levels want a weight a word, got {len(self.weights)} for {len(self.options)}")

    def value(self, reply: Reply) -> float:
        """The expected weight; without probabilities, the weight of the word that was said."""
        probabilities = reply.probabilities or {_option(self.options, reply.text) or "": 1.0}
        return sum(
            weight * probabilities[option]
            for option, weight in zip(self.options, self.weights, strict=True)
            if option in probabilities
        )

    def describe(self) -> list[Any]:
        return ["levels", list(self.options), self.max_tokens]


@dataclass(frozen=True, slots=True)
class Grade:
    """The judge is to answer with an integer from `low` to `high`.

    The reply's text is the integer, the most probable one at `temperature` 0, else one drawn; its probabilities, where
    the judge can give them, are those of "0", "1", … before the temperature, so that `expected` has no sampling noise.
    """

    low: int = 0
    high: int = 10
    temperature: float = 0.0
    max_tokens: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise ValueError(f"a grade wants 0 <= low < high, got {self.low} and {self.high}")

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.low, self.high + 1)))

    def value(self, reply: Reply) -> int:
        """The integer that was said."""
        return int(reply.text)

    def expected(self, reply: Reply) -> float:
        """The expectation over the probabilities. Raises ValueError where the judge gave none."""
        if not reply.probabilities:
            raise ValueError("this judge gives no probabilities: use the integer it says, averaged over several draws")
        return sum(int(option) * p for option, p in reply.probabilities.items())

    def describe(self) -> list[Any]:
        return ["grade", self.low, self.high, self.temperature, self.max_tokens]


@dataclass(frozen=True, slots=True)
class FreeText:
    """The judge is to answer in its own words, or to ask for tools where it is offered some."""

    max_tokens: int = 256
    temperature: float = 0.0
    tools: tuple[Tool, ...] = ()

    def describe(self) -> list[Any]:
        said = ["free_text", self.max_tokens, self.temperature]
        return [*said, [tool.describe() for tool in self.tools]] if self.tools else said


@dataclass(frozen=True, slots=True)
class Json:
    """The judge is to answer with JSON of a schema. `Json.of(schema)` takes it as a table."""

    schema: str
    max_tokens: int = 1024
    temperature: float = 0.0

    @staticmethod
    def of(schema: Mapping[str, Any], **options: Any) -> Json:
        return Json(json.dumps(schema, sort_keys=True, separators=(",", ":")), **options)

    def read(self, text: str) -> Any:
        """What the text says. Raises ValueError where it is not JSON of this schema, with what is wrong."""
        return read_json(self.schema, text)

    def describe(self) -> list[Any]:
        return ["json", self.schema, self.max_tokens, self.temperature]


Form = YesNo | Levels | Grade | FreeText | Json


@dataclass(frozen=True, slots=True)
class Reply:
    """What a judge said, and, where it can tell, the probabilities of the form's options, which sum to 1.

    mass: how much of the judge's probability lay on the options together, in [0, 1], None where nobody knows: near 0,
    the judge wanted to say something else. calls: the tools it asks for.
    """

    text: str
    probabilities: Mapping[str, float] = field(default_factory=dict)
    mass: float | None = None
    calls: tuple[ToolCall, ...] = ()


def read_reply(
    form: Form,
    said: str,
    probabilities: Mapping[str, float] | None = None,
    mass: float | None = None,
    calls: Sequence[ToolCall] = (),
) -> Reply | Failure:
    """The reply that these words are, whoever said them, or a `Failure` where they are no answer in this form.

    Thoughts before the answer (`<think>…</think>`) are left out. A level and a grade are brought to their plain
    spelling, the words of the other forms stay as they are.
    """
    text = said.rpartition("</think>")[2].strip()
    problem = ""
    match form:
        case _ if "<think>" in text:
            problem = "it was cut off while it thought: allow it more tokens"
        case YesNo():
            if not re.search(r"\b(yes|no)\b", text, re.IGNORECASE):
                problem = f"it was to say yes or no, and said {_short(text)}"
        case Levels(options):
            level = _option(options, text)
            if level is None:
                problem = f"it was to say one of {', '.join(options)}, and said {_short(text)}"
            text = level or text
        case Grade(low, high):
            grade = _integer(text, high)
            if grade is None or not low <= grade <= high:
                problem = f"it was to say an integer from {low} to {high}, and said {_short(text)}"
            text = str(grade)
        case Json(schema):
            try:
                read_json(schema, text)
            except ValueError as error:
                problem = f"it was to write JSON of a schema: {error}"
        case FreeText():
            problem = "" if text or calls else "it said nothing"
    if problem:
        return Failure(f"the judge gave no answer: {problem}", raw=said)
    return Reply(text, dict(probabilities or {}), mass, tuple(calls))


def read_json(schema: str, text: str) -> Any:
    """JSON text, also in a code fence, checked against a schema. Raises ValueError with what is wrong."""
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", text.strip(), re.DOTALL)
    try:
        found = json.loads(fenced[1] if fenced else text, parse_constant=_no_constant)
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error}): {_short(text)}") from None
    wrong = next(_validator(schema).iter_errors(found), None)
    if wrong is not None:
        raise ValueError(f"{wrong.json_path} is wrong ({wrong.message:.200}): {_short(text)}")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema.validators import validator_for

    table = json.loads(schema)
    return validator_for(table)(table)


_LABEL = r"\W*(?:(?:the\s+|my\s+)?(?:final\s+|overall\s+)?(?:answer|score|rating|grade|verdict)\b\s*(?:is\b|:|=)?\W*)?"
"""What judges put before their answer, e.g. `**Final answer:** `."""


def _option(options: Sequence[str], text: str) -> str | None:
    """The option a text begins with, unless it names others too."""
    words = {option.casefold(): option for option in options}
    anyone = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    begun = re.match(rf"{_LABEL}({anyone})\b", text, re.IGNORECASE)
    if begun is None:
        return None
    named = {found.casefold() for found in re.findall(rf"\b(?:{anyone})\b", text[begun.start(1) :], re.IGNORECASE)}
    return words[begun[1].casefold()] if len(named) == 1 else None


def _integer(text: str, high: int) -> int | None:
    """The integer a text begins with; `7/10` is 7 of 10, while `7.5`, `7 or 8` and `-7` are none."""
    found = re.match(rf"{_LABEL}(?<![-−.\d])(\d{{1,9}})(?![\d]|[.,]\d)", text, re.IGNORECASE)
    if found is None:
        return None
    rest = text[found.end() :]
    of = re.match(r"\s*(?:/|out of|of)\s*(\d+)\b", rest, re.IGNORECASE)
    if (of and int(of[1]) != high) or re.match(r"\s*(?:or|to|-|–|~|%)", rest, re.IGNORECASE):
        return None
    return int(found[1])


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
