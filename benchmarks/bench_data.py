"""Commands of `editcritic bench` about data: prepare, make."""

from __future__ import annotations

import typer


def add_to(app: typer.Typer) -> None:
    """Register them."""
