"""What experts that rate pictures have in common: what they can be asked."""

from __future__ import annotations

from ..outcomes import Failure
from ..query import Rate


def refused(query: Rate, name: str, quality: str, *, prompted: bool = True) -> Failure | None:
    """Why a model that rates one quality, of a picture for a prompt or of a picture alone, does not answer a query."""
    if query.quality != quality:
        return Failure(f"{name} rates {quality} only, asked for {query.quality}")
    if prompted and not query.prompt.strip():
        return Failure(f"{name} rates a picture for a prompt, and the prompt is empty: a number would mean nothing")
    return None
