"""Words of instructions, as far as families change them: English requests whose first word is a verb."""

from __future__ import annotations

import re

_OTHER_BEGINNINGS = re.compile(
    "a|an|the|this|that|these|those|there|here|it|its|he|his|she|her|they|their|we|our|i|my|you|your|some|all|every|each|"
    "both|one|two|three|no|not|in|on|at|with|without|for|from|to|into|if|when|while|as|after|before|instead|please|can|"
    "could|would|will|what|which|who|how|imagine|thanks|thank|hello|hi",
    re.IGNORECASE,
)
"""First words of instructions that are no requests, or are polite already."""


def is_imperative(words: str) -> bool:
    """Whether an instruction looks like an English request, as in "Remove the car": a first word that may be a verb,
    neither a name in capitals nor one of those that begin other sentences, and at least one more."""
    first = re.match(r"\s*([A-Za-z][a-z]*)\s+\S", words)
    return first is not None and words.isascii() and not _OTHER_BEGINNINGS.fullmatch(first[1])


def with_small_first_letter(words: str) -> str:
    """As in "remove the car"."""
    return words[:1].lower() + words[1:]


def with_large_first_letter(words: str) -> str:
    """As in "Remove the car"."""
    return words[:1].upper() + words[1:]
