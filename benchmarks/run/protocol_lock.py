"""Locked protocols: everything that determines the numbers of a run, in a TOML file for others to run with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...reward.atomic_files import write_atomically
from ...reward.file_specs import require_trusted
from ...reward.regular_files import read_text
from ..common.errors import InputError
from ..common.toml_format import format_toml
from .run_config import RunConfig, library_versions
from .run_journal import require_same_settings
from .run_settings import DECIDED_BY_LOCK, RunSettings, option_tables, read_table

SCHEMA = 2
_HEAD = """# A locked protocol of editcritic: `editcritic bench run --lock THIS --outputs DIR -o OUT` runs it,
# and rejects other data, metrics, prompts and experts than these.
"""
_UNLOCKED_SETTINGS = ("editor",)
"""Settings that belong to a run, not to its protocol."""


def write_protocol(path: Path, config: RunConfig) -> None:
    """Write the lock file of a run.

    Raises `InputError` if an expert has no spec, so that others could not build it, and if the file has other contents.
    """
    text = _protocol_toml(config)
    if not path.exists():
        write_atomically(path, text)
        return
    try:
        is_same = read_text(path) == text
    except UnicodeDecodeError:
        is_same = False
    if not is_same:
        raise InputError(f"{path} exists already, with other contents: give a new file, or use it with --lock")


def _protocol_toml(config: RunConfig) -> str:
    settings = config.settings
    bindings = () if isinstance(settings.experts, Mapping) else settings.experts
    experts = config.identity["experts"]
    for role, expert in experts.items():
        if expert["spec"] is None and not any(":" in text for text in bindings):
            raise InputError(f"the expert of {role} ({expert['id']}) has no spec: bind it by module:function")
    has_specs = all(expert["spec"] is not None for expert in experts.values())
    table = {
        "schema": SCHEMA,
        "suite_spec": settings.suite,
        **_locked_part(config),
        "suite_title": config.suite.info.title,
        "citation": config.suite.info.citation,
        "bootstrap": {"samples": settings.bootstrap_samples, "seed": settings.seed},
        "requested_metrics": list(settings.metrics),
        "expert_bindings": None if has_specs else list(bindings),
        "versions": library_versions(),
    }
    return _HEAD + "\n" + format_toml(table)


def _locked_part(config: RunConfig) -> dict[str, Any]:
    return {
        name: value for name, value in config.identity.items() if name not in _UNLOCKED_SETTINGS and value is not None
    }


def read_protocol(path: Path, settings: RunSettings) -> tuple[dict[str, Any], RunSettings]:
    """What a lock file holds, and the settings with what it decides in their place.

    Raises `InputError` for anything but a locked protocol of this schema, and for a setting that the lock decides;
    `SpecError` for one that names what is neither installed nor trusted (see `file_specs`).
    """
    if conflicting := [name for name in DECIDED_BY_LOCK if name in settings.model_fields_set]:
        raise InputError(
            f"the lock decides {', '.join(conflicting)}: leave {'them' if len(conflicting) > 1 else 'it'} out of "
            "options and configuration, or run without the lock"
        )
    locked = read_table(path)
    if (
        locked.get("schema") != SCHEMA
        or not {"suite_spec", "suite", "data_digest", "metrics", "experts"} <= locked.keys()
    ):
        raise InputError(f"{path} is not a locked protocol of schema {SCHEMA}: `bench run --write-lock` writes one")
    try:
        decided = {
            "suite": locked["suite_spec"],
            "experts": tuple(locked.get("expert_bindings", ()))
            or {role: expert["spec"] for role, expert in locked["experts"].items()},
            "protocol": locked.get("protocol"),
            "metrics": tuple(locked["requested_metrics"]),
            "reproducible": locked["reproducible"],
            "bootstrap_samples": locked["bootstrap"]["samples"],
            "seed": locked["bootstrap"]["seed"],
        }
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a whole locked protocol: {type(error).__name__}: {error}") from None
    # Of its metrics and settings the lock holds copies, to compare with: nothing is built of those.
    specs = {"suite_spec": decided["suite"], "experts": decided["experts"]}
    require_trusted({**specs, "metrics": option_tables(decided["metrics"])}, path)
    return locked, settings.overridden(decided, str(path))


def check_protocol(locked: Mapping[str, Any], config: RunConfig, location: str) -> list[str]:
    """Raise `InputError` if settings that determine numbers differ from the locked ones.

    Returns the libraries with other versions: they may change the last digits of a model's numbers.
    """
    settings = _locked_part(config)
    recorded = json.loads(json.dumps({name: locked.get(name) for name in settings}))
    require_same_settings(_without_nulls(recorded), _without_nulls(settings), location)
    installed = library_versions()
    return [
        f"{name} {installed.get(name, 'missing')} instead of {version}"
        for name, version in locked.get("versions", {}).items()
        if installed.get(name) != version
    ]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(element) for name, element in value.items() if element is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value
