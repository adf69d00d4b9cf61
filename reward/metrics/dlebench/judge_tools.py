"""DLEBench's three tools as they are offered to a judge of one edit: by the names of its two pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..asking import Asks
from ..forms import Tool
from ..image import Image
from .conversation import Offered
from .tools import Observation, ToolError, find, localize, zoom

SOURCE, EDITED = "Source Image", "Edited Image"

_NAMES = {"sourceimage": SOURCE, "originalimage": SOURCE, "editedimage": EDITED}
"""The paper's prompts say Source Image, its examples Original Image."""


def _tool(name: str, description: str, parameters: Mapping[str, Any]) -> Tool:
    schema = {
        "type": "object",
        "properties": parameters,
        "required": list(parameters),
        "additionalProperties": False,
    }
    return Tool(name, description, json.dumps(schema))


# Image names are plain strings here and checked below, where other spellings of them are let through.
ZOOM = _tool(
    "zoom_in_image",
    "Shows a part of an image, enlarged where it is small.",
    {
        "bbox_2d": {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
        "target_image": {"type": "string"},
    },
)
LOCALIZE = _tool(
    "localize_differences",
    "Compares two images pixel by pixel and shows each region that differs, as a pair of crops.",
    {"comparison_image_1": {"type": "string"}, "comparison_image_2": {"type": "string"}},
)
DETECT = _tool(
    "detect_object",
    "Looks for an object in an image and draws a box around it.",
    {"target_image": {"type": "string"}, "detect_object_name": {"type": "string"}},
)


def offered(
    source: Image, edited: Image, instruction: str, *, regions: int, threshold: float, enhance_below: int
) -> tuple[Offered, ...]:
    """The tools over these two pictures, which have one size. Only what the instruction names can be detected."""
    pictures = {SOURCE: source, EDITED: edited}

    def zoom_in(given: Mapping[str, Any]) -> Asks[Observation]:
        name = named(given["target_image"])
        return zoom(pictures[name], given["bbox_2d"], name, enhance_below)

    def differences(given: Mapping[str, Any]) -> Asks[Observation]:
        if named(given["comparison_image_1"]) == named(given["comparison_image_2"]):
            raise ToolError(f"both images are the same one: compare {SOURCE} and {EDITED}")
        return localize(source, edited, regions, enhance_below, (SOURCE, EDITED))

    def detect(given: Mapping[str, Any]) -> Asks[Observation]:
        name, what = named(given["target_image"]), str(given["detect_object_name"])
        if not what.strip() or _plain(what) not in _plain(instruction):
            raise ToolError(f"{what!r} is not a part of the editing instruction: copy the object's name from it")
        return find(pictures[name], " ".join(what.split()), name, threshold)

    return (Offered(ZOOM, zoom_in), Offered(LOCALIZE, differences), Offered(DETECT, detect))


def named(image: str) -> str:
    """Which image a name means; case and spaces do not matter. Raises `ToolError`."""
    name = _NAMES.get(re.sub(r"[\s_]+", "", image).casefold())
    if name is None:
        raise ToolError(f"there is no image {image!r}: there are {SOURCE} and {EDITED}")
    return name


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
