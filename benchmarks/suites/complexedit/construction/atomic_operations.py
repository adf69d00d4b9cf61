"""The 24 atomic operations of Complex-Edit in their 9 categories (paper, section 8), described in our words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OPERATIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Object Manipulation and Transformation": {
            "Add an Object": "put something into the picture that was not there",
            "Remove an Object": "take something out of the picture",
            "Replace an Object": "put something else in the place of a thing",
            "Move an Object": "put a thing at another place in the picture",
            "Resize an Object": "make a thing larger or smaller",
            "Rotate an Object": "turn a thing by an angle that is given",
            "Duplicate an Object": "show a thing once more",
        },
        "Color and Tone Adjustments": {
            "Change Color": "give a thing another colour, which is named",
            "Apply Filter/Weather": "lay a colour filter or a kind of weather over the picture or parts of it",
        },
        "Texture and Material Adjustments": {
            "Change Texture": "give a thing another surface or material, as from stone to velvet",
        },
        "Background and Environment": {
            "Change Background": "put another scene or a colour behind what is shown",
        },
        "Lighting and Shadows": {
            "Adjust Lighting": "change the light of the whole picture or on certain things",
        },
        "Text and Symbols": {
            "Add Text": "write something into the picture",
            "Remove Text": "take away something that is written there",
            "Change Text Properties": "change font, colour, size or place of something that is written there",
        },
        "Pose and Expression": {
            "Change Pose": "change how a person or a thing stands, sits or holds itself",
            "Change Facial Expression": "change the look on somebody's face",
        },
        "Composition and Cropping": {
            "Crop Image": "cut away outer parts, so that the frame is another one",
            "Reframe Composition": "change what the picture centres on, or how the things in it are arranged",
            "Zoom In/Out": "come closer to certain things, or show more of what is around",
        },
        "Special Effects": {
            "Add Special Effects": "add an effect such as a glow, a blur of motion or a lens flare",
            "Remove Special Effects": "take away such an effect",
            "Add Particles": "add particles such as dust or sparks",
            "Remove Particles": "take away such particles",
        },
    }
)
"""Category -> name -> what it means."""

CATEGORIES: Mapping[str, str] = MappingProxyType(
    {name: category for category, names in OPERATIONS.items() for name in names}
)
"""Name -> category."""

_NORMALIZED_NAMES = {"".join(letter for letter in name.casefold() if letter.isalpha()): name for name in CATEGORIES}


def operation_list() -> str:
    """All operations for a prompt, one line each under their category."""
    lines = []
    for category, names in OPERATIONS.items():
        lines.append(f"{category}:")
        lines += [f"- {name}: {meaning}." for name, meaning in names.items()]
    return "\n".join(lines)


def parse_operation(name: str) -> str:
    """The operation with this name; case, blanks and punctuation are ignored. Raises ValueError for none of the 24."""
    plain = "".join(letter for letter in name.casefold() if letter.isalpha())
    if plain not in _NORMALIZED_NAMES:
        raise ValueError(f"{name!r} is none of the {len(CATEGORIES)} operations")
    return _NORMALIZED_NAMES[plain]
