"""Tokens are those that the server reports; what it does not report is unknown, and never nothing."""

from typing import Any

import pytest

from editcritic.reward.experts.judging.token_usage import TokenUsage


def counted(*usages: Any, prices: tuple[float | None, ...] = (2.0, None, 10.0)) -> dict[str, float]:
    usage = TokenUsage(*prices)
    for one in usages:
        usage.add_response(one)
    return usage.counters()


def reported(prompt: Any = 1000, completion: Any = 10, **details: Any) -> dict[str, Any]:
    cached, reasoning = details.get("cached"), details.get("reasoning")
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        "completion_tokens_details": None if reasoning is None else {"reasoning_tokens": reasoning},
    }


def test_cached_tokens_have_their_own_price_or_that_of_the_others():
    usages = reported(cached=600), reported(cached=0, reasoning=7)
    for price, usd in ((0.5, 1400 * 2 + 600 * 0.5 + 20 * 10), (None, 2000 * 2 + 20 * 10), (0.0, 1400 * 2 + 20 * 10)):
        counts = counted(*usages, prices=(2.0, price, 10.0))
        assert (counts["prompt_tokens"], counts["cached_tokens"], counts["reasoning_tokens"]) == (2000, 600, 7)
        assert counts["usd"] == pytest.approx(usd / 1e6)


def test_what_no_server_reported_is_no_counter_and_other_names_of_the_same_are_read():
    counts = counted(reported())
    assert not {"cached_tokens", "reasoning_tokens"} & counts.keys()
    assert counts["requests_without_usage"] == 0
    counts = counted({"input_tokens": 5, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}})
    assert (counts["prompt_tokens"], counts["cached_tokens"], counts["completion_tokens"]) == (5, 4, 3)


def test_a_response_without_tokens_makes_the_cost_unknown_and_more_cached_tokens_than_there_are_are_none():
    for usage in (None, [], "many", {}, reported(completion=None), reported(prompt=2**40)):
        counts = counted(reported(), usage, reported())
        assert counts["requests_without_usage"] == 1
        assert counts["prompt_tokens"] >= 2000
        assert "usd" not in counts
    for cached in (1001, -1, True, "600", {}):
        counts = counted(reported(cached=cached))
        assert "cached_tokens" not in counts
        assert counts["usd"] == pytest.approx((1000 * 2 + 10 * 10) / 1e6)
    for prices in ((-1.0, None, 1.0), (1.0, None, float("nan")), (1.0, float("inf"), 1.0), (None, 1.0, 2.0)):
        with pytest.raises(ValueError, match="is a price of 0 or more" if prices[0] else "needs usd_per_million_in"):
            TokenUsage(*prices)
