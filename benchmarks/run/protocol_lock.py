"""Locked protocols: everything that determines the numbers of a run, in a TOML file for others to run with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...reward.atomic_files import write_atomically
from ...reward.file_specs import require_trusted
from ...reward.regular_files import read_text
from ...reward.toml_files import read_toml
from ..common.errors import InputError
from ..common.toml_format import format_toml
from .provenance import library_versions
from .run_config import RunConfig
from .run_journal import require_same_settings
from .run_spec import RunSpec, option_tables

SCHEMA = 2
_HEAD = """# A locked protocol of editcritic: `editcritic bench run --lock THIS --outputs DIR -o OUT` runs it,
# and rejects other data, metrics, prompts and experts than these.
"""
_UNLOCKED_SETTINGS = ("editor",)
"""Settings that belong to a run, not to its protocol."""


def protocol_toml(spec: RunSpec, config: RunConfig) -> str:
    """The lock file of a run. config: built from `spec`.

    Raises `InputError` if an expert has no spec, so that others could not build it.
    """
    bindings = () if isinstance(spec.experts, Mapping) else spec.experts
    for role, expert in config.run_settings["experts"].items():
        if expert["spec"] is None and not any(":" in text for text in bindings):
            raise InputError(f"the expert of {role} ({expert['id']}) has no spec: bind it by module:function")
    has_specs = all(expert["spec"] is not None for expert in config.run_settings["experts"].values())
    settings = {
        name: value
        for name, value in config.run_settings.items()
        if name not in _UNLOCKED_SETTINGS and value is not None
    }
    table = {
        "schema": SCHEMA,
        "suite_spec": spec.suite,
        **settings,
        "suite_title": config.suite.info.title,
        "citation": config.suite.info.citation,
        "bootstrap": {"samples": config.bootstrap_samples, "seed": config.seed},
        "requested_metrics": list(config.metrics),
        "expert_bindings": None if has_specs else list(bindings),
        "versions": library_versions(),
    }
    return _HEAD + "\n" + format_toml(table)


def write_protocol(path: Path, spec: RunSpec, config: RunConfig) -> None:
    """Write the lock file. Raises `InputError` as `protocol_toml`, and if the file has other contents."""
    text = protocol_toml(spec, config)
    if not path.exists():
        write_atomically(path, text)
        return
    try:
        is_same = read_text(path) == text
    except UnicodeDecodeError:
        is_same = False
    if not is_same:
        raise InputError(f"{path} exists already, with other contents: give a new file, or use it with --lock")


def read_protocol(path: Path) -> dict[str, Any]:
    """Read a lock file. Raises `InputError` for anything but a locked protocol of this schema, and `SpecError` for one
    that names what is neither installed nor trusted (see `file_specs`)."""
    try:
        locked = read_toml(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    if (
        locked.get("schema") != SCHEMA
        or not {"suite_spec", "suite", "data_digest", "metrics", "experts"} <= locked.keys()
    ):
        raise InputError(f"{path} is not a locked protocol of schema {SCHEMA}: `bench run --write-lock` writes one")
    try:
        spec = run_spec_from_protocol(locked, None, Path(), "")
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a whole locked protocol: {type(error).__name__}: {error}") from None
    # Of its metrics and settings the lock holds copies, to compare with: nothing is built of those.
    require_trusted({"suite_spec": spec.suite, "experts": spec.experts, "metrics": option_tables(spec.metrics)}, path)
    return locked


def run_spec_from_protocol(locked: Mapping[str, Any], data: Path | None, outputs: Path, editor: str) -> RunSpec:
    """The run of a locked protocol on these outputs."""
    return RunSpec(
        locked["suite_spec"],
        data,
        outputs,
        editor,
        tuple(locked.get("expert_bindings", ()))
        or {role: expert["spec"] for role, expert in locked["experts"].items()},
        locked.get("protocol"),
        tuple(locked["requested_metrics"]),
        locked["reproducible"],
        locked["bootstrap"]["samples"],
        locked["bootstrap"]["seed"],
    )


def check_protocol(locked: Mapping[str, Any], config: RunConfig, location: str) -> list[str]:
    """Raise `InputError` if settings that determine numbers differ from the locked ones.

    Returns the libraries with other versions: they may change the last digits of a model's numbers.
    """
    settings = {
        name: value
        for name, value in config.run_settings.items()
        if name not in _UNLOCKED_SETTINGS and value is not None
    }
    locked_settings = json.loads(json.dumps({name: locked.get(name) for name in settings}))
    require_same_settings(_without_nulls(locked_settings), _without_nulls(settings), location)
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
