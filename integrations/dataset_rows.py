"""From the columns of a dataset, and what a policy said, to edits that can be scored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..reward import EditSample, Image, Operation, Pools
from ..verifiers import unedited

Row = Mapping[str, Any]
"""One completion: `prompt`, `completion`, `completion_ids`, and the item of every column of the dataset."""


def text_of(completion: Any) -> str:
    """What the policy said: a text, or the texts of the last message of a conversation."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("type") == "text")


def lines_of(text: str) -> list[str]:
    """An instruction a line, without the marks of lists; lines that say nothing are none."""
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip() for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]


def sample_of(row: Row) -> EditSample:
    """The edit that a row asks for, of its columns; those that are None count as absent.

    `instruction`: what was asked for, by which the edit is judged, whatever the policy made of it. `source`, `sources`,
    `image` or `images`: the pictures to edit, the first of these columns that is there. TRL shows `image` and `images`
    to the policy, which has to be a vision-language model then; for any other call the column `source`. `edited`: what
    was made, where a completion is neither a picture nor an instruction. `id`, `group`, `text`, `hint`, `mask`,
    `reference`; `boxes`: name -> boxes in pixel corners; `pools`: as the fields of `Pools`; `operations`: a list of
    instructions. Pictures are anything `Image.of` takes, and datasets' undecoded ones.

    Raises ValueError naming the columns that are missing, ImageError for a picture that is none.
    """
    there = {name: value for name, value in row.items() if value is not None}
    column = next((name for name in ("source", "sources", "image", "images") if name in there), "")
    if not column or not there.get("instruction"):
        raise ValueError(
            f"rows have the columns {', '.join(sorted(there))}, and an edit needs `instruction` and a picture in "
            "`source`, `sources`, `image` or `images`: add them to the dataset, or pass to_sample="
        )
    sources = there[column]
    fields: dict[str, Any] = {name: str(there[name]) for name in ("id", "group", "text", "hint") if name in there}
    fields |= {name: picture_of(there[name]) for name in ("mask", "reference") if name in there}
    if "boxes" in there:  # Arrow gives every row the names of all rows
        fields["boxes"] = {name: [tuple(box) for box in found] for name, found in there["boxes"].items() if found}
    if "pools" in there:
        pools = {name: value for name, value in there["pools"].items() if value is not None}
        background = bool(pools.pop("background", True))
        fields["pools"] = Pools(**{name: tuple(names) for name, names in pools.items()}, background=background)
    fields["operations"] = tuple(Operation(one) for one in there.get("operations", ()))
    pictures = sources if isinstance(sources, list | tuple) else [sources]
    sample = unedited(there["instruction"], *map(picture_of, pictures), **fields)
    return replace(sample, edited=picture_of(there["edited"])) if "edited" in there else sample


def picture_of(value: Any) -> Image:
    """Whatever `Image.of` takes, or a picture as datasets keeps it undecoded."""
    if isinstance(value, Mapping):
        value = value["bytes"] if value.get("bytes") is not None else value.get("path")
    return Image.of(value)
