"""What HTTP errors of an API mean: which may pass, which concern one request, and which concern all."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

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
        if self.is_policy:
            return Failure(f"the server's content policy refused it (HTTP {self.status}): {self.message}", raw=self.raw)
        return Failure(f"the server rejected it (HTTP {self.status}): {self.message}", raw=self.raw)

    @property
    def is_policy(self) -> bool:
        """Whether a content policy refused it."""
        return _POLICY.search(f"{self.code} {self.message}") is not None

    @property
    def is_too_large(self) -> bool:
        """Whether less would be taken: HTTP 413, or as servers and proxies say it with 400 or 422."""
        return self.status == 413 or (
            self.status in (400, 422) and _TOO_LARGE.search(f"{self.message} {self.raw}") is not None
        )

    @property
    def is_about_logprobs(self) -> bool:
        """Whether it names log-probabilities, which OpenAI forbids (403) to ask its reasoning models for."""
        return "logprob" in f"{self.code} {self.message}".lower()

    @property
    def is_quota(self) -> bool:
        """Whether the account has nothing left."""
        return self.status == 402 or self.code in _QUOTA_ERROR_CODES


def parse_error_body(text: str) -> tuple[str, str]:
    """Code and message of an error body, in the formats that servers use.

    A gateway's message has that of the server which it asked, if it says what that was (OpenRouter's `metadata.raw`).
    """
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

    headers: by lower-case name.
    """
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
_QUOTA_ERROR_CODES = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "exceeded_current_quota_error",
}
