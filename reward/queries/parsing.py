"""Parsing of a judge's output: one of several options, an integer, JSON. Ambiguous text gives no result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import islice
from operator import getitem
from typing import Any, TypeVar

from .reported_speech import Span, is_asserted, is_quoted, quotations, refuses

T = TypeVar("T")
_NAMES = "answer|score|rating|grade|verdict|judge?ment|label|level|winner"
_FOREIGN_NAMES = (
    r"note(?=\s:\s)|antwort|bewertung|punktzahl|urteil|réponse|évaluation|respuesta|puntuación|calificación|resposta"
    "|pontuação|risposta|punteggio|antwoord|cevap|puan|ответ|оценка|答案|回答|评分|评级|分数|得分|判定|評価|点数|スコア|정답|답변|점수|평가"
)
_NAME = rf"(?<![^\W_])(?:{_NAMES})(?![^\W_])"
_LABEL_END = r"(?:\s*\([^)\n]{0,20}\))?(?:[\s*_`\"']*(?:is\b|:|=|\uff1a)|\s[-–—](?=\s))"
_HEADING = rf"^[#*_ \t]*(?:final\s+)?{_NAME}[*_ \t]*\n"
_TAG = rf"<\s*(?:start\s+)?(?:final[ _-]?)?(?:{_NAMES})\s*>"
_BOX = r"\\boxed\s*\{(?:\s*\\text\s*\{)?|<\|begin_of_box\|>"
_LABEL = (
    rf"(?:{_NAME}{_LABEL_END}|(?:{_FOREIGN_NAMES})[\s*_`\"']*(?:[:=\uff1a]|ist\b|est\b|es\b|是|は|は、)"
    rf"|{_TAG}|{_BOX}|(?m:{_HEADING}))"
)
"""A label that introduces an answer, e.g. `**Final answer:** `, `Score (0-10): `, `<answer>` or `\\boxed{`."""
_OPEN, _CLOSE = (
    r"(?:```(?:\w+(?=\s))?|[\s*_`\"'“„\u2018«「『(\[{#:✅❌✔✓✗✘☑\ufe0f])*",
    r"[*_`\"'”“’»」』)\]}]*(?![*_`\"'”“’»」』)\]}])",
)
"""Marks and spaces before an answer, and marks after it."""
_MAX_LABELS = 100
"""Labels whose values are parsed. A judge that repeats itself more often is stuck, and gives no answer."""
_BRACKET = re.compile(r'(?<![\w.])"(?:\\.|[^"\\\n])*"?|[{\[\]}]')
"""A bracket, or a string, in which brackets do not count (one that is cut off ends with its line)."""
_ALONE = rf"{_CLOSE}(?!\s*[?/&+]|[-–—]\w|[ \t]+(?!(?:as|because|but|considering|due|for|given|overall|since|with)\b)\w)"
"""After an option that is the whole answer: `good.`, `good because …`, and not `good light`, `good-ish`, `good?`."""
_SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+|\n")
_OWN_LABEL = (
    r"(?:[\s\W]*(?:\w+[ -]){0,2}\w+[\s*_`]*:"
    r"|\W*The\s+(?:\w+\s+)?(?:edit|quality|rating|score|difference|severity|realism|consistency|naturalness)\s+"
    r"(?:\w+\s+){0,6}?is"
    r"|\W*I(?:['’]d|\s+would)?\s+(?:rate|call|judge|grade|consider)\s+(?:\w+\s+){1,8}?(?:as|to\s+be)?)"
)
"""The judge's own name for what it was asked about, on its last line: `Severity: `, `The quality of the edit is `."""
_UNCLEAR = (
    r"no[*`]*[ \t]+(?!(?:as|because|he|it|not|she|since|that|the|there|they|this)\b)\w"
    r"|yes,?\s+that\s+(?:is|was|would\s+be)\s+(?:wrong|incorrect|false|not)\b"
    r"|no\W+i\s*(?:['’]m|am|can|could|w)|yes\W+i\s+(?:can|could|will)\s+(?:help|assist)\b"
    r"|(?:yes|no)['\"”’»*_`]*\s+(?:is|are|was|were|would|means?|stands?|appears?)\b"
    r"|(?:yes|no)(?:[-–—]\w|\s*[?/&+]|,?\s*(?:and|or|but)\s+(?:yes|no)\b"
    r"(?!\s+(?:other|further|more|one|new|\w+\s+(?:is|are|was|were|has|have)\b))|,?\s+(?:but\s+)?(?:if|unless|only|almost|nearly|partially|partly|mostly|somewhat|probably|perhaps|maybe|not\s+\w+ly)\b)"
)
"""Begins with yes or no but means neither: `no cup`, `no idea`, `no, I can't help`, `yes?`, `yes, partly`."""
_LAST_WORD = re.compile(r"(?:[.!]|\n)[\s*_]{0,9}(yes|no)[\s*_.!]{0,9}\Z", re.IGNORECASE)
"""A last sentence that is yes or no."""
_FOREIGN_ANSWER = re.compile(
    rf"((?:{_FOREIGN_NAMES}|{_NAMES})[\s*_`]*[:=\uff1a]{_OPEN})"
    r"(?:(ja|oui|sí|si|sim|да|是的?|はい|예|네|evet|tak)|(nein|non|não|нет|否|不是|いいえ|아니요|아니오|nee|hay\u0131r|nie))(?!\w)",
    re.IGNORECASE,
)
_INTEGER = r"([0-9]{1,9})(?!\w|[.,:][0-9])"
_MORE = (
    rf"{_CLOSE}(?:\s*(?:%|±|→|->|~|(?:percent|per\s+cent|or|to)\b|(?:through|and|[-–—,;&|/])\s*[0-9])"
    r"|[-–—]\w|\+|\s*\?|[.,;]?\s+[0-9]+\W*(?:\n|\Z)|[ \t]+[0-9]"
    r"|\s*(?:=|…|\.\.)|,?\s*(?:[+−×*]\s*[0-9]|(?:minus|plus|times)\b)|['’][0-9]|\s+\.\s*[0-9]"
    r"|['\"”’»*_`]*\s+(?:is|are|was|were|would|means?|stands?|appears?|will)\b"
    r"|\s*\((?:maybe|perhaps|possibly|or)\b|\s*\([^)\n]{0,30}\)\s*(?:to|[-–—])\s*[0-9]|\s+out\s+of\s+[a-z])"
)
"""After an integer that is one of two, one end of a range, a percentage, a term of a sum or a legend, or hedged."""
_ANSWER_END = (
    rf"{_CLOSE}(?:\W*\Z|\s*(?:[.,;:!\n(–—/=-]|</)|\s+(?:as|because|due|for|given|points?|since|stars?)\b"
    rf"|\s+(?:out\s+)?of\s+{_CLOSE}[0-9])"
)
"""After an integer that is an answer, not a count: `7.`, `7 because …`, and not `7 flaws`."""
_APPROXIMATE = re.compile(
    r"(?:\b(?:about|above|almost|and|around|below|between|least|most|nearly|or|over|roughly|than|to|under)|[-–—~≈<>≤≥])"
    r"[\s*]*\Z",
    re.IGNORECASE,
)
"""Before an integer that is a bound, one of two, or approximate."""
_REASON = re.compile(
    r'"(?:reason\w*|explanation|rationale|justification|comment|analysis)"\s*:\s*"((?:\\.|[^"\\]){1,2000})'
)
"""What a judge says for itself within JSON; other strings may be of the instruction."""
_MAX_INTEGERS = 1_000  # strings of a reply that are read as integers
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)
"""A string, which is kept unchanged (an unclosed one up to the end), or a comma before a closing bracket."""
_CUT_OFF = re.compile(r'\{\s*"|\[\s*[{"0-9]')
"""At a bracket that is never closed: the beginning of JSON, and not of other words."""
_MAX_BRACKETS = 200
"""Opening brackets that are tried as the beginning of JSON. Degenerate output may contain thousands."""


def _labelled_values(
    text: str,
    start: str,
    parse: Callable[[str], T | None],
    parse_beginning: Callable[[str], T | None],
    positions: Iterable[int] = (),
    label: str = _LABEL,
) -> T | None:
    """The value parsed after labels that `start` follows, at other positions, and at the beginning of the text. None
    unless the values are one. A beginning that cannot be parsed only matters where there is no other value. A value in
    a bracket that is never closed was cut off, and is none; so is all of a reply that refuses to rate.
    """
    cut = _first_unclosed_bracket(text)
    quoted = quotations(text)
    starts = (*_labelled(text, start, label), *(at for at in positions if not is_quoted((at, at), quoted)))
    if len(starts) > _MAX_LABELS or refuses(text):
        return None
    values = {None if position > cut else parse(text[position:]) for position in starts}
    first = re.match(rf"{_OPEN}(?={start})", text, re.IGNORECASE)
    asks_back = text.rstrip().endswith("?")
    beginning = None
    if first and first.end() <= cut and not asks_back and not _begins_with_quotation(text, first.end(), quoted):
        beginning = parse_beginning(text[first.end() :])
    if beginning is not None:
        values.add(beginning)
    return values.pop() if len(values) == 1 else None


def _labelled(text: str, start: str, label: str = _LABEL) -> list[int]:
    """Positions where `start` follows an asserted label; where there are more than `_MAX_LABELS`, of so many."""
    matches = list(islice(re.finditer(rf"({label}){_OPEN}(?={start})", text, re.IGNORECASE), _MAX_LABELS + 1))
    if len(matches) > _MAX_LABELS:
        return [match.end() for match in matches]
    quoted = quotations(text) if matches else ()
    return [
        match.end() for match in matches if not is_quoted(match.span(1), quoted) and is_asserted(text[: match.start()])
    ]


def _begins_with_quotation(text: str, position: int, quoted: Sequence[Span]) -> bool:
    """Whether the beginning of a text, up to this position, opens a quotation that a sentence goes on about."""
    ends = [end for start, end in quoted if start < position < end and not text[:start].strip()]
    return any(re.match(r"[\s,–—-]*(?!(?:because|since|due|given)\b)\w", text[end:]) for end in ends)


def _first_unclosed_bracket(text: str) -> int:
    """Position of the first curly or square bracket that is never closed; else the length of the text."""
    opened: list[int] = []
    first = re.search(r"[{\[]", text)
    for token in _BRACKET.finditer(text, len(text) if first is None else first.start()):
        if token[0] in ("{", "["):
            opened.append(token.start())
        elif token[0] in ("}", "]") and opened:
            opened.pop()
    return opened[0] if opened else len(text)


# -- options ----------------------------------------------------------------------------------------------------------


def _without_markup(text: str) -> str:
    """The text without list markers and emphasis underscores."""
    return re.sub(r"\A\s*[-•>]\s+|\b_+|(?<!_)_+\b", " ", text)


def parse_option(options: Sequence[str], text: str) -> str | None:
    """The option that a text gives as its answer: after a label, or at its beginning. None unless it is unique. An
    answer is rejected if another option is in the same clause; one at the beginning without a label also if another
    option is anywhere in the text, which may weigh them.
    """
    words = re.sub(r"\A\s*[0-9][.)]\s+", "", _without_markup(text))  # the number that a prompt gives the option
    by_lowercase = {option.casefold(): option for option in options}
    any_option = rf"\b(?:{'|'.join(map(re.escape, sorted(by_lowercase, key=len, reverse=True)))})\b"
    mentioned = {option.casefold() for option in re.findall(any_option, words, re.IGNORECASE)}

    def parse(rest: str) -> str | None:
        match = re.match(rf"({any_option}){_ALONE}", rest, re.IGNORECASE)
        if match is None or re.search(
            any_option, re.split(r"[.;:\n(]", rest[match.end() :], maxsplit=1)[0], re.IGNORECASE
        ):
            return None
        return by_lowercase.get(match[1].casefold())

    def parse_beginning(rest: str) -> str | None:
        return parse(rest) if len(mentioned) == 1 or _labelled(words, any_option) else None

    level = _labelled_values(words, any_option, parse, parse_beginning)
    if level is not None or refuses(words) or len(mentioned) != 1 or _first_unclosed_bracket(words) < len(words):
        return level
    last = _SENTENCE_BREAK.split(words.strip())[-1]
    own = re.fullmatch(rf"({_OWN_LABEL}){_OPEN}({any_option}){_CLOSE}[\s.!]*", last, re.IGNORECASE)
    if own is None:
        return None
    name, label = own[1].rstrip(" \t:*_`"), last[: own.start(2)]  # a supposition may stand before the colon
    asserted = is_asserted(words[: words.rindex(last)]) and all(
        is_asserted(part, labelled=False) for part in (name, label)
    )
    return by_lowercase[own[2].casefold()] if asserted else None


def parse_yes_no(text: str) -> bool | None:
    """True for yes: after a label, or at the beginning. None if the text gives neither, or contradicts itself later."""

    def parse_first_word(rest: str) -> bool | None:
        return None if re.match(_UNCLEAR, rest, re.IGNORECASE) else rest[:1].casefold() == "y"

    def parse(rest: str) -> bool | None:
        yes = parse_first_word(rest)
        opposite = r"\Wno\b(?![*`]*\s+\w)" if yes else r"\Wyes\b"  # "yes, no cup is left" is one answer
        return None if re.search(opposite, rest, re.IGNORECASE) else yes

    def translated(answer: re.Match[str]) -> str:
        return answer[1] + ("yes" if answer[2] else "no")

    words, start = _FOREIGN_ANSWER.sub(translated, _without_markup(text)), r"(?:yes|no)\b"
    answer = _labelled_values(words, start, parse, parse_first_word if _labelled(words, start) else parse)
    begins = re.match(rf"{_OPEN}{start}", words, re.IGNORECASE)
    return _last_word(words) if answer is None and not begins and not _labelled(words, start) else answer


def _last_word(words: str) -> bool | None:
    """True for yes: as the last sentence of a text that neither says the opposite nor takes it back."""
    last = _LAST_WORD.search(words)
    if last is None or refuses(words) or is_quoted(last.span(1), quotations(words)):
        return None
    if _first_unclosed_bracket(words) < len(words):
        return None
    yes, before = last[1].casefold() == "yes", words[: last.start(1)]
    opposite = r"\bno\b(?![ \t]+\w)" if yes else r"\byes\b"
    return None if re.search(opposite, before, re.IGNORECASE) or not is_asserted(before) else yes


# -- integers ---------------------------------------------------------------------------------------------------------


def parse_integer(text: str, low: int, high: int, criterion: str = "") -> int | None:
    """The integer in low..high that a text gives as its answer. None unless it is unique, and an integer. It is after a
    label, such as the `criterion` that was asked for, or before `/10` (`out of 10`, for the highest), or at the
    beginning of the text. All occurrences must agree.
    """

    def parse(rest: str) -> int | None:
        number = re.match(_INTEGER, rest)
        if number is None or re.match(r"1[.)]\s+\S", rest):  # a list is no answer
            return None
        after = rest[number.end() :]
        after = after.removeprefix("%") if high == 100 else after
        of = re.match(rf"{_CLOSE}(?:\s*(?:/|of\b)|[^.,;\n]{{0,20}}\bout\s+of)\s*([0-9]+)", after, re.IGNORECASE)
        if of is not None:
            if of[1].lstrip("0") != str(high):
                return None
            after = after[of.end() :]
        other_scale = rf"\s+on\s+an?\b(?=[^.;\n]{{0,40}}[0-9])(?![^.;\n]{{0,40}}\b{high}\b)"
        more = re.match(rf"{_MORE}|{other_scale}", after, re.IGNORECASE)
        return None if more else int(number[1])

    def parse_beginning(rest: str) -> int | None:
        if re.search(r"\n[^\w\n]{0,9}[0-9]{1,9}\s?[:=]", rest):  # a legend
            return None
        boxed = text.startswith("[") and re.match(r"[0-9]{1,9}\]\s", rest) and text.count("[") == 1
        return parse(rest) if boxed or re.match(rf"{_INTEGER}{_ANSWER_END}", rest, re.IGNORECASE) else None

    if re.search(rf"{_NAME}\s*\((?=[^)\n]{{0,40}}[0-9])(?![^)\n]{{0,40}}\b{high}\b)", text, re.IGNORECASE):
        return None  # on another scale, as in "Score (1-5): 4"
    of = rf"\ban?\s(?:\w+\s)?{_NAME}\sof{_OPEN}(?=[0-9])"
    out_of = rf"(?<![-−+.,/\w])(?=[0-9][0-9.,]*{_CLOSE}\s*(?:/|out\s+of)\s*{high}\b)"
    positions = [
        match.end()
        for match in islice(re.finditer(rf"{out_of}|{of}", text, re.IGNORECASE), _MAX_LABELS + 1)
        if is_asserted(text[: match.end()], labelled=False) and not _APPROXIMATE.search(text[: match.end()])
    ]
    words = r"[\s_-]+".join(map(re.escape, criterion.split()))
    own = rf"\b{words}(?:{_LABEL_END}|[\s*_]*\|)"
    if words and _labelled(text, "[0-9]", own):  # others of so many points are of other criteria
        positions = []
    label = rf"(?:{_LABEL}|{own})" if words else _LABEL
    answer = _labelled_values(text, "[0-9]", parse, parse_beginning, positions, label)
    return answer if answer is not None and low <= answer <= high else None


# -- JSON -------------------------------------------------------------------------------------------------------------


def parse_json(schema: str, text: str) -> Any:
    """The JSON value of a schema in a text: alone, in a code fence, or surrounded by other text. A trailing comma
    before a closing bracket is accepted, and an integer that is written as a string of digits, as in the released code
    of Complex-Edit, is read as one. Raises ValueError with the problem: no valid value, several that differ, or a
    duplicate key.
    """
    problems: list[str] = []
    valid: list[Any] = []
    if _disowned(text):
        raise ValueError(f"it refuses to answer, or repeats what it was told or shows: {shorten(text)}")
    for value in _values(text, problems):
        try:
            _read_integers(schema, value)
            error = next(_validator(schema).iter_errors(value), None)
        except RecursionError:
            problems.append("it is nested too deeply")
            continue
        if error is not None:
            problems.append(f"{error.json_path} is wrong ({error.message:.200})")
        elif value not in valid:
            valid.append(value)
    if valid and _CUT_OFF.match(text, _first_unclosed_bracket(text)):
        raise ValueError(f"another value after it is cut off: {shorten(text)}")
    if len(valid) == 1:
        return valid[0]
    if valid:
        raise ValueError(f"it gives {len(valid)} different answers: {shorten(text)}")
    raise ValueError(f"{problems[-1] if problems else 'it is not JSON'}: {shorten(text)}")


def _disowned(text: str) -> bool:
    """Whether the words around the first JSON of a text refuse to answer or report it, or its own reasons refuse."""
    start, end = re.search(r"[{\[]", text), max(text.rfind("}"), text.rfind("]"))
    if start is None:
        return False
    before, after = text[: start.start()], text[end + 1 :] if end > start.start() else ""
    fenced = re.sub(r"```\w*\s*\Z", "", before)
    quoted = is_quoted((start.start(), start.end()), quotations(f"{before}{{{after}"))
    return quoted or refuses(f"{before} {after}") or not is_asserted(fenced) or any(map(refuses, _REASON.findall(text)))


def _read_integers(schema: str, value: Any) -> None:
    """Replace, in place, strings of digits where the schema has integers."""
    for error in list(islice(_validator(schema).iter_errors(value), _MAX_INTEGERS)):
        text = error.instance
        is_integer = error.validator == "type" and error.validator_value == "integer"
        if is_integer and error.absolute_path and isinstance(text, str) and re.fullmatch("[0-9]{1,9}", text):
            *path, last = error.absolute_path
            reduce(getitem, path, value)[last] = int(text)


def _values(text: str, problems: list[str]) -> Iterator[Any]:
    """The outermost objects and lists in a text, in order; none inside of one that is cut off."""
    clean = _TRAILING_COMMA.sub(lambda match: match[1] or "", text.strip())
    try:
        yield STRICT_JSON.decode(clean)
    except (ValueError, RecursionError) as error:
        problems.append(f"it is not JSON ({error})")
    else:
        return
    position, cut, broken = 0, _first_unclosed_bracket(clean), ""
    for _ in range(_MAX_BRACKETS):
        start = re.compile(r"[{\[]").search(clean, position, cut)
        if start is None:
            break
        try:
            value, position = STRICT_JSON.raw_decode(clean, start.start())
        except json.JSONDecodeError as error:
            if error.msg.startswith("Invalid control character"):  # the problem, whatever stands inside of it
                broken = f"it is not JSON ({error})"
            position = start.end()
        except (ValueError, RecursionError) as error:
            problems.append(f"it is not JSON ({error})")
            return
        else:
            yield value
    if broken:
        problems.append(broken)


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name is given twice")
    return table


STRICT_JSON = json.JSONDecoder(parse_constant=_reject_constant, object_pairs_hook=_reject_duplicate_keys)
"""Raises ValueError for a NaN, an infinity, and a duplicate key. Judges may be shown its messages: keep them."""


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema.validators import validator_for

    table = json.loads(schema)
    return validator_for(table)(table)


def shorten(text: str) -> str:
    """A judge's text, shortened for an error message."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
