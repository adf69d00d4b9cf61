"""Judges on Ray Serve in processes of their own: `python -m … SETTINGS PORT`, as `editcritic serve --ray` does it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from editcritic.cli.serve_ray import serve_on_ray
from editcritic.integrations.serving.server.settings import JudgeSettings
from studies.load_test.synthetic_reward import SyntheticExpert

NEEDS = ("ray",)
ROOT = Path(__file__).parents[4]


class Noted(SyntheticExpert):
    """Notes the process that loads its weights, and each question. folder: with a file for each process."""

    def __init__(self, folder: str, seconds: float = 0.0) -> None:
        super().__init__(seconds)
        self.folder = folder

    def load(self) -> None:
        self._note("loaded", ["loaded"])

    def __call__(self, queries: Any) -> Any:
        self._note("asked", [query.digest for query in queries])
        return super().__call__(queries)

    def _note(self, kind: str, lines: list[str]) -> None:
        with (Path(self.folder) / f"{kind}-{os.getpid()}").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


def notes(folder: Path, kind: str) -> list[str]:
    return [line for path in folder.glob(f"{kind}-*") for line in path.read_text().split()]


class RayJudge:
    """A judge on a Ray cluster of its own, ready when this returns. folder: its working folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self._folder, self._settings = folder, settings
        self.url = "http://127.0.0.1:0"
        self.start()

    def start(self) -> None:
        port = self.url.rpartition(":")[2]
        self.process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, json.dumps(self._settings), port],
            cwd=self._folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stderr is not None
        said = ""
        for line in self.process.stderr:
            said += line
            if line.startswith("serving"):
                self.url = line.split()[-1]
                return
        raise AssertionError(f"the judge did not start: {said}")

    def pids(self, name: str) -> set[int]:
        """The processes of its cluster whose command begins so, as in ray::ServeReplica."""
        return {pid for pid, command in descendants(self.process.pid).items() if command.startswith(name)}

    def kill(self) -> None:
        """Kill the command and all of its cluster, as a machine that fails does."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def metric(self, name: str) -> float:
        lines = httpx2.get(f"{self.url}/metrics", timeout=60).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@contextmanager
def ray_judge(folder: Path = ROOT, **settings: Any) -> Iterator[RayJudge]:
    judge = RayJudge(folder, **settings)
    try:
        yield judge
    finally:
        if judge.process.poll() is None:
            judge.kill()


def descendants(root: int) -> dict[int, str]:
    """The command lines of all processes that a process started, directly or not, by their ids."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError):  # it has ended
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return {pid: commands.get(pid, "") for pid in found - {root}}


if __name__ == "__main__":
    sys.exit(
        serve_on_ray(JudgeSettings.of(json.loads(sys.argv[1])), "127.0.0.1", int(sys.argv[2]), None, as_json=False)
    )
