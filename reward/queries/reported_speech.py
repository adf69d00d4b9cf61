"""Whether a judge says something itself: what it quotes, reports, supposes or denies is not its answer.

A judge repeats what it was told and what it reads in a picture: `The banner says "Answer: 10"`. None of that is its
answer, whatever stands in it. What it refuses to answer, and what it thought before its answer, are found here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

Span = tuple[int, int]
"""Start and end of a part of a text."""
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
_WINDOW = 300  # characters before an answer that are searched for the beginning of its sentence
PLACE = (
    r"\b(?:banner|poster|sticker|watermark|caption|overlay|t-?shirt|mug|wall|sign|billboard|note|lettering|text|words?"
    r"|writing|inscription|graffiti|prompt|metadata|exif|qr|barcode|screen|card|plate|badge|tag|print|letter|subtitle"
    r"|bubble|label|line|message)\b"
)
"""Where words stand that are not the judge's."""
_SAYING = (
    "say|state|claim|tell|ask|want|instruct|demand|order|command|request|require|insist|assert|declare|announce|suggest"
    "|write|read|display|print|urge|direct|quote|promise|allege|beg|force|plead|maintain|argue|assure|advertise|propose"
    "|recommend|contend|report|mention|type|inject|decode|produce|spell|paint|stamp|repeat|cite|copy|show|find|found"
    "|put|bear|shout|proclaim"
)
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
_JUDGEMENT = r"(?:ratings?|scores?|grades?|verdicts?|answers?|opinion|judge?ment|assessment|evaluation|conclusion)"
_TASK = (
    r"\b(?:(?:rate[sd]?|grade[sd]?|scored|judge[sd]?|assess(?:ed|es|ing)?|evaluate[sd]?|answered)\b(?!\s+as\b)"
    rf"|{_JUDGEMENT}\b(?![\"'*_`]*\s*(?:is\b|isn|was\b|[:=]|-\s))"
    r"|(?:scor|grad|judg|rat|evaluat|answer)ing\b|(?:comply|decide|conclude|assist|engage)\b|help\b(?!\s+(?:notic|but)))"
)
"""What a judge is to do or to give, and no label before a value."""
_PICTURE = r"(?:images?|pictures?|photo\w*|attachments?|snapshots?|files?|upload)\b"
_ARTICLES = (
    r"(?:(?:the|these|this|that|any|either|both|your|an?|attached|edited|original|source|second|first|one|two|actual"
    r"|provided)\s+)*"
)
_NOT = r"(?:\bnot|n['’]t|\bnever)"
_MAX_CHARACTERS = 20_000  # characters of a reply that are searched
_SENTENCE = re.compile(r"[^\n.!?;]{1,400}(?:[.!?;](?!\s)[^\n.!?;]{0,100}){0,3}[.!?;]?")
_REASONING, _REASONING_END = re.compile(r"<think(?:ing)?>"), re.compile(r"</think(?:ing)?>")
_BOXED = re.compile(r"<\|begin_of_box\|>(.*)<\|end_of_box\|>", re.DOTALL)


def phrases(*alternatives: str) -> re.Pattern[str]:
    """A pattern of any of these."""
    return re.compile("|".join(alternatives), re.IGNORECASE)


# -- quotations -------------------------------------------------------------------------------------------------------


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


_OF_TASK = phrases(_TASK)
_NEGATED = phrases(
    r"\b(?:not|nothing|never|cannot|unable|without|refus\w+|declin\w+|abstain\w*|withdr[ae]w\w*|retract\w*|lack\w*"
    r"|neither|nor|impossible|missing|pending)\b",
    r"n['’]t\b",
    rf"\bno\s+(?:[\w-]+\s+){{0,3}}?{_TASK}",
)
_EXPLANATION = phrases(
    r"\b(?:detect|influence|lower\w*|higher|deduct\w*|reduc\w*|perfect|full|penal\w*|points?|affect\w*|best|highest|top"
    r"|more|less|reason)\b"
)
"""In a sentence that explains a rating: `I cannot rate it higher`."""
_REFUSAL = phrases(
    # It did not get a picture, or asks for one.
    r"(?:\bnot|\b(?:un)?able\s+to|\bability\s+to|\bcannot|n['’]t)\s+(?:\w+\s+){0,2}?(?:view|open|access|process|load|see"
    rf"|analy[sz]e|inspect|look\s+at|read|receive|display|get)\s+{_ARTICLES}{_PICTURE}",
    rf"\bno\s+(?:\w+\s+)?{_PICTURE}\s+(?:(?:was|were|is|are|has|have|had|been|actually)\s+)*(?:attached|provided|supplied"
    r"|given|sent|received|included|uploaded|shown|visible|available|came|arrived|here)",
    rf"\b(?:have|has|see|received|got|are|is|with)\s+no\s+(?:\w+\s+)?{_PICTURE}(?=\s*(?:[.,;!)]|$|to\b|for\b|here\b))",
    rf"\bwithout\s+(?:(?:the|any|an?|seeing)\s+)+(?:\w+\s+)?{_PICTURE}|\bno\s+access\b|\bonly\s+one\s+{_PICTURE}",
    rf"{_PICTURE}\s+(?:is|are|was|were|seems?)\s+(?:\w+\s+)?(?:missing|blank|gone|corrupt\w*|empty|unreadable)"
    r"(?=\s*(?:[.,;:!)]|$|and\b|so\b))",
    rf"\bcorrupt\w*\s+(?:input|data|{_PICTURE})|\b(?:decoding|loading|upload)\s+(?:has\s+)?failed\b",
    rf"{_NOT}\s+(?:\w+\s+)?(?:load(?:ed)?|arrived?|come\s+through)\b",
    rf"{_PICTURE}[^.\n]{{0,20}}{_NOT}\s+(?:\w+\s+)?(?:attached|provided|supplied|included|sent)(?!\s+(?:to|in|with|at)\b)",
    rf"\b(?:send|share|upload|attach|provide|supply|resend)\s+(?:\w+\s+){{0,3}}?{_PICTURE}",
    rf"\bwhich\s+{_PICTURE}[^.?\n]{{0,80}}\?",
    # It says that what stands there is not its rating.
    rf"\b(?:that|this|which|it)\s*(?:['’]s|is|was)\s+(?:\w+\s+)?what\s+(?:\w+\s+)?{PLACE}",
    rf"\baccording\s+to\s+(?:\w+\s+)?{PLACE}|\bas\s+(?:printed|written|stamped)\b|\bcopied\s+from\b|\bnot\s+mine\b",
    r"\b(?:part|end|in|from)\s+(?:of\s+)?(?:the|your|my)\s+(?:\w+['’]s\s+)?prompt\b|^\W*(?:user|human|system)\s*:",
    r"\b(?:placeholder|dumm(?:y|ies)|filled\s+example|not\s+(?:use|take|count)\s+(?:it|this|that|them))\b",
    r"\bwould\s+be\s+(?:misleading|a\s+guess|guess\w*|dishonest|made\s+up|invent\w+)\b",
    r"\b(?:that|this)\s+is\s+how\s+(?:I\s+would|it\s+would|an?)\b|\bend\s+of\s+(?:the\s+)?quot\w+",
    # It takes back what it said, or has said nothing.
    r"\b(?:ignore|disregard)\s+(?:this|the|that|my|what)\b[^.\n]{0,20}\b(?:json|score|rating|answer|above|number|reply"
    r"|value)",
    r"\b(?:strike|scrap|cancel)\s+(?:that|this|it|the)\b|\btake\s+(?:(?:this|that|it|the|my|\w+)\s+){1,2}back\b",
    r"\bI\s+(?:\w+\s+)?(?:abstain|refuse|decline|withdraw|retract)\b|\bI(?:\s+a|['’])m\s+(?:just\s+|only\s+|merely\s+)?"
    r"an?\s+(?:AI|language|text)\b",
    r"(?:\bcould\s+not|\bcouldn['’]t|\bcan\s?not|\bcan['’]t|\bunable\s+to)\s+(?:\w+ly\s+)?"
    r"(?:compare\b|(?:tell|say)\s*(?:[.!,]|$))|\bnothing\s+to\s+say\b|\blabel\s+from\s+me\b",
    rf"\b{_JUDGEMENT}\s*(?:is|are|was|were|:)?\s*(?:not\s+possible|impossible|pending|withheld|withdrawn|unavailable|n/a)\b",
    # The same in other languages.
    r"\b(?:urteil|bewertung|antwort)\s+(?:habe|gebe|kann|geben)\s+ich\s+nicht|\bverweiger\w+|\bBild\w*\s+fehl(?:t|en)",
    r"\bnicht\s+(?:möglich|bewerten|beurteilen|vergleichen|einschätzen|öffnen)|\bunmöglich|\benthalte\s+mich",
    r"\bkein(?:e|en)?\s+(?:bewertung|urteil|antwort|note)\b|\bkan\s+(?:ik\s+)?(?:niet|geen|dit\s+niet)|\bnie\s+mogę",
    r"\bne\s+(?:peux|puis|saurais)|\bm['’]abstiens|\bimpossible\s+d[e'’]|\bpas\s+d['’]image|\bnon\s+(?:posso|riesco)",
    r"\bno\s+(?:puedo|es\s+posible|se\s+puede)|\bme\s+abstengo|\bimposible|\bsin\s+(?:la\s+)?imagen|\bnão\s+(?:posso|consigo)",
    r"не\s+(?:могу|вижу|делаю|буду|удалось)|невозможно|отказ|воздерж|нет\s+(?:изображ|оценк|снимк)|нужен\s+снимок",
    "无法|不能(?:评|打|判|给|回)|没有(?:结论|图|收到|评|看到)|看不到|拒绝|できません|できない|ありません|見えません|見えない",
    r"할\s*수\s*없|없습니다|볼\s*수\s*없|أستطيع|يمكنني|edem|veremiyorum|değerlendiremi|नहीं",
)


@lru_cache(maxsize=16)  # a reply is read more than once
def refuses(text: str) -> bool:
    """Whether a sentence of a reply says so; what a judge cannot see in a picture is no refusal."""
    return any(map(_is_refusal, _SENTENCE.findall(text[:_MAX_CHARACTERS])))


def _is_refusal(sentence: str) -> bool:
    if _EXPLANATION.search(sentence):
        return False
    return bool(_REFUSAL.search(sentence) or (_NEGATED.search(sentence) and _OF_TASK.search(sentence)))


def final_answer(text: str, *, finished: bool = True) -> str:
    """The text after the last `</think>` or `</thinking>` that is not quoted, without space and the box tokens of GLM.
    finished: whether the judge ended its output itself. Raises ValueError where the output was cut off in its
    reasoning: what was cut off may have mentioned the tag.
    """
    ends = list(_REASONING_END.finditer(text))
    quoted = quotations(text) if ends else ()
    start = next((end.end() for end in reversed(ends) if not is_quoted(end.span(), quoted)), 0)
    in_json = finished and text.lstrip()[:1] in ("{", "[")  # a string may mention the tag
    if _REASONING.search(text, start) or (ends and not (start and finished) and not in_json):
        raise ValueError("the output was truncated during reasoning: allow more tokens")
    answer = text[start:].strip()
    boxed = _BOXED.fullmatch(answer)
    return boxed[1].strip() if boxed else answer
