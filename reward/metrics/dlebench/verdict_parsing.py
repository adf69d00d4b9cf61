"""Where the verdict stands in a judge's reply, and which label it is. What is not clear is not read."""

from __future__ import annotations

import re

from ..reading import short
from .labels import Scale

_THINK = re.compile(
    r"(?P<open><\s*Start\s+Thinking\s*>)|<\s*(?:/\s*(?:Start\s+|End\s+)?|End\s+)Thinking\s*>", re.IGNORECASE
)
_VERDICT = r"<\s*Start\s+Final\s+Answer\s*>"
_VERDICT_END = r"<\s*(?:/\s*(?:Start\s+|End\s+)?|End\s+)Final\s+Answer\s*>"
_CALL, _CALL_END = r"<\s*tool_call\s*>", r"<\s*/\s*tool_call\s*>"
_ACT = re.compile(rf"{_VERDICT}|{_CALL}", re.IGNORECASE)
_WHOLE_ACT = re.compile(rf"{_VERDICT}.*?{_VERDICT_END}|{_CALL}.*?{_CALL_END}", re.IGNORECASE | re.DOTALL)

VERDICT = re.compile(rf"{_VERDICT}(.*?)(?:{_VERDICT_END}|(?={_VERDICT})|\Z)", re.IGNORECASE | re.DOTALL)
"""A tagged verdict; its end may be missing where the reply ends."""


def without_thinking(text: str) -> str:
    """The text with blanks for what is thought, so that places in it stay places in the text.

    A reply may begin amid its thoughts (a closing tag alone), and forget to close them: then it has acted only if the
    first call or verdict in them is also the last of the reply; else it may only be talking about one.
    """
    kept = list(text)
    thinking_since: int | None = None
    opened = False
    for tag in _THINK.finditer(text):
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
        whole = _WHOLE_ACT.fullmatch(text[act.start() :].rstrip()) if act else None
        alone = whole is not None and len(_ACT.findall(whole[0])) == 1
        _blank(kept, thinking_since, act.start() if act is not None and alone else len(text))
    return "".join(kept)


def _blank(kept: list[str], start: int, end: int) -> None:
    kept[start:end] = ["\n" if letter == "\n" else " " for letter in kept[start:end]]


def said_verdict(scale: Scale, text: str) -> str:
    """The label that a reply gives for its verdict. Raises ValueError, with what is wrong, where that is not clear.

    It stands in `<Start Final Answer>…</Start Final Answer>`; without such a tag it is the whole last line. Thoughts do
    not count. Two labels, a label in a sentence, and another label named behind the verdict are not clear.
    """
    said = without_thinking(text)
    tagged = list(VERDICT.finditer(said))
    if not tagged:
        return _untagged(scale, said)
    labels = [scale.exactly(tag[1]) for tag in tagged]
    label = labels[0]
    if label is None or None in labels:
        content = next(tag[1] for tag, found in zip(tagged, labels, strict=True) if found is None)
        raise ValueError(f"its final answer was to be one of {scale} alone, and was {short(content.strip())}")
    if others := (set(labels) | scale.named(said[tagged[-1].end() :])) - {label}:
        raise ValueError(f"it gives two different verdicts, {label} and {', '.join(sorted(map(str, others)))}")
    return label


def _untagged(scale: Scale, said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    label = scale.exactly(lines[-1]) if lines else None
    if label is None:
        last = short(lines[-1].strip()) if lines else "nothing"
        raise ValueError(f"it has no <Start Final Answer>, and its last line is {last} and not one of {scale} alone")
    if others := {found for line in lines if (found := scale.exactly(line))} - {label}:
        raise ValueError(f"it gives two different verdicts, {label} and {', '.join(sorted(others))}")
    return label
