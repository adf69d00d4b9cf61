"""The outcome of constructing data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ConstructionReport:
    """num_constructed, num_rejected: images (or questions, prompts). failures: unanswered ones, with the reason."""

    num_constructed: int
    num_rejected: int
    failures: Mapping[str, str]
    files: tuple[Path, ...]
    stats: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """1 if queries were not answered: the same command retries them."""
        return int(bool(self.failures))

    def to_json(self) -> dict[str, Any]:
        return {
            "constructed": self.num_constructed,
            "rejected": self.num_rejected,
            "failed": dict(self.failures),
            "files": [str(path) for path in self.files],
            "stats": dict(self.stats),
        }
