"""Commands of `editcritic bench` about results: table, report, compare."""

from __future__ import annotations

import typer


def add_to(app: typer.Typer) -> None:
    """Register them."""
