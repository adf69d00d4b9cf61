"""Option probabilities (such as yes and no) from the `top_logprobs` of a served model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...queries.reported_speech import final_answer

MAX_UNRESOLVED_SHARE = 1e-3
"""Maximum share of the options' probability that may be ambiguous between options."""

MAX_TOP_LOGPROBS = 20
"""Alternatives per token that are asked for: the maximum of OpenAI, and vLLM's default."""

_MAX_STEPS = 256  # tokens of an answer that are read; no option has as many


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A sampled token, and the most probable tokens at its position with natural log-probabilities, itself included."""

    token: str
    logprob: float
    top_logprobs: tuple[tuple[str, float], ...]


def allowed_logprobs(message: str, requested: int) -> int:
    """The number of alternatives that a server allows according to its error; 0 where it names no smaller one."""
    limit = _LIMIT.search(message)
    return int(limit[1]) if limit and 0 < int(limit[1]) < requested else 0


_LIMIT = re.compile(
    r"(?:less\s+than\s+or\s+equal\s+to|more\s+than|at\s+most|up\s+to|max(?:imum)?(?:\s+(?:of|is|allowed|value))*\W?"
    r"|between\s+\d+\s+and|range\s*(?:of\s*)?[\[(]?\s*\d+\s*(?:,|to|-)|<=|≤)\s*(\d{1,4})\b",
    re.IGNORECASE,
)


def answer_probabilities(
    options: Sequence[str], text: str, steps: Sequence[TokenLogprob], *, finished: bool
) -> tuple[dict[str, float], float | None]:
    """The options' probabilities from the tokens of a reply, and their mass; nothing if its answer leaves them unknown.
    text, finished: see `final_answer`. Raises ValueError for invalid log-probabilities."""
    try:
        answer = final_answer(text, finished=finished)
    except ValueError:
        return {}, None
    return option_probabilities(options, spelling_steps(steps, answer)) or ({}, None)


def spelling_steps(steps: Sequence[TokenLogprob], answer: str) -> Sequence[TokenLogprob]:
    """The last steps, those whose tokens spell an answer; none where the tokens say something else. Servers return
    log-probabilities of reasoning too, whether or not it is in the text. Space, and control tokens at the end, do not
    count."""
    letters = "".join(answer.split())
    start, end = len(steps), len(letters)
    while start and end:
        start -= 1
        token = "".join(_unescaped(steps[start].token).split())
        if letters.endswith(token, 0, end):
            end -= len(token)
        elif end < len(letters) or not _CONTROL.fullmatch(token):
            return ()
    return () if end else steps[start:]


_CONTROL = re.compile(r"<[^<>]*>")  # A token that ends a reply and is not in its text, such as `<|im_end|>`


def option_probabilities(
    options: Sequence[str], steps: Sequence[TokenLogprob]
) -> tuple[dict[str, float], float] | None:
    """The probability of each option, normalised over the options, and their total mass; None if unknown.

    steps: of the answer alone, see `spelling_steps`.

    A token counts for the option that it spells, alone or after the sampled tokens before it, in upper or lower case,
    with spaces, quotes or markup around; so does an unambiguous prefix ("exc" of "excellent"). For options of several
    tokens:

    - Two options with the same first token ("1" of "1" and "10", "very" of "very poor" and "very good") are
      distinguished by the distribution of the next token, which servers return for the sampled token only.
    - If the longer option is itself a token among the alternatives, "1" means 1: a model with a token for "10" does not
      write it in two.
    - Otherwise the result is None, unless the ambiguous share is below a thousandth, which is left out.

    An option that is not among the alternatives counts as 0; its probability is at most that of the least alternative.
    The result is None as well if the sampled text begins with other words ("The answer is …"): those logprobs do not
    belong to the answer.

    Raises ValueError for invalid log-probabilities.
    """
    masses = dict.fromkeys(options, 0.0)
    unresolved, prefix, weight = 0.0, "", 1.0
    for number, step in enumerate(steps):
        if number == _MAX_STEPS or not step.top_logprobs:
            return None
        shares = _shares(step)
        alternatives = {_plain(prefix + token) for token, _ in shares}
        continuing: float | None = None
        for rank, (token, share) in enumerate(shares):
            text = prefix + (token or "\n")  # a token without text ends the reply
            option = _matching_option(options, text, alternatives)
            if option:
                masses[option] += weight * share
            elif rank > 0:
                unresolved += weight * share if option is None and _plain(text) else 0.0
            elif option is None:
                continuing = weight * share
            else:
                return None
        if continuing is None:
            break
        prefix, weight = prefix + step.token, continuing
    else:
        if not _plain(prefix):
            return None
        unresolved += weight
    mass = sum(masses.values())
    if unresolved > MAX_UNRESOLVED_SHARE * (mass + unresolved) or mass <= 0.0:
        return None
    return {option: share / mass for option, share in masses.items()}, min(mass, 1.0)


def _shares(step: TokenLogprob) -> list[tuple[str, float]]:
    """Tokens and probabilities, the sampled one first."""
    others = [(token, logprob) for token, logprob in step.top_logprobs if token != step.token]
    logprobs = [(step.token, step.logprob), *others]
    invalid = next((logprob for _, logprob in logprobs if math.isnan(logprob) or logprob > 1e-3), None)
    if invalid is not None:
        raise ValueError(f"{invalid!r} is no log-probability")
    shares = [(token, math.exp(logprob)) for token, logprob in logprobs]
    total = sum(share for _, share in shares)
    if total > 1.02:
        raise ValueError(f"the probabilities of {len(shares)} tokens at one position sum to {total:.4g}")
    return shares


def _matching_option(options: Sequence[str], text: str, alternatives: set[str]) -> str | None:
    """The option that a reply beginning with this text selects, "" for no option, None if still open. alternatives:
    texts of the alternatives at its last token, each with the tokens before."""
    plain = _plain(text)
    if not plain:
        return None
    folded = {option.casefold(): option for option in options}
    complete = [option for option in folded if plain.startswith(option) and _ends(plain[len(option) :])]
    longer = [option for option in folded if option != plain and option.startswith(plain)]
    if complete and (not longer or (plain in folded and alternatives.issuperset(longer))):
        return folded[max(complete, key=len)]
    if len(longer) == 1 and not complete and len(plain) > 1:
        return folded[longer[0]]
    return None if longer else ""


def _ends(rest: str) -> bool:
    """Whether a word ends before this text; a number does not end before its decimals."""
    return not rest or not (rest[0].isalnum() or re.match(r"[.,]\d", rest))


def _plain(text: str) -> str:
    """Normalised like an option: lower case, without characters before the first letter or digit."""
    return re.sub(r"^[\W_]+", "", _unescaped(text)).casefold()


def _unescaped(token: str) -> str:
    """Some servers return raw vocabulary tokens, with symbols for space and line break."""
    return token.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
