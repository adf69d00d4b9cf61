"""Whether a judge refuses to rate, has nothing to rate, or takes back what it said."""

from __future__ import annotations

import re
from functools import lru_cache

from .reported_speech import PLACE, phrases

_JUDGEMENT = r"(?:ratings?|scores?|grades?|verdicts?|answers?|opinion|judge?ment|assessment|evaluation|conclusion)"
_TASK = (
    r"\b(?:(?:rate[sd]?|grade[sd]?|scored|judge[sd]?|assess(?:ed|es|ing)?|evaluate[sd]?|answered)\b(?!\s+as\b)"
    rf"|{_JUDGEMENT}\b(?![\"'*_`]*\s*(?:is\b|isn|was\b|[:=]|-\s))"
    r"|(?:scor|grad|judg|rat|evaluat|answer)ing\b|(?:comply|decide|conclude|assist|engage)\b|help\b(?!\s+(?:notic|but)))"
)
"""What a judge is to do or to give, and no label before a value."""
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

_PICTURE = r"(?:images?|pictures?|photo\w*|attachments?|snapshots?|files?|upload)\b"
_ARTICLES = (
    r"(?:(?:the|these|this|that|any|either|both|your|an?|attached|edited|original|source|second|first|one|two|actual"
    r"|provided)\s+)*"
)
_NOT = r"(?:\bnot|n['’]t|\bnever)"
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

_MAX_CHARACTERS = 20_000
"""Characters of a reply that are searched."""
_SENTENCE = re.compile(r"[^\n.!?;]{1,400}(?:[.!?;](?!\s)[^\n.!?;]{0,100}){0,3}[.!?;]?")


@lru_cache(maxsize=16)  # a reply is read more than once
def refuses(text: str) -> bool:
    """Whether a sentence of a reply says so; what a judge cannot see in a picture is no refusal."""
    return any(map(_is_refusal, _SENTENCE.findall(text[:_MAX_CHARACTERS])))


def _is_refusal(sentence: str) -> bool:
    if _EXPLANATION.search(sentence):
        return False
    return bool(_REFUSAL.search(sentence) or (_NEGATED.search(sentence) and _OF_TASK.search(sentence)))
