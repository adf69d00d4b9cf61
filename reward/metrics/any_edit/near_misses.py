"""Wrong values for near misses: none that an honest edit could be said to show."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")

_FAMILIES = tuple(
    frozenset(family.split())
    for family in (
        "green lime olive teal emerald mint khaki turquoise cyan aqua jade",
        "purple violet lavender lilac magenta plum indigo mauve pink fuchsia",
        "orange peach amber copper gold golden rust tan brown coral bronze",
        "blue navy azure cyan turquoise teal indigo sapphire",
        "yellow gold golden lemon mustard cream amber",
        "red crimson scarlet maroon burgundy ruby cherry rust pink coral",
        "stone marble granite rock concrete brick slate cement clay ceramic",
        "wood wooden oak bamboo timber pine walnut cork log",
        "metal metallic steel gold golden silver iron bronze copper chrome brass aluminium aluminum tin",
        "glass crystal ice transparent diamond",
        "wool knitted knit fabric cloth cotton felt fur furry velvet textile denim",
        "paper cardboard origami papier",
        "snow snowy winter ski ice icy arctic frozen frost mountain mountains alps",
        "sand sandy desert beach dune dunes sahara coast shore",
        "night dark evening stars starry moon midnight city street town skyline urban",
        "underwater reef sea ocean fish aquarium water",
        "library books bookshelf study",
        "drawing pencil sketch sketched charcoal line drawn",
        "fog foggy mist misty haze rain storm cloudy",
        "mosaic tiles tiled",
        "comic cartoon manga anime strip",
    )
)
"""Words that may be said of one thing. A value and its near miss share no family."""


def unmentioned(options: Sequence[str], mentioned: str) -> str:
    """The first option that is not mentioned, nor related to anything that is; the last one if all are."""
    words = set(_WORD.findall(mentioned.casefold()))
    related = words.union(*(family for family in _FAMILIES if not words.isdisjoint(family)))
    fitting = (one for one in options if one.casefold() not in mentioned and not related & set(one.casefold().split()))
    return next(fitting, options[-1])
