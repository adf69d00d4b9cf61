"""Everyday words for changes of a whole picture, as SceneJudge understands them: a look, or a part to show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ....reward import Box
from .object_names import ObjectName, find_name

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "deblur": r"deblur\w*|unblur\w*|sharp\w*|(?:remove|reduce|fix|undo|get rid of)\b.*\bblur\w*|in focus",
        "blur": r"blur\w*|out of focus",
        "sepia": r"sepia",
        "black and white": r"black[ -]and[ -]white|gr[ae]yscale|monochrome",
        "pixel art": r"pixel[ -]?art|pixel(?:ate|ated|s)",
        "pencil drawing": r"pencil (?:drawing|sketch)",
        "snowfall": r"snowfall|snowing|falling snow",
        "fog": r"fog|foggy|mist|misty",
        "red light": r"red light",
        "rain": r"rain|rainy|raining|rainfall|raindrops",
        "night": r"night|nighttime|night-time|nightfall|midnight",
        "upside down": r"upside down|(?:flip|mirror)\w*\b.{0,100}\bvertical\w*",
        "mirror": r"mirror\w*|flip\w*",
    }
)
"""Look -> its words; the first that matches is meant."""
_PATTERNS = tuple((look, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for look, words in _WORDS.items())

_CROP = re.compile(r"\b(?:crop|zoom|trim|cut)\w*\b", re.IGNORECASE)
_HALF = re.compile(r"\b(?P<side>left|right|top|upper|bottom|lower)(?:-hand)? half\b", re.IGNORECASE)
_HALVES: Mapping[str, Box] = MappingProxyType(
    {
        "left": Box(0.25, 0.5, 0.5, 1.0),
        "right": Box(0.75, 0.5, 0.5, 1.0),
        "top": Box(0.5, 0.25, 1.0, 0.5),
        "upper": Box(0.5, 0.25, 1.0, 0.5),
        "bottom": Box(0.5, 0.75, 1.0, 0.5),
        "lower": Box(0.5, 0.75, 1.0, 0.5),
    }
)
_NEVER_DRAWN = re.compile(
    r"\b(?:flags|staircase|balloon|books|flooded|umbrella|bicycle|clock|suitcase|pineapple|violin)\b|covered with sand",
    re.IGNORECASE,
)


def look_of(words: str) -> str | None:
    """The look that words are about, a key of `picture_looks.LOOKS` or `CHANGES`; None for other words."""
    return next((look for look, pattern in _PATTERNS if pattern.search(words)), None)


def crop_of(words: str) -> Box | ObjectName | None:
    """What a request to crop or zoom wants to show: a half of the picture, or an object; None for other requests."""
    if not _CROP.search(words):
        return None
    half = _HALF.search(words)
    if half is not None:
        return _HALVES[half["side"].casefold()]
    name = find_name(words)
    return name if isinstance(name, ObjectName) else None


def is_never_drawn(words: str) -> bool:
    """Whether words ask for things that no picture of SceneEdit shows, such as flags or stairs."""
    return bool(_NEVER_DRAWN.search(words))
