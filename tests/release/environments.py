"""A fresh environment for one installation: made, filled from the wheel, measured, and removed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .distributions import ROOT, ReleaseError

INSTALL_TIMEOUT_S = 3600
MIB = 2**20

# Of the caller's environment, what reaches an index and a compiler; nothing by which Python or editcritic finds files.
_KEPT = ("PIP_", "SSL_", "REQUESTS_", "CURL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy")

_LIST_DISTRIBUTIONS = """
import json
from importlib.metadata import distributions
fields = {"name": "Name", "version": "Version", "license_expression": "License-Expression", "license": "License"}
print(json.dumps([
    {key: one.metadata[field] for key, field in fields.items() if field in one.metadata}
    | {"classifier": one.metadata.get_all("Classifier", [])}
    for one in distributions()
]))
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and a working folder that has nothing to do with the tree."""

    folder: Path
    work: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """Those of a user with this environment, an empty home, and no hub."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
        return kept | {
            "PATH": f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.work / "home"),
            "LANG": "C.UTF-8",
            "COLUMNS": "160",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "2",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")),
        }

    def run(self, *arguments: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        """Run this environment's Python in the working folder; whatever is still running after the time is killed."""
        command = [str(self.python), *arguments]
        with subprocess.Popen(
            command, cwd=self.work, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                output, _ = process.communicate()
                output += f"\nnot finished after {timeout_s:g} s"
        return subprocess.CompletedProcess(command, process.returncode, output, "")

    def pip(self, *arguments: str) -> str:
        """Run pip. Raises `ReleaseError` with the end of what it printed."""
        done = self.run("-m", "pip", *arguments, timeout_s=INSTALL_TIMEOUT_S)
        if done.returncode:
            raise ReleaseError(f"pip {arguments[0]} failed: {_end(done.stdout)}")
        return done.stdout

    def install(self, requirement: str, constraints: str) -> float:
        """Install a requirement with the versions of a file of the tree; seconds. Raises `ReleaseError`."""
        start = time.perf_counter()
        self.pip("install", "--no-input", "--quiet", "-c", str(ROOT / constraints), requirement)
        return time.perf_counter() - start

    def size_mib(self) -> float:
        """Size on disk of all that is installed, pip included."""
        files = (path for path in (self.folder / "lib").rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_size for path in files) / MIB

    def distributions(self) -> list[dict[str, Any]]:
        """The metadata of what is installed, without pip and setuptools: they come with the environment.

        Each with `name`, `version`, `license_expression`, `license` and `classifier`. Not by `pip inspect`: the
        pip that comes with Python 3.11 knows no licence expressions.
        """
        listed = self.run("-I", "-c", _LIST_DISTRIBUTIONS)
        if listed.returncode:
            raise ReleaseError(f"its packages cannot be listed: {_end(listed.stdout)}")
        everything: list[dict[str, Any]] = json.loads(listed.stdout)
        return [one for one in everything if one["name"] not in {"pip", "setuptools", "editcritic"}]


@contextlib.contextmanager
def fresh_environment(python: str, folder: Path) -> Iterator[Environment]:
    """An environment of this interpreter in an empty folder, with a working folder; both are removed in the end."""
    environment = Environment(folder / "environment", folder / "work")
    try:
        (environment.work / "home").mkdir(parents=True)
        made = subprocess.run([python, "-m", "venv", str(environment.folder)], capture_output=True, text=True)
        if made.returncode:
            raise ReleaseError(f"{python} makes no environment: {_end(made.stdout + made.stderr)}")
        yield environment
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def interpreter(version: str) -> str | None:
    """A Python of this version, as in `3.12`: what `python3.12` starts, or pyenv's; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python"))
    for candidate in filter(None, [shutil.which(f"python{version}"), *map(str, installed)]):
        test = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(test, capture_output=True, text=True).stdout.strip() == version:
            return candidate
    return None


def _end(text: str) -> str:
    return text.strip()[-2000:]
