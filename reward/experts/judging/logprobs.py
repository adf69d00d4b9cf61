"""What a served model's tokens and their alternatives (`top_logprobs`) tell about options such as yes and no."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

NEGLIGIBLE = 1e-3
"""Of the options' probability: so much may stay untold between options without all of it being thrown away."""


@dataclass(frozen=True, slots=True)
class Step:
    """A sampled token, and the most probable tokens in its place with their logarithms (natural), itself among them."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...]


def probabilities_of(options: Sequence[str], steps: Sequence[Step]) -> tuple[dict[str, float], float] | None:
    """The probability of each option among the options, and of all of them together; None where they are not known.

    Tokens count for the option that they spell, alone or after the sampled tokens before them, in either case, with
    spaces, quotes or markup around; so does the beginning of one option only ("exc" of "excellent"). Of an option cut
    into several tokens, exactly what was returned is used:

    - Two options that begin with the same token ("1" of "1" and "10", "very" of "very poor" and "very good") are told
      apart by the distribution of the token after it, which servers return for the sampled token alone.
    - Where the longer option is itself a token among the alternatives, "1" means 1: a model that has a token for "10"
      does not write it in two.
    - Otherwise nobody knows, and the result is None; unless it concerns less than a thousandth, which is left out.

    An option that is not among the alternatives counts as 0; it has at most the probability of the least of them. None
    as well where the sampled text begins with other words ("The answer is …"): what was weighed there is not what was
    answered. Thoughts (`<think>…</think>`) are skipped: the probabilities are those after what was thought.

    Raises ValueError for numbers that are no logarithms of probabilities.
    """
    found = dict.fromkeys(options, 0.0)
    untold, before, weight = 0.0, "", 1.0
    for step in _after_thoughts(steps):
        shares = _shares(step)
        told = {_plain(before + token) for token, _ in shares}
        onward: float | None = None
        for place, (token, share) in enumerate(shares):
            text = before + (token or "\n")  # a token without text ends the answer
            option = _meant(options, text, told)
            if option:
                found[option] += weight * share
            elif place > 0:
                untold += weight * share if option is None and _plain(text) else 0.0
            elif option is None:
                onward = weight * share
            else:
                return None
        if onward is None:
            break
        before, weight = before + step.token, onward
    else:
        if not _plain(before):
            return None
        untold += weight
    mass = sum(found.values())
    if untold > NEGLIGIBLE * (mass + untold) or mass <= 0.0:
        return None
    return {option: share / mass for option, share in found.items()}, min(mass, 1.0)


def _shares(step: Step) -> list[tuple[str, float]]:
    """Tokens and their probabilities, the sampled one first."""
    others = [(token, logprob) for token, logprob in step.alternatives if token != step.token]
    logprobs = [(step.token, step.logprob), *others]
    wrong = next((logprob for _, logprob in logprobs if math.isnan(logprob) or logprob > 1e-3), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no logarithm of a probability")
    shares = [(token, math.exp(logprob)) for token, logprob in logprobs]
    total = sum(share for _, share in shares)
    if total > 1.02:
        raise ValueError(f"the probabilities of {len(shares)} tokens in one place sum to {total:.4g}")
    return shares


def _meant(options: Sequence[str], text: str, told: set[str]) -> str | None:
    """The option that an answer beginning with this text is, "" where it is none, None where that is still open.

    told: what the tokens in the place of its last token spell with those before them.
    """
    plain = _plain(text)
    if not plain:
        return None
    folded = {option.casefold(): option for option in options}
    whole = [option for option in folded if plain.startswith(option) and _ends(plain[len(option) :])]
    longer = [option for option in folded if option != plain and option.startswith(plain)]
    if whole and (not longer or (plain in folded and told.issuperset(longer))):
        return folded[max(whole, key=len)]
    if len(longer) == 1 and not whole and len(plain) > 1:
        return folded[longer[0]]
    return None if longer else ""


def _ends(rest: str) -> bool:
    """Whether a word ends where this follows it; a number does not end before its decimals."""
    return not rest or not (rest[0].isalnum() or re.match(r"[.,]\d", rest))


def _plain(text: str) -> str:
    """As it would be spelled in an option: without what stands before the first letter or digit, in lower case.

    Some servers show tokens as their vocabulary writes them, with signs for a space and a line break.
    """
    text = text.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
    return re.sub(r"^[\W_]+", "", text).casefold()


def _after_thoughts(steps: Sequence[Step]) -> Sequence[Step]:
    said, start = "", 0
    for number, step in enumerate(steps):
        said += step.token
        if "</think>" in said:
            start, said = number + 1, ""
    return steps[start:]
