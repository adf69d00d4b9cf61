"""What became of making data, for the command that reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """made: pictures that data was made of. rejected: those given up. failed: those not answered, with the reason."""

    made: int
    rejected: int
    failed: Mapping[str, str]
    files: tuple[Path, ...]
    stats: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """1 where something was not answered: the same command asks again."""
        return int(bool(self.failed))

    def to_json(self) -> dict[str, Any]:
        return {
            "made": self.made,
            "rejected": self.rejected,
            "failed": dict(self.failed),
            "files": [str(path) for path in self.files],
            "stats": dict(self.stats),
        }
