"""DLEBench's three tools for a judge of one edit, which refers to the two images by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...engine.program import Program
from ...image import Image
from ...queries.response_formats import Tool
from .conversation import OfferedTool
from .tools import Observation, ToolError, detect_program, localize_program, zoom_program

SOURCE, EDITED = "Source Image", "Edited Image"

OBJECT_NAMES = ("substring", "words")
"""What a judge may have detected: a part of the instruction, or words of it in any order."""

_ARTICLES = frozenset({"a", "an", "the"})

_NAMES = {"sourceimage": SOURCE, "originalimage": SOURCE, "editedimage": EDITED}
"""The paper's prompts use Source Image, its examples Original Image."""


def _tool(name: str, description: str, parameters: Mapping[str, Any]) -> Tool:
    schema = {
        "type": "object",
        "properties": parameters,
        "required": list(parameters),
        "additionalProperties": False,
    }
    return Tool(name, description, json.dumps(schema))


# Image names are plain strings in the schema and checked below, so that other spellings are accepted.
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


def offered_tools(
    source: Image,
    edited: Image,
    instruction: str,
    *,
    regions: int,
    threshold: float,
    enhance_below: int,
    object_names: str = "substring",
) -> tuple[OfferedTool, ...]:
    """The tools for two images of one size. Only what the instruction names, by `object_names`, is detected."""
    pictures = {SOURCE: source, EDITED: edited}

    def zoom_in(arguments: Mapping[str, Any]) -> Program[Observation]:
        name = resolve_image_name(arguments["target_image"])
        return zoom_program(pictures[name], arguments["bbox_2d"], name, enhance_below)

    def differences(arguments: Mapping[str, Any]) -> Program[Observation]:
        if resolve_image_name(arguments["comparison_image_1"]) == resolve_image_name(arguments["comparison_image_2"]):
            raise ToolError(f"both images are the same one: compare {SOURCE} and {EDITED}")
        return localize_program(source, edited, regions, enhance_below, (SOURCE, EDITED))

    def detect(arguments: Mapping[str, Any]) -> Program[Observation]:
        name, object_name = resolve_image_name(arguments["target_image"]), str(arguments["detect_object_name"])
        if not _is_named(object_name, instruction, object_names):
            raise ToolError(
                f"{object_name!r} is not a part of the editing instruction: copy the object's name from it"
                if object_names == "substring"
                else f"{object_name!r} has words that the editing instruction lacks: name the object in its words"
            )
        return detect_program(pictures[name], " ".join(object_name.split()), name, threshold)

    return (OfferedTool(ZOOM, zoom_in), OfferedTool(LOCALIZE, differences), OfferedTool(DETECT, detect))


def resolve_image_name(image: str) -> str:
    """The canonical name of an image, ignoring case and spaces. Raises `ToolError`."""
    name = _NAMES.get(re.sub(r"[\s_]+", "", image).casefold())
    if name is None:
        raise ToolError(f"there is no image {image!r}: there are {SOURCE} and {EDITED}")
    return name


def _is_named(name: str, instruction: str, object_names: str) -> bool:
    if object_names == "substring":
        return bool(name.strip()) and _plain(name) in _plain(instruction)
    words = set(re.findall(r"\w+", name.casefold())) - _ARTICLES
    return bool(words) and words <= set(re.findall(r"\w+", instruction.casefold()))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
