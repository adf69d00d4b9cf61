"""An estimate for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ..common.terminal import plain_table
from .cost_estimate import Calibration, Figure

SCHEMA = "editcritic.plan/1"


def estimate_table(title: str, calibration: Calibration, figures: Sequence[Figure]) -> Table:
    """What was measured, then the figures of each expert, then those of all."""
    statuses = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in calibration.statuses.items())
    timed = calibration.timed_blocks
    timed_edits = sum(work.edits for block in timed for work in block.works)
    warm = ", after others that warmed up" if len(timed) < len(calibration.blocks) else ""
    facts = calibration.machine.items()
    lines = (
        title,
        f"counted on {calibration.edits:,} edits of {calibration.groups:,} sources, {calibration.edits_from}: "
        + statuses,
        f"timed on {timed_edits:,} of them{warm}, {calibration.measured_at}",
        ", ".join(fact if name in ("processor", "gpu") else f"{name} {fact}" for name, fact in facts),
    )
    table = plain_table(
        Text("\n".join(lines)), "", "estimate", "95 %", "from", right=("estimate",), fixed=("", "estimate", "95 %")
    )
    expert = None
    for figure in figures:
        if figure.expert != expert:
            expert = figure.expert
            roles = ", ".join(calibration.experts.get(expert, ())) or ("in all" if not expert else "asked by another")
            table.add_row(Text(roles, style="bold"), "", "", Text(expert, style="dim"))
        scale, unit = _unit(figure)
        ends = () if figure.interval is None else (rounded(end * scale) + unit for end in figure.interval)
        table.add_row(
            Text(f"  {figure.name}"), rounded(figure.value * scale) + unit, " to ".join(ends), Text(figure.source)
        )
    return table


def _unit(figure: Figure) -> tuple[float, str]:
    """Less than an hour is told in minutes, or seconds."""
    if "hours" not in figure.name or figure.value >= 1:
        return 1.0, ""
    return (60.0, " min") if figure.value * 60 >= 1 else (3600.0, " s")


def unknown_cost(expert: str) -> str:
    """What to do about an expert whose cost is unknown."""
    return (
        f"the cost of {expert} is unknown: its line of experts needs usd_per_million_in and usd_per_million_out, and "
        "its server has to report tokens"
    )


def rounded(value: float) -> str:
    """A number with three significant digits; M, G and T are millions, billions and trillions."""
    value = float(f"{value:.3g}")
    size, letter = next(((size, letter) for size, letter in _LARGE if abs(value) >= size), (1.0, ""))
    value /= size
    decimals = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f} {letter}".rstrip()


_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def estimate_json(
    calibration: Calibration, figures: Sequence[Figure], edits: int, rollouts: int = 1, replicas: int = 1
) -> dict[str, Any]:
    """The document of `--json`."""
    return {
        "schema": SCHEMA,
        "edits": edits,
        "rollouts": rollouts,
        "replicas": replicas,
        "figures": [figure.to_json() for figure in figures],
        "unpriced": calibration.unpriced,
        "calibration": calibration.to_json(),
    }
