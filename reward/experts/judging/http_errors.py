"""What HTTP errors of an API mean, and a limit of what is read of its responses."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from ...installation import install_command
from ...queries.expert import ExpertDown
from ...queries.outcomes import Failure

MAX_RAW_CHARACTERS = 2000
"""Characters of a response that a failure keeps."""


def is_retryable(status: int) -> bool:
    """Whether a request with this HTTP status may succeed later: 408, 429, and all from 500."""
    return status in (408, 429) or status >= 500


@dataclass(frozen=True, slots=True)
class RequestRejected:
    """A 4xx response. status: of HTTP. code, message: of the error. raw: the body."""

    status: int
    code: str
    message: str
    raw: str

    @property
    def failure(self) -> Failure:
        """The outcome of the rejected query."""
        who = "the server's content policy refused" if self.is_policy else "the server rejected"
        return Failure(f"{who} it (HTTP {self.status}): {self.message}", raw=self.raw)

    @property
    def is_policy(self) -> bool:
        """Whether a content policy refused it."""
        return _POLICY.search(f"{self.code} {self.message}") is not None

    @property
    def is_too_large(self) -> bool:
        """Whether less would be taken: HTTP 413, or as servers and proxies say it with 400 or 422."""
        says_so = self.status in (400, 422) and _TOO_LARGE.search(f"{self.message} {self.raw}")
        return self.status == 413 or bool(says_so)

    @property
    def is_about_logprobs(self) -> bool:
        """Whether it names log-probabilities, which OpenAI forbids (403) to ask its reasoning models for."""
        return "logprob" in f"{self.code} {self.message}".lower()

    @property
    def is_quota(self) -> bool:
        """Whether the account has nothing left."""
        return self.status == 402 or self.code in _QUOTA_ERROR_CODES


def parse_error_body(text: str) -> tuple[str, str]:
    """Code and message of an error body, in the formats that servers use. A gateway's message has that of the server
    which it asked, if it says what that was (OpenRouter's `metadata.raw`)."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return "", text[:200].strip() or "no message"
    if isinstance(body, list) and body:  # Gemini's
        body = body[0]
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", str(error)[:500]
    message = error.get("message") or error.get("detail") or error
    described = message if isinstance(message, str) else json.dumps(message)
    parameter, metadata = error.get("param"), error.get("metadata")
    about = f" ({parameter})" if isinstance(parameter, str) and parameter not in described else ""
    upstream = f": {metadata['raw']!s:.300}" if isinstance(metadata, dict) and metadata.get("raw") else ""
    return str(error.get("code") or error.get("type") or ""), described[:500] + about + upstream


def status_sent_as_success(response: object) -> int:
    """The HTTP status of an error that came with a status of success, as gateways send those of the servers that they
    ask (OpenRouter); 0 if there is none."""
    error = response.get("error") if isinstance(response, dict) and not response.get("choices") else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if type(code) is int and 400 <= code < 600 else 0


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The wait that a response asks for by `Retry-After`, a number or a date, in seconds; None without the header.
    headers: by lower-case name."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value)) if float(value) < float("inf") else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


_POLICY = re.compile(r"content[_ ]?(policy|filter)|responsibleai|moderation|flagged", re.IGNORECASE)
_TOO_LARGE = re.compile(
    r"\b(request|entity|payload|body|content|image|file)( payload| body| size){0,2}( is| was)?"
    r" (too (large|big|long)|exceeds|larger than)\b",
    re.IGNORECASE,
)
"""It names what is too large: `max_tokens` can be, too."""
_QUOTA_ERROR_CODES = {"insufficient_quota", "billing_not_active", "exceeded_current_quota_error"}
_QUOTA_ERROR_CODES |= {"billing_hard_limit_reached"}


MAX_RESPONSE_BYTES = 16 * 2**20
"""Limit of a response; expected ones are far smaller."""


class ResponseRefused(Exception):
    """A response that is not read to its end. The message continues "the response"."""


async def limit_response_size(response: Any, base: type) -> None:
    """Stop reading a response at the size limit. A compressed one, which was not asked for, may hold a thousand times
    as much, and is not read."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise ResponseRefused("is compressed, and was to be as it is: turn compression off on the server")
    stream = response.stream

    class Bounded(base):  # a class of the HTTP library that openai uses
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MAX_RESPONSE_BYTES:
                    raise ResponseRefused(f"is longer than {MAX_RESPONSE_BYTES >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()


def openai_package() -> Any:
    """The `openai` package. Raises `ExpertDown` without it."""
    try:
        import openai
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: {install_command('judge')}") from None
    return openai


def http_library(openai: Any) -> Any:
    """The HTTP library that this openai is built on: httpx, or httpx2 since version 3."""
    base = next(kind for kind in openai.DefaultAsyncHttpxClient.__mro__ if kind.__module__.startswith("httpx"))
    return sys.modules[base.__module__.partition(".")[0]]


def causes(error: BaseException) -> str:
    """An exception and its causes, innermost last: class names, with the text of OS errors."""
    names: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(names) < 6:
        text = type(cause).__name__ + (f": {cause}" if isinstance(cause, OSError) else "")
        names.append(text)
        cause = cause.__cause__ or cause.__context__
    return ", ".join(dict.fromkeys(names))
