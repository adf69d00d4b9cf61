"""What `judge agreement --set` writes: the tables as Markdown, CSV and LaTeX, and one line per edit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward.atomic_files import write_atomically
from ..suites.human_preferences.catalogue import PreferenceSet
from ..suites.tables import ComputedTable, write_tables
from .preference_scoring import ScoredSet
from .preference_tables import published_markdown, published_table

REPORT_FILE = "agreement.md"
VALUES_FILE = "values.jsonl"


@dataclass(frozen=True)
class SetReport:
    """The tables of one set, and what they were computed from."""

    preference_set: PreferenceSet
    folder: Path
    scored: ScoredSet
    tables: Sequence[ComputedTable]

    @property
    def failed(self) -> int:
        """Number of failed scores of all rewards."""
        return sum(counts["failed"] for counts in self.scored.statuses.values())

    def to_json(self) -> dict[str, Any]:
        scored = self.scored
        return {
            **self.preference_set.to_json(),
            "folder": str(self.folder),
            "comparisons": len(scored.comparisons),
            "pairs": sum(len(comparison.preferences) for comparison in scored.comparisons),
            "missing_pictures": scored.missing_pictures,
            "problems": list(scored.problems),
            "num_problems": scored.problems.total,
            "statuses": {reward: dict(counts) for reward, counts in scored.statuses.items()},
            "tables": [table.to_json() for table in self.tables],
            "published": published_table(self.preference_set),
        }

    def markdown(self) -> str:
        """All tables, with the published figures last."""
        parts = [table.markdown() for table in self.tables]
        if (published := published_table(self.preference_set)) is not None:
            parts.append(published_markdown(published))
        return "\n".join(parts)


def write_reports(reports: Sequence[SetReport], signatures: Mapping[str, str], folder: Path) -> None:
    """Write `agreement.md`, each table in all forms, and `values.jsonl`. signatures: of the rewards. Raises OSError."""
    write_tables([table for report in reports for table in report.tables], folder)
    write_atomically(folder / REPORT_FILE, "\n".join(report.markdown() for report in reports))
    lines = [
        json.dumps(row, ensure_ascii=False, allow_nan=False)
        for report in reports
        for row in _value_rows(report, signatures)
    ]
    write_atomically(folder / VALUES_FILE, "".join(f"{line}\n" for line in lines))


def _value_rows(report: SetReport, signatures: Mapping[str, str]) -> list[dict[str, Any]]:
    """A row per reward and edit; for a pairwise reward, per pair."""
    rows = []
    for comparison in report.scored.comparisons:
        for reward, edits in comparison.edits.items():
            named = {(name,): outcome for name, outcome in edits.items()} or comparison.pairs[reward]
            rows += [
                {
                    "set": report.preference_set.name,
                    "id": comparison.id,
                    "reward": reward,
                    "reward_signature": signatures[reward],
                    "candidates": list(names),
                    "value": outcome.value,
                    "status": outcome.status,
                    "reason": outcome.reason,
                }
                for names, outcome in named.items()
            ]
    return rows
