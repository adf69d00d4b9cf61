"""Parsing of a judge's reply in a conversation with tools: calls, a verdict, or neither.

    <Start Thinking>…</Start Thinking>
    <tool_call>{"name": …, "parameters": {…}} {"name": …, "parameters": {…}}</tool_call>

or, after the reasoning, `<Start Final Answer>Label</Start Final Answer>` (DLEBench, tables 16 to 26). Native tool calls
of a judge (`Reply.tool_calls`) count as written in this grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...queries.parsing import STRICT_JSON, shorten
from ...queries.response_formats import Reply, ToolCall
from .verdict_parsing import VERDICT, without_thinking

_BLOCK = re.compile(r"<\s*tool_call\s*>(.*?)(?:<\s*/\s*tool_call\s*>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class MalformedReply:
    """A call that cannot be run, and the reason for the judge."""

    reason: str


@dataclass(frozen=True, slots=True)
class ToolCallReply:
    """Tool calls, in order. text: of the reply up to the end of the calls; text after them is dropped."""

    calls: tuple[ToolCall | MalformedReply, ...]
    text: str


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The judge's verdict."""

    label: str


def parse_tool_reply(reply: Reply, parse_label: Callable[[str], str]) -> ToolCallReply | FinalAnswer | MalformedReply:
    """Parse a reply. parse_label: text -> label, or raises ValueError with the reason.

    A reply with both a call and a verdict violates the protocol and is malformed.
    """
    text = without_thinking(reply.text)
    blocks = _adjacent_call_blocks(text)
    if not (blocks or reply.tool_calls):
        try:
            return FinalAnswer(parse_label(reply.text))
        except ValueError as error:
            return MalformedReply(str(error))
    if VERDICT.search(text):
        return MalformedReply("it has a tool call and a final answer: give one of the two")
    calls = [call for block in blocks for call in _parse_call_block(block[1])]
    prefix = reply.text[: blocks[-1].end()] if blocks else reply.text
    if reply.tool_calls:
        prefix = "\n".join(filter(None, [prefix, _format_native_calls(reply.tool_calls)]))
    return ToolCallReply((*calls, *reply.tool_calls), prefix)


def _adjacent_call_blocks(text: str) -> list[re.Match[str]]:
    """The first block of calls and the blocks that follow it directly."""
    blocks: list[re.Match[str]] = []
    for block in _BLOCK.finditer(text):
        if blocks and text[blocks[-1].end() : block.start()].strip():
            break
        blocks.append(block)
    return blocks


def _parse_call_block(block: str) -> Iterator[ToolCall | MalformedReply]:
    """The calls in a block of consecutive JSON objects, up to the first that cannot be parsed."""
    rest = re.sub(r"\A\s*```(?:json)?|```\s*\Z", "", block).strip()
    if not rest:
        yield MalformedReply("the block is empty: write a JSON object with name and parameters into it")
    while rest:
        try:
            value, end = STRICT_JSON.raw_decode(rest)
            call = _call(value, shorten(rest[:end]))
        except (ValueError, RecursionError) as error:
            yield MalformedReply(f"this is not JSON ({error}): {shorten(rest)}")
            return
        yield call
        rest = rest[end:].strip()


def _call(value: object, raw: str) -> ToolCall | MalformedReply:
    """A call from its JSON. `arguments`, as in other grammars, is accepted for `parameters`."""
    if not (isinstance(value, dict) and isinstance(value.get("name"), str)):
        return MalformedReply(f'a call is a JSON object with "name" and "parameters", and this is none: {raw}')
    argument_keys = value.keys() - {"name"}
    if not (argument_keys <= {"parameters", "arguments"} and len(argument_keys) <= 1):
        return MalformedReply(f'a call has "name" and "parameters" and nothing else, and this is another thing: {raw}')
    arguments = value.get(next(iter(argument_keys)), {}) if argument_keys else {}
    if not isinstance(arguments, dict):
        return MalformedReply(f"the parameters of {value['name']} are to be a JSON object, and are not: {raw}")
    return ToolCall(value["name"], json.dumps(arguments, ensure_ascii=False))


def _format_native_calls(calls: tuple[ToolCall, ...]) -> str:
    """Native tool calls in the grammar."""
    lines = "\n".join(f'{{"name": {json.dumps(call.name)}, "parameters": {call.arguments}}}' for call in calls)
    return f"<tool_call>\n{lines}\n</tool_call>"
