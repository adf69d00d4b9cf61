"""Commands of `editcritic bench` about running suites: generate, run, lock, reproduce."""

from __future__ import annotations

import typer


def add_to(app: typer.Typer) -> None:
    """Register them."""
