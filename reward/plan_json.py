"""Plans as JSON, for sample files, recordings, judges and documentation. The round trip is exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from .edit_plan import EditPlan


def plan_to_json(plan: EditPlan) -> dict[str, Any]:
    """A plan as JSON values, without the fields that have their defaults. Inverse of `plan_from_json`."""
    data: dict[str, Any] = _to_json(plan)
    return data


def plan_from_json(data: Mapping[str, Any]) -> EditPlan:
    """A plan from JSON values.

    Raises pydantic's ValidationError, a ValueError, with the path of each field that is unknown, missing, too long or
    of another type, and of each part that contradicts itself.
    """
    return _adapter().validate_python(data)


@cache
def plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan, for the constrained output of a judge. `boxes`, which are annotations, are left out.

    What it cannot say, such as the slots that a type of operation needs, `plan_from_json` checks.
    """
    schema = _adapter().json_schema()
    definitions = schema["$defs"]
    del definitions["Box"]
    del definitions["Target"]["properties"]["boxes"]
    for definition in (schema, *definitions.values()):
        definition["additionalProperties"] = False
        definition.pop("description", None)  # docstrings, which are for readers of the code
    return schema


@cache
def _adapter() -> TypeAdapter[EditPlan]:
    return TypeAdapter(EditPlan)


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if not is_dataclass(value):
        return value
    items = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
    return {name: _to_json(item) for name, (item, default) in items.items() if default is MISSING or item != default}
