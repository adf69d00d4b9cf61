"""What is said to a judge, and in which form it is to answer.

A form says what counts as an answer, and what it is worth. `read_reply` reads a judge's words by it, for every judge
alike: what cannot be read is a `Failure` with the words in it, never a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .image import Image
from .outcomes import Failure
from .reading import said_integer, said_json, said_option, said_yes, short


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

    def value(self, reply: Reply) -> float:
        """The probability of yes; without probabilities, 1.0 or 0.0 for what was said. Raises ValueError."""
        if "yes" in reply.probabilities:
            return reply.probabilities["yes"]
        yes = said_yes(reply.text)
        if yes is None:
            raise ValueError(f"it was to say yes or no, and said {short(reply.text)}")
        return float(yes)

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
        """The expected weight; without probabilities, the weight of the word that was said. Raises ValueError."""
        probabilities = reply.probabilities or {self.said(reply.text): 1.0}
        worth = dict(zip(self.options, self.weights, strict=True))
        return sum(worth[option] * p for option, p in probabilities.items())

    def said(self, text: str) -> str:
        """Which of the words a text gives for its answer. Raises ValueError where that cannot be told."""
        level = said_option(self.options, text)
        if level is None:
            raise ValueError(f"it was to say one of {', '.join(self.options)}, and said {short(text)}")
        return level

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
        """The integer that was said. Raises ValueError."""
        return self.said(reply.text)

    def said(self, text: str) -> int:
        """Which integer a text gives for its answer. Raises ValueError where that cannot be told."""
        grade = said_integer(text, self.low, self.high)
        if grade is None:
            raise ValueError(f"it was to say an integer from {self.low} to {self.high}, and said {short(text)}")
        return grade

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

    def value(self, reply: Reply) -> str:
        """The words."""
        return reply.text

    def describe(self) -> list[Any]:
        said = ["free_text", self.max_tokens, self.temperature]
        return [*said, [tool.describe() for tool in self.tools]] if self.tools else said


@dataclass(frozen=True, slots=True)
class Json:
    """The judge is to answer with JSON of a schema. `Json.of(schema)` takes it as a table.

    The order of properties counts: a judge that is held to the schema writes them in that order, so that what it is to
    think of before it decides stands first.
    """

    schema: str
    max_tokens: int = 1024
    temperature: float = 0.0

    @staticmethod
    def of(schema: Mapping[str, Any], **options: Any) -> Json:
        return Json(json.dumps(schema, separators=(",", ":")), **options)

    def value(self, reply: Reply) -> Any:
        """What the reply says. Raises ValueError, see `read`."""
        return self.read(reply.text)

    def read(self, text: str) -> Any:
        """What the text says. Raises ValueError where it holds no JSON of this schema, with what is wrong."""
        return said_json(self.schema, text)

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
    try:
        if "<think>" in text:
            raise ValueError("it was cut off while it thought: allow it more tokens")
        match form:
            case YesNo():
                if not re.search(r"\b(yes|no)\b", text, re.IGNORECASE):
                    raise ValueError(f"it was to say yes or no, and said {short(text)}")
            case Levels() | Grade():
                text = str(form.said(text))
            case Json():
                form.read(text)
            case FreeText():
                if not (text or calls):
                    raise ValueError("it said nothing")
    except ValueError as error:
        return Failure(f"the judge gave no answer: {error}", raw=said)
    return Reply(text, dict(probabilities or {}), mass, tuple(calls))


def check_reply(form: Form, reply: Reply) -> None:
    """Raise ValueError unless a reply is one in this form: words that can be read, probabilities of its options.

    Words on a yes-or-no question are let through, for protocols differ in how they read them.
    """
    match form:
        case Levels() | Grade() if not reply.probabilities:
            form.said(reply.text)
        case Json():
            form.read(reply.text)
        case YesNo() | Levels() | Grade():
            if unknown := reply.probabilities.keys() - set(form.options):
                raise ValueError(f"it gave probabilities of {sorted(unknown)}, its options are {list(form.options)}")
            total = sum(reply.probabilities.values())
            if not isinstance(form, YesNo) and abs(total - 1.0) > 0.01:
                raise ValueError(f"the probabilities of its options add up to {total:.3f}, not to 1")
        case FreeText():
            pass
