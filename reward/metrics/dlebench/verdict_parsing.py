"""Parsing of the verdict in a judge's reply. An ambiguous verdict is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...queries.parsing import shorten
from ...queries.refusals import refuses
from ...queries.reported_speech import is_asserted, is_quoted, quotations
from .labels import LabelScale

_THINK = re.compile(
    r"(?P<open><\s*Start\s+Thinking\s*>)|<\s*(?:/\s*(?:Start\s+|End\s+)?|End\s+)Thinking\s*>", re.IGNORECASE
)
_VERDICT = r"<\s*Start\s+Final\s+Answer\s*>"
_VERDICT_END = r"<\s*(?:/\s*(?:Start\s+|End\s+)?|End\s+)Final\s+Answer\s*>"
_CALL, _CALL_END = r"<\s*tool_call\s*>", r"<\s*/\s*tool_call\s*>"
_ACT = re.compile(rf"{_VERDICT}|{_CALL}", re.IGNORECASE)
_WHOLE_ACT = re.compile(rf"{_VERDICT}.*?{_VERDICT_END}|{_CALL}.*?{_CALL_END}", re.IGNORECASE | re.DOTALL)

VERDICT = re.compile(
    rf"{_VERDICT}(.*?)(?:{_VERDICT_END}|{_VERDICT}(?=\s*\Z)|(?={_VERDICT})|\Z)", re.IGNORECASE | re.DOTALL
)
"""A tagged verdict; at the end of the reply its closing tag may be missing, or be the opening one again."""

_LAST_VERDICT_END = re.compile(rf"{_VERDICT_END}\s*\Z", re.IGNORECASE)


def without_thinking(text: str) -> str:
    """The text with its reasoning replaced by blanks, so that positions stay valid.

    A reply may begin within the reasoning (a closing tag alone), or leave it open: then a call or verdict in it counts
    only if it is the only one and ends the reply; else the reasoning may merely mention it.
    """
    kept = list(text)
    thinking_since: int | None = None
    opened = False
    quoted = quotations(text)
    for tag in _THINK.finditer(text):
        if is_quoted(tag.span(), quoted):
            continue
        if tag["open"]:
            thinking_since = tag.start() if thinking_since is None else thinking_since
            opened = True
        elif thinking_since is not None or not opened:
            _blank(kept, thinking_since or 0, tag.end())
            thinking_since, opened = None, True
        else:
            _blank(kept, tag.start(), tag.end())
    if thinking_since is not None:
        act = _ACT.search(text, thinking_since)
        complete_act = _WHOLE_ACT.fullmatch(text[act.start() :].rstrip()) if act else None
        is_only_act = complete_act is not None and len(_ACT.findall(complete_act[0])) == 1
        _blank(kept, thinking_since, act.start() if act is not None and is_only_act else len(text))
    return "".join(kept)


def _blank(kept: list[str], start: int, end: int) -> None:
    kept[start:end] = ["\n" if letter == "\n" else " " for letter in kept[start:end]]


def parse_verdict(scale: LabelScale, text: str) -> str:
    """The label of a reply's verdict. Raises ValueError with the reason if it is ambiguous.

    It is the content of `<Start Final Answer>…</Start Final Answer>`, or without the opening tag the last line, which a
    closing one may end. Reasoning does not count. Two labels, a label within a sentence, and another label after the
    verdict are ambiguous.
    """
    visible = without_thinking(text)
    tagged = list(VERDICT.finditer(visible))
    label = _parse_tagged(scale, visible, tagged) if tagged else _parse_untagged(scale, visible)
    if refuses(visible):
        raise ValueError(f"it refuses to answer: {shorten(visible.strip())}")
    quoted = quotations(visible)
    if reported := [tag for tag in tagged if is_quoted(tag.span(), quoted) or not is_asserted(visible[: tag.start()])]:
        raise ValueError(f"its final answer is quoted or reported: {shorten(reported[0][0])}")
    return label


def _parse_tagged(scale: LabelScale, visible: str, tagged: Sequence[re.Match[str]]) -> str:
    labels = [scale.parse_exact(tag[1]) for tag in tagged]
    label = labels[0]
    if label is None or None in labels:
        content = next(tag[1] for tag, parsed in zip(tagged, labels, strict=True) if parsed is None)
        raise ValueError(f"its final answer was to be one of {scale} alone, and was {shorten(content.strip())}")
    if others := (set(labels) | scale.labels_in(visible[tagged[-1].end() :])) - {label}:
        raise ValueError(f"it gives two different verdicts, {label} and {', '.join(sorted(map(str, others)))}")
    return label


def _parse_untagged(scale: LabelScale, visible: str) -> str:
    lines = [line for line in _LAST_VERDICT_END.sub("", visible).splitlines() if line.strip()]
    label = scale.parse_exact(lines[-1]) if lines else None
    if label is None:
        last_line = shorten(lines[-1].strip()) if lines else "nothing"
        raise ValueError(
            f"it has no <Start Final Answer>, and its last line is {last_line} and not one of {scale} alone"
        )
    if others := {parsed for line in lines if (parsed := scale.parse_exact(line))} - {label}:
        raise ValueError(f"it gives two different verdicts, {label} and {', '.join(sorted(others))}")
    return label
