"""Costs and budgets: what a selection may take, and what it took."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """evaluations: steps of a denoiser, one picture each, whatever guidance multiplies them by. judge_calls: questions
    put to a judge by the programs that scored, also those that were known already, so that a run that is resumed costs
    what it would have cost without a break. seconds: of making and scoring, each as if nothing ran beside it.
    """

    evaluations: int = 0
    judge_calls: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.evaluations + other.evaluations,
            self.judge_calls + other.judge_calls,
            math.fsum((self.seconds, other.seconds)),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def total(costs: Iterable[Cost]) -> Cost:
    """The sum."""
    found = list(costs)
    return Cost(
        sum(cost.evaluations for cost in found),
        sum(cost.judge_calls for cost in found),
        math.fsum(cost.seconds for cost in found),
    )


@dataclass(frozen=True, slots=True)
class Budget:
    """What a whole run may cost, over all its samples, in the units of `Cost`; None where there is no limit.

    Evaluations are known beforehand and never exceeded. Judge calls and seconds are foreseen by the dearest candidate
    so far, so that what the first one takes, and a candidate that takes more than any before it, can exceed them.
    """

    evaluations: int | None = None
    judge_calls: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, limit in self.limits.items():
            if not (limit > 0 and math.isfinite(limit)):
                raise ValueError(f"a budget of {name} is a positive number, got {limit}")

    @property
    def limits(self) -> dict[str, float]:
        """Name -> limit, of those that there are."""
        return {one.name: limit for one in fields(self) if (limit := getattr(self, one.name)) is not None}

    @staticmethod
    def of(text: str) -> Budget:
        """As in `evaluations=64,seconds=30`. Raises ValueError."""
        known = {one.name: int if "int" in str(one.type) else float for one in fields(Budget)}
        given: dict[str, Any] = {}
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, _, number = item.partition("=")
            if name not in known:
                raise ValueError(f"a budget has {', '.join(known)}, got {item!r}: write it as in evaluations=64")
            try:
                given[name] = known[name](number)
            except ValueError:
                raise ValueError(f"a budget of {name} is a number, got {number!r}") from None
        return Budget(**given)

    def room(self, spent: Cost, each: Cost) -> float:
        """How many more things at this price fit in; infinite where nothing limits them."""
        found = math.inf
        for name, limit in self.limits.items():
            left, price = limit - getattr(spent, name), getattr(each, name)
            found = min(found, (left // price if price else math.inf) if left > 0 else 0)
        return max(found, 0)

    def lacking(self, spent: Cost, each: Cost) -> str:
        """Why there is no room for one more, in words; empty where there is."""
        for name, limit in self.limits.items():
            left, price = limit - getattr(spent, name), getattr(each, name)
            if left <= 0 or left < price:
                return f"{getattr(spent, name):g} of {limit:g} {name.replace('_', ' ')} are spent"
        return ""
