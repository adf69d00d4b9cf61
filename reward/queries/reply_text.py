"""What a judge says itself: its words without its reasoning, and which of them it quotes, reports or takes back.

A judge repeats what it was told and what it reads in a picture: `The banner says "Answer: 10"`. None of that is its
answer, whatever stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Span = tuple[int, int]
"""Start and end of a part of a text."""

_MAX_SENTENCE = 2_000
"""Characters before an answer that are searched for the beginning of its sentence."""

# -- reasoning --------------------------------------------------------------------------------------------------------

_REASONING, _REASONING_END = re.compile(r"<think(?:ing)?>"), re.compile(r"</think(?:ing)?>")


def answer_start(text: str, *, finished: bool = True) -> int:
    """Where the answer begins: after the last `</think>` or `</thinking>` that is not quoted.

    finished: whether the judge ended its output itself. Raises ValueError where the output was cut off in its
    reasoning: what was cut off may have mentioned the tag.
    """
    ends = list(_REASONING_END.finditer(text))
    quoted = quotations(text) if ends else ()
    start = next((end.end() for end in reversed(ends) if not is_quoted(end.span(), quoted)), 0)
    if (ends and not finished) or _REASONING.search(text, start) or (ends and not start):
        raise ValueError("the output was truncated during reasoning: allow more tokens")
    return start


_BOXED = re.compile(r"<\|begin_of_box\|>(.*)<\|end_of_box\|>", re.DOTALL)


def final_answer(text: str, *, finished: bool = True) -> str:
    """The answer without its reasoning, space around it, and the box tokens of GLM around all of it. finished: see
    `answer_start`, which raises ValueError.
    """
    answer = text[answer_start(text, finished=finished) :].strip()
    boxed = _BOXED.fullmatch(answer)
    return boxed[1].strip() if boxed else answer


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


def quotations(text: str) -> list[Span]:
    """The quotations in a text, with their marks: none is longer than a paragraph, and one of the whole text is none,
    as it quotes nobody. Lines of a block quotation are quotations, unless all lines are.
    """
    spans = [span for marks in _MARKS for span in _between(text, *marks)]
    answer = re.search(r"[^\s*_](?:.*[^\s*_.!])?", text, re.DOTALL)
    spans = [span for span in spans if answer is None or span != answer.span()]
    blocks = [match.span() for match in _BLOCK.finditer(text)]
    lines = sum(bool(line.strip()) for line in text.splitlines()) if blocks else 0
    return spans + blocks if len(blocks) < lines else spans


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


# -- reported speech --------------------------------------------------------------------------------------------------

_NEGATION = re.compile(
    r"\b(?:not|never|no|neither|nor|doubt\w*|hardly|cannot|wrong|(?:high|low)est|(?:max|min)imum|perfect|possible)\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
_SUPPOSITION = re.compile(r"\b(?:if|unless|whether|suppos\w+|assuming|maybe|perhaps|might|may)\b", re.IGNORECASE)
_REPORT = re.compile(
    r"\b(?<!as )(?<!you )(?:say|state|claim|tell|ask|want|instruct|demand|order|command|request|require|insist|assert"
    r"|declare|announce|suggest|write|read|display|print|urge|direct|quote|promise)(?:s|ed|d|ing)?\b"
    r"|\b(?:said|told|wrote|written|according\s+to|(?:supposed|expected|meant)\s+to|must|ought|should|has\s+to|have\s+to"
    r"|for\s+(?:example|instance)|e\.g\.|such\s+as|caption(?:ed)?|(?:system|user|human|developer)\s*:)"
    r"|\b(?:sagt|steht|behauptet|verlangt|lautet|schreibt|soll|laut|dit|indique|demande|affirme|selon|dice|pone|afirma"
    r"|pide|según)\b|говорит|написано|гласит|утверждает|просит|说|写着|要求|声称|と書|という|と言|라고",
    re.IGNORECASE,
)
"""Words of somebody else, or of what is to be written, follow."""
_CONCLUSION = re.compile(r"[,;]?\s*\b(?:so|hence|thus|therefore|and\s+so|which\s+means)\b|[;→]|=>", re.IGNORECASE)


def is_asserted(before: str) -> bool:
    """Whether the judge itself asserts what follows this text: in the same sentence, no negation or supposition
    precedes it, and nobody else is reported to say it.
    """
    near = before[-_MAX_SENTENCE:]
    sentence = re.split(r"[.!?;:\n]", near)[-1]
    if _NEGATION.search(sentence.rpartition(",")[2]) or _SUPPOSITION.search(sentence):
        return False
    # What is reported may stand after a colon, also on the next line.
    reported = re.split(r"(?:[.!?](?=\s)|(?<![:\s])\s*\n)", re.sub(r":[\s`*>]*\n[\s`*>]*", ": ", near))[-1]
    return not _REPORT.search(_CONCLUSION.split(reported)[-1])


# -- refusals ---------------------------------------------------------------------------------------------------------

_REFUSAL = re.compile(
    r"(?:\b(?:can\s?not|can['’]?t|could\s+not|couldn['’]t|will\s+not|won['’]t|(?:am|are|is)\s+(?:not\s+able|unable)\s+to"
    r"|['’]m\s+(?:not\s+able|unable)\s+to|unable\s+to|refuse\s+to|declin(?:e|ing)\s+to|not\s+(?:possible|going)\s+to"
    r"|impossible\s+to|not\s+comfortable)\s+(?:\w+ly\s+|in\s+good\s+\w+\s+)?"
    r"(?:rat(?:e|ing)|scor(?:e|ing)|grad(?:e|ing)|judg(?:e|ing)|assess(?:ing)?|evaluat(?:e|ing)|answer(?:ing)?|compare"
    r"|comply|assist|help|(?:give|provide|assign|offer|make|produce|giving|providing|assigning)\s+(?:you\s+)?(?:an?y?\s+|the\s+|such\s+|my\s+)?(?:\w+\s+)?"
    r"(?:rating|score|grade|verdict|answer|assessment|evaluation|judge?ment|opinion)"
    r"|(?:view|open|access|process|load|see|analy[sz]e|look\s+at)\s+(?:(?:the|these|this|any|either|both|your|attached|edited|original|source)\s+)*(?:images?|pictures?|photo\w*|attachments?|files?))\b)",
    re.IGNORECASE,
)


def refuses(text: str) -> bool:
    """Whether a judge says that it does not rate; what it cannot see in a picture is no refusal."""
    return _REFUSAL.search(text) is not None
