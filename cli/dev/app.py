"""`editcritic dev`: the commands of the group."""

from __future__ import annotations

from ..command_group import command_group
from .diff import diff
from .replay import replay

app = command_group(
    "dev",
    "Test metrics on recorded answers; compare images.",
    {"replay": replay, "diff": diff},
)
