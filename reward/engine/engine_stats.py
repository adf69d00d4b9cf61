"""Statistics of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ExpertStats:
    """Work of one expert: number of queries and calls, failed queries, and seconds spent in it.

    usage: the expert's own counters since its first use in this engine (see `Expert.usage`).
    """

    queries: int = 0
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    usage: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Stats:
    """queries: issued by programs; unique: sent to experts; cache_hits: answered from the cache or the log;
    coalesced: joined to an equal query in flight; rejected: answers in the log that were damaged, or of another kind
    than their query, and hence asked again."""

    programs: int = 0
    queries: int = 0
    unique: int = 0
    cache_hits: int = 0
    coalesced: int = 0
    rejected: int = 0
    experts: dict[str, ExpertStats] = field(default_factory=dict)

    def since(self, before: Stats) -> dict[str, Any]:
        """The difference to an earlier snapshot, as plain JSON."""
        return {
            "programs": self.programs - before.programs,
            "queries": self.queries - before.queries,
            "unique": self.unique - before.unique,
            "cache_hits": self.cache_hits - before.cache_hits,
            "coalesced": self.coalesced - before.coalesced,
            "rejected": self.rejected - before.rejected,
            "experts": {
                name: {
                    "queries": current.queries - previous.queries,
                    "calls": current.calls - previous.calls,
                    "failed": current.failed - previous.failed,
                    "seconds": round(current.seconds - previous.seconds, 4),
                    **{key: round(count - previous.usage.get(key, 0.0), 6) for key, count in current.usage.items()},
                }
                for name, current in self.experts.items()
                if (previous := before.experts.get(name, ExpertStats())).queries != current.queries
            },
        }
