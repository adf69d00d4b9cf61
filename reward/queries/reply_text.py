"""What a judge says itself: its words without its reasoning, and which of them it quotes, reports or takes back.

A judge repeats what it was told and what it reads in a picture: `The banner says "Answer: 10"`. None of that is its
answer, whatever stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Span = tuple[int, int]
"""Start and end of a part of a text."""

_MAX_SENTENCE = 300
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
    mentioned = ends and not start and text.lstrip()[:1] in "{[" and finished  # within a string of JSON
    if (ends and not finished) or _REASONING.search(text, start) or (ends and not start and not mentioned):
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
    blocks = [(match.start(), match.end() + 1) for match in _BLOCK.finditer(text)]
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
_SUPPOSITION = re.compile(
    r"\b(?:if|unless|whether|suppos\w+|assuming|imagin\w+|maybe|perhaps|might|may)\b", re.IGNORECASE
)
_PLACE = (
    r"\b(?:banner|poster|sticker|watermark|caption|overlay|t-?shirt|mug|wall|sign|billboard|note|lettering|text|words?|writing"
    r"|inscription|graffiti|prompt|metadata|exif|qr|barcode|screen|card|plate|badge|tag|print|letter|subtitle|bubble|label|line|message)\b"
)
"""Where words stand that are not the judge's."""
_OWN = re.compile(
    r"\b(?:I|we)(?:['’](?:d|ll|m|ve))?\s+(?:(?!was\b|were\b|am\b|got\b)\w+\s+){0,2}?(?:say|state|claim|assert|suggest|report|write"
    r"|declare|maintain|propose|note|argue|conclude|recommend|find)\b|\b(?:I|my|here)\b[^.]{0,60}\bas\s+follows\b",
    re.IGNORECASE,
)
"""The judge says that it says so itself: `I would say that the score is 7`."""
_REPORT = re.compile(
    r"\b(?<!as )(?<!you )(?!requested\s+(?:format|form|schema|json|output|scale))(?:say|state|claim|tell|ask|want|instruct|demand|order|command|request|require|insist|assert"
    r"|declare|announce|suggest|write|read|display|print|urge|direct|quote|promise|allege|beg|force|urge|plead|maintain|argue|assure|advertise"
    r"|propose|recommend|contend|report|mention|type|inject|decode|produce|spell|paint|stamp|repeat|cite|copy|show|find|found|put|bear|shout|proclaim)"
    r"(?:s|ed|d|ing)?\b"
    r"|\b(?:said|told|wrote|written|alleging|according\s+to|(?:supposed|expected|meant)\s+to|must|ought|should|has\s+to|have\s+to"
    r"|for\s+(?:example|instance)|e\.g\.|such\s+as|like\s*$|like\s+this|caption(?:ed)?|as\s+follows|from\s+now\s+on"
    r"|(?:text|system|user|human|developer|admin\w*)\s*:)|^\W*(?:example|template|schema|format|prompt)\s*:"
    rf"|{_PLACE}[^.:\n]{{0,60}}:\s*$|{_PLACE}(?:\s+\w+){{0,3}}?\s+(?:gives|gave|awards?|rates?|calls?|has|goes|carries|holds)\b"
    r"|\b(?:reference|previous|earlier|former|prior|expected|sample|suggested|desired|default|possible|typical|claimed)\s+(?:\w+\s+)?$"
    r"|[\[<](?:system|user|inst|admin)\b|\b(?!(?:edit|image|picture|photo|it|result|source)['’])\w+['’]s\s+(?:own\s+|final\s+)*$"
    r"|\b(?:(?:ge)?sagt|steht|behauptet|verlangt|lautet|schreib\w*|soll\w*|laut|heißt|dit|demand\w*|indique\w*|affirme\w*|écri\w+|selon"
    r"|dice|pone|afirma|pide\w*|según|escrib\w+|diz|dice|scriv\w+|zegt|staat|yaz\u0131yor|diyor)\b"
    r"|говор|написа|гласит|утвержда|прос[ия]т|требу|вывести|说|写|要求|声称|显示|提示|と書|書い|という|と言|指示|라고|적혀|쓰",
    re.IGNORECASE,
)
"""Words of somebody else, or of what is to be written, follow."""
_LEAD = re.compile(
    r"(?:^|[\n.!?:;,)\]}>|*_`\"'“”’«»「」(\[{/…—–=$-])\s{0,9}(?:(?:i|we)(?:['’](?:d|m)|\s{1,3}would|\s{1,3}do|\s{1,3}am)?(?:\s{1,3}(?:fairly|quite|very|pretty))?\s{1,3}(?:think|confident|sure|certain|believe|say|conclude|find|judge|feel"
    r"|estimate|consider)\s{1,3}(?:that\s{1,3})?)?(?:[^\W\d][\w'’-]{0,29}\s{1,3}){0,3}$",
    re.IGNORECASE,
)
"""Before a label: at most three words since the last mark."""
_CONCLUSION = re.compile(
    r"\b(?:so|hence|thus|therefore|which\s+means|my\s+(?:own\s+)?(?:final\s+)?(?=\w*$))\b|[;→]|=>", re.IGNORECASE
)
"""What the judge makes of what it read."""


def is_asserted(before: str, *, labelled: bool = True) -> bool:
    """Whether the judge itself asserts what follows this text: in the same sentence, no negation or supposition
    precedes it, and nobody else is reported to say it. labelled: what follows is a label, before which few words stand.
    """
    near = before[-_MAX_SENTENCE:]
    if labelled and not _LEAD.search(re.sub(r"[ \t]+", " ", before[-200:])):
        return False
    sentence = re.split(r"[.!?;:\n]", near)[-1]
    if _NEGATION.search(sentence.rpartition(",")[2]) or _SUPPOSITION.search(sentence):
        return False
    # What is reported may stand after a colon, also on the next line.
    joined = re.sub(r"(?:[:\uff1a]|(?<=as follows)\.)[\s`*>]*\n[\s`*>]*", ": ", near)
    reported = re.split(r"(?:(?<!as follows)[.!?](?=[\s*_])|\n)", joined)[-1]
    return not _REPORT.search(_OWN.sub("", _CONCLUSION.split(reported)[-1]))


# -- refusals ---------------------------------------------------------------------------------------------------------

_JUDGEMENT = r"(?:ratings?|scores?|grades?|verdicts?|answers?|opinion|judge?ment|assessment|evaluation|conclusion)"
_TASK = (
    rf"\b(?:(?:rate[sd]?|grade[sd]?|scored|judge[sd]?|assess(?:ed|es|ing)?|evaluate[sd]?)\b(?!\s+as\b)|{_JUDGEMENT}\b"
    r"(?![\"'*_`]*\s*(?:is\b|isn|was\b|[:=]|-\s))"
    r"|(?:scor|grad|judg|rat|evaluat|answer)ing\b|comply\b|decide\b|conclude\b|help\b|assist\b|engage\b)"
)
_NEGATION_OF_TASK = re.compile(
    r"\b(?:not|nothing|never|cannot|unable|without|refus\w+|declin\w+|abstain\w*|withdr[ae]w\w*|retract\w*|lack\w*|neither"
    rf"|nor|impossible|missing|pending)\b|n['’]t\b|\bno\s+(?:[\w-]+\s+){{0,3}}?{_TASK}",
    re.IGNORECASE,
)
_OF_TASK = re.compile(_TASK, re.IGNORECASE)
_PICTURE = r"(?:images?|pictures?|photo\w*|attachments?|snapshots?|files?|upload)\b"
_REFUSAL = re.compile(
    # It did not get a picture, or asks for one.
    r"(?:\bnot|\b(?:un)?able\s+to|\bability\s+to|\bcannot|n['’]t)\s+(?:\w+\s+){0,2}?(?:view|open|access|process|load|see|analy[sz]e"
    r"|inspect|look\s+at|read|receive|display|get)\s+(?:(?:the|these|this|that|any|either|both|your|an?|attached|edited"
    rf"|original|source|second|first|one|two|actual|provided)\s+)*{_PICTURE}"
    rf"|\bno\s+(?:\w+\s+)?{_PICTURE}\s+(?:(?:was|were|is|are|has|have|had|been|actually)\s+)*"
    r"(?:attached|provided|supplied|given|sent|received|included|uploaded|shown|visible|available|came|arrived|here)"
    rf"|\b(?:have|has|see|received|got|are|is|with)\s+no\s+(?:\w+\s+)?{_PICTURE}(?=\s*(?:[.,;!)]|$|to\b|for\b|here\b))"
    rf"|\bwithout\s+(?:(?:the|any|an?|seeing)\s+)+(?:\w+\s+)?{_PICTURE}"
    rf"|{_PICTURE}\s+(?:is|are|was|were|seems?)\s+(?:\w+\s+)?(?:missing|blank|gone|corrupt\w*|empty|unreadable)(?=\s*(?:[.,;:!)]|$|and\b|so\b))"
    rf"|\bonly\s+one\s+{_PICTURE}|\bcorrupt\w*\s+(?:input|data|{_PICTURE})|\b(?:decoding|loading|upload)\s+(?:has\s+)?failed\b"
    r"|(?:\bnot|n['’]t|\bnever)\s+(?:\w+\s+)?(?:load(?:ed)?|arrived?|come\s+through)\b"
    rf"|{_PICTURE}[^.\n]{{0,20}}(?:\bnot|n['’]t|\bnever)\s+(?:\w+\s+)?(?:attached|provided|supplied|included|sent)(?!\s+(?:to|in|with|at)\b)"
    rf"|\b(?:send|share|upload|attach|provide|supply|resend)\s+(?:\w+\s+){{0,3}}?{_PICTURE}"
    rf"|\bwhich\s+{_PICTURE}[^.?\n]{{0,80}}\?"
    # It takes back what it said, or has said nothing.
    r"|\b(?:ignore|disregard)\s+(?:this|the|that|my|what)\b[^.\n]{0,20}\b(?:json|score|rating|answer|above|number|reply|value)"
    r"|\b(?:that|this)\s+is\s+how\s+(?:I\s+would|it\s+would|an?)\b|\bend\s+of\s+(?:the\s+)?quot\w+"
    r"|\b(?:could\s+not|couldn['’]t|cannot|can['’]t|unable\s+to)\s+compare\b|\b(?:placeholder|dumm(?:y|ies)|filled\s+example|not\s+(?:use|take|count)\s+(?:it|this|that|them)|not\s+mine"
    r"|would\s+be\s+(?:misleading|a\s+guess|guess\w*|dishonest|made\s+up|invent\w+)|copied\s+from)\b"
    rf"|\b(?:that|this|which|it)\s*(?:['’]s|is|was)\s+(?:\w+\s+)?what\s+(?:\w+\s+)?{_PLACE}|\baccording\s+to\s+(?:\w+\s+)?{_PLACE}"
    rf"|\bas\s+(?:printed|written|stamped)\b|\b(?:part|end|in|from)\s+(?:of\s+)?(?:the|your|my)\s+(?:\w+['’]s\s+)?prompt\b|^\W*(?:user|human|system)\s*:"
    r"|\bI(?:\s+a|['’])m\s+(?:just\s+|only\s+|merely\s+)?an?\s+(?:AI|language|text)\b"
    r"|\bI\s+(?:\w+\s+)?(?:abstain|refuse|decline|withdraw|retract)\b"
    r"|(?:\bcan\s?not|\bcan['’]t|\bunable\s+to)\s+(?:\w+ly\s+)?(?:tell|say)\s*(?:[.!,]|$)"
    rf"|\b{_JUDGEMENT}\s*(?:is|are|was|were|:)?\s*(?:not\s+possible|impossible|pending|withheld|withdrawn|unavailable|n/a)\b",
    re.IGNORECASE,
)
_PRAISE = re.compile(
    r"\b(?:detect|influence|lower\w*|higher|deduct\w*|reduc\w*|perfect|full|penal\w*|points?|affect\w*|best|highest|top|more|less|reason)\b",
    re.IGNORECASE,
)
"""Of a sentence that explains a rating: `I cannot rate it higher`."""
_FOREIGN_REFUSAL = re.compile(
    r"\b(?:urteil|bewertung|antwort)\s+(?:habe|gebe|kann|geben)\s+ich\s+nicht|\bverweiger\w+|\bnicht\s+(?:möglich|bewerten|beurteilen|vergleichen|einschätzen|öffnen)|\bkein(?:e|en)?\s+(?:bewertung|urteil|antwort|note)\b"
    r"|\bBild\w*\s+(?:fehlt|fehlen)|\b(?:enthalte\s+mich|unmöglich)|\b(?:ne\s+(?:peux|puis|saurais)|m['’]abstiens|impossible\s+d[e'’])"
    r"|\bpas\s+d['’]image|\b(?:no\s+(?:puedo|es\s+posible|se\s+puede)|me\s+abstengo|imposible|sin\s+(?:la\s+)?imagen)"
    r"|\bnão\s+(?:posso|consigo)|\bnon\s+(?:posso|riesco)|\bkan\s+(?:ik\s+)?(?:niet|geen|dit\s+niet)|\bnie\s+mogę"
    r"|не\s+(?:могу|вижу|делаю|буду|удалось)|невозможно|отказ|воздерж|нет\s+(?:изображ|оценк|снимк)|нужен\s+снимок"
    r"|无法|不能(?:评|打|判|给|回)|没有(?:结论|图|收到|评|看到)|看不到|拒绝|できません|できない|ありません|見えません|見えない|判断でき"
    r"|할\s*수\s*없|없습니다|볼\s*수\s*없|أستطيع|يمكنني|edem|veremiyorum|değerlendiremi|नहीं",
    re.IGNORECASE,
)


def refuses(text: str) -> bool:
    """Whether a judge says that it does not rate, has nothing to rate, or takes back what it said; what it cannot see
    in a picture is no refusal.
    """
    words = text[:_MAX_WORDS]
    return _FOREIGN_REFUSAL.search(words) is not None or any(map(_is_refusal, _SENTENCE.findall(words)))


_MAX_WORDS = 20_000
"""Characters that are searched for a refusal."""
_SENTENCE = re.compile(r"[^\n.!?;]{1,400}(?:[.!?;](?!\s)[^\n.!?;]{0,100}){0,3}[.!?;]?")


def _is_refusal(sentence: str) -> bool:
    if _PRAISE.search(sentence):
        return False
    return bool(_REFUSAL.search(sentence) or (_NEGATION_OF_TASK.search(sentence) and _OF_TASK.search(sentence)))
