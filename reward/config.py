"""Build objects from specs, and bind experts to roles.

`build` makes a metric, composition, expert or selector from a spec (syntax: `queries.specs`). An expert may also be
named by its model: see `experts.loading.model_registry`. `load_experts` binds experts to roles, from a bundle, a line,
a table or a TOML file.
"""

from __future__ import annotations

import difflib
import inspect
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from .experts.loading.model_registry import (
    Bundle,
    bundle_lines,
    bundles,
    registered_models,
    resolve_expert,
    with_addresses,
)
from .file_specs import ROLE, require_trusted
from .queries.expert import Expert
from .queries.specs import Group, Spec, SpecError, entry_point_names, find_target, parameters, parse_option
from .toml_files import read_toml

_KINDS: Mapping[str, tuple[Any, str]] = {
    "int": (int, "an integer"),
    "float": (int | float, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a string"),
    "int | None": (int | None, "an integer"),
    "float | None": (int | float | None, "a number"),
    "str | None": (str | None, "a string"),
}
ExpertBindings = str | Path | Sequence[str] | Mapping[str, Expert | Spec]
"""Input of `load_experts`."""


def _has(attribute: str, *, optional: bool = False) -> Callable[[Any], bool]:
    return lambda value: hasattr(value, attribute) or (optional and value is None)


def _table_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(map(is_valid, value.values()))


_PARTS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "Metric": (  # or its spec, for those that build it themselves
        lambda value: hasattr(value, "card") or isinstance(value, str | Mapping),
        "a metric, as a table with `use`",
    ),
    "Metric | None": (_has("card", optional=True), "a metric, as a table with `use`"),
    "Mapping[str, Metric]": (_table_of(_has("card")), "a table of metrics, each a table with `use`"),
    "Mapping[str, float]": (_table_of(lambda value: isinstance(value, int | float)), "a table of numbers"),
    "Expert": (_has("kinds"), "an expert, as a table with `use`"),
    "tuple[str, ...]": (lambda value: isinstance(value, tuple) and all(isinstance(one, str) for one in value), "texts"),
}
"""What an option that is no plain value has to be, by its annotation."""


def build(spec: Spec, group: Group = "editcritic.rewards", **options: Any) -> Any:
    """The metric, composition, expert or selector that a spec describes. Raises `SpecError`."""
    if isinstance(spec, str):
        name, _, query = spec.partition("?")
        if not name.strip():
            raise SpecError(f"a spec begins with a name, as in name?option=value, got {spec!r}")
        spec_options = {key: _StringOption(value) for key, value in parse_qsl(query, keep_blank_values=True)}
        return _construct(name, {**spec_options, **options}, group)
    if not isinstance(spec, Mapping):
        raise SpecError(f"a spec is a name or a table, got {type(spec).__name__}: pass a built object directly")
    if "use" not in spec:
        raise SpecError(f"a spec table needs `use`, got only {sorted(spec)}")
    table_options = {key: _build_nested(value, group) for key, value in spec.items() if key != "use"}
    return _construct(str(spec["use"]), {**table_options, **options}, group)


def options_of(name: str, group: Group = "editcritic.rewards") -> Mapping[str, inspect.Parameter]:
    """The options that a spec of this name takes; none where a function is the metric. Raises `SpecError`."""
    target = _find(name, group)
    return {} if not inspect.isclass(target) and hasattr(target, "card") else parameters(target)


def spec_table(spec: Spec, group: Group = "editcritic.rewards") -> dict[str, Any]:
    """A spec as a table. Raises `SpecError`."""
    if isinstance(spec, Mapping):
        return dict(spec)
    name, _, query = spec.partition("?")
    options = options_of(name, group)
    read = {key: read_option(text, options[key]) if key in options else text for key, text in parse_qsl(query, True)}
    return {"use": name, **read}


def read_option(text: str, parameter: inspect.Parameter) -> Any:
    """What the text of an option in a string spec is for this parameter."""
    annotation = str(parameter.annotation)
    # A revision or a folder may look like a number.
    plain = annotation == "str" or (annotation == "str | None" and text != "null")
    return text if plain else parse_option(text)


def read_spec(path: str | Path) -> Spec:
    """A spec from a TOML file, which names only what is installed or trusted (see `file_specs`). Raises `SpecError`."""
    try:
        spec = read_toml(path)
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise SpecError(f"{path} is not TOML: {error}") from None
    require_trusted(spec, path)
    return spec


def _build_nested(value: Any, group: Group) -> Any:
    if isinstance(value, Mapping):
        if "use" in value:
            groups: tuple[Group, ...] = (group, "editcritic.rewards", "editcritic.experts", "editcritic.selectors")
            return build(value, next((one for one in groups if str(value["use"]) in entry_point_names(one)), group))
        return {key: _build_nested(item, group) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_build_nested(item, group) for item in value)
    return value


def _construct(name: str, options: Mapping[str, Any], group: Group) -> Any:
    preset: Mapping[str, Any] = {}
    if group == "editcritic.experts" and (expert := _expert_for_model(name)) is not None:
        target, preset = expert
    else:
        target = _find(name, group)
    if not callable(target):
        raise SpecError(f"{name} is {type(target).__name__}, which is not callable")
    if not inspect.isclass(target) and hasattr(target, "card"):
        if options:
            raise SpecError(f"{name} takes no options, got {sorted(options)}")
        return target
    known_options = parameters(target)
    if unknown := options.keys() - known_options.keys():
        options_text = ", ".join(sorted(known_options)) or "none"
        raise SpecError(f"{name} does not take {', '.join(sorted(unknown))}: its options are {options_text}")
    arguments = {**preset, **options}
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [
        key for key, option in known_options.items() if option.default is option.empty and option.kind not in variadic
    ]
    if missing := [key for key in required if key not in arguments]:
        if group == "editcritic.rewards" and inspect.isfunction(target) and ":" in name and not options:
            raise SpecError(
                f"{name} is a function that takes {', '.join(missing)}: a reward is a metric, a class with a `card`, "
                "or a function of options that returns one; only `editcritic audit` takes a function of samples"
            )
        raise SpecError(
            f'{name} needs {" and ".join(missing)}: give {name}?{missing[0]}=..., or a TOML file with `use = "{name}"` '
            f"and a value or a table `[{missing[0]}]` for each"
        )
    try:
        return target(
            **{key: _convert_option(name, key, value, known_options[key]) for key, value in arguments.items()}
        )
    except (AttributeError, TypeError) as error:  # an option of another type, where no annotation says so
        raise SpecError(f"{name}: an option is of another type than expected: {error}") from None


def _expert_for_model(name: str) -> tuple[Any, Mapping[str, Any]] | None:
    if name in entry_point_names("editcritic.experts") or name in entry_point_names("editcritic.parts"):
        return None
    resolved = resolve_expert(name)
    if resolved is None:
        return None
    expert, preset, location = resolved
    target = _find(expert, "editcritic.experts")
    if location:  # of its weights or its server: the expert's first argument, or its base_url
        first = next(iter(parameters(target)))
        key = "base_url" if "://" in location and "base_url" in parameters(target) else first
        preset = {key: location, **preset}
    return target, preset


class _StringOption(str):
    """An option value from a string spec; its type depends on the option."""

    __slots__ = ()


def _convert_option(name: str, key: str, value: Any, parameter: inspect.Parameter) -> Any:
    """Convert an option to its parameter's type, lists to tuples. Raises `SpecError` for a wrong type."""
    annotation = str(parameter.annotation)
    if isinstance(value, _StringOption):
        value = read_option(str(value), parameter)
    kind, description = _KINDS.get(annotation, (object, ""))
    is_flag = isinstance(value, bool) and annotation != "bool"
    if description and (is_flag or not isinstance(value, kind)):
        raise SpecError(f"{name}: {key} is {description}, got {value!r:.200}")
    value = tuple(value) if annotation.startswith("tuple[") and isinstance(value, list) else value
    is_part, description = _PARTS.get(annotation, (None, ""))
    if is_part is not None and not is_part(value):
        raise SpecError(f"{name}: {key} is {description}, got {value!r:.200}")
    return value


def _find(name: str, group: Group) -> Any:
    if ":" in name:
        return find_target(name)
    points = {**entry_point_names("editcritic.parts"), **entry_point_names(group)}
    if name not in points:
        names = list(entry_point_names(group))
        if group == "editcritic.experts":
            names += registered_models()
        matches = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        available = ", ".join(names) or "none installed"
        if group == "editcritic.rewards" and names:
            available = f"{len(names)} of them, listed by `editcritic rewards`"
        hint = f"did you mean {', '.join(matches)}?" if matches else f"there are {available}"
        raise SpecError(f"unknown {group.partition('.')[2].rstrip('s')} {name!r}: {hint}")
    try:
        return points[name].load()
    except (ImportError, AttributeError) as error:
        raise SpecError(f"{name} is installed, but {points[name].value} cannot be loaded: {error}") from None


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """What a role is bound to. spec: of an expert, or an expert. context: precedes the role in error messages. bundle:
    the bundle that the spec comes from, if any.
    """

    spec: Any
    context: str = ""
    bundle: str = ""


def load_experts(bindings: ExpertBindings, defaults: Mapping[str, Expert] | None = None) -> dict[str, Expert]:
    """Experts by role, as specs name them. A spec is a line such as

        detector=grounding-dino-tiny judge=openai:http://127.0.0.1:8000/v1 features=dinov3-vitb16?dtype=float16

    or several lines (the command line's `--experts`), or a table role -> expert or spec (see `queries.specs`). A word
    without a role is a bundle (`small`, see `experts.loading.model_registry`); a TOML file with such a table or line,
    at the
    top level or as `experts`; or `module:function`, which returns the table. In a table, the key `bundle` names one.
    Roles override those of bundles, files and functions, and later words earlier ones: `small judge=openai:gpt-4o`.

    Raises `SpecError`.

    Args:
        defaults: Experts for roles that the line leaves open; a bundle, file or function replaces all of them. Roles
            with the same spec share one expert, also with experts that ask another one: `reader=judge-reader` reads
            with the expert of the role `judge`. No weights are loaded yet.
    """
    tables, single = _read_bindings(bindings)
    experts = {} if tables or defaults is None else dict(defaults)
    return experts | _Binder({**tables, **single}).experts()


def expert_specs(bindings: ExpertBindings) -> dict[str, Any]:
    """Role -> spec or expert as `load_experts` would build them, with the addresses that bundles take from the
    environment. Raises `SpecError`."""
    tables, single = _read_bindings(bindings)
    return {role: _with_addresses(spec, role) for role, spec in {**tables, **single}.items()}


def named_bundles(bindings: ExpertBindings) -> tuple[Bundle, ...]:
    """The bundles that experts come from. Raises `SpecError`."""
    tables, single = _read_bindings(bindings)
    names = {spec.bundle for spec in {**tables, **single}.values()}
    return tuple(bundle for name, bundle in bundles().items() if name in names)


def _read_bindings(
    bindings: ExpertBindings, files: dict[str, dict[str, RoleSpec] | None] | None = None
) -> tuple[dict[str, RoleSpec], dict[str, RoleSpec]]:
    """Role -> spec: those of bundles, files and functions, and those given by themselves. files: the tables of files
    that are read, since files may name files; None while a file is being read.
    """
    files = {} if files is None else files
    if isinstance(bindings, Mapping):
        return _flatten(bindings, ""), {}
    tables: dict[str, RoleSpec] = {}
    single: dict[str, RoleSpec] = {}
    for word in _words(bindings):
        role, equals, spec = word.partition("=")
        if equals and ROLE.fullmatch(role):
            single[role] = RoleSpec(spec)
        elif word.endswith(".toml"):
            tables |= _bindings_from_file(word, files)
        elif ":" in word and not equals:
            tables |= _flatten(_bindings_from_function(word), f"{word}: ")
        elif word in bundles():
            tables |= _bundle_specs(word)
        else:
            raise SpecError(_unknown_word(word))
    return tables, single


def _words(bindings: str | Path | Sequence[str]) -> list[str]:
    if isinstance(bindings, Path):
        return [str(bindings)]
    lines: Any = [bindings] if isinstance(bindings, str) else bindings
    if not isinstance(lines, Sequence) or not all(isinstance(line, str) for line in lines):  # as files may have it
        raise SpecError(f"experts are a text, a list of texts or a table of role = spec, got {bindings!r:.80}")
    try:
        return [word for line in lines for word in shlex.split(line)]
    except ValueError as error:
        raise SpecError(f"cannot parse the experts: {error} in {' '.join(lines)!r}") from None


def _unknown_word(word: str) -> str:
    expected = f"expected experts as role=spec, a TOML file, module:function or a bundle, got {word!r}"
    if (model := registered_models().get(word)) is not None:
        return f"{expected}: say for which role, as in {model.use.partition(',')[0]}={word}"
    module = word.removesuffix(".py")
    if module.isidentifier() and Path(f"{module}.py").is_file():
        return f"{expected}: name the function of it that returns role -> expert, as in {module}:experts"
    close = difflib.get_close_matches(word.lower(), bundles(), n=1, cutoff=0.5)
    return "\n".join([expected + (f": did you mean {close[0]}?" if close else "; the bundles are"), *bundle_lines()])


def _bundle_specs(name: Any, context: str = "") -> dict[str, RoleSpec]:
    if not isinstance(name, str) or name not in bundles():
        raise SpecError("\n".join([f"{context}there is no bundle {name!r}; the bundles are", *bundle_lines()]))
    return {role: RoleSpec(spec, context, name) for role, spec in bundles()[name].roles.items()}


def _bindings_from_file(path: str, files: dict[str, dict[str, RoleSpec] | None]) -> dict[str, RoleSpec]:
    if path not in files:
        files[path] = None
        table = read_spec(path)
        roles = table.get("experts", table) if isinstance(table, Mapping) else table
        if isinstance(roles, str):
            tables, single = _read_bindings(roles, files)
            files[path] = {**tables, **single}
        elif isinstance(roles, Mapping) and roles:
            files[path] = _flatten(roles, f"{path}: ")
        else:
            raise SpecError(f"{path} binds no expert: give a table of role = spec, or one called experts")
    if (specs := files[path]) is None:
        raise SpecError(f"{path} names itself, directly or by the files that it names: leave one of them out")
    return specs


def _bindings_from_function(text: str) -> Mapping[str, Any]:
    try:
        function = find_target(text)
    except SpecError as error:
        raise SpecError(f"{error}; role=spec is expected otherwise") from None
    table = _called(function, text) if callable(function) else function
    if not isinstance(table, Mapping) or not table:
        raise SpecError(f"{text} returns {type(table).__name__}: role -> expert is expected")
    return table


def _called(function: Callable[..., Any], text: str) -> Any:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        raise SpecError(f"{text} takes arguments: give a function without any, which returns role -> expert") from None
    return function()


def _flatten(roles: Mapping[str, Any], context: str, prefix: str = "") -> dict[str, RoleSpec]:
    """context: precedes the role in error messages. prefix: of the roles of a nested table."""
    specs = _bundle_specs(roles["bundle"], context) if "bundle" in roles and not prefix else {}
    for name, spec in roles.items():
        role = f"{prefix}{name}"
        if role == "bundle":
            continue
        if isinstance(spec, Mapping) and "use" not in spec and spec:  # TOML reads judge.quality as a table in a table
            specs |= _flatten(spec, context, f"{role}.")
        else:
            specs[role] = RoleSpec(spec, context)
    return specs


def _with_addresses(bound: RoleSpec, role: str) -> Any:
    return with_addresses(bound.spec, bound.bundle, role) if bound.bundle else bound.spec


class _Binder:
    """Builds the experts of roles. Equal specs are one expert, also that of an expert which another one asks."""

    def __init__(self, specs: Mapping[str, RoleSpec]) -> None:
        self._specs = specs
        self._shared: dict[str, Expert] = {}

    def experts(self) -> dict[str, Expert]:
        """Role -> expert. Raises `SpecError`."""
        return {role: self._expert(role) for role in self._specs}

    def _expert(self, role: str) -> Expert:
        bound = self._specs[role]
        if isinstance(bound.spec, Expert):
            return bound.spec
        context = f"{bound.context}{role}"
        try:
            spec = _with_addresses(bound, role)
            key = _spec_key(spec)
            if key not in self._shared:
                built = build(spec, "editcritic.experts", **self._shared_experts(spec, role))
                if not isinstance(built, Expert):
                    whole = f": without {role}=, if it returns role -> expert" if isinstance(built, Mapping) else ""
                    raise SpecError(f"{spec!r} builds {type(built).__name__}, which is not an Expert{whole}")
                self._shared[key] = built
            return self._shared[key]
        except ImportError as error:
            raise SpecError(
                f"{context} cannot be built: {error}; `editcritic doctor` lists what is installed"
            ) from None
        except ValueError as error:
            raise SpecError(f"{context}: {error}") from None

    def _shared_experts(self, spec: Any, role: str) -> dict[str, Expert]:
        """The experts of other roles that this one asks: of the same spec as its own, or else, where it has to be given
        one and is not, that of the role which the option is named after."""
        is_table = isinstance(spec, Mapping)
        name, _, query = str(spec.get("use", "") if is_table else spec).partition("?")
        if name not in entry_point_names("editcritic.experts"):
            return {}
        options = spec if is_table else dict(parse_qsl(query, keep_blank_values=True))
        shared: dict[str, Expert] = {}
        for key, parameter in parameters(_find(name, "editcritic.experts")).items():
            if parameter.annotation != "Expert | Spec":
                continue
            if key in options:
                own = _spec_key(options[key])
                same = next((other for other, one in self._specs.items() if _spec_key(one.spec) == own), role)
                if same != role:
                    shared[key] = self._expert(same)
            elif parameter.default is parameter.empty:
                if key not in self._specs or key == role:
                    raise SpecError(
                        f"{name} asks a {key}: bind one, as in {key}=openai:http://127.0.0.1:8000/v1, or give it its "
                        f"own, as in {name}:openai:http://127.0.0.1:8000/v1"
                    )
                shared[key] = self._expert(key)
        return shared


def _spec_key(spec: Any) -> str:
    return json.dumps(spec, sort_keys=True, default=repr)
