"""A judge's conversation as chat templates want it, and the calls for tools in what a model wrote."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..forms import Message, Tool, ToolCall


def turn(message: Message, pictures: Mapping[str, Any]) -> dict[str, Any]:
    """A message for `apply_chat_template`. pictures: by digest, what stands for a picture."""
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": pictures[part.digest]}
        for part in message.parts
    ]
    said: dict[str, Any] = {"role": message.speaker, "content": content}
    if message.calls:
        said["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {"name": call.name, "arguments": _read(call.arguments)},
            }
            for call in message.calls
        ]
    if message.answers:
        said["tool_call_id"] = message.answers
    return said


def offered(tool: Tool) -> dict[str, Any]:
    """A tool for `apply_chat_template`."""
    function = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
    return {"type": "function", "function": function}


def calls_in(text: str, name: str) -> tuple[str, tuple[ToolCall, ...]]:
    """The text without its calls, and the calls, in the form that Qwen and others write.

    That is `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. What only looks like a call stays in the text. name:
    of the turn, for the calls' ids.
    """
    found: list[ToolCall] = []

    def take(match: re.Match[str]) -> str:
        said = _read(match[1])
        if not (isinstance(said, dict) and isinstance(said.get("name"), str)):
            return match[0]
        found.append(_call(said["name"], said.get("arguments", {}), name, len(found)))
        return ""

    rest = re.sub(r"<tool_call>(.*?)</tool_call>", take, text, flags=re.DOTALL)
    return (rest.strip() if found else text), tuple(found)


def calls_of(parsed: Sequence[Mapping[str, Any]], name: str) -> tuple[ToolCall, ...]:
    """The calls in a message as transformers' `parse_response` gives it."""
    functions = [call["function"] for call in parsed]
    return tuple(_call(each["name"], each.get("arguments", {}), name, i) for i, each in enumerate(functions))


def _call(tool: str, arguments: Any, name: str, number: int) -> ToolCall:
    said = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    # Nine letters and digits: some templates take no other ids.
    return ToolCall(tool, said, hashlib.sha256(f"{name} {number}".encode()).hexdigest()[:9])


def _read(text: str) -> Any:
    """JSON where it is JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
