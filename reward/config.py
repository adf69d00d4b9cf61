"""Specs: how a reward is written down, sent to another process, and built again.

A spec is a name (`edival-if`), a name with options (`edival-if?protocol=official&dense=true`), `package.module:Name`,
or a table (from TOML or JSON) with `use` and the options beside it; options may be tables with `use` themselves:

    use = "geometric-mean"
    [parts.following]
    use = "edival-if"
    dense = true
    [parts.consistency]
    use = "edival-cc"

Names are entry points: `editcritic.rewards` for metrics and compositions, `editcritic.experts` for experts,
`editcritic.selectors` for selectors. Our own stand in `pyproject.toml` like everybody else's. An expert may also be
named by its model: see `models.known`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import typing
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import parse_qsl

from typing_extensions import Unpack

from .toml import tomllib

Spec = str | Mapping[str, Any]
Group = Literal["editcritic.rewards", "editcritic.experts", "editcritic.selectors"]

_UNPACKS = (Unpack, getattr(typing, "Unpack", Unpack))  # two things until Python 3.12

_KINDS: Mapping[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a text"),
}


class SpecError(ValueError):
    """A spec that names nothing, or gives options that its target does not take."""


def names(group: Group) -> dict[str, EntryPoint]:
    """Everything installed under a group, by name."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def build(spec: Spec, group: Group = "editcritic.rewards", **options: Any) -> Any:
    """The metric, composition, expert or selector a spec describes. Raises `SpecError`."""
    if isinstance(spec, str):
        name, _, query = spec.partition("?")
        given = {key: _Typed(value) for key, value in parse_qsl(query, keep_blank_values=True)}
        return _make(name, {**given, **options}, group)
    if not isinstance(spec, Mapping):
        raise SpecError(f"a spec is a name or a table, got {type(spec).__name__}: use a thing that is built as it is")
    if "use" not in spec:
        raise SpecError(f"a spec table needs `use`, got only {sorted(spec)}")
    given = {key: _build_inside(value, group) for key, value in spec.items() if key != "use"}
    return _make(str(spec["use"]), {**given, **options}, group)


def read(path: str | Path) -> Spec:
    """A spec from a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is not TOML: {error}") from None


def spec_of(thing: Any) -> dict[str, Any]:
    """The table that `build` makes an equal thing of.

    Works for whatever keeps each constructor argument as an attribute of the same name, as metrics, compositions and
    experts do. Defaults are left out. Raises `SpecError` for a thing that does not.
    """
    if inspect.isfunction(thing) and hasattr(thing, "card"):
        return {"use": _place(thing)}
    kind = type(thing)
    table: dict[str, Any] = {"use": _place(kind)}
    for name, parameter in parameters(kind).items():
        if not hasattr(thing, name):
            raise SpecError(f"no spec: {kind.__qualname__} does not keep its argument {name!r} as an attribute")
        value = getattr(thing, name)
        if not _same(value, parameter.default):
            table[name] = _write(value)
    return table


def _place(thing: Any) -> str:
    if "<" in thing.__qualname__:
        raise SpecError(f"no spec: {thing.__qualname__} is made inside of a function, where nobody else can find it")
    return f"{thing.__module__}:{thing.__qualname__}"


def _same(value: Any, default: Any) -> bool:
    if default is inspect.Parameter.empty:
        return False
    if isinstance(value, Mapping) and not isinstance(default, Mapping):
        return not value  # a dataclass's default factory shows as a marker
    return bool(value == default)


def _write(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _write(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_write(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return spec_of(value)


def _build_inside(value: Any, group: Group) -> Any:
    if isinstance(value, Mapping):
        if "use" in value:
            return build(value, group)
        return {key: _build_inside(item, group) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_build_inside(item, group) for item in value)
    return value


def _make(name: str, options: Mapping[str, Any], group: Group) -> Any:
    preset: Mapping[str, Any] = {}
    if group == "editcritic.experts" and (known := _model(name)) is not None:
        target, preset = known
    else:
        target = _find(name, group)
    if not callable(target):
        raise SpecError(f"{name} is {type(target).__name__}, not something to build")
    if not inspect.isclass(target) and hasattr(target, "card"):
        if options:
            raise SpecError(f"{name} takes no options, got {sorted(options)}")
        return target
    known_options = parameters(target)
    if unknown := options.keys() - known_options.keys():
        raise SpecError(f"{name} does not take {sorted(unknown)}: its options are {sorted(known_options) or 'none'}")
    given = {**preset, **options}
    try:
        return target(**{key: _fitted(name, key, value, known_options[key]) for key, value in given.items()})
    except TypeError as error:
        raise SpecError(f"{name}: {error}") from None


def _model(name: str) -> tuple[Any, Mapping[str, Any]] | None:
    """The expert for a model's name, folder or checkpoint, and the options that make it this model's."""
    if name in names("editcritic.experts"):
        return None
    from .models.known import expert_of

    found = expert_of(name)
    if found is None:
        return None
    expert, preset, place = found
    target = _find(expert, "editcritic.experts")
    if place:  # where its weights or its server are: what the expert is first built with, or its address
        first = next(iter(parameters(target)))
        key = "base_url" if "://" in place and "base_url" in parameters(target) else first
        preset = {key: place, **preset}
    return target, preset


def parameters(target: Any) -> dict[str, inspect.Parameter]:
    """What a thing is built with, by name.

    Options that it takes as `**name: Unpack[Table]` stand one by one, with the defaults that its `unsaid()` tells.
    """
    found: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(target).parameters.items():
        table = _unpacked(target, parameter)
        if table is None:
            found[name] = parameter
            continue
        unsaid = target.unsaid()
        for key, kind in table.__annotations__.items():
            annotation = getattr(kind, "__forward_arg__", kind)
            found[key] = inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=unsaid[key], annotation=annotation
            )
    return found


def _unpacked(target: Any, parameter: inspect.Parameter) -> Any:
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD or not hasattr(target, "unsaid"):
        return None
    said = parameter.annotation
    if isinstance(said, str):  # `Unpack[Table]`, of the module that says it
        return target.__init__.__globals__.get(said.removeprefix("Unpack[").removesuffix("]"))
    return get_args(said)[0] if get_origin(said) in _UNPACKS else None


class _Typed(str):
    """A value as it was typed: what it is depends on the option."""

    __slots__ = ()


def _fitted(name: str, key: str, value: Any, parameter: inspect.Parameter) -> Any:
    """An option as its target wants it: a tuple of a list. Raises `SpecError` where a number or a text is none."""
    wanted = str(parameter.annotation)
    if isinstance(value, _Typed):
        text = str(value)
        # A revision or a folder may look like a number.
        plain = wanted == "str" or (wanted == "str | None" and text != "null")
        value = text if plain else _value(text)
    kind, said = _KINDS.get(wanted, (object, ""))
    if said and (not isinstance(value, kind) or (isinstance(value, bool) and wanted in ("int", "float"))):
        raise SpecError(f"{name}: {key} is {said}, got {value!r}")
    return tuple(value) if wanted.startswith("tuple[") and isinstance(value, list) else value


def _find(name: str, group: Group) -> Any:
    if ":" in name:
        module, _, path = name.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, TypeError, ValueError) as error:  # the last two: a name that is none
            raise SpecError(f"cannot find {name}: {error}") from None
        return found
    points = names(group)
    if name not in points:
        known = list(points)
        if group == "editcritic.experts":
            from .models.known import models

            known += models()
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        there = ", ".join(points) or "none installed"
        if group == "editcritic.rewards" and points:
            there = f"{len(points)} of them, and `editcritic rewards` lists them"
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {there}"
        raise SpecError(f"unknown {group.partition('.')[2].rstrip('s')} {name!r}: {hint}")
    try:
        return points[name].load()
    except (ImportError, AttributeError) as error:
        raise SpecError(f"{name} is installed, but {points[name].value} cannot be loaded: {error}") from None


def _value(text: str) -> Any:
    """Options in a string: JSON where it is JSON (numbers, true, null), else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
