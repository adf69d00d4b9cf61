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
`editcritic.selectors` for selectors, `editcritic.suites` for benchmarks, and `editcritic.parts` for what else occurs in
specs. Ours are in `pyproject.toml`; third parties use the same groups. `spec_of` writes names, so that files name only
what is installed; a class that has none is written as `module:Name`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import re
import sys
import typing
from collections.abc import Mapping
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typing_extensions import Unpack

Spec = str | Mapping[str, Any]
Group = Literal[
    "editcritic.rewards", "editcritic.experts", "editcritic.selectors", "editcritic.suites", "editcritic.parts"
]
MODULE_PATH = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
"""`package.module:Name`, the form of `import_path`. Nothing else is imported."""
_UNPACKS = (Unpack, getattr(typing, "Unpack", Unpack))  # two distinct objects below Python 3.12


def parse_option(text: str) -> Any:
    """An option in a string spec: JSON where it parses as JSON (numbers, true, null), else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # of thousands of digits or brackets, too
        return text


class SpecError(ValueError):
    """A spec with an unknown name, or with options that its target does not accept."""


def entry_point_names(group: Group) -> dict[str, EntryPoint]:
    """The installed entry points of a group, by name."""
    return dict(_entry_points(group, entry_points, tuple(sys.path)))


@lru_cache  # a search takes 20 ms, and a reward has dozens of parts
def _entry_points(group: Group, search: Any, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in sorted(search(group=group), key=lambda point: point.name)}


def registered(path: str) -> EntryPoint | None:
    """The entry point of ours or of a third party whose value is this `module:Name`, if there is one."""
    return next(iter(_points_by_value().get(path, ())), None)


def find_target(path: str) -> Any:
    """What `module:Name` names: what is registered under this very text, or else what the module has by that name. Of
    dotted names only those of classes inside of classes are followed, never the modules that a module imports. A module
    that is not installed is looked for in the working folder. Raises `SpecError`.
    """
    module, _, names = path.partition(":")
    try:
        if (point := registered(path)) is not None:
            return point.load()
        if MODULE_PATH.fullmatch(path) is None:
            raise ValueError("expected package.module:Name")
        target: Any = _import_module(module)
        for number, name in enumerate(names.split(".")):
            if number and not inspect.isclass(target):
                raise AttributeError(f"{type(target).__name__} {names.split('.')[number - 1]!r} is no class")
            target = getattr(target, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(f"cannot find {path}: {error}") from None
    return target


def _import_module(name: str) -> Any:
    """An installed module, or the one in the working folder that has this name. Who names a module vouches for it, in
    files by `--trust` (see `file_specs`), but not for whatever else lies in the working folder: that never becomes a
    place where Python looks for modules, neither for ours nor for those that this module imports. Raises ImportError.
    """
    top = name.partition(".")[0]
    try:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != top:  # what it imports is missing
                raise
            not_found = f"{error}, neither installed nor in the working folder as {top}.py or {top}/__init__.py"
        if not _load_from_working_folder(top):
            raise ImportError(not_found)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] != top and _find_in_working_folder(error.name):
            raise ImportError(
                f"{error}: of the working folder only {top} is imported, and no other module for it; to have Python "
                "look for all modules there, put PYTHONPATH=. before the command"
            ) from None
        raise


def _load_from_working_folder(top: str) -> bool:
    """Load a module or a package with an `__init__.py`; False if there is none."""
    spec = _find_in_working_folder(top)
    if spec is None or spec.loader is None or not spec.has_location:
        return False
    module = module_from_spec(spec)
    sys.modules[top] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[top]
        raise
    return True


def _find_in_working_folder(name: str) -> ModuleSpec | None:
    importlib.invalidate_caches()  # it may just have been written
    try:
        return PathFinder.find_spec(name.partition(".")[0], [str(Path.cwd())])
    except FileNotFoundError:  # the folder is gone
        return None


def spec_of(built: Any) -> dict[str, Any]:
    """The table from which `build` makes an equal object.

    The object must keep each constructor argument as an attribute of the same name, as metrics, compositions and
    experts do. Defaults are left out. Raises `SpecError` otherwise.
    """
    if inspect.isfunction(built) and hasattr(built, "card"):
        return {"use": spec_name(built)}
    kind = type(built)
    try:
        arguments = parameters(kind)
    except ValueError:  # arrays, on Python 3.10 bound methods, too
        raise SpecError(f"no spec: {kind.__qualname__} does not say its arguments") from None
    table: dict[str, Any] = {"use": spec_name(kind)}
    for name, parameter in arguments.items():
        if not hasattr(built, name):
            raise SpecError(f"no spec: {kind.__qualname__} does not keep its argument {name!r} as an attribute")
        value = getattr(built, name)
        if not _is_default(value, parameter.default):
            table[name] = _to_plain(value)
    return table


def spec_name(target: Any) -> str:
    """The name of a class or function in specs: that of its entry point, or else `module:Name`. Raises `SpecError` for
    one that is defined inside a function."""
    path = import_path(target)
    points = _points_by_value()
    if path in points:
        return str(points[path][0].name)
    for value, (point, *_) in points.items():  # what a package offers under a shorter path than where it is defined
        module, _, name = value.partition(":")
        if name == target.__qualname__ and module.partition(".")[0] == target.__module__.partition(".")[0]:
            with contextlib.suppress(ImportError, AttributeError):
                if point.load() is target:
                    return str(point.name)
    return path


def with_names(value: Any) -> Any:
    """Plain data with the names of entry points in the stead of their `module:Name`, as files of earlier versions have
    it."""
    if isinstance(value, Mapping):
        return {key: with_names(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_names(item) for item in value]
    point = registered(value) if isinstance(value, str) else None
    return value if point is None else point.name


def _points_by_value() -> Mapping[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for group in get_args(Group):
        for point in _entry_points(group, entry_points, tuple(sys.path)).values():
            value = f"{point.module}:{point.attr}"
            found[value] = (*found.get(value, ()), point)
    return found


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
    """The constructor parameters of a target, by name. Options declared as `**name: Unpack[Table]` are listed one by
    one, with the defaults of its `load_defaults()`.
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
