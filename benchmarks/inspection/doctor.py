"""Diagnostics: installed packages, experts that run on this machine with times and memory, and what to install."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...reward.child_python import python_command
from ...reward.installation import DISTRIBUTION, install_command
from ...reward.queries.specs import entry_point_names
from ..common.terminal import plain_table

TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution required by the base install (`extra` empty) or by an extra; `version` is None if missing."""

    name: str
    extra: str
    version: str | None


@dataclass(frozen=True, slots=True)
class ExpertStatus:
    """An expert: `runs`, `not_installed`, `not_tested` (needs weights) or `failed`; times in ms per query by kind."""

    name: str
    status: str
    problem: str = ""
    install_command: str = ""
    id: str = ""
    load_seconds: float | None = None
    milliseconds: dict[str, float] = field(default_factory=dict)
    memory_mib: float | None = None


@dataclass(frozen=True)
class DoctorReport:
    """The diagnostics report."""

    system: dict[str, Any]
    packages: tuple[Package, ...]
    torch: dict[str, Any]
    experts: tuple[ExpertStatus, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1 if an installed expert fails, or a package of the base install is missing."""
        broken = any(expert.status == "failed" for expert in self.experts)
        return int(broken or any(package.version is None and not package.extra for package in self.packages))

    def to_json(self) -> dict[str, Any]:
        extras = {name: install_command(name) for name in self.missing_packages}
        return {**asdict(self), "install": extras}

    @property
    def missing_packages(self) -> dict[str, list[str]]:
        """Incomplete extras and their missing packages."""
        missing: dict[str, list[str]] = {}
        for package in self.packages:
            if package.version is None and package.extra:
                missing.setdefault(package.extra, []).append(package.name)
        return missing


def run_diagnostics() -> DoctorReport:
    """Collect all diagnostics; each expert that needs no download runs in its own process."""
    required = tuple(packages())
    return DoctorReport(
        system={
            "editcritic": _version(DISTRIBUTION),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "memory_gib": _memory_gib(),
        },
        packages=required,
        torch=torch_report(),
        experts=tuple(check_expert(name, required) for name in entry_point_names("editcritic.experts")),
        notes=tuple(environment_notes()),
    )


def packages() -> Iterator[Package]:
    """Requirements of the installed distribution on this Python, without extras that only bundle others."""
    for requirement in metadata.requires(DISTRIBUTION) or []:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        extra = re.search(r"extra\s*==\s*['\"](.+?)['\"]", requirement)
        below = re.search(r"python_version\s*<\s*['\"](\d+)\.(\d+)['\"]", requirement)
        if below and sys.version_info[:2] >= (int(below[1]), int(below[2])):
            continue
        if name and name[0] != DISTRIBUTION:
            yield Package(name[0], extra[1] if extra else "", _version(name[0]))


def check_expert(name: str, required: tuple[Package, ...]) -> ExpertStatus:
    """Run one expert in its own process."""
    command = python_command(f"from {__package__}.expert_probe import main; main()", name)
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return ExpertStatus(name, "failed", f"not finished after {TIMEOUT_S:g} s")
    if completed.returncode:
        lines = completed.stderr.strip().splitlines()
        return ExpertStatus(name, "failed", lines[-1] if lines else f"its process ended with {completed.returncode}")
    result = json.loads(completed.stdout.splitlines()[-1])
    package = result.pop("package", None)
    extra = next((package_.extra for package_ in required if package_.extra and _module(package_.name) == package), "")
    return ExpertStatus(name, install_command=install_command(extra) if extra else "", **result)


def torch_report() -> dict[str, Any]:
    """Whether torch is installed, and its device."""
    if find_spec("torch") is None:
        return {"installed": False, "device": None, "install": install_command("hf")}
    try:
        import torch
    except (ImportError, OSError) as error:  # a build for other libraries
        return {"installed": True, "device": None, "problem": str(error)}
    report: dict[str, Any] = {"installed": True, "version": torch.__version__, "cuda": torch.version.cuda}
    if torch.cuda.is_available():
        return {**report, "device": f"cuda, {torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"}
    return {**report, "device": "mps" if torch.backends.mps.is_available() else "cpu"}


def environment_notes() -> Iterator[str]:
    """Warnings about packages that untested experts need."""
    if find_spec("torchvision") is None:
        yield (
            "torchvision is not installed: only the processors of Qwen-VL and InternVL judges need it, for their "
            "video code"
        )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _module(distribution: str) -> str:
    return distribution.replace("-", "_").lower()


def _memory_gib() -> float | None:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)


def render_report(report: DoctorReport) -> RenderableType:
    """The report for the terminal."""
    return Group(
        _system(report), _experts(report), _packages(report), *(Text(f"\nNote: {note}") for note in report.notes)
    )


def _system(report: DoctorReport) -> Table:
    grid = plain_table("This machine")
    for name, value in report.system.items():
        grid.add_row(Text(name), Text(str(value)))
    torch = report.torch
    if torch["device"]:
        grid.add_row("torch", Text(f"{torch['version']}, on {torch['device']}"))
    else:
        grid.add_row("torch", Text(torch.get("problem") or f"not installed: {torch['install']}"))
    return grid


def _experts(report: DoctorReport) -> Table:
    grid = plain_table(
        "\nExperts that need no download, measured now", "name", "", "ms per query at 512 x 512", "load s", "MiB"
    )
    for expert in report.experts:
        if expert.status == "runs":
            times = ", ".join(f"{kind} {time:.1f}" for kind, time in expert.milliseconds.items())
            grid.add_row(expert.name, "runs", times, f"{expert.load_seconds:.2f}", f"{expert.memory_mib:.0f}")
        else:
            advice = f": {expert.install_command}" if expert.install_command else ""
            grid.add_row(expert.name, expert.status.replace("_", " "), Text(f"{expert.problem}{advice}"), "", "")
    return grid


def _packages(report: DoctorReport) -> Table:
    grid = plain_table("\nPackages", "extra", "installed", "missing", "install with")
    for extra in dict.fromkeys(package.extra for package in report.packages):
        of_extra = [package for package in report.packages if package.extra == extra]
        installed = ", ".join(f"{package.name} {package.version}" for package in of_extra if package.version)
        missing = ", ".join(package.name for package in of_extra if not package.version)
        advice = install_command(extra, "" if extra else "--force-reinstall") if missing else ""
        grid.add_row(*map(Text, (extra or "base", installed, missing, advice)))
    return grid
