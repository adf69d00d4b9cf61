"""One judge behind the servers and APIs of many vendors: the same opinion, in each vendor's form.

The model likes an edit as much as it is bright, and says so to every question of ours: what it says depends on the
words and pictures of the request alone, and above temperature 0 on its seed. Before it answers it thinks of the
opposite, as models do, where a vendor's models think. What differs are the places of thinking, the alternatives of
tokens, and the limits; what else vendors write stands in every reply.
"""

from __future__ import annotations

import base64
import io
import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import PIL.Image
import PIL.ImageStat

from .http_server import Answer, Loopback, ReceivedRequest, serving

LEVELS = ("bad", "poor", "fair", "good", "excellent")
END = ""
"""The token that ends a reply. Servers return it without a text, with its name, or not at all."""


@lru_cache(maxsize=512)
def brightness(url: str) -> float:
    """Of a picture of a request, in [0, 1]."""
    with PIL.Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
        return PIL.ImageStat.Stat(image.convert("L")).mean[0] / 255


def opinion(body: Mapping[str, Any]) -> dict[str, float]:
    """The model's replies to a question, with their probabilities."""
    content = body["messages"][-1]["content"]
    text = " ".join(part["text"] for part in content if part["type"] == "text")
    levels = [brightness(part["image_url"]["url"]) for part in content if part["type"] == "image_url"]
    if "first, second, or same" in text:
        first, second = levels[-2:]
        better, worse = ("First", "Second") if first > second else ("Second", "First")
        return {"Same": 0.9, better: 0.05, worse: 0.05} if first == second else {better: 0.9, worse: 0.08, "Same": 0.02}
    edited = levels[0] if "The first picture is from after" in text else levels[-1]
    if re.search(r"\byes\b", text, re.IGNORECASE):
        yes = 1 - edited if "fail to" in text else edited
        return {"Yes": yes, "No": 1 - yes}
    grades = range(101 if "0 to 100" in text else 11)
    options = [level.title() for level in LEVELS] if "excellent, good" in text else [str(grade) for grade in grades]
    weights = [math.exp(-((place - edited * (len(options) - 1)) ** 2)) for place in range(len(options))]
    return {option: weight / sum(weights) for option, weight in zip(options, weights, strict=True)}


Step = tuple[str, Mapping[str, float]]
"""A sampled token, and the probabilities of the tokens at its place."""


def _tokens(text: str, digits: int) -> list[str]:
    return re.findall(rf"<[^<>]+>|[ ]?[A-Za-z]+|[0-9]{{1,{digits}}}|\s+|.", text)


def _sampled(replies: Mapping[str, float], body: Mapping[str, Any]) -> str:
    if body.get("temperature", 1.0) == 0:
        return max(replies, key=lambda reply: replies[reply])
    return random.Random(body.get("seed")).choices(list(replies), list(replies.values()))[0]


def _written(replies: Mapping[str, float], reply: str, vendor: Vendor) -> list[Step]:
    """The steps of a reply. A tenth of a word's probability is that of its lower case."""
    spelled: dict[tuple[str, ...], float] = {}
    for option, share in replies.items():
        for text, part in ((option, 0.9), (option.lower(), 0.1)) if option.isalpha() else ((option, 1.0),):
            spelled[(*_tokens(vendor.wrapping.format(text), vendor.digits), END)] = share * part
    steps: list[Step] = []
    prefix: tuple[str, ...] = ()
    for token in (*_tokens(vendor.wrapping.format(reply), vendor.digits), END):
        here = {one: share for one, share in spelled.items() if one[: len(prefix)] == prefix}
        following: dict[str, float] = {"The": 0.004, "\n": 0.001}
        for one, share in here.items():
            following[one[len(prefix)]] = following.get(one[len(prefix)], 0.0) + 0.995 * share / sum(here.values())
        steps.append((token, following))
        prefix = (*prefix, token)
    return steps


def _thought(replies: Mapping[str, float], vendor: Vendor) -> list[Step]:
    opposite = min(replies, key=lambda reply: replies[reply])
    words = _tokens(f"{opposite}, one would say at once. Yes, or no? Let me look at 1 or 2 things.\n", vendor.digits)
    tokens = [vendor.tags[0], *words, vendor.tags[1], *filter(None, [vendor.lead])]
    return [(token, {token: 0.99, " however": 0.01}) for token in tokens]


@dataclass(frozen=True)
class Vendor:
    """thinking: the fields of the message that hold it, `content` with tags, `unopened` with the last one alone,
    `hidden`, or none. tags: around it. logprobs: of all tokens, of the content's, none although asked for, or refused.
    limit: of alternatives. refusal: status and body of what is refused; `{}` is the number asked for. wrapping: of an
    answer. lead: what follows the thinking. end: how the last token is written; empty, as the tags then are too; None
    leaves it out. raw: tokens as in the vocabulary, and the sampled one not among its alternatives. digits: of one
    token. only_temperature: others are refused. no_content: of a reply without any."""

    thinking: tuple[str, ...] = ()
    logprobs: Literal["all", "content", "null", "absent", "refused"] = "content"
    refusal: tuple[int, Any] = (400, {})
    tags: tuple[str, str] = ("<think>", "</think>")
    limit: int = 20
    wrapping: str = "{}"
    lead: str = ""
    end: str | None = None
    raw: bool = False
    digits: int = 1
    only_temperature: float | None = None
    no_content: Mapping[str, Any] = field(default_factory=lambda: {"content": None})

    @property
    def has_probabilities(self) -> bool:
        """Whether the alternatives to an answer's first token tell the probabilities of the options."""
        return self.logprobs in ("all", "content") and self.wrapping == "{}"


def _error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}}


_FILTERS = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
_BESIDE: dict[str, dict[str, Any]] = {
    "message": {"refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None},
    "choice": {"stop_reason": 151645, "token_ids": None, "hidden_states": None, "content_filter_results": _FILTERS},
    "response": {"service_tier": "default", "prompt_logprobs": None, "system_fingerprint": None, "timings": {"n": 1}},
    "usage": {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": 22}, "cost": 0.0003},
}
"""What vendors write beside an answer."""
_NOT_ALLOWED = _error("You are not allowed to request logprobs from this model")

_AZURE = _error("Invalid value for 'top_logprobs': must be less than or equal to 5.", code="invalid")
_VLLM = "Requested sample logprobs of {}, which is greater than max allowed: 5 (parameter=logprobs, value={})"
_UNSUPPORTED = _error("deepseek-reasoner does not support the parameter `logprobs`", code="invalid_request")
_GEMINI = [{"error": {"code": 400, "message": "Logprobs is not enabled for models/gemini-2.5", "status": "INVALID"}}]
_DASHSCOPE = "InvalidParameter: Invalid 'top_logprobs': {}. Expected an integer in range [0, 5]"
_EMPTY = {"content": ""}
_HARMONY = ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>")

VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor(digits=3),
    "openai-reasoning": Vendor(
        ("hidden",), "refused", (403, _NOT_ALLOWED), digits=3, only_temperature=1.0, no_content=_EMPTY
    ),
    "azure": Vendor(refusal=(400, _AZURE), limit=5, digits=3),
    "vllm": Vendor(("reasoning", "reasoning_content"), "all", lead="\n\n", end=""),
    "vllm-unparsed": Vendor(
        ("unopened",), "all", (400, _error(_VLLM, param="logprobs", code=400)), limit=5, lead="\n\n", end="<|im_end|>"
    ),
    "sglang": Vendor(("reasoning_content",), "all", tags=("<seed:think>", "</seed:think>"), end="<|im_end|>"),
    "llama.cpp": Vendor(("reasoning_content",), "all", end=""),
    "ollama": Vendor(("reasoning",), "all", tags=_HARMONY, no_content=_EMPTY),
    "lm-studio": Vendor(("content",), "null"),
    "lmdeploy": Vendor(("reasoning_content",), "all", end="<|im_end|>", raw=True),
    "openrouter": Vendor(("reasoning", "reasoning_details"), "null"),
    "glm": Vendor(("reasoning_content",), "absent", wrapping="<|begin_of_box|>{}<|end_of_box|>"),
    "glm-vllm": Vendor(
        ("reasoning",), "all", wrapping="The answer is <|begin_of_box|>{}<|end_of_box|>.", lead="\n", end=""
    ),
    "deepseek": Vendor(("reasoning_content",), "refused", (400, _UNSUPPORTED), no_content=_EMPTY),
    "gemini": Vendor(("hidden",), "refused", (400, _GEMINI), no_content={}),
    "dashscope": Vendor(("reasoning_content",), refusal=(400, _error(_DASHSCOPE, code="400")), limit=5),
}


@contextmanager
def serving_vendor(name: str) -> Iterator[Loopback]:
    """A server in the form of a vendor of `VENDORS`."""
    with serving(lambda request, number: answer(VENDORS[name], request)) as server:
        yield server


def answer(vendor: Vendor, request: ReceivedRequest) -> Answer:
    """What the vendor answers to a request."""
    body = request.body
    if body is None:
        return Answer({"object": "list", "data": [{"id": "bright-judge", "object": "model", "owned_by": "us"}]})
    asked = body.get("top_logprobs", 0) if body.get("logprobs") else None
    if asked is not None and (vendor.logprobs == "refused" or asked > vendor.limit):
        status, refusal = vendor.refusal
        return Answer(json.dumps(refusal).replace("{}", str(asked)).encode(), status)
    temperature = body.get("temperature", 1.0)
    if vendor.only_temperature not in (None, temperature):
        message = f"Unsupported value: 'temperature' does not support {temperature:g} with this model. Only the default"
        message += f" ({vendor.only_temperature:g}) value is supported."
        return Answer(_error(message, param="temperature", code="unsupported_value"), 400)
    return Answer(_completion(vendor, body, asked))


def _completion(vendor: Vendor, body: Mapping[str, Any], asked: int | None) -> dict[str, Any]:
    replies = opinion(body)
    thought = _thought(replies, vendor) if vendor.thinking else []
    steps = [*thought, *_written(replies, _sampled(replies, body), vendor)]
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or len(steps)
    finish = "stop" if limit >= len(steps) else "length"
    thought, said = thought[:limit], steps[len(thought) : limit]

    message: dict[str, Any] = {"role": "assistant"}
    thinking = "".join(token for token, _ in thought[1:]).partition(vendor.tags[1])[0]
    text = vendor.lead + "".join(token for token, _ in said) if said else ""
    for place in vendor.thinking:
        if place in ("content", "unopened"):
            text = "".join(token for token, _ in thought[place == "unopened" :]) + text.removeprefix(vendor.lead)
        elif place == "reasoning_details":
            message[place] = [{"type": "reasoning.text", "text": thinking, "format": "unknown", "index": 0}]
        elif place != "hidden":
            message[place] = thinking
    message |= {**({"content": text} if text else vendor.no_content), **_BESIDE["message"]}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish, **_BESIDE["choice"]}
    if asked is not None and vendor.logprobs in ("all", "content"):
        shown = [*thought, *said] if vendor.logprobs == "all" else said
        ended = shown[-1:] and shown[-1][0] == END
        shown = [*shown[:-1], (vendor.end, shown[-1][1])] if ended and vendor.end is not None else shown
        shown = shown[:-1] if ended and vendor.end is None else shown
        choice["logprobs"] = {"content": [_logprob(vendor, step, asked) for step in shown]}
    elif vendor.logprobs == "null":
        choice["logprobs"] = None
    usage = {"prompt_tokens": 100, "completion_tokens": len(thought) + len(said)}
    usage["total_tokens"] = sum(usage.values())
    response = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_796_000_000, "model": body["model"]}
    return {**response, "choices": [choice], "usage": {**usage, **_BESIDE["usage"]}, **_BESIDE["response"]}


def _logprob(vendor: Vendor, step: Step, asked: int) -> dict[str, Any]:
    def written(token: str) -> str:
        if token == END or (vendor.end == "" and token in vendor.tags):
            return vendor.end or ""
        return token.replace(" ", "Ġ").replace("\n", "Ċ") if vendor.raw else token

    sampled, following = step
    share = following.get(END if sampled == vendor.end else sampled, 1.0)
    likeliest = sorted(following.items(), key=lambda pair: -pair[1])[:asked]
    top = [_entry(written(token), share) for token, share in likeliest]
    if vendor.raw:
        top = [entry for entry in top if entry["token"] != written(sampled)]
    return {**_entry(written(sampled), share), "top_logprobs": top}


def _entry(token: str, share: float) -> dict[str, Any]:
    return {"token": token, "logprob": math.log(share), "bytes": list(token.encode())}
