"""What a judge's reply is in the grammar of a conversation with tools: calls, a verdict, or neither.

    <Start Thinking>…</Start Thinking>
    <tool_call>{"name": …, "parameters": {…}} {"name": …, "parameters": {…}}</tool_call>

or, after the thoughts, `<Start Final Answer>Label</Start Final Answer>` (DLEBench, tables 16 to 26). Calls that a judge
makes by its own means (`Reply.calls`) count as written in this grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..forms import Reply, ToolCall
from ..reading import STRICT_JSON, short
from .verdicts import VERDICT, without_thinking

_BLOCK = re.compile(r"<\s*tool_call\s*>(.*?)(?:<\s*/\s*tool_call\s*>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Malformed:
    """A call that cannot be made, and why, for the judge to read."""

    why: str


@dataclass(frozen=True, slots=True)
class Calls:
    """The judge asks for tools, in this order. said: its words up to there; what it writes behind them is made up."""

    wanted: tuple[ToolCall | Malformed, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judge has come to a verdict."""

    label: str


def read_reply(reply: Reply, verdict: Callable[[str], str]) -> Calls | Verdict | Malformed:
    """What a reply is. verdict: reads one from a text, or raises ValueError with what is wrong.

    A reply with a call and a verdict breaks the protocol: it is neither.
    """
    text = without_thinking(reply.text)
    blocks = _adjacent(text)
    if not (blocks or reply.calls):
        try:
            return Verdict(verdict(reply.text))
        except ValueError as error:
            return Malformed(str(error))
    if VERDICT.search(text):
        return Malformed("it has a tool call and a final answer: give one of the two")
    wanted = [call for block in blocks for call in _written(block[1])]
    said = reply.text[: blocks[-1].end()] if blocks else reply.text
    if reply.calls:
        said = "\n".join(filter(None, [said, _spelled(reply.calls)]))
    return Calls((*wanted, *reply.calls), said)


def _adjacent(text: str) -> list[re.Match[str]]:
    """The first block of calls, and those that follow it with nothing between."""
    found: list[re.Match[str]] = []
    for block in _BLOCK.finditer(text):
        if found and text[found[-1].end() : block.start()].strip():
            break
        found.append(block)
    return found


def _written(block: str) -> Iterator[ToolCall | Malformed]:
    """The calls in a block, JSON objects after each other, up to the first that cannot be read."""
    rest = re.sub(r"\A\s*```(?:json)?|```\s*\Z", "", block).strip()
    if not rest:
        yield Malformed("the block is empty: write a JSON object with name and parameters into it")
    while rest:
        try:
            value, place = STRICT_JSON.raw_decode(rest)
            call = _call(value, short(rest[:place]))
        except (ValueError, RecursionError) as error:
            yield Malformed(f"this is not JSON ({error}): {short(rest)}")
            return
        yield call
        rest = rest[place:].strip()


def _call(value: object, words: str) -> ToolCall | Malformed:
    """A call by its JSON. `arguments`, as other grammars have it, is as good as `parameters`."""
    if not (isinstance(value, dict) and isinstance(value.get("name"), str)):
        return Malformed(f'a call is a JSON object with "name" and "parameters", and this is none: {words}')
    given = value.keys() - {"name"}
    if not (given <= {"parameters", "arguments"} and len(given) <= 1):
        return Malformed(f'a call has "name" and "parameters" and nothing else, and this is another thing: {words}')
    arguments = value.get(next(iter(given)), {}) if given else {}
    if not isinstance(arguments, dict):
        return Malformed(f"the parameters of {value['name']} are to be a JSON object, and are not: {words}")
    return ToolCall(value["name"], json.dumps(arguments, ensure_ascii=False))


def _spelled(calls: tuple[ToolCall, ...]) -> str:
    """Calls that a judge made by its own means, in the grammar."""
    lines = "\n".join(f'{{"name": {json.dumps(call.name)}, "parameters": {call.arguments}}}' for call in calls)
    return f"<tool_call>\n{lines}\n</tool_call>"
