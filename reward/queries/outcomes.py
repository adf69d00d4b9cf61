"""Outcomes of a query without an answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Abstention:
    """The expert works but cannot determine an answer. Cached like an answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The expert could not answer: it crashed, refused, timed out, or its output cannot be parsed. Never cached.

    Args:
        raw: Its output, if any.
        infrastructure: Nothing else can be the reason (time-out, connection, crash, out of memory); otherwise the edit
            may be (a refusal, a reply that cannot be parsed, a broken image).
    """

    reason: str
    expert: str = ""
    raw: str = ""
    infrastructure: bool = False
