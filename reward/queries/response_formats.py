"""Messages to a judge, and the formats of its replies.

A response format defines valid replies and their values. `parse_reply` parses the output of every judge alike: output
that cannot be parsed is a `Failure` with the text in it, never a number. Of a yes/no reply it only requires one of the
words: protocols read these replies differently, so metrics parse them (`reply_value`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..image import Image
from .outcomes import Failure
from .parsing import parse_integer, parse_json, parse_option, parse_yes_no, shorten
from .reported_speech import final_answer

MAX_REPLY = 100_000
"""Characters of a reply, its tool calls included: a judge may be a stranger's server, or stuck. The longest format asks
for a few thousand."""
MAX_OUTPUT = 1_000_000
"""Characters of a judge's output, reasoning included."""
_MAX_RAW = 2_000  # characters that are kept of output that is too long


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a judge may call.

    Args:
        parameters: The JSON schema of its arguments, as JSON text.
    """

    name: str
    description: str
    parameters: str

    def describe(self) -> list[Any]:
        """What the digest of a query has of it."""
        return [self.name, self.description, self.parameters]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A judge's call of a tool.

    Args:
        arguments: The judge's text, possibly invalid JSON.
        id: Identifies the call.
    """

    name: str
    arguments: str
    id: str = ""

    def describe(self) -> list[Any]:
        """What the digest of a query has of it."""
        return [self.name, self.arguments, self.id]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: text and images, in order.

    Args:
        tool_calls: Of an assistant's turn.
        tool_call_id: Of a tool's turn, the id of the call that it answers.
    """

    content: tuple[str | Image, ...]
    role: Literal["system", "user", "assistant", "tool"] = "user"
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def describe(self) -> list[Any]:
        """What the digest of a query has of it: images as their digests."""
        turn = [self.role, [part if isinstance(part, str) else {"image": part.digest} for part in self.content]]
        tools = [[call.describe() for call in self.tool_calls], self.tool_call_id]
        return turn + tools if self.tool_calls or self.tool_call_id else turn


@dataclass(frozen=True, slots=True)
class YesNo:
    """Yes or no, with P(yes) among the two where the judge provides it."""

    max_tokens: int = 16

    @property
    def options(self) -> tuple[str, ...]:
        """Yes and no."""
        return ("yes", "no")

    def reply_value(self, reply: Reply) -> float:
        """The probability of yes, among the two; without probabilities, 1.0 or 0.0 by the text. Raises ValueError."""
        if "yes" in reply.probabilities:
            yes, no = reply.probabilities["yes"], reply.probabilities.get("no")
            return yes if no is None or abs(yes + no - 1.0) <= 0.01 else yes / (yes + no)
        answer = parse_yes_no(reply.text)
        if answer is None:
            raise ValueError(f"expected yes or no, got {shorten(reply.text)}")
        return float(answer)

    def describe(self) -> list[Any]:
        """What the digest of a query has of it."""
        return ["yes_no", self.max_tokens]


@dataclass(frozen=True, slots=True)
class Levels:
    """One of these options, with a probability for each where the judge provides them.

    Args:
        values: The value of each option, for `reply_value`; they are not part of the query.

    Raises:
        ValueError: Unless there are two or more different options, and one value for each.
    """

    options: tuple[str, ...]
    values: tuple[float, ...]
    max_tokens: int = 16

    def __post_init__(self) -> None:
        if len({option.casefold() for option in self.options}) < max(2, len(self.options)):
            raise ValueError(f"levels need two or more different options, got {self.options}")
        if len(self.values) != len(self.options):
            raise ValueError(f"levels need one value per option, got {len(self.values)} for {len(self.options)}")

    def reply_value(self, reply: Reply) -> float:
        """The expected value; without probabilities, the value of the option in the text. Raises ValueError."""
        probabilities = reply.probabilities or {self.parse(reply.text): 1.0}
        value_of = dict(zip(self.options, self.values, strict=True))
        return sum(value_of[option] * p for option, p in probabilities.items())

    def parse(self, text: str) -> str:
        """The option that a text gives as its answer.

        Raises:
            ValueError: If it is missing or ambiguous.
        """
        level = parse_option(self.options, text)
        if level is None:
            raise ValueError(f"expected one of {', '.join(self.options)}, got {shorten(text)}")
        return level

    def describe(self) -> list[Any]:
        """What the digest of a query has of it."""
        return ["levels", list(self.options), self.max_tokens]


@dataclass(frozen=True, slots=True)
class Grade:
    """An integer from `low` to `high`.

    The reply's text is the integer: the most probable one at `temperature` 0, else a sample. Its probabilities, where
    the judge provides them, are those of "0", "1", … before the temperature: `expected_value` has no sampling noise.

    Args:
        criterion: What is graded, as the prompt names it: `Instruction following: 5` is an answer. Not part of the
            query.
    """

    low: int = 0
    high: int = 10
    temperature: float = 0.0
    max_tokens: int = 8
    criterion: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise ValueError(f"a grade needs 0 <= low < high, got {self.low} and {self.high}")

    @property
    def options(self) -> tuple[str, ...]:
        """The integers as texts, from `low` to `high`."""
        return tuple(map(str, range(self.low, self.high + 1)))

    def reply_value(self, reply: Reply) -> int:
        """The integer in the text. Raises ValueError."""
        return self.parse(reply.text)

    def parse(self, text: str) -> int:
        """The integer that a text gives as its answer.

        Raises:
            ValueError: If it is missing or ambiguous.
        """
        grade = parse_integer(text, self.low, self.high, self.criterion)
        if grade is None:
            raise ValueError(f"expected an integer from {self.low} to {self.high}, got {shorten(text)}")
        return grade

    def expected_value(self, reply: Reply) -> float:
        """The expectation over the probabilities.

        Raises:
            ValueError: For a reply without probabilities.
        """
        if not reply.probabilities:
            raise ValueError("this judge gives no probabilities: use its integer, averaged over several samples")
        return sum(int(option) * p for option, p in reply.probabilities.items())

    def describe(self) -> list[Any]:
        """What the digest of a query has of it."""
        return ["grade", self.low, self.high, self.temperature, self.max_tokens]


@dataclass(frozen=True, slots=True)
class FreeText:
    """Free text, or calls of the offered tools."""

    max_tokens: int = 256
    temperature: float = 0.0
    tools: tuple[Tool, ...] = ()

    def reply_value(self, reply: Reply) -> str:
        """The text."""
        return reply.text

    def describe(self) -> list[Any]:
        """What the digest of a query has of it."""
        description = ["free_text", self.max_tokens, self.temperature]
        return [*description, [tool.describe() for tool in self.tools]] if self.tools else description


@dataclass(frozen=True, slots=True)
class Json:
    """JSON of a schema. `Json.from_schema(schema)` takes it as a table.

    The order of properties matters: constrained decoding writes them in that order, so reasoning comes before the
    decision.
    """

    schema: str
    max_tokens: int = 1024
    temperature: float = 0.0

    @staticmethod
    def from_schema(schema: Mapping[str, Any], **options: Any) -> Json:
        """The form for a schema as a table.

        Args:
            options: `max_tokens`, `temperature`.
        """
        return Json(json.dumps(schema, separators=(",", ":")), **options)

    def reply_value(self, reply: Reply) -> Any:
        """The parsed JSON value. Raises ValueError, see `parse`."""
        return self.parse(reply.text)

    def parse(self, text: str) -> Any:
        """The parsed JSON value. Raises ValueError, with the problem, where the text holds no JSON of this schema."""
        return parse_json(self.schema, text)

    def describe(self) -> list[Any]:
        """What the digest of a query has of it."""
        return ["json", self.schema, self.max_tokens, self.temperature]


ResponseFormat = YesNo | Levels | Grade | FreeText | Json


@dataclass(frozen=True, slots=True)
class Reply:
    """A judge's reply.

    Args:
        probabilities: Of the format's options, where available; they sum to 1.
        option_mass: The judge's total probability of all options before normalisation, in [0, 1]; None if unknown. Near
            0, the judge preferred a reply outside of the format.
        tool_calls: Its tool calls.
        note: What the expert did to get it that its id does not say, such as sending smaller pictures; in the evidence
            of scores.
    """

    text: str
    probabilities: Mapping[str, float] = field(default_factory=dict)
    option_mass: float | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    note: str = ""


def _check_length(text: str, calls: Sequence[ToolCall]) -> None:
    length = len(text) + sum(len(call.name) + len(call.arguments) + len(call.id) for call in calls)
    if length > MAX_REPLY:
        raise ValueError(f"the reply has {length:,} characters, and at most {MAX_REPLY:,} are read")


def parse_reply(
    form: ResponseFormat,
    text: str,
    probabilities: Mapping[str, float] | None = None,
    mass: float | None = None,
    calls: Sequence[ToolCall] = (),
    *,
    finished: bool = True,
) -> Reply | Failure:
    """Parse a judge's output to a reply, or a `Failure` where it is not in this format. finished: whether the judge
    ended its output itself. Reasoning before the answer is dropped (`final_answer`). Probabilities are dropped where
    the words say something else or cannot be read. Levels and grades are normalised to their plain spelling; text of
    the other formats is unchanged. More than `MAX_OUTPUT` characters, and an answer of more than `MAX_REPLY`, are none.
    """
    if len(text) > MAX_OUTPUT:
        reason = f"the output has {len(text):,} characters, and at most {MAX_OUTPUT:,} are read"
        return Failure(f"the judge gave no answer: {reason}", raw=text[:_MAX_RAW])
    option: str | None = None
    try:
        answer = final_answer(text, finished=finished)
        _check_length(answer, calls)
        match form:
            case YesNo():
                yes = parse_yes_no(answer)
                if yes is None and not re.search(r"\b(yes|no)\b", answer, re.IGNORECASE):
                    raise ValueError(f"expected yes or no, got {shorten(answer)}")
                option = None if yes is None else form.options[not yes]
            case Levels() | Grade():
                option = str(form.parse(answer))
            case Json():
                form.parse(answer)
            case FreeText():
                if not (answer or calls):
                    raise ValueError("the output is empty")
    except ValueError as error:
        raw = text if len(text) <= MAX_REPLY else text[:_MAX_RAW]
        return Failure(f"the judge gave no answer: {error}", raw=raw)
    if not (probabilities and option and re.match(rf"[\W_]*{re.escape(option)}", answer, re.IGNORECASE)):
        probabilities, mass = {}, None
    return Reply(option if option and not isinstance(form, YesNo) else answer, dict(probabilities), mass, tuple(calls))


def validate_reply(form: ResponseFormat, reply: Reply) -> None:
    """Raise ValueError unless a reply is in this format: parsable text, or probabilities of its options; and for more
    than `MAX_REPLY` characters. The text of yes/no replies is not checked, since protocols parse it differently.
    """
    _check_length(reply.text, reply.tool_calls)
    match form:
        case Levels() | Grade() if not reply.probabilities:
            form.parse(reply.text)
        case Json():
            form.parse(reply.text)
        case YesNo() | Levels() | Grade():
            if unknown := reply.probabilities.keys() - set(form.options):
                raise ValueError(f"got probabilities of {sorted(unknown)}, the options are {list(form.options)}")
            total = sum(reply.probabilities.values())
            lowest = 0.0 if isinstance(form, YesNo) else 0.99  # shares of yes and no may leave room for other words
            if reply.probabilities and not (lowest < total <= 1.01 or reply.probabilities.keys() == {"yes"}):
                raise ValueError(f"the probabilities of the options add up to {total:.3f}, not to 1")
        case FreeText():
            pass


def check_max_tokens(max_tokens: int | None) -> None:
    """Raise ValueError for a limit that no reply keeps; None is no limit."""
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"max_tokens is 1 or more, got {max_tokens}")
