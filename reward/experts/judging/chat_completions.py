"""Messages and tool calls of chats: as OpenAI-compatible servers take them, and as chat templates do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ...image import Image
from ...queries.outcomes import Failure
from ...queries.response_formats import Message, Tool, ToolCall
from .http_errors import MAX_RAW_CHARACTERS
from .logprobs import TokenLogprob


def chat_messages(
    messages: Sequence[Message],
    urls: Mapping[Image, str],
    detail: str = "",
    ids: Mapping[Image, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """The messages of a request. urls: by image. detail: OpenAI's `low`, `high` or `auto`; empty leaves it out. ids: of
    images, by image, for servers that keep them (vLLM's `uuid`). In text-only turns an image is replaced by a number
    and sent in a user message after it."""

    def part_of(part: str | Image) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        shown = {"url": urls[part], "detail": detail} if detail else {"url": urls[part]}
        return {"type": "image_url", "image_url": shown, **({"uuid": ids[part]} if part in ids else {})}

    turns: list[dict[str, Any]] = []
    pending: list[dict[str, Any]] = []  # images of text-only turns, not sent yet
    count = 0
    for index, message in enumerate(messages):
        if message.role == "user":
            texts = [part for part in message.content if isinstance(part, str)]
            only_texts = len(texts) == len(message.content)  # not every server takes a list of them
            content: Any = "".join(texts) if only_texts else [part_of(part) for part in message.content]
            turns.append({"role": "user", "content": content})
            continue
        words = []
        for part in message.content:
            if isinstance(part, str):
                words.append(part)
            else:
                count += 1
                words.append(f"[picture {count}]")
                pending += [part_of(words[-1]), part_of(part)]
        turn: dict[str, Any] = {"role": message.role, "content": "".join(words)}
        if message.tool_calls:
            turn["content"] = turn["content"] or None
            turn["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        if message.role == "tool":
            turn["tool_call_id"] = message.tool_call_id
        turns.append(turn)
        # Tool results must directly follow each other and the turn that called the tools.
        after = messages[index + 1].role if index + 1 < len(messages) else ""
        if pending and after != "tool":
            turns.append({"role": "user", "content": pending})
            pending = []
    return turns


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion. logprobs: all sampled tokens with their alternatives, empty if the server returns none.
    finish_reason: as the server reports it. has_reasoning: whether there is reasoning beside the text."""

    text: str
    calls: tuple[ToolCall, ...]
    logprobs: Sequence[TokenLogprob]
    finish_reason: str
    has_reasoning: bool

    @property
    def is_finished(self) -> bool:
        """Whether the judge ended the reply itself."""
        return self.finish_reason.lower() not in _CUT_OFF


def parse_completion(response: Mapping[str, Any]) -> Completion | Failure:
    """The first choice of a completion; a `Failure` for errors, refusals, filtered content, and what broke off. Raises
    KeyError, TypeError or ValueError for an invalid chat completion."""
    choice = _choice(response)
    if isinstance(choice, Failure):
        return choice
    message = choice["message"]
    reasoned = bool(message.get("reasoning_content") or message.get("reasoning"))
    text = "".join(content_texts(message.get("content")))
    return Completion(text, _calls(message), _steps(choice), str(choice.get("finish_reason")), reasoned)


def _choice(response: Mapping[str, Any]) -> dict[str, Any] | Failure:
    def whole() -> str:
        return json.dumps(response)[:MAX_RAW_CHARACTERS]

    if isinstance(response.get("error"), dict | str) and not response.get("choices"):
        return Failure(f"the server returned an error: {json.dumps(response['error'])[:300]}", raw=whole())
    choices = response["choices"]
    if not isinstance(choices, list):
        raise TypeError("choices is no list")
    if not choices:
        return Failure("the server returned no choices", raw=whole())
    choice = choices[0]
    message = choice["message"]
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise TypeError("the first choice holds no message")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return Failure(f"the judge refused: {refusal[:200]}", raw=refusal[:MAX_RAW_CHARACTERS])
    finish, content = str(choice.get("finish_reason")), str(message.get("content") or "")[:MAX_RAW_CHARACTERS]
    if finish in _FILTERED:
        return Failure("the server's content filter removed the reply", raw=content)
    if finish in _BROKEN_OFF or choice.get("error"):
        detail = f": {json.dumps(choice['error'])[:300]}" if choice.get("error") else ""
        return Failure(f"the reply broke off (finish_reason {finish}){detail}", raw=content)
    return choice


_CUT_OFF = ("length", "max_tokens", "model_length")
"""How servers end a reply at its limit of tokens: OpenAI's word, Anthropic's, and Mistral's."""
_FILTERED = ("content_filter", "sensitive")
_BROKEN_OFF = ("error", "abort", "parse_error", "network_error", "insufficient_system_resource")
"""How OpenRouter, SGLang, LMDeploy, Z.ai and DeepSeek end what is no whole reply; some of its text may be there."""


def content_texts(content: Any) -> list[str]:
    """The texts of a message's content: a string, a block, or a list of blocks and strings; none of None, as beside
    `tool_calls`, and of blocks of other types. Raises TypeError for what is no content."""
    texts = []
    for block in content if isinstance(content, list | tuple) else [] if content is None else [content]:
        if isinstance(block, Mapping):
            if block.get("type", "text") not in ("text", "output_text", "input_text"):
                continue
            block = block.get("text", block.get("content"))
        if block is not None and not isinstance(block, str):
            raise TypeError(f"content has {type(block).__name__}, and no text")
        texts.append(block or "")
    return texts


def _calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls = []
    for call in message.get("tool_calls") or []:
        function = call["function"]
        tool_call = ToolCall(function["name"], function["arguments"], call.get("id") or "")
        if not all(isinstance(value, str) for value in (tool_call.name, tool_call.arguments, tool_call.id)):
            raise TypeError("a tool call's name, arguments and id must be text")
        calls.append(tool_call)
    return tuple(calls)


def _steps(choice: Mapping[str, Any]) -> list[TokenLogprob]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    steps = []
    for step in content or []:
        alternatives = step.get("top_logprobs") or ()
        pairs = tuple((str(alternative["token"]), float(alternative["logprob"])) for alternative in alternatives)
        steps.append(TokenLogprob(str(step["token"]), float(step["logprob"]), pairs))
    return steps


def chat_template_message(message: Message, images: Mapping[str, Any]) -> dict[str, Any]:
    """A message for `apply_chat_template`. images: by digest, in the form that the template takes."""
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": images[part.digest]}
        for part in message.content
    ]
    turn: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        turn["tool_calls"] = [
            {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": _read(call.arguments)}}
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
    """The text without its tool calls, and the calls, in the format of Qwen and others. That is `<tool_call>{"name": …,
    "arguments": {…}}</tool_call>`. Invalid calls stay in the text. name: of the turn, for the calls' ids."""
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
