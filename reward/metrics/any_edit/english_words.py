"""Lists of English words for the validator of plans: words without a meaning of their own, verbs of editing, places."""

from __future__ import annotations

from collections.abc import Mapping
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
