"""What is installed, which experts can run here, what to install for the rest; times and memory as measured here."""

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

from ..reward.spec import names

DISTRIBUTION = "editcritic"
TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution that is wanted by the base install (`extra` empty) or by an extra; `version` None if not there."""

    name: str
    extra: str
    version: str | None


@dataclass(frozen=True, slots=True)
class Checked:
    """An expert: `runs`, `missing` (packages), `untried` (needs weights) or `broken`; times in ms a query by kind."""

    name: str
    status: str
    problem: str = ""
    install: str = ""
    id: str = ""
    load_seconds: float | None = None
    milliseconds: dict[str, float] = field(default_factory=dict)
    memory_mib: float | None = None


@dataclass(frozen=True)
class Report:
    """All that the doctor found."""

    system: dict[str, Any]
    packages: tuple[Package, ...]
    torch: dict[str, Any]
    experts: tuple[Checked, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1 if something that is installed does not work, or the base install lacks something."""
        broken = any(expert.status == "broken" for expert in self.experts)
        return int(broken or any(package.version is None and not package.extra for package in self.packages))

    def to_json(self) -> dict[str, Any]:
        extras = {name: install(name) for name in self.lacking}
        return {**asdict(self), "install": extras}

    @property
    def lacking(self) -> dict[str, list[str]]:
        """Extras that are not complete, and what they lack."""
        found: dict[str, list[str]] = {}
        for package in self.packages:
            if package.version is None and package.extra:
                found.setdefault(package.extra, []).append(package.name)
        return found


def examine() -> Report:
    """Look at everything, and run each expert that needs no download, in a process each."""
    wanted = tuple(packages())
    return Report(
        system={
            "editcritic": _version(DISTRIBUTION),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "memory_gib": _memory_gib(),
        },
        packages=wanted,
        torch=torch_report(),
        experts=tuple(check(name, wanted) for name in names("editcritic.experts")),
        notes=tuple(notes()),
    )


def packages() -> Iterator[Package]:
    """What the installed distribution requires of this Python, extras that only bundle others left out."""
    for requirement in metadata.requires(DISTRIBUTION) or []:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        extra = re.search(r"extra\s*==\s*['\"](.+?)['\"]", requirement)
        below = re.search(r"python_version\s*<\s*['\"](\d+)\.(\d+)['\"]", requirement)
        if below and sys.version_info[:2] >= (int(below[1]), int(below[2])):
            continue
        if name and name[0] != DISTRIBUTION:
            yield Package(name[0], extra[1] if extra else "", _version(name[0]))


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def check(name: str, wanted: tuple[Package, ...]) -> Checked:
    """Run one expert in a process of its own."""
    command = [sys.executable, "-m", f"{__package__}.probe", name]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Checked(name, "broken", f"not done after {TIMEOUT_S:g} s")
    if ran.returncode:
        said = ran.stderr.strip().splitlines()
        return Checked(name, "broken", said[-1] if said else f"its process ended with {ran.returncode}")
    found = json.loads(ran.stdout.splitlines()[-1])
    package = found.pop("package", None)
    extra = next((one.extra for one in wanted if one.extra and _module(one.name) == package), "")
    return Checked(name, install=install(extra) if extra else "", **found)


def torch_report() -> dict[str, Any]:
    """Whether torch is there and what it would compute on."""
    if find_spec("torch") is None:
        return {"installed": False, "device": None, "install": install("hf")}
    try:
        import torch
    except (ImportError, OSError) as error:  # a build for other libraries than those that are here
        return {"installed": True, "device": None, "problem": str(error)}
    found: dict[str, Any] = {"installed": True, "version": torch.__version__, "cuda": torch.version.cuda}
    if torch.cuda.is_available():
        return {**found, "device": f"cuda, {torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"}
    return {**found, "device": "mps" if torch.backends.mps.is_available() else "cpu"}


def notes() -> Iterator[str]:
    """What will be missed later, by things that cannot be tried now."""
    if find_spec("torchvision") is None:
        yield (
            "torchvision is not installed: the processors of Qwen-VL and InternVL judges will ask for it (they import "
            "their video parts with it); nothing else does"
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


def table(report: Report) -> RenderableType:
    """The report, for a person."""
    return Group(
        _system(report), _experts(report), _packages(report), *(Text(f"\nNote: {note}") for note in report.notes)
    )


def _grid(title: str, *columns: str) -> Table:
    grid = Table(box=None, pad_edge=False, show_header=bool(columns), title=title, title_justify="left")
    for column in columns:
        grid.add_column(column, overflow="fold")
    return grid


def _system(report: Report) -> Table:
    grid = _grid("This machine")
    for name, value in report.system.items():
        grid.add_row(Text(name), Text(str(value)))
    torch = report.torch
    if torch["device"]:
        grid.add_row("torch", Text(f"{torch['version']}, on {torch['device']}"))
    else:
        grid.add_row("torch", Text(torch.get("problem") or f"not installed: {torch['install']}"))
    return grid


def _experts(report: Report) -> Table:
    grid = _grid(
        "\nExperts that need no download, as measured now", "name", "", "ms a query at 512 x 512", "load s", "MiB"
    )
    for one in report.experts:
        if one.status == "runs":
            times = ", ".join(f"{kind} {time:.1f}" for kind, time in one.milliseconds.items())
            grid.add_row(one.name, "runs", times, f"{one.load_seconds:.2f}", f"{one.memory_mib:.0f}")
        else:
            advice = f": {one.install}" if one.install else ""
            grid.add_row(one.name, one.status, Text(f"{one.problem}{advice}"), "", "")
    return grid


def _packages(report: Report) -> Table:
    grid = _grid("\nPackages", "for", "there", "missing", "to install them")
    for extra in dict.fromkeys(package.extra for package in report.packages):
        here = [one for one in report.packages if one.extra == extra]
        there = ", ".join(f"{one.name} {one.version}" for one in here if one.version)
        missing = ", ".join(one.name for one in here if not one.version)
        advice = (install(extra) if extra else f"pip install --force-reinstall {DISTRIBUTION}") if missing else ""
        grid.add_row(*map(Text, (extra or "base", there, missing, advice)))
    return grid
