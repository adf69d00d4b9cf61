"""Reproduce a result from its own files, and compare it with the original."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward.file_specs import require_trusted
from ...reward.queries.specs import Spec
from ...reward.regular_files import read_regular
from ..common.errors import InputError
from ..suites.results import RESULT_FILE, RUN_FILE, load_results
from .result_files import result_files
from .run_config import RunConfig
from .run_journal import abbreviate_json, read_json
from .run_progress import ProgressCallback, ignore_progress
from .run_settings import RunSettings, option_tables
from .runner import execute


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

    Of the recorded paths only those of data and outputs are followed: they are read as pictures and as the suite's
    data, and nothing is written there. Raises `InputError` if the folder does not record the run, and `SpecError` if it
    names what is neither installed nor trusted (see `file_specs`).
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
