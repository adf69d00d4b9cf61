"""Locked protocols: everything that determines the numbers of a run, in a TOML file for others to run with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward.atomic_files import write_atomically
from ...reward.file_specs import require_trusted
from ...reward.queries.specs import Spec
from ...reward.regular_files import read_regular, read_text
from ..common.errors import InputError
from ..common.settings_files import read_table
from ..suites.results import RESULT_FILE, RUN_FILE, load_results
from .result_files import result_files
from .run_budget import ProgressCallback, ignore_progress
from .run_config import RunConfig, library_versions
from .run_journal import abbreviate_json, read_json, require_same_settings
from .run_settings import DECIDED_BY_LOCK, RunSettings, format_toml, option_tables
from .runner import execute

SCHEMA = 2
_HEAD = """# A locked protocol of editcritic: `editcritic bench run --lock THIS --outputs DIR -o OUT` runs it,
# and rejects other data, metrics, prompts and experts than these.
"""
_UNLOCKED_SETTINGS = ("editor",)
"""Settings that belong to a run, not to its protocol."""


def write_protocol(path: Path, config: RunConfig) -> None:
    """Write the lock file of a run. Raises `InputError` if an expert has no spec, so that others could not build it,
    and if the file has other contents."""
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
    """Raise `InputError` if settings that determine numbers differ from the locked ones. Returns the libraries with
    other versions: they may change the last digits of a model's numbers."""
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


@dataclass(frozen=True)
class ReproductionReport:
    """Comparison of two result folders: files, items and provenance entries that differ. count: number of items."""

    files: tuple[str, ...]
    items: tuple[str, ...]
    provenance_changes: Mapping[str, tuple[Any, Any]]
    count: int

    @property
    def equal(self) -> bool:
        """Whether all files are equal byte by byte."""
        return not self.files

    def __str__(self) -> str:
        if self.equal:
            return f"equal to the byte: all files, {self.count} items"
        changes = [
            f"{name} was {abbreviate_json(before)}, is {abbreviate_json(after)}"
            for name, (before, after) in self.provenance_changes.items()
        ]
        lines = [f"files that differ: {', '.join(self.files)}", *changes]
        listed = ", ".join(self.items[:20]) + (f" and {len(self.items) - 20} others" if len(self.items) > 20 else "")
        lines.append(f"{len(self.items)} of {self.count} items differ" + (f": {listed}" if self.items else ""))
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "files": list(self.files),
            "items": list(self.items),
            "provenance": {
                name: {"before": before, "after": after} for name, (before, after) in self.provenance_changes.items()
            },
            "count": self.count,
        }


def settings_of_results(
    folder: Path, *, data: Path | None = None, outputs: Path | None = None, experts: tuple[str, ...] = ()
) -> RunSettings:
    """The run that wrote a result folder. data, outputs, experts: their new locations, if they moved.

    Of recorded paths only those of data and outputs are followed, and only read. Raises `InputError` if the folder does
    not record the run, and `SpecError` if it names what is neither installed nor trusted.
    """
    try:
        return _settings(folder, data, outputs, experts)
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{folder} does not record its run: {type(error).__name__}: {error}") from None


def _settings(folder: Path, data: Path | None, outputs: Path | None, experts: tuple[str, ...]) -> RunSettings:
    result = read_json(folder / RESULT_FILE)
    invocation = read_json(folder / RUN_FILE).get("invocation", {}) if (folder / RUN_FILE).exists() else {}
    provenance = result.get("provenance", {})
    if not provenance.get("complete"):
        raise InputError(f"{folder} contains results of a run that ended early: only complete runs can be reproduced")
    if outputs is None and not invocation.get("outputs"):
        raise InputError(f"{folder / RUN_FILE} does not record the folder of outputs: give --outputs")
    if any("\0" in str(invocation.get(name)) for name in ("data", "outputs")):
        raise InputError(f"{folder / RUN_FILE} records a path with a null character: give --data and --outputs")
    if data is None and invocation.get("data"):
        data = folder / invocation["data"]
    spec: Spec = invocation.get("suite") or {"use": provenance["suite"], **provenance["suite_options"]}
    recorded_experts = None if experts else _experts(provenance, invocation, folder)
    metrics = tuple(invocation.get("metrics", ()))
    require_trusted({"suite": spec, "experts": recorded_experts, "metrics": option_tables(metrics)}, folder)
    decided = {
        "suite": spec,
        "data": data,
        "outputs": outputs or folder / invocation["outputs"],
        "editor_name": result["editor"],
        "experts": experts or recorded_experts or (),
        "protocol": provenance["protocol"],
        "metrics": metrics,
        "reproducible": provenance["reproducible"],
        "bootstrap_samples": provenance["bootstrap"]["samples"],
        "seed": provenance["bootstrap"]["seed"],
    }
    return RunSettings().overridden(decided, str(folder))


def reproduce_run(
    settings: RunSettings, folder: Path, output_folder: Path, on_progress: ProgressCallback = ignore_progress
) -> ReproductionReport:
    """Run it again into another folder, and compare. Raises `InputError` if the run ends early."""
    config = RunConfig.build(settings.overridden({"out": output_folder}))
    result = execute(config, on_progress=on_progress)
    if result is None or result.stop_reason:
        raise InputError("the run ended early" + ("" if result is None else f": {result.stop_reason}"))
    return compare_result_folders(folder, output_folder)


def compare_result_folders(folder: Path, reproduced: Path) -> ReproductionReport:
    """Compare two result folders by bytes and by rows."""
    names = sorted({*result_files(folder), *result_files(reproduced)})
    differing_files = tuple(str(name) for name in names if _bytes(folder, name) != _bytes(reproduced, name))
    old, new = load_results(folder), load_results(reproduced)
    new_rows = {row.id: _line(row.to_json()) for row in new.rows}
    old_rows = {row.id: _line(row.to_json()) for row in old.rows}
    differing_items = tuple(name for name in {**old_rows, **new_rows} if old_rows.get(name) != new_rows.get(name))
    old_provenance, new_provenance = old.provenance, new.provenance
    provenance_changes = {
        name: (old_provenance.get(name), new_provenance.get(name))
        for name in {**old_provenance, **new_provenance}
        if old_provenance.get(name) != new_provenance.get(name)
    }
    return ReproductionReport(differing_files, differing_items, provenance_changes, len(old.rows))


def _experts(
    provenance: Mapping[str, Any], invocation: Mapping[str, Any], folder: Path
) -> tuple[str, ...] | Mapping[str, Spec]:
    specs = {role: expert["spec"] for role, expert in provenance["experts"].items()}
    if all(specs.values()):
        return specs
    if not invocation.get("experts") or isinstance(invocation["experts"], Mapping):
        role_without_spec = next(role for role, spec in specs.items() if not spec)
        raise InputError(f"{folder} does not record how to build the expert of {role_without_spec}: give --experts")
    return tuple(invocation["experts"])


def _bytes(folder: Path, name: Path) -> bytes | None:
    """A file of results, which may name others. Raises OSError for what is no regular file of the folder."""
    try:
        return read_regular(folder / name, _MAX_FILE_BYTES, inside=folder)
    except FileNotFoundError:
        return None


_MAX_FILE_BYTES = 2**30


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)
