"""Replies: what somebody says who is this sure, in each form of an answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import Any

from ....reward import Judge, Reply
from ....reward.forms import Grade
from .wishes import Unknown

LEVELS = ("bad", "poor", "fair", "good", "excellent")


def yes_no(p: float) -> Reply:
    """Yes with this probability."""
    p = min(max(p, 0.0), 1.0)
    return Reply("yes" if p >= 0.5 else "no", {"yes": p, "no": 1 - p})


def level(share: float, options: Sequence[str]) -> Reply:
    """One of the five levels, spread around `share` in [0, 1]. Raises `Unknown` for other words."""
    if {option.casefold() for option in options} != set(LEVELS):
        raise Unknown(f"which of {', '.join(options)} it is: its levels are {', '.join(reversed(LEVELS))}")
    chances = dict(zip(LEVELS, spread(share, len(LEVELS) - 1), strict=True))
    probabilities = {option: chances[option.casefold()] for option in options}
    return Reply(max(options, key=lambda option: probabilities[option]), probabilities)


def grade(share: float, query: Judge) -> Reply:
    """An integer of the query's scale, the most probable one or, at a temperature, one drawn."""
    form = query.form
    assert isinstance(form, Grade)
    chances = spread(share, form.high - form.low)
    probabilities = {str(form.low + step): chance for step, chance in enumerate(chances)}
    drawn = form.low + chosen(chances, query, "grade", form.temperature)
    return Reply(str(drawn), probabilities)


def written(value: Any) -> Reply:
    """JSON."""
    return Reply(json.dumps(value))


def spread(share: float, steps: int) -> list[float]:
    """Probabilities of 0 to `steps`, binomial: the expectation is share x steps exactly, and 0 and 1 are certain."""
    return list(_spread(round(min(max(share, 0.0), 1.0), 6), steps))


@lru_cache(maxsize=4096)
def _spread(share: float, steps: int) -> tuple[float, ...]:
    return tuple(comb(steps, k) * share**k * (1 - share) ** (steps - k) for k in range(steps + 1))


def chosen(chances: Sequence[float], query: Judge, what: str, temperature: float = 1.0) -> int:
    """A place drawn by these probabilities; at temperature 0 the most probable one.

    What comes out depends on the question, its draw included, and on `what` alone.
    """
    if temperature <= 0:
        return max(range(len(chances)), key=lambda place: chances[place])
    weights = [chance ** (1 / temperature) for chance in chances]
    left = luck(query, what) * sum(weights)
    for place, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return place
    return max(place for place, weight in enumerate(weights) if weight > 0)


def luck(query: Judge, what: str) -> float:
    """A number in [0, 1), evenly spread over questions and their draws."""
    return int.from_bytes(hashlib.sha256(f"{what} {query.digest}".encode()).digest()[:8], "big") / 2**64
