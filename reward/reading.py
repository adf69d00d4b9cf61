"""Reading what a judge said: one of several words, an integer, JSON. What is ambiguous is not read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

_LABEL = (
    r"\b(?:answer|score|rating|grade|verdict|judge?ment|label|level)\b(?:\s*\([^)\n]{0,20}\))?[\s*_`\"']*(?:is\b|:|=)"
)
"""What judges put before their answer, e.g. `**Final answer:** ` or `Score (0-10): `."""

_LINK = r"[^\w\n+−-]*"
"""Marks and spaces between a label and the answer."""


def said_option(options: Sequence[str], text: str) -> str | None:
    """The option a text gives for its answer: behind a label, or else as its beginning. None unless it is one only.

    A text without a label that begins with an option and names another one is not read: it may weigh them.
    """
    spelled = {option.casefold(): option for option in options}
    anyone = "|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
    labelled = {found.casefold() for found in re.findall(rf"{_LABEL}{_LINK}({anyone})\b", text, re.IGNORECASE)}
    if labelled:
        return spelled[labelled.pop()] if len(labelled) == 1 else None
    begun = re.match(rf"\W*({anyone})\b", text, re.IGNORECASE)
    if begun is None:
        return None
    named = {found.casefold() for found in re.findall(rf"\b(?:{anyone})\b", text, re.IGNORECASE)}
    return spelled[begun[1].casefold()] if len(named) == 1 else None


_DODGED = (
    r"no\s+(?:idea|clue|doubt|longer|one|opinion|answer|comment|way\s+to)\b|no\W+i\s*(?:['’]m|am|can|could|won|will)"
    r"|(?:yes|no)\s*(?:/|,?\s*(?:and|or|but)\b)\s*(?:yes|no)\b|yes\W+no\b|no\W+yes\b"
)
"""What begins with yes or no and says neither."""


def said_yes(text: str) -> bool | None:
    """Whether a text says yes: behind a label, or else as its beginning. None if it says neither, or both."""
    labelled = set()
    for found in re.finditer(rf"{_LABEL}{_LINK}(?=(yes|no)\b)", text, re.IGNORECASE):
        labelled.add(None if re.match(_DODGED, text[found.end() :], re.IGNORECASE) else found[1].casefold() == "yes")
    if labelled:
        return labelled.pop() if len(labelled) == 1 else None
    begun = re.match(r"\W*(?=(yes|no)\b)", text, re.IGNORECASE)
    if begun is None or re.match(_DODGED, text[begun.end() :], re.IGNORECASE):
        return None
    return begun[1].casefold() == "yes"


_INTEGER = r"(?<![-−+.,\d])(\d{1,9})(?![\d]|[.,]\d)"
_MORE = r"\s*(?:(?:or|to)\b|(?:through|and|-|–|~)\s*\d|%)"
"""After an integer: it is one end of a range, one of two, or a share."""


def said_integer(text: str, low: int, high: int) -> int | None:
    """The integer in low..high that a text gives for its answer. None unless it is one only, and whole.

    It stands behind a label, or before `/10` (`out of 10`, for the highest), or is the text's beginning. Wherever it
    stands several times it has to be the same.
    """
    found: set[int | None] = set()
    for match in re.finditer(rf"{_LABEL}{_LINK}(?=\d)", text, re.IGNORECASE):
        found.add(_whole(text[match.end() :], high))
    of = rf"(?=(?<![-−+.,\w])\d[\d.,]*\s*[*_`]*\s*(?:/|out\s+of)\s*{high}\b)"
    found |= {_whole(text[match.end() :], high) for match in re.finditer(of, text, re.IGNORECASE)}
    begun = re.match(r"[^\w+−.,-]*(?=\d)", text)
    if begun is not None and not re.match(r"[^\w]*1[.)]\s.*?\b2[.)]\s", text, re.DOTALL):  # a list is no answer
        found.add(_whole(text[begun.end() :], high))
    if len(found) != 1:
        return None
    (value,) = found
    return value if value is not None and low <= value <= high else None


def _whole(text: str, high: int) -> int | None:
    """The integer a text begins with; `7/10` is 7 of 10, while `7.5` and `7 or 8` are none."""
    begun = re.match(_INTEGER, text)
    if begun is None:
        return None
    rest = re.sub(r"^[*_`]+", "", text[begun.end() :])
    of = re.match(r"\s*(?:/|of\b|out\s+of\b)\s*(\d+)\b", rest, re.IGNORECASE)
    if (of and int(of[1]) != high) or re.match(_MORE, rest, re.IGNORECASE):
        return None
    return int(begun[1])


# -- JSON -------------------------------------------------------------------------------------------------------------


def said_json(schema: str, text: str) -> Any:
    """The JSON value of a schema in a text: alone, in a code fence, or with words around it.

    A comma too many before a closing bracket is forgiven. Raises ValueError with what is wrong: there is none, or
    several that fit and differ, or a name is given twice.
    """
    problems: list[str] = []
    fitting: list[Any] = []
    for value in _values(text, problems):
        wrong = next(_validator(schema).iter_errors(value), None)
        if wrong is not None:
            problems.append(f"{wrong.json_path} is wrong ({wrong.message:.200})")
        elif value not in fitting:
            fitting.append(value)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ValueError(f"it gives {len(fitting)} different answers: {short(text)}")
    raise ValueError(f"{problems[-1] if problems else 'it is not JSON'}: {short(text)}")


def _values(text: str, problems: list[str]) -> Iterator[Any]:
    """Objects and lists in a text, the outermost ones, in order."""
    clean = re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda found: found[1] or "", text.strip())
    decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_no_twins)
    try:
        yield decoder.decode(clean)
    except ValueError as error:
        problems.append(f"it is not JSON ({error})")
    else:
        return
    place = 0
    while (start := re.compile(r"[{\[]").search(clean, place)) is not None:
        try:
            value, place = decoder.raw_decode(clean, start.start())
        except json.JSONDecodeError:
            place = start.end()
        except ValueError as error:
            problems.append(f"it is not JSON ({error})")
            return
        else:
            yield value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema.validators import validator_for

    table = json.loads(schema)
    return validator_for(table)(table)


def short(text: str) -> str:
    """Words of a judge, for a message."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
