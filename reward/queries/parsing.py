"""Reading what a judge said: one of several words, an integer, JSON. What is ambiguous is not read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

_NAME = r"\b(?:answer|score|rating|grade|verdict|judge?ment|label|level)\b"
_LABEL = rf"{_NAME}(?:\s*\([^)\n]{{0,20}}\))?[\s*_`\"']*(?:is\b|:|=)"
"""What judges put before their answer, e.g. `**Final answer:** ` or `Score (0-10): `."""

_OPEN, _CLOSE = r"[\s*_`\"'“\u2018«(\[{#:]*", r"[*_`\"'”’»)\]}]*(?![*_`\"'”’»)\]}])"
"""Marks and spaces before an answer, and marks after it."""

_DENIED = re.compile(
    r"\b(?:not|never|no|neither|nor|doubt\w*|hardly|cannot|wrong|(?:high|low)est|(?:max|min)imum|perfect|possible)\b|n['’]t\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(r"\b(?:if|unless|whether|suppos\w+|assuming|maybe|perhaps|might|may)\b", re.IGNORECASE)


def _meant(before: str) -> bool:
    """Whether what comes next is meant: the words before it, in the same sentence, neither deny nor only suppose it."""
    sentence = re.split(r"[.!?;:\n]", before)[-1]
    return not (_DENIED.search(sentence.rpartition(",")[2]) or _SUPPOSED.search(sentence))


def _said(
    text: str, start: str, read: Callable[[str], T | None], begun: Callable[[str], T | None], also: Iterable[int] = ()
) -> T | None:
    """What is read behind the labels that `start` follows, at other places, and by `begun` at the text's beginning.

    None unless it is one thing. A beginning that cannot be read only matters where there is nothing else.
    """
    found = {read(text[place:]) for place in (*_labelled(text, start), *also)}
    first = re.match(rf"{_OPEN}(?={start})", text, re.IGNORECASE)
    beginning = None if first is None else begun(text[first.end() :])
    if beginning is not None:
        found.add(beginning)
    return found.pop() if len(found) == 1 else None


def _labelled(text: str, start: str) -> list[int]:
    """Where `start` follows a label that is meant."""
    labels = re.finditer(rf"{_LABEL}{_OPEN}(?={start})", text, re.IGNORECASE)
    return [label.end() for label in labels if _meant(text[: label.start()])]


# -- words ------------------------------------------------------------------------------------------------------------

_ALONE = rf"{_CLOSE}(?!\s*[?/&+]|[-–—]\w|[ \t]+(?!(?:as|because|but|considering|due|for|given|overall|since|with)\b)\w)"
"""After a word that stands for itself: `good.`, `good because …`, and not `good light`, `good-ish`, `good?`."""


def _words(text: str) -> str:
    """A text without the marks of a list item and of emphasis that would stick to a word."""
    return re.sub(r"\A\s*[-•>]\s+|\b_+|_+\b", " ", text)


def said_option(options: Sequence[str], text: str) -> str | None:
    """The option a text gives for its answer: behind a label, or as its beginning. None unless it is one only.

    Neither is read where another option stands in the same clause, nor a beginning without a label where another
    option stands anywhere: the text may weigh them.
    """
    words = _words(text)
    spelled = {option.casefold(): option for option in options}
    anyone = rf"\b(?:{'|'.join(map(re.escape, sorted(spelled, key=len, reverse=True)))})\b"

    def read(rest: str) -> str | None:
        said = re.match(rf"({anyone}){_ALONE}", rest, re.IGNORECASE)
        if said is None or re.search(anyone, re.split(r"[.;:\n(]", rest[said.end() :])[0], re.IGNORECASE):
            return None
        return spelled.get(said[1].casefold())

    def begun(rest: str) -> str | None:
        named = {option.casefold() for option in re.findall(anyone, words, re.IGNORECASE)}
        return read(rest) if len(named) == 1 or _labelled(words, anyone) else None

    return _said(words, anyone, read, begun)


_UNCLEAR = (
    r"no[*`]*[ \t]+(?!(?:as|because|he|it|not|she|since|that|the|there|they|this)\b)\w"
    r"|no\W+i\s*(?:['’]m|am|can|could|w)|yes\W+i\s+(?:can|could|will)\s+(?:help|assist)\b"
    r"|(?:yes|no)(?:[-–—]\w|\s*[?/&+]|,?\s*(?:and|or|but)\s+(?:yes|no)\b"
    r"|,?\s+(?:but\s+)?(?:if|unless|only|almost|nearly|partially|partly|mostly|somewhat|probably|perhaps|maybe|not\s+\w+ly)\b)"
)
"""What begins with yes or no and says neither: `no cup`, `no idea`, `no, I can't help`, `yes?`, `yes, partly`."""


def said_yes(text: str) -> bool | None:
    """Whether a text says yes: behind a label, or as its beginning. None if it says neither, or the other one later."""

    def begun(rest: str) -> bool | None:
        return None if re.match(_UNCLEAR, rest, re.IGNORECASE) else rest[:1].casefold() == "y"

    def read(rest: str) -> bool | None:
        yes = begun(rest)
        other = r"\Wno\b(?![*`]*\s+\w)" if yes else r"\Wyes\b"  # "yes, no cup is left" is one answer
        return None if re.search(other, rest, re.IGNORECASE) else yes

    words, start = _words(text), r"(?:yes|no)\b"
    return _said(words, start, read, begun if _labelled(words, start) else read)


# -- integers ---------------------------------------------------------------------------------------------------------

_INTEGER = r"([0-9]{1,9})(?!\w|[.,:][0-9])"
_MORE = (
    rf"{_CLOSE}(?:\s*(?:%|±|→|->|~|(?:percent|per\s+cent|or|to)\b|(?:through|and|[-–—,;&|/])\s*[0-9])"
    r"|[-–—]\w|\+|\s*\?|[.,;]?\s+[0-9]+\W*(?:\n|\Z)|[ \t]+[0-9])"
)
"""After an integer: it is one of two, one end of a range, a share, or not quite meant."""

_STANDS = (
    rf"{_CLOSE}(?:\W*\Z|\s*[.,;:!\n(–—/=-]|\s+(?:as|because|due|for|given|points?|since|stars?)\b"
    rf"|\s+(?:out\s+)?of\s+{_CLOSE}[0-9])"
)
"""After an integer that is more than a count of something: `7.`, `7 because …`, and not `7 flaws`."""

_NEARLY = re.compile(
    r"(?:\b(?:about|above|almost|and|around|below|between|least|most|nearly|or|over|roughly|than|to|under)|[-–—~≈<>≤≥])"
    r"[\s*]*\Z",
    re.IGNORECASE,
)
"""Before an integer that is a bound, one of two, or not quite meant."""


def said_integer(text: str, low: int, high: int) -> int | None:
    """The integer in low..high that a text gives for its answer. None unless it is one only, and whole.

    It stands behind a label, or before `/10` (`out of 10`, for the highest), or is the text's beginning. Wherever it
    stands several times it has to be the same.
    """

    def read(rest: str) -> int | None:
        said = re.match(_INTEGER, rest)
        if said is None or re.match(r"1[.)]\s+\S", rest):  # a list is no answer
            return None
        after = rest[said.end() :]
        of = re.match(rf"{_CLOSE}(?:\s*(?:/|of\b)|[^.,;\n]{{0,20}}\bout\s+of)\s*([0-9]+)", after, re.IGNORECASE)
        if of is not None:
            after = after[of.end() :]
        more = re.match(_MORE, after, re.IGNORECASE)
        return None if more or (of is not None and int(of[1]) != high) else int(said[1])

    def begun(rest: str) -> int | None:
        return read(rest) if re.match(rf"{_INTEGER}{_STANDS}", rest, re.IGNORECASE) else None

    if re.search(rf"{_NAME}\s*\((?=[^)\n]{{0,40}}[0-9])(?![^)\n]{{0,40}}\b{high}\b)", text, re.IGNORECASE):
        return None  # on another scale, as in "Score (1-5): 4"
    of = rf"(?<![-−+.,/\w])(?=[0-9][0-9.,]*{_CLOSE}\s*(?:/|out\s+of)\s*{high}\b)"
    places = [place.end() for place in re.finditer(of, text, re.IGNORECASE)]
    plain = [place for place in places if _meant(text[:place]) and not _NEARLY.search(text[:place])]
    said = _said(text, "[0-9]", read, begun, plain)
    return said if said is not None and low <= said <= high else None


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


_SPARE_COMMA = re.compile(r'("(?:\\.|[^"\\])*(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)
"""A string, which is kept as it is (an unclosed one up to the end), or a comma before a closing bracket."""

_MOST_BRACKETS = 200
"""Opening brackets that are tried for the beginning of JSON. Judges that get stuck write thousands."""


def _values(text: str, problems: list[str]) -> Iterator[Any]:
    """Objects and lists in a text, the outermost ones, in order."""
    clean = _SPARE_COMMA.sub(lambda found: found[1] or "", text.strip())
    try:
        yield STRICT_JSON.decode(clean)
    except (ValueError, RecursionError) as error:
        problems.append(f"it is not JSON ({error})")
    else:
        return
    place = 0
    for _ in range(_MOST_BRACKETS):
        start = re.compile(r"[{\[]").search(clean, place)
        if start is None:
            return
        try:
            value, place = STRICT_JSON.raw_decode(clean, start.start())
        except json.JSONDecodeError:
            place = start.end()
        except (ValueError, RecursionError) as error:
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


STRICT_JSON = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_no_twins)
"""Raises ValueError for a NaN, an infinity, and a name that is given twice."""


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema.validators import validator_for

    table = json.loads(schema)
    return validator_for(table)(table)


def short(text: str) -> str:
    """Words of a judge, for a message."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
