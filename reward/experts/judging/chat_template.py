"""Messages for chat templates, and tool calls in generated text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...queries.response_formats import Message, Tool, ToolCall


def chat_template_message(message: Message, images: Mapping[str, Any]) -> dict[str, Any]:
    """A message for `apply_chat_template`. images: by digest, in the form that the template takes."""
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": images[part.digest]}
        for part in message.content
    ]
    turn: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        turn["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {"name": call.name, "arguments": _read(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        turn["tool_call_id"] = message.tool_call_id
    return turn


def chat_template_tool(tool: Tool) -> dict[str, Any]:
    """A tool for `apply_chat_template`."""
    function = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
    return {"type": "function", "function": function}


_BEGIN, _END = "<tool_call>", "</tool_call>"


def extract_tool_calls(text: str, name: str) -> tuple[str, tuple[ToolCall, ...]]:
    """The text without its tool calls, and the calls, in the format of Qwen and others.

    That is `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. Invalid calls stay in the text. name: of the turn,
    for the calls' ids.
    """
    calls: list[ToolCall] = []
    rest: list[str] = []
    position = 0
    while (start := text.find(_BEGIN, position)) >= 0 and (end := text.find(_END, start)) >= 0:
        call = _read(text[start + len(_BEGIN) : end])
        end += len(_END)
        if isinstance(call, dict) and isinstance(call.get("name"), str):
            calls.append(_call(call["name"], call.get("arguments", {}), name, len(calls)))
            rest.append(text[position:start])
        else:
            rest.append(text[position:end])
        position = end
    rest.append(text[position:])
    return ("".join(rest).strip() if calls else text), tuple(calls)


def parsed_tool_calls(parsed: Sequence[Mapping[str, Any]], name: str) -> tuple[ToolCall, ...]:
    """The tool calls of a message from transformers' `parse_response`."""
    functions = [call["function"] for call in parsed]
    return tuple(_call(each["name"], each.get("arguments", {}), name, i) for i, each in enumerate(functions))


def _call(tool: str, arguments: Any, name: str, number: int) -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    # Nine letters and digits: some templates accept no other ids.
    return ToolCall(tool, text, hashlib.sha256(f"{name} {number}".encode()).hexdigest()[:9])


def _read(text: str) -> Any:
    """The parsed value if the text is JSON, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
