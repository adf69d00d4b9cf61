"""Convert dataset rows and policy completions to `EditSample`s."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ..reward import EditPlan, EditSample, Image, ImageError, Operation, Pools
from ..reward.plan_json import plan_from_json
from ..reward.sample_files import sample_problem
from ..reward.sample_limits import SampleTooLarge
from ..verifiers import edit_request
from .unusable_rows import UnusableRow, excess, image_or_reason

DatasetRow = Mapping[str, Any]
"""One completion: `prompt`, `completion`, `completion_ids`, and the item of every column of the dataset."""


def completion_text(completion: Any) -> str:
    """The completion as text: the string itself, or the text parts of the last message of a conversation."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("type") == "text")


def split_instructions(text: str) -> list[str]:
    """One instruction per line, without list markers. Lines without a word are dropped."""
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip() for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]


def sample_from_row(row: DatasetRow) -> EditSample:
    """The requested edit, from the columns of a row. Columns that are None count as absent.

    `instruction`: the edit is judged by it, whatever the policy wrote. `source`, `sources`, `image` or `images`: the
    source images; the first of these columns that is present. TRL passes `image` and `images` to the policy, which then
    has to be a vision-language model; otherwise use `source`. `edited`: the edited image, if a completion is neither an
    image nor an instruction. `id`, `group`, `target_text`, `hint`, `mask`, `reference`; `boxes`: name -> boxes in pixel
    corners; `pools`: the fields of `Pools`; `operations`: a list of instructions; `plan`: an `EditPlan` as the JSON of
    `plan_to_json`, or as a table. Images are anything `Image.of` takes, or the undecoded images of `datasets`.

    Raises ValueError naming the missing columns, and for an invalid plan, ImageError for an invalid image,
    `SampleTooLarge`, `UnusableRow` for a row whose instruction is empty, which has a column for the source and nothing
    in it, or a plan that is nested too deeply.
    """
    columns = {name: value for name, value in row.items() if value is not None}
    source_columns = ("source", "sources", "image", "images")
    column = next((name for name in source_columns if name in columns), "")
    if not column or not str(columns.get("instruction", "")).strip():
        is_empty = "instruction" in row and any(name in row for name in source_columns)
        raise (UnusableRow if is_empty else ValueError)(
            f"rows have the columns {', '.join(sorted(columns))}, and an edit needs `instruction` and an image in "
            "`source`, `sources`, `image` or `images`: add them to the dataset, or pass to_sample="
        )
    sources = columns[column]
    texts = ("id", "group", "target_text", "hint")
    fields: dict[str, Any] = {name: str(columns[name]) for name in texts if name in columns}
    fields |= {name: to_image(columns[name]) for name in ("mask", "reference") if name in columns}
    if "boxes" in columns:  # Arrow gives every row the names of all rows
        fields["boxes"] = {
            name: [tuple(box) for box in corners] for name, corners in columns["boxes"].items() if corners
        }
    if "pools" in columns:
        pools = {name: value for name, value in columns["pools"].items() if value is not None}
        background = bool(pools.pop("background", True))
        fields["pools"] = Pools(**{name: tuple(names) for name, names in pools.items()}, background=background)
    fields["operations"] = tuple(Operation(text) for text in columns.get("operations", ()))
    if "plan" in columns:
        fields["plan"] = _plan(columns["plan"], str(columns.get("id", columns["instruction"])))
    images = sources if isinstance(sources, list | tuple) else [sources]
    sample = edit_request(columns["instruction"], *map(to_image, images), **fields)
    return replace(sample, edited=to_image(columns["edited"])) if "edited" in columns else sample


def _plan(column: Any, row: str) -> EditPlan:
    """The plan of a row. row: its id or instruction. Raises ValueError."""
    try:
        return plan_from_json(json.loads(column) if isinstance(column, str) else _without_none(column))
    except (ValueError, RecursionError) as error:  # of JSON and of pydantic
        if isinstance(error, ValidationError) and (reason := excess(error)):
            raise SampleTooLarge(f"the plan of the row {row!r:.80}: {reason}") from None
        problem = str(error) if isinstance(error, RecursionError) else sample_problem(error)
        raise (UnusableRow if isinstance(error, RecursionError) else ValueError)(
            f"the column `plan` of the row {row!r:.80} holds no plan: give an EditPlan as `plan_to_json` writes it, as "
            f"a table or as JSON text, or nothing; {problem}"
        ) from None


def _without_none(value: Any) -> Any:
    """A table of a dataset without its missing entries: Arrow gives every row the fields of all rows."""
    if isinstance(value, Mapping):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list | tuple) else value


def to_image(value: Any) -> Image:
    """Anything `Image.of` takes, or an undecoded image of `datasets`. Raises ImageError."""
    image = image_or_reason(value)
    if isinstance(image, str):
        raise ImageError(image)
    return image
