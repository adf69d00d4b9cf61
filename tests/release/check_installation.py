"""One installation: a fresh environment, what its extra promises, and what it takes."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .distributions import ROOT, ReleaseError
from .environments import Environment, fresh_environment, interpreter
from .installations import Installation

PROMISE_TIMEOUT_S = 900
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "golden", ".*", "conftest.py")


@dataclass
class InstallationReport:
    """What came of one installation. problem: empty if everything that it promises was kept, else a sentence."""

    name: str
    extra: str
    python: str = ""
    install_seconds: float = 0.0
    check_seconds: float = 0.0
    size_mib: float = 0.0
    problem: str = ""
    is_missing: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    distributions: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def result(self) -> str:
        return "no such Python" if self.is_missing else "failed" if self.problem else "passed"

    def to_json(self) -> dict[str, Any]:
        names = ("name", "extra", "python", "install_seconds", "check_seconds", "size_mib", "result", "problem")
        values = {name: getattr(self, name) for name in names}
        rounded = {name: round(value, 1) if isinstance(value, float) else value for name, value in values.items()}
        return {**rounded, "versions": self.versions}


def check_installation(installation: Installation, wheel: Path, folder: Path) -> InstallationReport:
    """Install the wheel with one extra into a fresh environment, run its promise there, and remove it again.

    folder: outside of the tree; it is made, and removed.
    """
    report = InstallationReport(installation.name, installation.extra, installation.python or platform.python_version())
    python = interpreter(installation.python) if installation.python else getattr(sys, "_base_executable", "python3")
    if python is None:
        report.is_missing = True
        return report
    try:
        with fresh_environment(python, folder) as environment:
            extra = f"[{installation.extra}]" if installation.extra else ""
            report.install_seconds = environment.install(f"{wheel}{extra}", installation.constraints)
            report.size_mib = environment.size_mib()
            report.distributions = environment.distributions()
            report.versions = {one["name"]: one["version"] for one in report.distributions}
            start = time.perf_counter()
            try:
                environment.pip("check")
                _keep_promise(installation, environment, wheel)
            finally:
                report.check_seconds = time.perf_counter() - start
    except (ReleaseError, OSError, subprocess.SubprocessError) as error:
        report.problem = str(error)
    return report


def _keep_promise(installation: Installation, environment: Environment, wheel: Path) -> None:
    """Run the script of the extra, and examples that need it alone. Raises `ReleaseError` with what was printed."""
    for name in ("tests", "examples"):
        shutil.copytree(ROOT / name, environment.work / name, ignore=_NOT_COPIED)
    promise = f"tests.release.promises.{installation.extra or 'base'}"
    version = wheel.name.split("-")[1]
    commands = [["-m", "tests.release.promises.installed", version, installation.extra], ["-m", promise]]
    commands += [[f"examples/{name}.py"] for name in installation.examples]
    for command in commands:
        done = environment.run(*command, timeout_s=PROMISE_TIMEOUT_S)
        if done.returncode:
            raise ReleaseError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout.strip()[-3000:]}")
    if not installation.extra:
        _check_types(environment)


def _check_types(environment: Environment) -> None:
    """A file of a user's own, checked by mypy against the installed wheel: each part's types are seen.

    mypy is that of the tree's environment; the packages are those of the fresh one.
    """
    consumer = environment.work / "consumer.py"
    shutil.copy(Path(__file__).with_name("typed_consumer.py"), consumer)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable", str(environment.python)]
    done = subprocess.run(
        [*mypy, str(consumer)], cwd=environment.work, env=environment.variables,
        capture_output=True, text=True, timeout=PROMISE_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode:
        raise ReleaseError(f"mypy on a user's file says:\n{done.stdout}{done.stderr}")
