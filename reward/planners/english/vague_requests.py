"""Requests that shall make a picture better, and do not say what is to be seen: nothing can be checked."""

from __future__ import annotations

from .clauses import clauses_of, is_scene
from .lexicon import LOOKING, word_set
from .picture_colors import is_prominence
from .tokens import Tokens, words_in
from .values import is_praise


def is_vague(tokens: Tokens) -> bool:
    """Whether a part of a sentence asks for a better picture only, as in "make it look more professional"."""
    return any(clause.kind == "request" and _is_vague(clause.tokens) for clause in clauses_of(tokens))


def _is_vague(tokens: Tokens) -> bool:
    words = words_in(tokens)
    if words[:1] and words[0] in _BETTERED:
        after = words_in(tokens[1:])
        return _names_picture(tokens[1:]) or (after[:3] == ["the", "quality", "of"] and _names_picture(tokens[4:]))
    if words[:1] not in (["make"], ["give"], ["have"], ["let"], ["get"]):
        return False
    for end in range(2, min(5, len(words))):
        value = words[end:]
        if value[0] in LOOKING | {"be"}:
            value = value[1:]
        value = value[1:] if value[:1] == ["like"] else value
        if _names_picture(tokens[1:end]) and (is_praise(value) or is_prominence(value)):
            return True
    return False


def _names_picture(tokens: Tokens) -> bool:
    return is_scene(tokens) or words_in(tokens) in (["it"], ["this"])


_BETTERED = word_set("improve fix enhance edit beautify retouch perfect polish better upgrade")
