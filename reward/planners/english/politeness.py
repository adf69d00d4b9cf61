"""What is said around a request, and falls away before it is read."""

from __future__ import annotations

from .lexicon import word_set


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(phrase.split()) for phrase in text.split(","))


POLITE_LEADS = _phrases(
    """
    please, kindly, pls, plz, hey, hi, ok, okay, could you please, can you please, would you please, will you
    please, could you, can you, would you, will you, i want you to, i would like you to, i'd like you to, i need you
    to, i want to, i would like to, i'd like to, i need to, let's, let us, can we, could we, now, then, next, also,
    finally, first, and, just, simply, afterwards, additionally, only, try to, is it possible to, would it be
    possible to, help me
    """
)
POLITE_ENDS = _phrases(
    """
    please, pls, plz, for me, thanks, thx, thank you, instead, now, too, as well, if possible, again
    """
)
_ASKING = tuple(" ".join((*start, *end)) for start in _phrases(", could you, can you, would you, will you")
                for end in _phrases(", please, kindly") if start or end)  # fmt: skip
_THANKS = ("please", "thank you", "thanks")
GREETINGS = word_set("hi hello hey please pls plz thanks thank thx you so very much many cheers , a lot in advance")
"""A sentence of them asks for nothing."""


def plain_request(sentence: str) -> str:
    """The sentence without polite words in front of it, and behind it after a mark; as it is where it has none."""
    words = sentence.strip()
    for start in sorted(_ASKING, key=len, reverse=True):
        if words.casefold().startswith(f"{start} "):
            words = words[len(start) + 1 :].lstrip().rstrip("?").rstrip()
            break
    bare = words.rstrip(" .!")
    for end in _THANKS:
        kept = bare[: -len(end)].rstrip()
        if bare.casefold().endswith(end) and kept.endswith((",", ".", "!")):
            return kept.rstrip(" ,.!")
    return words
