"""Specs: the text form of a metric, expert or selector. `reward.config` builds objects from specs.

A spec is a name (`edival-if`), a name with options (`edival-if?protocol=official&dense=true`), `package.module:Name`,
or a table (from TOML or JSON) with `use` and options; an option may itself be a table with `use`:

    use = "geometric-mean"
    [parts.following]
    use = "edival-if"
    dense = true
    [parts.consistency]
    use = "edival-cc"

Names are entry points: `editcritic.rewards` for metrics and compositions, `editcritic.experts` for experts,
`editcritic.selectors` for selectors. Ours are in `pyproject.toml`; third parties use the same groups.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typing_extensions import Unpack

Spec = str | Mapping[str, Any]
Group = Literal["editcritic.rewards", "editcritic.experts", "editcritic.selectors"]

_UNPACKS = (Unpack, getattr(typing, "Unpack", Unpack))  # two distinct objects below Python 3.12


class SpecError(ValueError):
    """A spec with an unknown name, or with options that its target does not accept."""


def entry_point_names(group: Group) -> dict[str, EntryPoint]:
    """The installed entry points of a group, by name."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def spec_of(built: Any) -> dict[str, Any]:
    """The table from which `build` makes an equal object.

    The object must keep each constructor argument as an attribute of the same name, as metrics, compositions and
    experts do. Defaults are left out. Raises `SpecError` otherwise.
    """
    if inspect.isfunction(built) and hasattr(built, "card"):
        return {"use": import_path(built)}
    kind = type(built)
    table: dict[str, Any] = {"use": import_path(kind)}
    for name, parameter in parameters(kind).items():
        if not hasattr(built, name):
            raise SpecError(f"no spec: {kind.__qualname__} does not keep its argument {name!r} as an attribute")
        value = getattr(built, name)
        if not _is_default(value, parameter.default):
            table[name] = _to_plain(value)
    return table


def import_path(target: Any) -> str:
    """`module:name` of a class or function. Raises `SpecError` for one that is defined inside a function."""
    if "<" in target.__qualname__:
        raise SpecError(f"no spec: {target.__qualname__} is defined inside a function and cannot be imported")
    return f"{target.__module__}:{target.__qualname__}"


def _is_default(value: Any, default: Any) -> bool:
    if default is inspect.Parameter.empty:
        return False
    if isinstance(value, Mapping) and not isinstance(default, Mapping):
        return not value  # a dataclass's default factory shows as a marker
    return bool(value == default)


def _to_plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_to_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return spec_of(value)


def parameters(target: Any) -> dict[str, inspect.Parameter]:
    """The constructor parameters of a target, by name.

    Options declared as `**name: Unpack[Table]` are listed one by one, with the defaults of its `load_defaults()`.
    """
    result: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(target).parameters.items():
        table = _unpacked_table(target, parameter)
        if table is None:
            result[name] = parameter
            continue
        defaults = target.load_defaults()
        for key, kind in table.__annotations__.items():
            annotation = getattr(kind, "__forward_arg__", kind)
            result[key] = inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=defaults[key], annotation=annotation
            )
    return result


def _unpacked_table(target: Any, parameter: inspect.Parameter) -> Any:
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD or not hasattr(target, "load_defaults"):
        return None
    annotation = parameter.annotation
    if isinstance(annotation, str):  # `Unpack[Table]`, by its name in the target's module
        return target.__init__.__globals__.get(annotation.removeprefix("Unpack[").removesuffix("]"))
    return get_args(annotation)[0] if get_origin(annotation) in _UNPACKS else None
