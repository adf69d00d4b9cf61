"""`editcritic judge`: the commands of the group."""

from __future__ import annotations

from ..command_group import command_group
from .agreement import agreement
from .audit import audit
from .calibrate import app as calibrate
from .drift import drift
from .label import label
from .variance import variance

app = command_group(
    "judge",
    "Measure judges and metrics: agreement with people, faults, drift, variance, calibration.",
    {"label": label, "agreement": agreement, "audit": audit, "drift": drift, "variance": variance},
)
app.add_typer(calibrate)
