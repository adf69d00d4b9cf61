"""Binding: which expert answers for which role, as it is written down: in a line, in a table, in a TOML file."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .expert import Expert
from .spec import Spec, SpecError, build, read

Experts = str | Path | Sequence[str] | Mapping[str, Expert | Spec]
"""What `load_experts` takes."""

_ROLE = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")


def load_experts(given: Experts, over: Mapping[str, Expert] | None = None) -> dict[str, Expert]:
    """Role -> expert, of a line such as

        detector=grounding-dino-tiny judge=openai:http://127.0.0.1:8000/v1 features=dinov3-vitb16?dtype=float16

    or of several (what the command line is given), or of a table of the same, role -> expert or spec (see `spec`). A
    word of the line without a role is a TOML file that holds such a table or line, as a whole or as `experts`; or
    `module:function`, which returns the table. Later words win.

    over: who else is there, for roles that the line leaves open; a file or function says it all. Roles with the same
    spec share one expert. Nothing is loaded yet. Raises `SpecError`.
    """
    shared: dict[str, Expert] = {}
    if isinstance(given, Mapping):
        return _bound(given, shared, "")
    whole: dict[str, Expert] = {}
    single: dict[str, Expert] = {}
    for word in _words(given):
        role, equals, spec = word.partition("=")
        if equals and _ROLE.fullmatch(role):
            single |= _bound({role: spec}, shared, "")
        elif word.endswith(".toml"):
            whole |= _of_file(word, shared)
        elif ":" in word and not equals:
            whole |= _bound(_of_function(word), shared, f"{word}: ")
        else:
            raise SpecError(f"experts are given as role=spec, a TOML file, or module:function, got {word!r}")
    return {**(whole or over or {}), **single}


def _words(given: str | Path | Sequence[str]) -> list[str]:
    if isinstance(given, Path):
        return [str(given)]
    lines = [given] if isinstance(given, str) else given
    try:
        return [word for line in lines for word in shlex.split(line)]
    except ValueError as error:
        raise SpecError(f"experts cannot be read: {error} in {' '.join(lines)!r}") from None


def _of_file(path: str, shared: dict[str, Expert]) -> dict[str, Expert]:
    table = read(path)
    roles = table.get("experts", table) if isinstance(table, Mapping) else table
    if isinstance(roles, str):
        return load_experts(roles)
    if not isinstance(roles, Mapping) or not roles:
        raise SpecError(f"{path} binds nobody: give a table of role = spec, or one called experts")
    return _bound(roles, shared, f"{path}: ")


def _of_function(text: str) -> Mapping[str, Any]:
    module, _, path = text.partition(":")
    try:
        function: Any = importlib.import_module(module)
        for part in path.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SpecError(f"{text} cannot be found: {error}; experts are given as role=spec, too") from None
    made = function() if callable(function) else function
    if not isinstance(made, Mapping) or not made:
        raise SpecError(f"{text} gives {type(made).__name__}: role -> expert is expected")
    return made


def _bound(roles: Mapping[str, Any], shared: dict[str, Expert], where: str, above: str = "") -> dict[str, Expert]:
    found: dict[str, Expert] = {}
    for name, spec in roles.items():
        role = f"{above}{name}"
        if isinstance(spec, Mapping) and "use" not in spec and spec:  # TOML reads judge.quality as a table in a table
            found |= _bound(spec, shared, where, f"{role}.")
        else:
            found[role] = _expert(spec, shared, f"{where}{role}")
    return found


def _expert(spec: Any, shared: dict[str, Expert], where: str) -> Expert:
    if isinstance(spec, Expert):
        return spec
    try:
        key = json.dumps(spec, sort_keys=True, default=repr)
        if key not in shared:
            built = build(spec, "editcritic.experts")
            if not isinstance(built, Expert):
                raise SpecError(f"{spec!r} makes {type(built).__name__}, which is no expert")
            shared[key] = built
        return shared[key]
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None
    except ImportError as error:
        raise SpecError(f"{where} cannot be made: {error}; `editcritic doctor` says what is installed") from None
    except ValueError as error:
        raise SpecError(f"{where}: {error}") from None
