"""The colours of the whole picture: a cast that it has or gets ("the blue hue"), and how vivid they are ("pop")."""

from __future__ import annotations

from dataclasses import replace

from ...edit_plan import Target
from .gifts import look_given
from .lexicon import ARTICLES, BACKGROUND_NOUNS, CASTS, COLOR_MODIFIERS, COLORS, DEGREES, VERBS, word_set
from .places import scene_end
from .request import Operations, Request
from .tokens import Tokens, text_of, words_in

_STRENGTHS = word_set("overall slight strong subtle faint")
_WARMTH = word_set("warm warmer cool cooler cold colder sepia")
_TAKEN = (VERBS["remove"] | word_set("correct fix neutralize neutralise take")) | {
    *("get rid of", "take out", "take away", "take off", "edit out", "photoshop out")
}
_GIVEN = VERBS["apply"] | VERBS["put"] | VERBS["add"]
_OF_DEGREE = VERBS["degree"] | {"lessen", "strengthen", "intensify"}


def names_cast(tokens: Tokens) -> bool:
    """Whether tokens begin with a colour cast: "the blue hue", "a warm tone", "the color cast"."""
    return _cast_end(tokens) > 0


def _cast_end(tokens: Tokens) -> int:
    """The index after the cast; 0 without one."""
    words = words_in(tokens)
    start = 1 if words[:1] and words[0] in ARTICLES | {"this", "that", "some"} else 0
    end = next((index for index, word in enumerate(words) if word in CASTS), 0)
    before = [word for word in words[start:end] if word not in DEGREES | _STRENGTHS]
    if not before or not all(_is_shade(word) for word in before):
        return 0
    has_color = any(word in COLORS or word in _WARMTH or word.endswith("ish") for word in before)
    if words[end] == "cast":
        has_color = before in (["color"], ["colour"]) or (has_color and before != ["white"])  # of plaster
    return end + 1 if has_color else 0


def _is_shade(word: str) -> bool:
    is_color = word in COLORS or word in _WARMTH or word in ("color", "colour", "and")
    return is_color or word in COLOR_MODIFIERS or word.endswith("ish") or word.rsplit("-", maxsplit=1)[-1] in COLORS


def cast_changed(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`remove the blue hue (out of the picture)`, `add a teal tone (to the photo)`, `reduce the red tint`."""
    end = _cast_end(tokens)
    cast, rest = tokens[1 if tokens[0].word in ARTICLES else 0 : end], tokens[end:]
    degree = words_in(rest)
    if degree[-1:] in (["out"], ["away"]) and verb == "take":
        rest = rest[:-1]
    while rest and rest[-1].word in ("bit", "little", "slightly", "a", "lot"):
        rest = rest[:-1]
    words = text_of(cast)
    if verb in _TAKEN:
        value = f"without {words}"
    elif verb in _OF_DEGREE:
        value = f"{verb} {words}"
    elif verb in _GIVEN:
        value = words
    else:
        return None
    if not rest or _is_of_scene(rest, request):
        return request.operation("filter", value=value)
    owner = request.target(rest[1:]) if rest[0].word in ("to", "from", "of", "in", "on", "over", "off") else None
    if owner is None:
        return None
    if owner.target.noun in BACKGROUND_NOUNS and owner.target == Target(owner.target.noun):
        return request.operation("filter", target=owner.target, value=value)
    if verb not in _GIVEN:
        return None  # "remove the red tint from the wall": what colour it has then is not said
    color = [token for token in cast if token.word not in _STRENGTHS]
    return look_given(replace(owner, loose=owner.loose or len(color) < len(cast)), color, request)


def _is_of_scene(tokens: Tokens, request: Request) -> bool:
    """Whether tokens say "of the picture"; "on", "over" and "across" it as well, and without an article."""
    return scene_end(tokens, 0) == len(tokens) or (
        tokens[0].word in ("to", "in", "on", "over", "across", "from", "throughout") and request.is_scene(tokens[1:])
    )


# -- how vivid they are ------------------------------------------------------------------------------------------------

_PROMINENT = (["pop"], ["pop", "out"], ["stand", "out"], ["stick", "out"])
_ENHANCED = word_set("enhance boost intensify improve") | {"bring out"}


def names_colors(tokens: Tokens, request: Request) -> bool:
    """Whether tokens are the colours of the picture: "the colors", "all colours in the image"."""
    words = words_in(tokens)
    while words and words[0] in ("the", "all", "its", "these", "of", "overall"):
        words, tokens = words[1:], tokens[1:]
    return words[:1] in (["colors"], ["colours"]) and (len(words) == 1 or _is_of_scene(tokens[1:], request))


def is_prominence(words: list[str]) -> bool:
    """Whether words say that something shall catch the eye: "(really) pop (more)"."""
    return [word for word in words if word not in _HOW_MUCH] in _PROMINENT


_HOW_MUCH = DEGREES | {"really", "lot"}


def colors_made_vivid(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`make the colors pop (out)`, `bring out the colors`; None for anything else, and for a sky that shall pop."""
    words = words_in(tokens)
    start = next((index for index, word in enumerate(words) if index and word in ("pop", "stand", "stick")), len(words))
    while start > 1 and words[start - 1] in _HOW_MUCH:
        start -= 1
    is_made = verb == "make" and is_prominence(words[start:])
    is_vivid = names_colors(tokens[:start], request) and (is_made or (verb in _ENHANCED and start == len(words)))
    return request.operation("filter", value="more vivid") if is_vivid else None
