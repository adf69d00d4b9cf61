"""Chat completions, as OpenAI's API and those like it write them: the conversation there, the answer back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..forms import Message, ToolCall
from ..image import Image
from ..outcomes import Failure
from .alternatives import Step
from .endpoint import RAW


def conversation(messages: Sequence[Message], urls: Mapping[Image, str], detail: str = "") -> list[dict[str, Any]]:
    """The messages of a request. urls: of every picture. detail: OpenAI's `low`, `high` or `auto`; empty leaves it out.

    Where the API takes text only, a picture goes into a user's message after it, its place marked by a number.
    """
    told: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []  # pictures of turns that take text only, still to come
    count = 0
    for number, message in enumerate(messages):
        if message.speaker == "user":
            told.append({"role": "user", "content": _content(message, urls, detail)})
            continue
        words = []
        for part in message.parts:
            if isinstance(part, str):
                words.append(part)
            else:
                count += 1
                words.append(f"[picture {count}]")
                shown += [_said(f"[picture {count}]"), _picture(urls[part], detail)]
        said: dict[str, Any] = {"role": message.speaker, "content": "".join(words)}
        if message.calls:
            said["content"] = said["content"] or None
            said["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.calls
            ]
        if message.speaker == "tool":
            said["tool_call_id"] = message.answers
        told.append(said)
        # Answers to tools must follow each other, and the turn that asked for them.
        after = messages[number + 1].speaker if number + 1 < len(messages) else ""
        if shown and after != "tool":
            told.append({"role": "user", "content": shown})
            shown = []
    return told


def _content(message: Message, urls: Mapping[Image, str], detail: str) -> str | list[dict[str, Any]]:
    if all(isinstance(part, str) for part in message.parts):  # not every server takes a list of texts
        return "".join(part for part in message.parts if isinstance(part, str))
    return [_said(part) if isinstance(part, str) else _picture(urls[part], detail) for part in message.parts]


def _said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _picture(url: str, detail: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": detail} if detail else {"url": url}}


@dataclass(frozen=True, slots=True)
class Completion:
    """What was answered. steps: sampled tokens with their alternatives, none where the server gives none.

    finish: why it ended, in the server's words. thought: whether there are thoughts beside the text.
    """

    text: str
    calls: tuple[ToolCall, ...]
    steps: Sequence[Step]
    finish: str
    thought: bool


def completion_of(said: Mapping[str, Any]) -> Completion | Failure:
    """The first choice of a completion; a `Failure` for errors, refusals and what was filtered.

    Raises KeyError, TypeError or ValueError for what is no chat completion.
    """
    choice = _choice(said)
    if isinstance(choice, Failure):
        return choice
    message = choice["message"]
    thought = bool(message.get("reasoning_content"))
    return Completion(_text(message), _calls(message), _steps(choice), str(choice.get("finish_reason")), thought)


def _choice(said: Mapping[str, Any]) -> dict[str, Any] | Failure:
    if isinstance(said.get("error"), dict | str) and not said.get("choices"):
        return Failure(
            f"the server answered with an error: {json.dumps(said['error'])[:300]}", raw=json.dumps(said)[:RAW]
        )
    choices = said["choices"]
    if not isinstance(choices, list):
        raise TypeError("choices is no list")
    if not choices:
        return Failure("the server answered without any choice", raw=json.dumps(said)[:RAW])
    choice = choices[0]
    message = choice["message"]
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise TypeError("the first choice holds no message")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return Failure(f"the judge refused: {refusal[:200]}", raw=refusal[:RAW])
    if choice.get("finish_reason") == "content_filter":
        return Failure("the server's content filter took the answer", raw=str(message.get("content") or "")[:RAW])
    return choice


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part["type"] == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {type(content).__name__}, not text")
    return content or ""


def _calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls = []
    for call in message.get("tool_calls") or []:
        function = call["function"]
        made = ToolCall(function["name"], function["arguments"], call.get("id") or "")
        if not all(isinstance(value, str) for value in (made.name, made.arguments, made.id)):
            raise TypeError("a tool call's name, arguments and id must be text")
        calls.append(made)
    return tuple(calls)


def _steps(choice: Mapping[str, Any]) -> list[Step]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    steps = []
    for step in content or []:
        alternatives = step.get("top_logprobs")
        if not alternatives:
            break
        pairs = tuple((str(one["token"]), float(one["logprob"])) for one in alternatives)
        steps.append(Step(str(step["token"]), float(step["logprob"]), pairs))
    return steps
