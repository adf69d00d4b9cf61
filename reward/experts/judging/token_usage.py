"""TokenUsage: what was sent to a server, and the tokens that it counted, with their cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...forks import ForkSafeLock

_MAX_TOKENS = 2**31  # of a request, as its server reports them; more is nonsense, and may be more than a float holds


class TokenUsage:
    """Counters of one served expert. Thread-safe. usd_per_million_in, _cached_in, _out: prices of prompt tokens, of
    those that the server had in its prefix cache (None: as the others), and of completion tokens, each finite and 0 or
    more. Raises ValueError for other prices."""

    def __init__(
        self,
        usd_per_million_in: float | None = None,
        usd_per_million_cached_in: float | None = None,
        usd_per_million_out: float | None = None,
    ) -> None:
        prices = {"in": usd_per_million_in, "cached_in": usd_per_million_cached_in, "out": usd_per_million_out}
        for name, price in prices.items():
            if price is not None and not 0 <= price < math.inf:
                raise ValueError(f"usd_per_million_{name} is a price of 0 or more, got {price}")
        if usd_per_million_cached_in is not None and usd_per_million_in is None:
            raise ValueError("usd_per_million_cached_in needs usd_per_million_in, the price of the other prompt tokens")
        cached = usd_per_million_in if usd_per_million_cached_in is None else usd_per_million_cached_in
        self._prices = usd_per_million_in, cached, usd_per_million_out
        names = ("requests", "retries", "requests_without_usage", "prompt_tokens", "completion_tokens")
        self._counts = dict.fromkeys((*names, "images_sent", "bytes_sent"), 0)
        self._lock = ForkSafeLock()

    def start_request(self, max_requests: int | None, *, retry: bool, images: int) -> bool:
        """Count a request that is about to be sent; False, and not counted, if there were `max_requests` already."""
        with self._lock:
            if max_requests is not None and self._counts["requests"] >= max_requests:
                return False
            self._counts["requests"] += 1
            self._counts["retries"] += retry
            self._counts["images_sent"] += images
            return True

    def add_bytes(self, count: int) -> None:
        """Count bytes of a request's body, which is about to be sent."""
        with self._lock:
            self._counts["bytes_sent"] += count

    def add_response(self, usage: object) -> None:
        """Count the tokens of a response. usage: that of a chat completion, or whatever else stands there."""
        known = usage if isinstance(usage, Mapping) else {}
        prompt = _tokens(known, "prompt_tokens", "input_tokens")
        completion = _tokens(known, "completion_tokens", "output_tokens")
        cached = _tokens(_details(known, "prompt_tokens_details", "input_tokens_details"), "cached_tokens")
        reasoning = _tokens(_details(known, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
        with self._lock:
            self._counts["requests_without_usage"] += prompt is None or completion is None
            self._counts["prompt_tokens"] += prompt or 0
            self._counts["completion_tokens"] += completion or 0
            for name, part, whole in (("cached_tokens", cached, prompt), ("reasoning_tokens", reasoning, completion)):
                if part is not None and whole is not None and part <= whole:
                    self._counts[name] = self._counts.get(name, 0) + part

    def counters(self) -> dict[str, float]:
        """`requests`, `retries` among them, `images_sent` and `bytes_sent` with them, whether a server was reached or
        not; `prompt_tokens` and `completion_tokens`, of the responses that say them, and the number that do not,
        `requests_without_usage`. `cached_tokens`, prompt tokens from the server's prefix cache, and `reasoning_tokens`,
        of the completion's, once the server has reported any number of them. `usd` if both prices are given and every
        response had its tokens: otherwise the cost is unknown."""
        with self._lock:
            counts: dict[str, float] = dict(self._counts)
        price_in, price_cached, price_out = self._prices
        if price_in is None or price_cached is None or price_out is None or counts["requests_without_usage"]:
            return counts
        cached = counts.get("cached_tokens", 0)
        cost = (counts["prompt_tokens"] - cached) * price_in + cached * price_cached
        counts["usd"] = (cost + counts["completion_tokens"] * price_out) / 1e6
        return counts


def _details(usage: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return next((usage[name] for name in names if isinstance(usage.get(name), Mapping)), {})


def _tokens(usage: Mapping[str, Any], *names: str) -> int | None:
    count = next((usage[name] for name in names if name in usage), None)
    return count if type(count) is int and 0 <= count <= _MAX_TOKENS else None
