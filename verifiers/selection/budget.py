"""Costs and budgets of selections."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Cost:
    """What a selection has cost.

    Args:
        nfe: Denoiser evaluations (number of function evaluations), counted per image and step; the factor of guidance
            is not counted.
        judge_calls: Queries to a judge by the scoring programs, including cached ones, so that a resumed run reports
            the cost of an uninterrupted one.
        seconds: Of generation and scoring, each as if run alone.
    """

    nfe: int = 0
    judge_calls: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.nfe + other.nfe, self.judge_calls + other.judge_calls, math.fsum((self.seconds, other.seconds))
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """The sum of the costs."""
    items = list(costs)
    return Cost(
        sum(cost.nfe for cost in items),
        sum(cost.judge_calls for cost in items),
        math.fsum(cost.seconds for cost in items),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits by name, as fields of subclasses; each is a positive number, or None for no limit. Raises ValueError."""

    def __post_init__(self) -> None:
        for name, limit in self.limits.items():
            if not (limit > 0 and math.isfinite(limit)):
                raise ValueError(f"a budget of {name} must be a positive number, got {limit}")

    @property
    def limits(self) -> dict[str, float]:
        """Name -> limit, for the limits that are set."""
        return {item.name: limit for item in fields(self) if (limit := getattr(self, item.name)) is not None}

    @classmethod
    def from_string(cls, text: str) -> Self:
        """Parse limits such as `judge_calls=64,seconds=30`. Raises ValueError."""
        types = {item.name: int if "int" in str(item.type) else float for item in fields(cls)}
        limits: dict[str, Any] = {}
        for assignment in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = assignment.partition("=")
            if name not in types:
                example = f"{next(iter(types))}=64"
                raise ValueError(f"a budget has {', '.join(types)}, got {assignment!r}: write it as in {example}")
            try:
                limits[name] = types[name](value)
            except ValueError:
                raise ValueError(f"a budget of {name} must be a number, got {value!r}") from None
        return cls(**limits)


@dataclass(frozen=True, slots=True)
class Budget(Limits):
    """Limits of a whole run over all its samples, in the units of `Cost`; None is no limit.

    NFE are known beforehand and never exceeded. Judge calls and seconds are estimated from the most expensive candidate
    so far: the first candidate, or one that costs more than all before it, can exceed the limit.
    """

    nfe: int | None = None
    judge_calls: int | None = None
    seconds: float | None = None

    def remaining(self, spent: Cost, unit_cost: Cost) -> float:
        """How many more units of this cost fit; infinite without limits."""
        count = math.inf
        for name, limit in self.limits.items():
            left, unit = limit - getattr(spent, name), getattr(unit_cost, name)
            count = min(count, (left // unit if unit else math.inf) if left > 0 else 0)
        return max(count, 0)

    def exhausted_reason(self, spent: Cost, unit_cost: Cost) -> str:
        """Why no further unit of this cost fits; empty if one does."""
        for name, limit in self.limits.items():
            left, unit = limit - getattr(spent, name), getattr(unit_cost, name)
            if left <= 0 or left < unit:
                return f"{getattr(spent, name):g} of {limit:g} {unit_name(name)} are spent"
        return ""


def unit_name(name: str) -> str:
    """A field of `Cost` for messages."""
    return "NFE" if name == "nfe" else name.replace("_", " ")
