"""Values ("blue", "a sketch") and changes: what becomes what, and the aspect that changes ("the color of the cup")."""

from __future__ import annotations

from dataclasses import dataclass

from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .lexicon import by_word
from .noun_heads import place_at
from .sentences import Tokens, scene_end, text_of, words_in

_WEATHER_NOUNS = word_set(
    "snow rain fog mist storm thunderstorm snowfall night nighttime day daytime dusk dawn sunset sunrise winter "
    "summer spring autumn fall evening morning noon midnight twilight springtime wintertime summertime "
    "nightfall drizzle blizzard"
)
_PROPERTIES = lex.STATES | lex.SIZES | lex.COLORS | lex.MATERIALS | (lex.WEATHER_WORDS - _WEATHER_NOUNS)
_NOUNS = word_set(
    "fabric picnic mechanic comic music plastic ceramic traffic mosaic attic clinic garlic tunic critic antic "
    "topic basic arctic public republic panic logic magic organic octopus handful relic radish british finish "
    "polish dish goldfish starfish jellyfish swordfish fish english"
)
_VIEWPOINTS = word_set("above below behind side front top angle view perspective overhead close-up bottom up shot back")
_OF_VIEWS = word_set(
    "low high wide bird bird's 's eye bird's-eye birds-eye worm's-eye worm worm's aerial overhead top top-down close "
    "frontal first person first-person third third-person different lower higher eye-level level ground left right "
    "of drone dutch the side profile rear"
)
_WEATHER = lex.WEATHER_WORDS | word_set(
    "time heavy light clear bright early late weather day season at very more dark scene golden hour and"
)
_HEAD_ENDS = word_set(
    "with in of on at near by from featuring under over including where that filled surrounded and , during visible"
)
_NO_VALUES = word_set(
    "portray evoke resemble be reflect look show match depict give create have include feature convey appear "
    "become where suit fit represent"
)
_ASPECT_OF = by_word(
    {
        "color": "color colour colors colours hue shade tint tone",
        "material": "material",
        "texture": "texture",
        "count": "number count amount",
        "expression": "expression",
        "pose": "pose posture action",
        "pattern": "pattern print design",
        "shape": "shape",
        "position": "position location",
        "font": "font typeface",
        "size": "size scale",
        "weather": "weather season",
        "style": "style",
        "lighting": "lighting illumination",
        "camera": "angle viewpoint perspective view",
    }
)
_BEFORE = word_set("overall main body exterior base primary facial artistic art")


def plain_text(tokens: Tokens) -> str:
    """The tokens as text without a leading article."""
    start = 1 if tokens and tokens[0].word in lex.ARTICLES else 0
    return text_of(tokens[start:])


def color_value(tokens: Tokens) -> str | None:
    """The colour that all the tokens say, as in "a soft blue" or "a darker shade of gray"."""
    words = words_in(tokens)
    words = words[1:] if words and words[0] in lex.ARTICLES else words
    if not words or len(words) > 9:
        return None
    if words[:1] in (["color"], ["colour"]) and len(words) > 1:
        words = words[1:]
        tokens = tokens[len(tokens) - len(words) :]
    elif tokens[0].word in ("a", "an") and len(words) == 1 and words[0] in lex.OBJECT_COLORS:
        return None
    has_color = any(word in lex.COLORS or _is_compound_color(word) for word in words)
    is_shade = words[-1] in lex.COLOR_NOUNS and words[0] in lex.COLOR_MODIFIERS and len(words) <= 4
    if not (has_color or is_shade) or words[-1] in ("of", "and", "in") or words[0] in ("of", "and"):
        return None
    known = lex.COLORS | lex.COLOR_MODIFIERS | lex.COLOR_NOUNS | {"of", "and", "a", "the", "in", ",", "finish", "with"}
    if not all(word in known or _is_compound_color(word) for word in words):
        return None
    if has_color and words[-1] not in lex.COLORS | lex.COLOR_NOUNS | {"finish"} and not _is_compound_color(words[-1]):
        return None
    if words[-2:] == ["in", "color"] and len(words) > 2:
        tokens = tokens[:-2]
    elif words[-1] in ("color", "colour") and len(words) > 1 and words[-2] in lex.COLORS:
        tokens = tokens[:-1]
    return plain_text(tokens)


def _is_compound_color(word: str) -> bool:
    parts = word.split("-")
    return len(parts) > 1 and parts[-1] in lex.COLORS


def material_value(tokens: Tokens) -> str | None:
    """The material that all the tokens say, as in "(made) (out) of white porcelain"; None for a thing of it."""
    words = words_in(tokens)
    start = 0
    while start < len(words) and words[start] in ("made", "out", "of", "from", "be", "entirely", "completely"):
        start += 1
    rest = words[start:]
    if not rest or len(rest) > 4 or rest[-1] not in lex.MATERIALS:
        return None
    if not start and rest[0] in lex.ARTICLES:
        return None
    known = lex.MATERIALS | lex.COLORS | lex.COLOR_MODIFIERS | lex.STATES | {"solid", "and"}
    return text_of(tokens[start:]) if all(word in known for word in rest) else None


def state_value(tokens: Tokens, *, open_ended: bool = True) -> str | None:
    """The property that all the tokens say, as in "slightly older". open_ended: adjectives by their endings, too."""
    words = words_in(tokens)
    core = [word for word in words if word not in lex.DEGREES and word not in ("and", ",")]
    if not 0 < len(core) <= 4 or words[-1] in (lex.DEGREES - {"all"}) | {"and"} or words[0] in ("a", "and"):
        return None
    return text_of(tokens) if all(is_adjective(word, open_ended=open_ended) for word in core) else None


def is_adjective(word: str, *, open_ended: bool = True) -> bool:
    """Whether a word is a property: listed, or by its ending."""
    if word in _PROPERTIES:
        return True
    return open_ended and len(word) > 5 and word.endswith(lex.ADJECTIVE_ENDINGS) and word not in _NOUNS


def is_style(tokens: Tokens) -> bool:
    """Whether tokens name a look of a whole picture: "a watercolor painting", "pixel art", "the style of Van Gogh"."""
    words = [word for word in words_in(tokens) if word not in lex.ARTICLES]
    if not words or len(words) > 14 or _has_request_word(words) or is_praise(words):
        return False
    if words[0] in ("style", "manner") and words[1:2] == ["of"]:
        return len(words) > 2
    for index, word in enumerate(words):
        if word == "of" and index and words[index - 1] not in ("style", "manner"):
            return False  # "a painting of a dog" has another content
        if word in ("by", "of", "in", "from", "with", "on"):
            return index > 0 and words[index - 1] in lex.STYLE_HEADS | lex.STYLE_NOUNS
    return words[-1] in lex.STYLE_HEADS or (words[-1] in lex.STYLE_NOUNS and len(words) <= 3)


def is_praise(words: list[str]) -> bool:
    """Whether words only say that a picture is good: "a professional photo", "better"."""
    core = [word for word in words if word not in lex.DEGREES | lex.ARTICLES and word != "looking"]
    core = core[:-1] if core[-1:] and core[-1] in lex.SCENES | {"look", "style", "aesthetic", "appearance"} else core
    return bool(core) and set(core) <= lex.QUALITIES


def is_viewpoint(tokens: Tokens) -> bool:
    """Whether tokens say where a camera is: "above", "a low angle", "a bird's eye view"."""
    words = [word for word in words_in(tokens) if word not in lex.ARTICLES]
    return bool(words) and len(words) <= 5 and words[-1] in _VIEWPOINTS and set(words) <= _VIEWPOINTS | _OF_VIEWS


def is_filter(tokens: Tokens) -> bool:
    """Whether tokens name a filter: "black and white", "sepia tones"."""
    words = [word for word in words_in(tokens) if word not in lex.ARTICLES]
    if words[-1:] and words[-1] in ("photo", "photograph", "image", "picture", "tone", "tones", "filter", "version"):
        words = words[:-1]
    return words == ["black", "and", "white"] or (len(words) == 1 and words[0] in lex.FILTERS)


def is_weather(tokens: Tokens) -> bool:
    """Whether tokens name weather, a season or a time of day."""
    words = [word for word in words_in(tokens) if word not in lex.ARTICLES and word not in ("this", "that")]
    return 0 < len(words) <= 4 and not lex.WEATHER_WORDS.isdisjoint(words) and set(words) <= _WEATHER


def head_of(words: list[str]) -> str:
    """The last word of the noun phrase that words begin with."""
    end = next((index for index, word in enumerate(words) if word in _HEAD_ENDS and index > 0), len(words))
    if words[end : end + 1] in (["and"], [","]) and words[end - 1] not in lex.SCENERY | lex.BACKGROUND_NOUNS:
        rest = words[end + 1 :]
        return head_of(rest) if rest else ""
    return words[end - 1] if words else ""


def starts_value(tokens: Tokens) -> bool:
    """Whether tokens may be a value: they do not begin with a verb."""
    return bool(tokens) and tokens[0].word not in _NO_VALUES


def _has_request_word(words: list[str]) -> bool:
    refused = lex.AUXILIARIES | lex.FIRST_AND_SECOND_PERSON | (lex.CONJUNCTIONS - {"and", "or", "that", "where"})
    verbs = word_set("remove delete erase add replace extract make keep insert eliminate change give")
    return not (refused | verbs).isdisjoint(words)


def is_description(tokens: Tokens, most: int = 45) -> bool:
    """Whether tokens only describe: no quoted text, no request, nobody addressed."""
    return (
        len(tokens) <= most and not any(token.is_quote for token in tokens) and not _has_request_word(words_in(tokens))
    )


@dataclass(frozen=True, slots=True)
class Change:
    """old becomes new. source: what it was before, as in "from summer"."""

    old: Tokens
    new: Tokens
    source: Tokens | None = None


def change_of(tokens: Tokens) -> Change | None:
    """Split at the "to" or "into" that leads to what is new; None without one."""
    words = words_in(tokens)
    for index, word in enumerate(words):
        if tokens[index].is_quote or word not in ("to", "into"):
            continue
        if word == "to" and is_part_of_place(tokens, index):
            continue
        old, new = tokens[:index], tokens[index + 1 :]
        source = None
        for start in range(1, len(old)):
            if old[start].word == "from" and scene_end(old, start) is None and place_at(old, start) is None:
                old, source = old[:start], old[start + 1 :]
                break
        return Change(old, new, source)
    return None


def is_part_of_place(tokens: Tokens, index: int) -> bool:
    """Whether the "to" at an index leads to no value: "next to", "to the left of"."""
    if tokens[index].word != "to":
        return False
    before = tokens[index - 1].word if index else ""
    if before in ("next", "close", "adjacent", "attached", "closest"):
        return True
    after = words_in(tokens[index + 1 : index + 5])
    if after[:1] == ["the"]:
        after = after[1:]
    return index > 0 and after[:1] in (["left"], ["right"]) and (after[1:2] == ["of"] or after[1:3] == ["side", "of"])


@dataclass(frozen=True, slots=True)
class Aspect:
    """A property of an object, as in "the color of the cup". owner: tokens of the object; empty for the picture."""

    name: str
    owner: Tokens
    loose: bool = False


def aspect_of(tokens: Tokens) -> Aspect | None:
    """The aspect that tokens name, and whose it is; None where they name an object."""
    words = words_in(tokens)
    end = len(tokens)
    for size in (5, 4, 3):
        if end > size and scene_end(tokens, end - size) == end:
            end -= size
            break
    start = 1 if words and words[0] in lex.ARTICLES else 0
    if words[start : start + 3] == ["time", "of", "day"] and end == start + 3:
        return Aspect("time", ())
    lead = start
    while lead < end and words[lead] in _BEFORE | {"surface", "facial"}:
        lead += 1
    if lead < end and words[lead] in _ASPECT_OF and words[lead + 1 : lead + 2] == ["of"]:
        loose = lead > start
        return Aspect(_ASPECT_OF[words[lead]], tokens[lead + 2 :], loose)
    for index in range(lead + 1, end - 1):
        if words[index] in lex.PREPOSITIONS:
            break
        if words[index] in _ASPECT_OF and words[index + 1] == "of":  # "the hair color of the woman"
            return Aspect(_ASPECT_OF[words[index]], [*tokens[start:index], *tokens[index + 1 :]])
    if words[start:end] and words[end - 1] in _ASPECT_OF and end - 1 >= start:
        name = _ASPECT_OF[words[end - 1]]
        owner = list(tokens[: end - 1])
        loose = False
        while owner and owner[-1].word in ("facial", "fabric", "surface", "floral", "skin") and len(owner) > 2:
            if owner[-1].word in ("skin", "fabric"):
                break
            loose = True
            owner.pop()
        if owner and owner[-1].word in ("'s", "'"):
            owner.pop()
        if [token.word for token in owner] in ([word] for word in lex.DETERMINERS - lex.POSSESSIVES):
            owner = []
        if name == "camera":
            return Aspect(name, ()) if {token.word for token in owner} <= {"camera", "viewing", "the"} else None
        if name in ("pattern", "style", "count", "pose") and not owner:
            return None if name in ("pattern", "count") else Aspect(name, ())
        if end < len(tokens) and owner:
            owner = [*owner, *tokens[end:]]
        return Aspect(name, owner, loose)
    return None
