"""Suites and experts by what is typed: entry points, specs, TOML files."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ...reward import Expert, Reward, SpecError, build
from ...reward.reward import no_download
from ...reward.spec import Group, Spec, read
from ..inputs import InputError, load_reward
from ..suites.suite import Suite

SUITES = cast("Group", "editcritic.suites")
EXPERTS: Group = "editcritic.experts"


def load_suite(spec: Spec, data: Path | None = None) -> Suite:
    """A suite by its spec, as in `edival?mode=singlepass`, and the place of its data. Raises `InputError`."""
    try:
        found = build(spec, SUITES, data=data)
    except SpecError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    if not isinstance(found, Suite):
        raise InputError(f"{spec} makes {type(found).__name__}, which is no suite")
    if not found.items:
        where = "it" if data is None else str(data)
        raise InputError(f"{spec}: there is not one item in {where}" + "".join(f"; {one}" for one in found.problems))
    return found


def load_experts(given: Sequence[str]) -> dict[str, Expert]:
    """Role -> expert. Each of `given` is `role=spec`, a TOML file, or `module:function` that returns the mapping.

    Without a file or function, `role=spec` stand over the experts that need no download; with one, over its own.
    Raises `InputError` or `SpecError`.
    """
    found: dict[str, Expert] = {}
    single: dict[str, Expert] = {}
    for text in given:
        role, equals, spec = text.partition("=")
        if equals and role.replace(".", "").replace("_", "").isalnum() and not text.endswith(".toml"):
            single[role] = _expert(spec, f"--experts {text}")
        elif text.endswith(".toml"):
            found |= _of_file(text)
        elif ":" in text:
            found |= _of_function(text)
        else:
            raise InputError(f"--experts {text}: give role=spec, a TOML file, or module:function")
    return (found or no_download()) | single


def reward_of(spec: Spec, experts: Mapping[str, Expert] | None = None) -> Reward:
    """The reward of a spec, with these experts in the place of its own. Raises `InputError` or `SpecError`."""
    if experts is None:
        return load_reward(spec)
    try:
        return Reward.of(spec, experts)
    except SpecError:
        raise
    except (ImportError, ValueError) as error:
        raise InputError(f"{spec}: {error}") from None


def bound(experts: Mapping[str, Expert | Spec]) -> dict[str, Expert]:
    """The same, specs built."""
    return {role: expert if isinstance(expert, Expert) else _expert(expert, role) for role, expert in experts.items()}


def _of_file(path: str) -> dict[str, Expert]:
    table = read(path)
    roles = table.get("experts", table) if isinstance(table, Mapping) else table
    if not isinstance(roles, Mapping) or not roles:
        raise InputError(f"{path} binds nobody: give a table of role = spec, or one called experts")
    return {str(role): _expert(spec, f"{path}: {role}") for role, spec in roles.items()}


def _of_function(text: str) -> dict[str, Expert]:
    module, _, path = text.partition(":")
    try:
        function: Any = importlib.import_module(module)
        for part in path.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"--experts {text} cannot be found: {error}") from None
    made = function() if callable(function) else function
    if not isinstance(made, Mapping) or not made:
        raise InputError(f"--experts {text} gives {type(made).__name__}: role -> expert is expected")
    return {str(role): _expert(expert, f"{text}: {role}") for role, expert in made.items()}


def _expert(given: Any, where: str) -> Expert:
    try:
        found = given if isinstance(given, Expert) else build(given, EXPERTS)
    except SpecError as error:
        raise InputError(f"{where}: {error}") from None
    except (ImportError, ValueError) as error:
        raise InputError(f"{where} cannot be made: {error}; `editcritic doctor` says what is installed") from None
    if not isinstance(found, Expert):
        raise InputError(f"{where} makes {type(found).__name__}, which is no expert")
    return found
