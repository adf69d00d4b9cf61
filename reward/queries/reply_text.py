"""The answer in a judge's output, without its reasoning."""

from __future__ import annotations

import re

from .reported_speech import is_quoted, quotations

_REASONING, _REASONING_END = re.compile(r"<think(?:ing)?>"), re.compile(r"</think(?:ing)?>")
_BOXED = re.compile(r"<\|begin_of_box\|>(.*)<\|end_of_box\|>", re.DOTALL)


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
