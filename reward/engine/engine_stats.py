"""What an engine counts of its work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ExpertStats:
    """Work of one expert: `queries` it was given in `calls` calls, `failed` of them, `seconds` spent in it.

    meter: what the expert itself counted since this engine met it (see `Expert.meter`).
    """

    queries: int = 0
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    meter: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Stats:
    """asked: questions put by programs; unique: those not seen before; known: answered from memory or the log;
    joined: put while the same question was on its way."""

    programs: int = 0
    asked: int = 0
    unique: int = 0
    known: int = 0
    joined: int = 0
    experts: dict[str, ExpertStats] = field(default_factory=dict)

    def since(self, before: Stats) -> dict[str, Any]:
        """The difference to an earlier snapshot, as plain JSON."""
        return {
            "programs": self.programs - before.programs,
            "asked": self.asked - before.asked,
            "unique": self.unique - before.unique,
            "known": self.known - before.known,
            "joined": self.joined - before.joined,
            "experts": {
                name: {
                    "queries": now.queries - then.queries,
                    "calls": now.calls - then.calls,
                    "failed": now.failed - then.failed,
                    "seconds": round(now.seconds - then.seconds, 4),
                    **{key: round(count - then.meter.get(key, 0.0), 6) for key, count in now.meter.items()},
                }
                for name, now in self.experts.items()
                if (then := before.experts.get(name, ExpertStats())).queries != now.queries
            },
        }
