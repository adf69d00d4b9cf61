"""Check a release before it is published: `make release-check`.

Builds source archive and wheel, checks what is in them, then installs the wheel with each extra alone into a fresh
environment outside of the tree and runs there what the extra promises.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import licences
from .check_installation import InstallationReport, check_installation
from .distributions import ROOT, ReleaseError, build, build_wheel, check, check_same_wheel, tracked_copy
from .installations import Installation, installations


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if all is well, 1 if something failed."""
    parser = argparse.ArgumentParser(prog="make release-check", description=__doc__)
    parser.add_argument("--only", help="comma-separated names of installations, as the table has them")
    parser.add_argument("--light", action="store_true", help="without the installations that bring torch or Ray")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the two archives are left")
    parser.add_argument("--write-licences", action="store_true", help="renew the table of docs/licences.md")
    given = parser.parse_args(arguments)
    console = Console(width=None if Console().is_terminal else 160)
    try:
        chosen = _chosen(given.only, given.light)
        with tempfile.TemporaryDirectory(prefix="editcritic-release-") as temporary:
            folder = Path(temporary)
            wheel = _checked_wheel(folder, given.dist, console)
            reports = _reports(chosen, wheel, folder, console)
        is_complete = not (given.only or given.light)
        _report(reports, wheel, given.dist.parent / "build" / "release-check.json", console)
        _licences(reports, console, is_complete=is_complete, write=given.write_licences)
    except ReleaseError as error:
        console.print(f"release-check: {error}", style="red", markup=False, highlight=False)
        return 1
    if failed := [report.name for report in reports if report.problem]:
        console.print(f"release-check: not as promised: {', '.join(failed)}; the reasons are above", style="red")
    return int(bool(failed))


def _chosen(only: str | None, light: bool) -> list[Installation]:
    everything = installations()
    if only is None:
        return [one for one in everything if not (light and one.is_heavy)]
    by_name = {one.name: one for one in everything}
    names = [name.strip() for name in only.split(",")]
    if unknown := [name for name in names if name not in by_name]:
        raise ReleaseError(f"there is no installation {', '.join(unknown)}: there are {', '.join(by_name)}")
    return [by_name[name] for name in names]


def _checked_wheel(folder: Path, dist: Path, console: Console) -> Path:
    tree = tracked_copy(folder / "tree")
    archive, wheel = build(tree, folder / "dist")
    metadata = check(tree, archive, wheel)
    check_same_wheel(wheel, build_wheel(tracked_copy(folder / "again"), folder / "direct"))
    dist.mkdir(exist_ok=True)
    for old in [*dist.glob("*.whl"), *dist.glob("*.tar.gz")]:
        old.unlink()  # what lies there is published
    for built in (archive, wheel):
        shutil.copy(built, dist)
        console.print(f"{built.name}: {built.stat().st_size / 2**20:.1f} MiB", highlight=False)
    console.print(f"version {metadata.version}: contents, metadata, description and licences are in order\n")
    return dist / wheel.name


def _reports(chosen: Sequence[Installation], wheel: Path, folder: Path, console: Console) -> list[InstallationReport]:
    reports = []
    for installation in chosen:
        start = time.perf_counter()
        report = check_installation(installation, wheel, folder / "installation")
        seconds = time.perf_counter() - start
        console.print(f"{report.name}: {report.result}, {seconds:.0f} s", highlight=False)
        if report.problem:
            console.print(report.problem, style="red", markup=False, highlight=False)
        reports.append(report)
    return reports


def _report(reports: Sequence[InstallationReport], wheel: Path, path: Path, console: Console) -> None:
    table = Table(title=f"{wheel.name}, each extra alone in a fresh environment")
    for name in ("extra", "python", "packages", "install s", "MiB on disk", "check s", "result"):
        table.add_column(name, justify="left" if name in {"extra", "python", "result"} else "right")
    for report in reports:
        figures = [len(report.versions), report.install_seconds, report.size_mib, report.check_seconds]
        cells = [f"{value:,.0f}" for value in figures]
        table.add_row(report.name.split()[0], report.python, *cells, report.result)
    console.print(table)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"wheel": wheel.name, "installations": [report.to_json() for report in reports]}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    console.print(f"written: {path}", highlight=False)


def _licences(reports: Sequence[InstallationReport], console: Console, *, is_complete: bool, write: bool) -> None:
    """Print copyleft, and compare the table of docs/licences.md. Raises `ReleaseError`."""
    ours = [report for report in reports if report.name == (report.extra or "none") and report.distributions]
    for report in ours:
        found = {one["name"]: licences.licence_of(one) for one in report.distributions}
        if marked := [f"{name} ({licence})" for name, licence in found.items() if licences.copyleft(licence)]:
            console.print(f"copyleft with {report.name}: {', '.join(sorted(marked))}", highlight=False)
    if not is_complete or any(report.problem for report in reports):
        return
    if sys.version_info[:2] != licences.PYTHON:  # others need other packages
        console.print("docs/licences.md is compared on Python {}.{} only".format(*licences.PYTHON), highlight=False)
        return
    # What a developer's tools are licensed as concerns nobody who installs editcritic.
    written = licences.table({one.extra: one.distributions for one in ours if one.extra not in {"dev", "docs", "all"}})
    if write:
        licences.write_page(written)
    elif written != licences.on_page():
        raise ReleaseError("docs/licences.md has another table: renew it with make release-check ARGS=--write-licences")


if __name__ == "__main__":
    sys.exit(main())
