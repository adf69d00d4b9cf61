"""Convert dataset rows and policy completions to `EditSample`s."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ..reward import EditPlan, EditSample, Image, ImageError
from ..reward.experts.judging.chat_completions import content_texts
from ..reward.plan_json import plan_from_json
from ..reward.sample_files import sample_from_json, sample_problem
from ..reward.sample_limits import SampleTooLarge
from .row_fields import METADATA_FIELDS, METADATA_KEY, TEXT_FIELDS, is_absent, read_field, read_fields
from .unusable_rows import UnusableRow, excess, image_or_reason

DatasetRow = Mapping[str, Any]
"""One completion: `prompt`, `completion`, `completion_ids`, and the item of every column of the dataset."""


def completion_text(completion: Any) -> str:
    """The completion as text: the string itself, or the texts of a conversation's last message that is no tool's.

    Empty if that has none, such as one that calls tools only. Raises TypeError for what is no message.
    """
    if isinstance(completion, str):
        return completion
    messages = [message for message in completion or () if message.get("role") != "tool"]
    return "\n".join(filter(None, content_texts(messages[-1].get("content")))) if messages else ""


def split_instructions(text: str) -> list[str]:
    """One instruction per line, without list markers. Lines without a word are dropped."""
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip() for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]


def sample_from_row(row: DatasetRow) -> EditSample:
    """The requested edit, from the columns of a row. Columns that are None, or what pandas has in its place,
    count as absent.

    `instruction`: the edit is judged by it, whatever the policy wrote. `source`, `sources`, `image` or `images`: the
    source images; the first of these columns that is present. TRL passes `image` and `images` to the policy, which then
    has to be a vision-language model; otherwise use `source`. `edited`: the edited image, if a completion is neither an
    image nor an instruction. `id`, `group`, `mask`, `reference`; and the fields of `row_fields.METADATA_FIELDS`, as
    columns (but `metadata`, a name that many data sets have for something else) or in a table `editcritic`. Images are
    anything `Image.of` takes, or the undecoded images of `datasets`.

    Raises ValueError naming the missing columns, and for an invalid field, ImageError for an invalid image,
    `SampleTooLarge`, `UnusableRow` for a row whose instruction is empty, which has a column for the source and nothing
    in it, or a field that is nested too deeply.
    """
    columns = {name: value for name, value in row.items() if not is_absent(value)}
    source_columns = ("source", "sources", "image", "images")
    column = next((name for name in source_columns if name in columns), "")
    pictures = _listed(columns.get(column))
    if not pictures or not str(columns.get("instruction", "")).strip():
        is_empty = "instruction" in row and any(name in row for name in source_columns)
        raise (UnusableRow if is_empty else ValueError)(
            f"rows have the columns {', '.join(sorted(columns))}, and an edit needs `instruction` and an image in "
            "`source`, `sources`, `image` or `images`: add them to the dataset, or pass to_sample="
        )
    owner = f"the row {str(columns.get('id', columns['instruction']))!r:.80}"
    fields = _fields(columns, owner)
    images = {str(number): to_image(one) for number, one in enumerate(pictures)}
    sources = list(images)
    images |= {name: to_image(columns[name]) for name in ("mask", "reference", "edited") if name in columns}
    fields |= {name: name for name in ("mask", "reference") if name in columns}
    fields |= {name: str(columns[name]) for name in ("id", "group") if name in columns}
    fields |= {"instruction": columns["instruction"], "sources": sources}
    fields["edited"] = "edited" if "edited" in columns else sources[0]
    try:
        return sample_from_json(fields, name="edit", pictures=images)
    except ValidationError as error:
        if reason := excess(error):
            raise SampleTooLarge(f"{owner}: {reason}") from None
        raise ValueError(f"{owner}: {sample_problem(error)}") from None


def _listed(value: Any) -> list[Any]:
    """The pictures of a column: of a list, which pandas has as an array of objects, or the one that it is."""
    if isinstance(value, list | tuple) or str(getattr(value, "dtype", "")) == "object":
        return list(value)
    return [] if value is None else [value]


def _fields(columns: DatasetRow, owner: str) -> dict[str, Any]:
    """The fields of a row, from its columns and its table. Raises ValueError, `SampleTooLarge` and `UnusableRow`."""
    names = [name for name in METADATA_FIELDS if name in columns and name != "metadata"]
    fields = {name: read_field(name, columns[name], owner) for name in names}
    fields = {name: value for name, value in fields.items() if value is not None}
    table = read_fields(columns.get(METADATA_KEY), f"{owner}: `{METADATA_KEY}`")
    if twice := sorted(table.keys() & fields.keys()):
        raise ValueError(f"{owner} has `{twice[0]}` as a column and in `{METADATA_KEY}`: give it once")
    fields |= table
    fields |= {name: str(fields[name]) for name in TEXT_FIELDS if name in fields}
    if "plan" in fields:
        fields["plan"] = _plan(fields["plan"], owner)
    return fields


def _plan(value: Any, owner: str) -> EditPlan:
    """A row's plan. Raises ValueError and `SampleTooLarge`."""
    try:
        return plan_from_json(value)
    except ValidationError as error:
        if reason := excess(error):
            raise SampleTooLarge(f"{owner}: `plan`: {reason}") from None
        raise ValueError(
            f"{owner}: `plan` holds no plan: give an EditPlan as `plan_to_json` writes it, as a table or as JSON text, "
            f"or nothing; {sample_problem(error)}"
        ) from None


def to_image(value: Any) -> Image:
    """Anything `Image.of` takes, or an undecoded image of `datasets`. Raises ImageError."""
    image = image_or_reason(value)
    if isinstance(image, str):
        raise ImageError(image)
    return image
