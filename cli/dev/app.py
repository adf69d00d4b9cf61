"""`editcritic dev`: the commands of the group."""

from __future__ import annotations

from ..command_group import command_group
from .diff import diff
from .replay import replay
from .validity import validity

app = command_group(
    "dev",
    "Test metrics: against known ground truth, and on recorded answers; compare images.",
    {"validity": validity, "replay": replay, "diff": diff},
)
