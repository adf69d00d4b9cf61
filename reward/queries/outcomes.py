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

    raw: its output, if any. by_edit: what was judged may be the reason (a refusal, a reply that cannot be parsed, a
    broken image); False if only infrastructure can be (time-out, connection, crash, out of memory).
    """

    reason: str
    expert: str = ""
    raw: str = ""
    by_edit: bool = False
