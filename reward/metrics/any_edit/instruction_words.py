"""The words of an instruction: clauses, quoted texts, stems. Everything here takes time linear in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from ...edit_plan import OPERATION_TYPES, OperationType


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


FUNCTION_WORDS = _set(
    "a an the this that these those it its they them their there he him his she her hers i me my we us our you your "
    "one ones who whose which what where when how of to in on at with from by for into onto as like than via upon "
    "within off out up down over through across along toward towards around about or and but then also so such too "
    "just now next finally first please can could would should will shall may might must want wish need let lets is "
    "are was were be been being do does done did have has had having not no only very more most some any other "
    "another if while during after before until since because instead rather same new whole entire entirely "
    "completely fully slightly little bit lot much well either place pair get rid take see again they're possible "
    "pls plz thanks thank thx cheers advance hello many hey hi kindly give away i'd i'm it's let's that's there's who's"
)
LARGE_WORDS, SMALL_WORDS = _set("bigger biggest larger largest"), _set("smaller smallest tinier tiniest")
"""They say which of several is meant, or how one is to become."""
SCENE_WORDS = _set("image images picture pictures photo photos photograph photographs scene shot frame")
REQUEST_WORDS = _set("edit edited version result look looks looking appear appears seem seems become style effect")
"""They say that something is requested, not what."""

KEEP_WORDS = _set(
    "keep keeping preserve preserving maintain maintaining retain retaining remain remains leave leaving unchanged "
    "untouched intact unaltered"
)
WITHOUT_WORDS = _set("changing altering affecting touching modifying disturbing moving removing")
"""After "without": something must stay."""
REST_WORDS = _set("everything else rest other others remaining all")
ALL_WORDS = _set("all both every each everything")
ASPECT_WORDS = _set("background face identity layout composition light lighting style text object objects")
"""What may be kept of a whole picture."""

TEXT_CARRIERS = _set(
    "text word letter caption title logo label sign signpost signboard poster banner billboard placard book magazine "
    "newspaper menu map card postcard ticket receipt bill banknote document page notebook calendar chalkboard "
    "blackboard whiteboard screen monitor laptop phone television keyboard clock watch plate jersey bottle can box "
    "package packaging brand shop store market street city storefront graffiti comic meme subtitle watermark writing "
    "inscription handwriting number"
)
"""Things that carry text by nature."""
GENERIC_TEXT_NAMES = _set("text word letter lettering writing inscription handwriting")
"""A text by what it is: without a place, all that there is."""
TEXT_NAMES = GENERIC_TEXT_NAMES | {
    *_set("caption subtitle watermark timestamp datestamp date signature headline slogan credit"),
    *("date stamp", "time stamp", "date imprint"),
}
"""A text by what it is or what it is for; not what carries one."""

# -- verbs of editing --------------------------------------------------------------------------------------------------

VERBS: Mapping[str, str] = MappingProxyType(
    {
        "remove": "remove delete erase eliminate clear discard",
        "replace": "replace swap substitute exchange",
        "move": "move shift relocate reposition position slide",
        "write": "write type print inscribe label engrave",
        "rotate": "rotate flip tilt mirror",
        "resize": "resize enlarge shrink scale widen",
        "duplicate": "duplicate copy clone multiply",
        "crop": "crop trim",
        "zoom": "zoom",
        "extract": "extract isolate",
        "restore": "restore repair denoise deblur sharpen colorize colourize upscale",
        "light": "brighten darken illuminate dim lighten",
        "filter": "blur soften stylize pixelate",
        "add": "add insert put place draw paint include create introduce give overlay sprinkle scatter hang generate",
        "": "change alter modify convert transform turn make set adjust update recolor recolour dye tint color colour "
        "apply use show render depict have let redo fix improve enhance restyle switch vary",
    }
)
"""Group -> its verbs. The last group says nothing about the kind of change."""
LEADING_WORDS = _set("please also now finally next first just to can could would you i we want like need so")
"""Words that may stand before the verb of a request."""
NOT_LEADING = _set(
    "including painting paint drawing printing print label mirror position color colour coloring colouring slide scale "
    "dye tint type show switch clear have having let trim clone copy"
)
"""Forms of verbs of editing that are nouns or adjectives as often."""

_REMOVING = "subject_remove text_remove effect_remove particles_remove extraction crop"
GROUP_TYPES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "remove": _set(
            "subject_remove text_remove effect_remove particles_remove count_change restoration extraction attribute "
            "background_change subject_replace text_change weather filter"
        ),
        "replace": _set(
            "subject_replace text_change background_change material_alter color_alter attribute weather style pose "
            "expression"
        ),
        "move": _set("position_change pose camera reframe"),
        "write": _set("text_change text_style"),
        "rotate": _set("rotate pose camera"),
        "resize": _set("resize zoom crop reframe attribute"),
        "duplicate": _set("duplicate count_change subject_add"),
        "crop": _set("crop reframe zoom subject_remove"),
        "zoom": _set("zoom crop reframe camera"),
        "extract": _set("extraction background_change subject_remove"),
        "restore": _set("restoration filter effect_remove style light"),
        "light": _set("light filter color_alter weather style restoration"),
        "filter": _set("filter style effect_add light restoration"),
        "add": frozenset(OPERATION_TYPES) - _set(_REMOVING),
        "": frozenset(OPERATION_TYPES),
    }
)
"""Group of verbs -> types of operations that they may ask for, beside `CATCH_ALL_TYPES`."""
CATCH_ALL_TYPES: frozenset[OperationType] = frozenset(("reasoning", "composition", "other"))

TYPE_WORDS: Mapping[OperationType, frozenset[str]] = MappingProxyType(
    {
        "color_alter": _set("color hue shade tone"),
        "material_alter": _set("material texture surface made"),
        "count_change": _set("count number amount total"),
        "position_change": _set("position location side spot"),
        "subject_add": _set("object side"),
        "subject_remove": _set("object away"),
        "subject_replace": _set("object"),
        "text_change": _set("text word letters lettering sign writing written saying says reading caption"),
        "background_change": _set("background backdrop setting environment"),
    }
)
"""Words that the type of an operation accounts for."""

# -- places and numbers ------------------------------------------------------------------------------------------------

_PLACES = {
    "left": "left leftmost",
    "right": "right rightmost",
    "above": "above top upper uppermost topmost",
    "below": "below under beneath underneath bottom lower",
    "center": "center centre middle",
    "front": "front foreground forefront",
    "back": "back background rear",
    "beside": "beside next near adjacent",
}
PLACE_GROUPS: Mapping[str, str] = MappingProxyType(
    {word: group for group, words in _PLACES.items() for word in words.split()}
)
"""Word of a place -> group of words of one meaning."""

_NUMBERS = {2: "two second twice", 3: "three third", 4: "four fourth", 5: "five fifth", 6: "six", 7: "seven"}
_NUMBERS |= {8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}
NUMBERS: Mapping[str, int] = MappingProxyType(
    {word: number for number, words in _NUMBERS.items() for word in words.split()}
)

IRREGULAR_PLURALS = _set(
    "people men women children feet geese mice teeth policemen firemen fishermen snowmen businessmen businesswomen"
)
NO_PLURALS = _set(
    "glasses sunglasses eyeglasses goggles binoculars scissors pliers tongs pants trousers jeans shorts leggings "
    "tights pajamas pyjamas headphones earphones clothes stairs lens canvas atlas gas christmas series species"
)
"""Plurals of one thing, and singulars that end in s."""
MASS_NOUNS = _set(
    "text writing lettering graffiti snow ice grass foliage vegetation litter trash garbage rubbish debris clutter "
    "dirt mud dust rust smoke fog mist water furniture luggage traffic food jewelry jewellery"
)
"""What is not counted: it means all that is there."""

SPELLINGS: Mapping[str, str] = MappingProxyType(
    {"colour": "color", "colours": "color", "coloured": "color", "grey": "gray", "centre": "center", "metre": "meter"}
)
"""British spelling -> American."""


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_MARK = re.compile(r"[,;:.!?，；：。！？]")  # noqa: RUF001  (of Chinese)
_OPENING = "\"'“‘«「『„"  # noqa: RUF001
_CLOSING: Mapping[str, str] = MappingProxyType(dict(zip(_OPENING, "\"'”’»」』“", strict=True)))
_QUOTE = re.compile(f"[{_OPENING}]")
_APOSTROPHES = "'‘’"  # noqa: RUF001


def collapsed(text: str) -> str:
    """The text with single blanks, and with compatibility characters, such as full-width letters, replaced."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def words_of(text: str) -> list[str]:
    """The words and numbers of a text, in lower case; a run of letters of a script without blanks is one word."""
    return [word.casefold().replace("’", "'") for word in _WORD.findall(text)]


def clauses_of(sentence: str) -> list[list[str]]:
    """The words of the parts of a sentence between punctuation marks and the words "and", "then", "while", "but"."""
    clauses: list[list[str]] = []
    for part in _MARK.split(sentence):
        clauses.append([])
        for word in words_of(part):
            if word in ("and", "then", "while", "but"):
                clauses.append([])
            else:
                clauses[-1].append(word)
    return [clause for clause in clauses if clause]


def split_quotes(sentence: str) -> tuple[str, list[str]]:
    """A sentence with quoted texts blanked out, and these texts. Quotes around the whole sentence are none.

    Single quotes open after a blank or a mark only, and close before one only: they are apostrophes otherwise.
    """
    sentence = _unwrapped(sentence)
    if _QUOTE.search(sentence) is None:
        return sentence, []
    ends = {closing: _next_positions(sentence, closing) for mark, closing in _CLOSING.items() if mark in sentence}
    plain: list[str] = []
    quoted: list[str] = []
    position = 0
    while position < len(sentence):
        mark = sentence[position]
        end = ends[_CLOSING[mark]][position + 1] if mark in _CLOSING and _opens(sentence, position) else -1
        if end < 0:
            plain.append(mark)
            position += 1
        else:
            quoted.append(sentence[position + 1 : end])
            plain.append(" ")
            position = end + 1
    return "".join(plain), [text for text in quoted if text.strip()]


def _unwrapped(sentence: str) -> str:
    sentence = sentence.strip()
    is_wrapped = len(sentence) > 1 and sentence[0] in '"“' and sentence[-1] in '"”'
    return sentence[1:-1] if is_wrapped and not set(sentence[1:-1]) & set('"“”') else sentence


def _opens(sentence: str, position: int) -> bool:
    if sentence[position] not in _APOSTROPHES:
        return True
    return position == 0 or not sentence[position - 1].isalnum()


def _next_positions(sentence: str, mark: str) -> list[int]:
    """For each position, that of the next closing mark at or after it; -1 without one."""
    positions = [-1] * (len(sentence) + 2)
    for position in range(len(sentence) - 1, -1, -1):
        is_apostrophe = mark in _APOSTROPHES and sentence[position + 1 : position + 2].isalnum()
        positions[position] = position if sentence[position] == mark and not is_apostrophe else positions[position + 1]
    return positions


def is_english(sentence: str, language: str) -> bool:
    """Whether the lists of English words apply: by the plan's language, if at least half of the letters are Latin."""
    if language.lower().split("-")[0] != "en":
        return False
    if sentence.isascii():
        return True
    letters = [character for character in sentence if character.isalpha()]
    return 2 * sum(one.isascii() for one in letters) >= len(letters)


_ENGLISH_SHARE = 0.3
"""Share of words that are English function words or verbs of editing from which on a sentence reads as English. They
make half of an English request; other languages share few of them ("in", "die", "change")."""


def reads_as_english(sentence: str) -> bool:
    """Whether a sentence is English by its own words, whatever a planner says."""
    words = [word for word in words_of(sentence) if word.isascii()]
    known = FUNCTION_WORDS | SCENE_WORDS
    count = sum(word in known or stem(word) in VERB_GROUPS for word in words)
    return is_english(sentence, "en") and count >= max(1.0, _ENGLISH_SHARE * len(words))


# -- stems -------------------------------------------------------------------------------------------------------------

_SUFFIXES = ("ingly", "edly", "ing", "ed", "es", "s", "ly", "est", "er", "en", "y", "ish")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A crude English stem: plurals, -ing, -ed, -er, -est, -ly, -y, -en and British spellings make no difference."""
    word = word.removesuffix("'s").removesuffix("'")
    word = SPELLINGS.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            word = word[: -len(suffix)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems(text: str) -> set[str]:
    """The stems of all words of a text."""
    return {stem(word) for word in words_of(text)}


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """The stems of words."""
    return frozenset(map(stem, words))


VERB_GROUPS: Mapping[str, str] = MappingProxyType(
    {stem(verb): group for group, verbs in VERBS.items() for verb in verbs.split()}
)
"""Stem of a verb of editing -> its group in `VERBS`."""
VERB_FORMS: Mapping[str, str] = MappingProxyType(
    {
        form: group
        for group, verbs in VERBS.items()
        for verb in verbs.split()
        for form in (verb, f"{verb}ing", f"{verb.removesuffix('e')}ing", f"{verb}{verb[-1]}ing")
        if form not in NOT_LEADING
    }
)
"""Form of a verb that begins a request inside a sentence -> its group; not "painted", as in "a painted wall"."""
_NO_CONTENT = stems_of(SCENE_WORDS | REQUEST_WORDS) | VERB_GROUPS.keys()


def content_stems(words: Iterable[str]) -> set[str]:
    """Stems of words with a meaning of their own: no function words, words of the scene, or verbs of editing."""
    return {stem(word) for word in words if word not in FUNCTION_WORDS} - _NO_CONTENT


def without_image_numbers(words: Sequence[str]) -> list[str]:
    """The words without those that tell source images apart, as in "of the second picture" and "into the first one"."""
    return [
        word
        for word, after in zip(words, [*words[1:], ""], strict=False)
        if not (word in _ORDINALS and (after in SCENE_WORDS or after == "one"))
    ]


_ORDINALS = frozenset(("first", "second", "third", "fourth"))


def number_of(word: str) -> int | None:
    """The value of a number in digits ("3", "3rd"), or of an English word for it from two to twelve; else None."""
    digits = word.removesuffix("st").removesuffix("nd").removesuffix("rd").removesuffix("th")
    return int(digits) if digits.isdecimal() and len(digits) <= 9 else NUMBERS.get(word)
