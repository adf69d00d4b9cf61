"""What the experts of an audited reward took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Counts = Mapping[str, Mapping[str, float]]
"""Of each expert, by id: queries, calls, failed, seconds."""


@dataclass(frozen=True, slots=True)
class ExpertCost:
    """What one expert took in an audit.

    expert: its id. roles: that it is bound to. queries, calls, failed, seconds: of the whole audit, with its search;
    experts work at the same time, so their seconds may add up to more than its own. seconds_per_edit: mean of the
    samples scored; answers that are known already cost nothing, so a single edit costs more. None without any.
    """

    expert: str
    roles: tuple[str, ...]
    queries: int
    calls: int
    failed: int
    seconds: float
    seconds_per_edit: float | None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "roles": list(self.roles)}


def added(all_counts: Iterable[Counts]) -> Counts:
    """The counts of several runs together."""
    total: dict[str, Counter[str]] = {}
    for counts in all_counts:
        for name, one in counts.items():
            total.setdefault(name, Counter()).update(one)
    return {name: dict(one) for name, one in total.items()}


def costs_of(counts: Counts, roles: Mapping[str, Sequence[str]], scored: int) -> list[ExpertCost]:
    """What each expert took, the dearest first. roles: by id. scored: samples that the reward was given."""
    costs = []
    for name, one in counts.items():
        queries, calls, failed = (int(one.get(key, 0)) for key in ("queries", "calls", "failed"))
        seconds = one.get("seconds", 0.0)
        mean = seconds / scored if scored else None
        costs.append(ExpertCost(name, tuple(roles.get(name, ())), queries, calls, failed, seconds, mean))
    return sorted(costs, key=lambda cost: -cost.seconds)
