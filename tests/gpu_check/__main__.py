"""What an accelerator does with editcritic, and whether the experts work on it: `make gpu-check`.

    python -m tests.gpu_check [--tiny] [--out build/gpu-check] [--minutes 9] [--sections small standard any-edit tests]

Writes `gpu-check.json` and `gpu-check.md` after each section, so that a check that is cut off has what it measured.
Every section is a process of its own: it begins with an empty device, and what breaks it does not end the check.
Without an accelerator shapes are tiny, and the files say so. Exit code 1 if a section has no figures or a test fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from ..needs import needs
from .report import markdown

ROOT = Path(__file__).parents[2]
EXPERTS = ROOT / "tests" / "reward" / "experts"
GROUPS = ("small", "standard", "any-edit", "tests")

_BATCHES = {"judge": (1, 2, 4, 8), "detector": (1, 4, 8), "features": (1, 4, 16, 64)}
_ROLLOUTS = 16
_QUICK_TESTS = ("test_dino.py",)
_GRACE_S = 20.0
"""For a process that was interrupted, to write what it has."""


@dataclass(frozen=True)
class Section:
    """A process. group: of `GROUPS`. arguments: of Python. It prints JSON; tests write JUnit's XML to the last one."""

    name: str
    group: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def sections(tiny: bool, device: str, scratch: Path) -> Iterator[Section]:
    """In the order in which they run."""
    shrunk = ("--shrunk",) if tiny else ()
    seconds = "0.2" if tiny else "3"
    for bundle in ("small", "standard"):
        for role, batches in _BATCHES.items():
            sizes = ("--batches", *map(str, batches[:2] if tiny else batches))
            options = ("--shapes", bundle, "--roles", role, *sizes, "--seconds", seconds, *shrunk, "--json")
            yield Section(f"{bundle} {role}", bundle, ("-m", "tests.gpu_check.section", "throughput", *options))
    for bundle in ("small",) if tiny else ("small", "standard"):
        options = ("--reward", "any-edit", "--rollouts", str(_ROLLOUTS), "--size", "64" if tiny else "512")
        options += ("--shapes", bundle, "--roles", "judge", "detector", "--batches", "4", *shrunk, "--json")
        yield Section(f"any-edit {bundle}", "any-edit", ("-m", "tests.gpu_check.section", "sharing_gain", *options))
    files = [str(EXPERTS / name) for name in _QUICK_TESTS] if tiny else device_tests()
    options = ("-q", "-m", "not slow", "-p", "no:cacheprovider", *files, f"--junit-xml={scratch / 'tests.xml'}")
    yield Section("tests", "tests", ("-m", "pytest", *options), (("TEST_DEVICE", device),))


def device_tests() -> list[str]:
    """The files of the experts' tests that need torch, and nothing that is not installed here."""
    files = [path for path in sorted(EXPERTS.rglob("test_*.py")) if "torch" in needs(path)]
    return [str(path) for path in files if all(map(find_spec, needs(path) - {"torchvision"}))]


def run(section: Section, seconds_left: float) -> dict[str, Any]:
    """`figures`, or the `problem` that kept it from having any."""
    if seconds_left <= _GRACE_S:
        return {"problem": "not begun: the time is up"}
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *section.arguments], cwd=ROOT, env=os.environ | dict(section.environment),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    interrupted = ""
    try:
        output, errors = process.communicate(timeout=seconds_left - _GRACE_S)
    except subprocess.TimeoutExpired:
        interrupted = f"interrupted after {time.monotonic() - start:.0f} s: the time is up"
        process.send_signal(signal.SIGINT)
        try:
            output, errors = process.communicate(timeout=_GRACE_S / 2)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
    took = {"seconds": round(time.monotonic() - start, 1)}
    if section.group == "tests":
        figures = _test_figures(Path(section.arguments[-1].partition("=")[2]), dict(section.environment)["TEST_DEVICE"])
        problem = interrupted or ("" if figures else _last_line(errors or output))
        return took | figures | ({"problem": problem} if problem else {})
    if process.returncode or interrupted:
        return took | {"problem": interrupted or _last_line(errors)}
    return took | {"figures": json.loads(output)}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it printed nothing"])[-1]


def _test_figures(junit: Path, device: str) -> dict[str, Any]:
    """Counts and reasons, by pytest's own file; empty if it wrote none."""
    if not junit.is_file():
        return {}
    cases = list(ET.parse(junit).iter("testcase"))
    failures = {}
    for case in cases:
        for reason in (*case.findall("failure"), *case.findall("error")):
            failures[f"{case.get('classname')}::{case.get('name')}"] = (reason.get("message") or "").partition("\n")[0]
    skipped = sum(case.find("skipped") is not None for case in cases)
    counts = {"passed": len(cases) - skipped - len(failures), "failed": len(failures), "skipped": skipped}
    files = len({case.get("classname") for case in cases})
    return {"figures": {"device": device, "files": files, **counts, "failures": failures}}


def machine() -> dict[str, str]:
    """Hardware and versions, asked in a process of its own: this one holds no memory of the device."""
    program = "import json; from studies.performance import throughput as t; "
    command = [sys.executable, "-c", program + "print(json.dumps(t.machine()))"]
    found: dict[str, str] = json.loads(subprocess.check_output(command, cwd=ROOT, text=True))
    return found


def commit() -> str:
    """Of the working tree, or of the tree that `make gpu-wheels` was called in."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        describe = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        described = subprocess.run(describe, check=False, cwd=ROOT, capture_output=True, text=True)
        if described.returncode == 0:
            return described.stdout.strip()
    noted = ROOT / ".gpu-wheels" / "commit"
    return noted.read_text(encoding="utf-8").strip() if noted.is_file() else "unknown"


def write(report: Mapping[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu-check.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (out / "gpu-check.md").write_text(markdown(report), encoding="utf-8")


def is_complete(report: Mapping[str, Any]) -> bool:
    """Whether every section has figures and no test failed."""
    results = report["sections"].values()
    failed_tests = report["sections"].get("tests", {}).get("figures", {}).get("failed", 0)
    return not failed_tests and all("problem" not in result for result in results)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make gpu-check", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, as where there is no accelerator")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu-check", help="folder of the two files")
    parser.add_argument("--minutes", type=float, default=60.0, help="time for all; what it has by then is written")
    parser.add_argument("--sections", nargs="+", choices=GROUPS, default=list(GROUPS))
    options = parser.parse_args(arguments)
    console = Console(width=None if Console().is_terminal else 200, soft_wrap=True)
    end = time.monotonic() + 60 * options.minutes
    found = machine()
    tiny = options.tiny or found["device"] == "cpu"
    report: dict[str, Any] = {"tiny": tiny, "machine": found, "commit": commit(), "sections": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for section in sections(tiny, found["device"], Path(scratch)):
            if section.group in options.sections:
                result = run(section, end - time.monotonic())
                report["sections"][section.name] = result
                write(report, options.out)
                line = f"{section.name}: {result.get('problem', 'done')}, {result.get('seconds', 0)} s"
                console.print(line, markup=False, highlight=False)
    console.print(f"\n{markdown(report)}", markup=False, highlight=False)
    return int(not is_complete(report))


if __name__ == "__main__":
    sys.exit(main())
