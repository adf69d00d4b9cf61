"""Commands of `editcritic bench` about people and judges: agree, label, noise, scaling, stats."""

from __future__ import annotations

import typer


def add_to(app: typer.Typer) -> None:
    """Register them."""
