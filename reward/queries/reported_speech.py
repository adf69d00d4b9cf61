"""Whether a judge says something itself: what it quotes, reports, supposes or denies is not its answer.

A judge repeats what it was told and what it reads in a picture: `The banner says "Answer: 10"`. None of that is its
answer, whatever stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

Span = tuple[int, int]
"""Start and end of a part of a text."""


def phrases(*alternatives: str) -> re.Pattern[str]:
    """A pattern of any of these."""
    return re.compile("|".join(alternatives), re.IGNORECASE)


# -- quotations -------------------------------------------------------------------------------------------------------

_MARKS = (
    (r"(?<![\w\\])\"(?=\S)", r"(?<![\s\\])\"(?!\w)"),
    (r"(?<!\w)'(?=\S)", r"(?<!\s)'(?!\w)"),
    (r"(?<!`)`(?![`\s])", r"(?<![`\s])`(?!`)"),
    ("[“„]", "[”“]"),
    ("\u2018", r"\u2019(?!\w)"),
    ("[«\u2039]", "[»\u203a]"),
    ("[「『]", "[」』]"),
)
"""What opens a quotation, and what closes it."""
_PARAGRAPH = r"\n[ \t]*\n"
_BLOCK = re.compile(r"^[ \t]*>[^\n]*", re.MULTILINE)


@lru_cache(maxsize=16)  # a reply is read more than once
def quotations(text: str) -> tuple[Span, ...]:
    """The quotations in a text, with their marks: none is longer than a paragraph, and one of the whole text is none,
    as it quotes nobody. Lines of a block quotation are quotations, unless all lines are.
    """
    spans = [span for marks in _MARKS for span in _between(text, *marks)]
    answer = re.search(r"[^\s*_](?:.*[^\s*_.!])?", text, re.DOTALL)
    spans = [span for span in spans if answer is None or span != answer.span()]
    blocks = [(match.start(), match.end() + 1) for match in _BLOCK.finditer(text)]
    lines = sum(bool(line.strip()) for line in text.splitlines()) if blocks else 0
    return (*spans, *blocks) if len(blocks) < lines else tuple(spans)


def _between(text: str, opening: str, closing: str) -> Iterator[Span]:
    since: int | None = None
    for mark in re.finditer(f"(?P<closes>{closing})|(?P<opens>{opening})|{_PARAGRAPH}", text):
        opens = mark["opens"] or (since is None and re.compile(opening).match(text, mark.start()))
        if since is not None and mark["closes"]:
            yield since, mark.end()
            since = None
        elif opens:
            since = mark.start() if since is None else since
        else:
            since = None


def is_quoted(part: Span, spans: Sequence[Span]) -> bool:
    """Whether a part of the text lies in one of these quotations."""
    return any(start <= part[0] and part[1] < end for start, end in spans)


# -- reports, suppositions, denials -----------------------------------------------------------------------------------

_WINDOW = 300
"""Characters before an answer that are searched for the beginning of its sentence."""

PLACE = (
    r"\b(?:banner|poster|sticker|watermark|caption|overlay|t-?shirt|mug|wall|sign|billboard|note|lettering|text|words?"
    r"|writing|inscription|graffiti|prompt|metadata|exif|qr|barcode|screen|card|plate|badge|tag|print|letter|subtitle"
    r"|bubble|label|line|message)\b"
)
"""Where words stand that are not the judge's."""

_NEGATION = phrases(
    r"\b(?:not|never|no|neither|nor|doubt\w*|hardly|cannot|wrong|(?:high|low)est|(?:max|min)imum|perfect|possible)\b",
    r"n['’]t\b",
)
_SUPPOSITION = phrases(r"\b(?:if|unless|whether|suppos\w+|assuming|imagin\w+|maybe|perhaps|might|may)\b")

_OWN_WORDS = phrases(
    r"\b(?:I|we)(?:['’](?:d|ll|m|ve))?\s+(?:(?!was\b|were\b|am\b|got\b)\w+\s+){0,2}?"
    r"(?:say|state|claim|assert|suggest|report|write|declare|maintain|propose|note|argue|conclude|recommend|find)\b",
    r"\b(?:I|my|here)\b[^.]{0,60}\bas\s+follows\b",
)
"""The judge says that it says so itself: `I would say that the score is 7`."""

_SAYING = (
    "say|state|claim|tell|ask|want|instruct|demand|order|command|request|require|insist|assert|declare|announce|suggest"
    "|write|read|display|print|urge|direct|quote|promise|allege|beg|force|plead|maintain|argue|assure|advertise|propose"
    "|recommend|contend|report|mention|type|inject|decode|produce|spell|paint|stamp|repeat|cite|copy|show|find|found"
    "|put|bear|shout|proclaim"
)
_REPORT = phrases(
    # Somebody says: not "as requested", "you asked for", "in the requested format".
    rf"\b(?<!as )(?<!you )(?!requested\s+(?:format|form|schema|json|output|scale))(?:{_SAYING})(?:s|ed|d|ing)?\b",
    r"\b(?:said|told|wrote|written|alleging|according\s+to|caption(?:ed)?|from\s+now\s+on)\b",
    rf"{PLACE}[^.:\n]{{0,60}}:\s*$",
    rf"{PLACE}(?:\s+\w+){{0,3}}?\s+(?:gives|gave|awards?|rates?|calls?|has|goes|carries|holds)\b",
    r"\b(?:text|system|user|human|developer|admin\w*)\s*:|[\[<](?:system|user|inst|admin)\b",
    # What is to be written, or might be.
    r"\b(?:(?:supposed|expected|meant)\s+to|must|ought|should|has\s+to|have\s+to)\b",
    r"\b(?:for\s+(?:example|instance)|such\s+as|like\s+this|as\s+follows)\b|\blike\s*$",
    r"^\W*(?:example|template|schema|format|prompt)\s*:",
    # Another's, or another time's.
    r"\b(?:reference|previous|earlier|former|prior|expected|sample|suggested|desired|default|possible|typical|claimed)"
    r"\s+(?:\w+\s+)?$",
    r"\b(?!(?:edit|image|picture|photo|it|result|source)['’])\w+['’]s\s+(?:own\s+|final\s+)*$",
    # The same in other languages.
    r"\b(?:(?:ge)?sagt|steht|behauptet|verlangt|lautet|schreib\w*|soll\w*|laut|heißt|dit|demand\w*|indique\w*|affirme\w*"
    r"|écri\w+|selon|dice|pone|afirma|pide\w*|según|escrib\w+|diz|scriv\w+|zegt|staat|yaz\u0131yor|diyor)\b",
    "говор|написа|гласит|утвержда|прос[ия]т|требу|вывести|说|写|要求|声称|显示|提示|と書|書い|という|と言|指示|라고|적혀|쓰",
)
"""Words of somebody else, or of what is to be written, follow."""

_CONCLUSION = phrases(r"\b(?:so|hence|thus|therefore|which\s+means|my\s+(?:own\s+)?(?:final\s+)?(?=\w*$))\b", "[;→]|=>")
"""What the judge makes of what it read."""

_LEAD = re.compile(
    r"(?:^|[\n.!?:;,)\]}>|*_`\"'“”’«»「」(\[{/…—–=$-])\s{0,9}"
    r"(?:(?:i|we)(?:['’](?:d|m)|\s{1,3}would|\s{1,3}do|\s{1,3}am)?(?:\s{1,3}(?:fairly|quite|very|pretty))?\s{1,3}"
    r"(?:think|confident|sure|certain|believe|say|conclude|find|judge|feel|estimate|consider)\s{1,3}(?:that\s{1,3})?)?"
    r"(?:[^\W\d][\w'’-]{0,29}\s{1,3}){0,3}$",
    re.IGNORECASE,
)
"""Before a label: at most three words since the last mark."""

_INTRODUCTION = re.compile(
    r"(?:[:\uff1a]|(?<=as follows)\.|(?<=\bsays)|(?<=\breads)|(?<=\bstates)|(?<=\bshows))[\s`*>]{0,9}\n[\s`*>]{0,9}"
)
"""What is reported may stand on the next line."""
_SENTENCE_END = re.compile(r"(?:(?<!as follows)[.!?](?=[\s*_])|\n)")


def is_asserted(before: str, *, labelled: bool = True) -> bool:
    """Whether the judge itself asserts what follows this text: in the same sentence, no negation or supposition
    precedes it, and nobody else is reported to say it. labelled: what follows is a label, before which few words stand.
    """
    near = re.sub(r"\be\.g\.", "for example", before[-_WINDOW:])
    if labelled and not _LEAD.search(re.sub(r"[ \t]+", " ", near[-200:])):
        return False
    sentence = re.split(r"[.!?;:\n]", near)[-1]
    if _NEGATION.search(sentence.rpartition(",")[2]) or _SUPPOSITION.search(sentence):
        return False
    reported = _SENTENCE_END.split(_INTRODUCTION.sub(": ", near))[-1]
    return not _REPORT.search(_OWN_WORDS.sub("", _CONCLUSION.split(reported)[-1]))
