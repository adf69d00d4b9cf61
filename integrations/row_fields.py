"""What a row of a data set may carry for a reward, however the row was stored.

A row has the fields of `METADATA_FIELDS`, which mean what they mean in sample files (`reward.sample_files`): in a table
under the key `editcritic`, or, for TRL, as columns. docs/trainers/rows.md has the table of them. Arrow, pandas,
datasets and trainers hand the same row over in different forms, which are all read here as one:

- Arrow gives every row the names of all rows: None means absent, and so does an object without boxes. pandas writes NaN
  for None in columns.
- Lists arrive as numpy arrays (pandas) or torch tensors (`Dataset.set_format("torch")`), and maps as lists of pairs.
- Flow-Factory and data sets with one Arrow type a column keep nested values as JSON text: the whole table, a field of
  it, or the boxes of one object.

A field that is a mistake of whoever made the data set raises ValueError. More values, levels or characters than are
read, and what no text may hold, raise `UnusableRow`: such a row fails alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, Final

from ..reward.regular_files import MAX_LINE_BYTES
from ..reward.strict_json import MAX_DEPTH, UnsafeJSON, parse_json

METADATA_KEY: Final = "editcritic"
"""Where a row has its table of fields."""

TEXT_FIELDS: Final = ("target_text", "hint")
"""Fields that are texts: they are never read as JSON."""

METADATA_FIELDS: Final = (
    "task", "pools", "boxes", "fractions", "operations", "plan", "targets", "target_fractions", "target_text", "hint",
    "dimensions", "metadata",
)  # fmt: skip

MAX_VALUES: Final = 100_000
"""Values and keys of a row's fields, about. The limits of samples are lower and are told in their own words."""


class UnusableRow(ValueError):
    """A row that is no edit by its own content. Raised by a `to_sample`, it fails that row alone."""


def table_of_row(row: Any, owner: str) -> dict[str, Any]:
    """The plain fields of a row, or of a trainer's metadata, from its table `editcritic`; empty where it has none.

    row: a table, or JSON text of one, which is looked into only if it names `editcritic`. owner: the row, for errors.
    Raises ValueError and `UnusableRow`.
    """
    if isinstance(row, str):
        row = parse_text(row, f"{owner}: the metadata") if METADATA_KEY in row else None
    table = row.get(METADATA_KEY) if isinstance(row, Mapping) else None
    return read_fields(table, f"{owner}: `{METADATA_KEY}` in the metadata")


def read_fields(table: Any, owner: str) -> dict[str, Any]:
    """The fields of a table, or of its JSON text, as plain JSON values; those that are absent are left out.

    owner: names the table in errors. Raises ValueError for what is no table, for unknown fields and for text that is no
    JSON, and `UnusableRow`.
    """
    if isinstance(table, str):
        table = parse_text(table, owner)
    if is_absent(table):
        return {}
    if not isinstance(table, Mapping):
        raise ValueError(f"{owner} must be a table, got {type(table).__name__}")
    given = {name: value for name, value in table.items() if not is_absent(value)}
    if unknown := sorted(str(name) for name in given if name not in METADATA_FIELDS):
        raise ValueError(f"{owner} has the unknown field {unknown[0]!r:.80}: known are {', '.join(METADATA_FIELDS)}")
    fields = {name: read_field(name, value, owner) for name, value in given.items()}
    return {name: value for name, value in fields.items() if value is not None}


def read_field(name: str, value: Any, owner: str) -> Any:
    """The value of a field of `METADATA_FIELDS` as plain JSON values, or None where it is absent.

    owner: whose field it is, for errors. Values of other types than JSON's are left to whoever reads the field. Raises
    ValueError and `UnusableRow`.
    """
    owner = f"{owner}: `{name}`"
    if name in TEXT_FIELDS:
        return None if is_absent(value) else value
    plain = _plain(parse_text(value, owner), owner)
    if is_absent(plain):
        return None
    if name in ("boxes", "fractions"):
        return _named_boxes(plain, owner)
    if name == "operations" and isinstance(plain, list):
        return [{"instruction": item} if isinstance(item, str) else item for item in plain]
    return plain


def parse_text(value: Any, owner: str) -> Any:
    """The values of JSON text, None for text without any, and other values as they are.

    Raises ValueError for text that is no JSON, and `UnusableRow` beyond the limits of `parse_json`.
    """
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    if len(value) > MAX_LINE_BYTES:
        raise UnusableRow(f"{owner} is a text of {len(value):,} characters, and at most {MAX_LINE_BYTES:,} are read")
    try:
        return parse_json(value, max_values=MAX_VALUES)
    except UnsafeJSON as error:
        raise UnusableRow(f"{owner}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{owner} is a text, {value!r:.80}, and should be a table, a list or JSON: {error}") from None


def _named_boxes(value: Any, owner: str) -> Any:
    """Boxes by the names of their objects. An object without boxes is one that other rows have."""
    if isinstance(value, list):
        if not all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in value):
            raise ValueError(
                f"{owner} is a list without names: give the boxes of each object under its name, as "
                f'{{"cup": [[x0, y0, x1, y1]]}}; boxes of what is to be edited go into `targets`'
            )
        value = dict(value)  # a map of Arrow
    if not isinstance(value, Mapping):
        return value
    boxes = {name: parse_text(items, f"{owner}: {name!r:.80}") for name, items in value.items()}
    return {name: items for name, items in boxes.items() if items is not None and items != []}


def _plain(value: Any, owner: str) -> Any:
    """Tables, lists, arrays and tensors as dicts and lists, without the entries of tables that are None."""
    left = MAX_VALUES

    def plain(item: Any, depth: int) -> Any:
        nonlocal left
        if isinstance(shape := getattr(item, "shape", None), tuple) and hasattr(item, "tolist"):
            left -= math.prod(shape)
            item = item.tolist() if left >= 0 else None  # a number, or nested lists, in which arrays may follow
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise UnusableRow(
                f"{owner} has more than {MAX_VALUES:,} values, or is nested deeper than {MAX_DEPTH} levels"
            )
        if isinstance(item, Mapping):
            return {name: plain(inner, depth + 1) for name, inner in item.items() if inner is not None}
        return [plain(inner, depth + 1) for inner in item] if isinstance(item, list | tuple) else item

    return plain(value, 0)


def is_absent(value: Any) -> bool:
    """Whether a value is None, or what pandas has in its place: a NaN, its `NA` or its `NaT`."""
    if isinstance(value, Real):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
