"""Checks of `Rate` queries, shared by experts that rate images."""

from __future__ import annotations

from ...queries.kinds import Rate
from ...queries.outcomes import Failure


def unsupported_rating(query: Rate, name: str, quality: str, *, prompted: bool = True) -> Failure | None:
    """The failure of a query that a rater of one quality, with or without prompt, does not support."""
    if query.quality != quality:
        return Failure(f"{name} rates {quality} only, got {query.quality}")
    if prompted and not query.prompt.strip():
        return Failure(f"{name} rates an image for a prompt, and the prompt is empty: the score would be meaningless")
    return None
