"""What an expert gives instead of an answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Abstention:
    """The expert is well but cannot know. Cached like an answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The expert could not answer: it crashed, refused, timed out, or said something unreadable. Never cached.

    raw: what it said, where it said something.
    """

    reason: str
    expert: str = ""
    raw: str = ""
