"""Many scores in a few lines: how many of which status, how the values lie, why the others have none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from rich.table import Table
from rich.text import Text

from ..reward import Score
from ..reward.score import Status

QUANTILES = {"lowest": 0.0, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "highest": 1.0}


@dataclass
class Summary:
    """Grows by one score at a time and holds none of them."""

    counts: Counter[str] = field(default_factory=Counter)
    values: list[float] = field(default_factory=list)
    reasons: dict[tuple[Status, str], tuple[int, str]] = field(default_factory=dict)

    def add(self, score: Score) -> None:
        self.counts[score.status] += 1
        if score.value is not None:
            self.values.append(score.value)
        else:
            key = (score.status, _pattern(score.reason))
            count, example = self.reasons.get(key, (0, score.reason))
            self.reasons[key] = (count + 1, example)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def grouped(self) -> list[tuple[Status, int, str]]:
        """Status, count and an example of each reason for having no value, the most frequent first."""
        found = [(status, count, example) for (status, _), (count, example) in self.reasons.items()]
        return sorted(found, key=lambda item: (-item[1], item[0], item[2]))

    def to_json(self) -> dict[str, Any]:
        """Counts by status; mean and quantiles, null without values; reasons."""
        lie = {name: float(np.quantile(self.values, at)) for name, at in QUANTILES.items()} if self.values else None
        return {
            "samples": self.total,
            "counts": {status: self.counts[status] for status in get_args(Status)},
            "mean": float(np.mean(self.values)) if self.values else None,
            "quantiles": lie,
            "unscored": [{"status": status, "count": count, "reason": why} for status, count, why in self.grouped],
        }

    def table(self, title: str) -> Table:
        """For a person."""
        data = self.to_json()
        table = Table(title=Text(title), title_justify="left", show_header=False, box=None, pad_edge=False)
        counted = [f"{count} {status.replace('_', ' ')}" for status, count in data["counts"].items() if count]
        table.add_row("samples", Text(f"{self.total}: {', '.join(counted)}" if counted else "0"))
        if self.values:
            table.add_row("mean", f"{data['mean']:.4f}")
            table.add_row("values", "  ".join(f"{name} {value:.4f}" for name, value in data["quantiles"].items()))
        for status, count, why in self.grouped[:_SHOWN]:
            table.add_row(status.replace("_", " "), Text(f"{count} x {why}"))
        if len(self.grouped) > _SHOWN:
            table.add_row("", f"and {len(self.grouped) - _SHOWN} other reasons")
        return table


def profile_table(stats: Mapping[str, Any]) -> Table:
    """What the engine did: questions, how many needed an expert, and what experts took."""
    table = Table(title="questions", title_justify="left", show_header=False, box=None, pad_edge=False)
    for name in ("asked", "unique", "known", "joined"):
        table.add_row(name, str(stats.get(name, 0)))
    for name, one in stats.get("experts", {}).items():
        line = "{queries} queries in {calls} calls, {failed} failed, {seconds:.2f} s".format(**one)
        table.add_row(Text(name), line)
    return table


_SHOWN = 12


def _pattern(reason: str) -> str:
    """A reason without what differs from sample to sample: numbers, and what is quoted."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+(\.\d+)?", "*", reason)
