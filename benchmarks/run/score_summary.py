"""Summary of many scores: counts by status, quantiles of the values, reasons of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_args

import numpy as np
from rich.table import Table
from rich.text import Text

from ...reward import Score
from ...reward.engine.expert_queue import ExpertStats
from ...reward.missing_inputs import for_rows
from ...reward.score import Status
from ..common.reasons import reason_pattern
from ..common.terminal import plain_table

QUANTILES = {"min": 0.0, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "max": 1.0}


@dataclass
class ScoreSummary:
    """Accumulates scores one by one, without keeping them."""

    counts: Counter[str] = field(default_factory=Counter)
    values: list[float] = field(default_factory=list)
    reasons: dict[tuple[Status, str], tuple[int, str]] = field(default_factory=dict)

    def add(self, score: Score) -> None:
        self.counts[score.status] += 1
        if score.value is not None:
            self.values.append(score.value)
        else:
            key = (score.status, reason_pattern(score.reason))
            count, example = self.reasons.get(key, (0, score.reason))
            self.reasons[key] = (count + 1, example)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def grouped(self) -> list[tuple[Status, int, str]]:
        """Status, count and an example of each reason for a missing value, the most frequent first."""
        groups = [(status, count, example) for (status, _), (count, example) in self.reasons.items()]
        return sorted(groups, key=lambda item: (-item[1], item[0], item[2]))

    def to_json(self) -> dict[str, Any]:
        """Counts by status; mean and quantiles (null without values); reasons."""
        quantiles = (
            {name: float(np.quantile(self.values, quantile)) for name, quantile in QUANTILES.items()}
            if self.values
            else None
        )
        return {
            "samples": self.total,
            "counts": {status: self.counts[status] for status in get_args(Status)},
            "mean": float(np.mean(self.values)) if self.values else None,
            "quantiles": quantiles,
            "unscored": [
                {"status": status, "count": count, "reason": reason} for status, count, reason in self.grouped
            ],
        }

    def table(self, title: str) -> Table:
        """The summary as a rich table."""
        data = self.to_json()
        table = plain_table(Text(title))
        counts = [f"{count} {status.replace('_', ' ')}" for status, count in data["counts"].items() if count]
        table.add_row("samples", Text(f"{self.total}: {', '.join(counts)}" if counts else "0"))
        if self.values:
            table.add_row("mean", f"{data['mean']:.4f}")
            table.add_row("values", "  ".join(f"{name} {value:.4f}" for name, value in data["quantiles"].items()))
        for status, count, reason in self.grouped[:_MAX_REASONS_SHOWN]:
            table.add_row(status.replace("_", " "), Text(f"{count} x {for_rows(reason)}"))
        if len(self.grouped) > _MAX_REASONS_SHOWN:
            table.add_row("", f"and {len(self.grouped) - _MAX_REASONS_SHOWN} other reasons")
        return table


def profile_table(stats: Mapping[str, Any]) -> Table:
    """Engine statistics: queries, cache hits, and usage of experts."""
    table = plain_table("queries")
    for name in ("queries", "unique", "cache_hits", "coalesced", "rejected"):
        table.add_row(name, str(stats.get(name, 0)))
    for name, expert in stats.get("experts", {}).items():
        line = "{queries} queries in {calls} calls, {failed} failed, {seconds:.2f} s".format(**expert)
        table.add_row(Text(name), line)
        if usage := _usage_line(expert):
            table.add_row("", usage)
    return table


def _usage_line(expert: Mapping[str, Any]) -> str:
    """What an expert counts itself (see `Expert.usage`), and has any of."""
    counts = {name: count for name, count in expert.items() if name not in _ENGINE_COUNTS and count}
    usd = counts.pop("usd", None)
    parts = [f"{count:,.12g} {name.replace('_', ' ')}" for name, count in counts.items()]
    return ", ".join([*parts, *([] if usd is None else [f"{usd:,.6f} USD"])])


_ENGINE_COUNTS = {field.name for field in fields(ExpertStats)}


_MAX_REASONS_SHOWN = 12
